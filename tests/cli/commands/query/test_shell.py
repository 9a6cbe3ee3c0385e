"""The shell of `hush query`, from a pipe and on a terminal."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hush.cli import main
from hush.cli.commands.query import shell as shell_module

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

Ask = Callable[..., int]
COUNT = "SELECT COUNT(*) AS n FROM people"


def test_a_pipe_has_no_prompts(piped: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert piped(f"-- two questions\n{COUNT}; {COUNT}\nWHERE age\n> 3 -- ;\n", "--epsilon", "9") == 0
    printed = capsys.readouterr()
    assert printed.out.count("95 % interval") == 2
    assert "hush>" not in printed.out
    assert "Ask?" not in printed.out
    assert printed.err.count("epsilon <= 9") == 2


def test_the_first_error_of_a_pipe_ends_it(piped: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert piped(f"SELECT MAX(age) FROM people; {COUNT};", "--epsilon", "1") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "MAX over all rows" in printed.err


def test_nothing_in_a_pipe_asks_nothing(piped: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert piped(" ;; -- nothing\n", "--epsilon", "1") == 0
    assert capsys.readouterr().out == ""


def test_formats_and_free_questions(piped: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert piped(f"{COUNT};", "--epsilon", "1", "--format", "csv") == 0
    assert capsys.readouterr().out.splitlines()[0] == "n,n_low,n_high"
    assert piped(f"{COUNT};", "--epsilon", "1", "--price") == 0
    assert "rows for n" in capsys.readouterr().out
    assert piped(f"{COUNT};", "--preview") == 0
    assert "invented" in capsys.readouterr().err


def test_without_epsilon_a_statement_is_refused(piped: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert piped(f"\\epsilon\n{COUNT};") == 2
    printed = capsys.readouterr()
    assert printed.out == "epsilon is not set for each answer\n"
    assert "--epsilon: expected a positive number" in printed.err


class Keys:
    """What somebody types: lines, and exceptions for Ctrl-C and Ctrl-D."""

    def __init__(self, *keys: str | type[BaseException]) -> None:
        self.keys, self.prompts = list(keys), list[str]()

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        key = self.keys.pop(0) if self.keys else EOFError
        if isinstance(key, str):
            return key
        if key is KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
        raise key


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[str]]]:
    def run(keys: Keys, *options: str) -> list[str]:
        monkeypatch.setattr("sys.stdin", Screen())
        monkeypatch.setattr("builtins.input", keys)
        assert main(["query", "--catalog", str(clinic), *options]) == 0
        return keys.prompts

    before = signal.getsignal(signal.SIGINT)
    yield run
    assert signal.getsignal(signal.SIGINT) is before


def test_the_price_is_confirmed(typed: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    keys = Keys("SELECT COUNT(*) AS n", "FROM people;", "", f"{COUNT};", "n", f"{COUNT};", "y")
    prompts = typed(keys, "--epsilon", "9")
    assert prompts == [*("hush> ", "  ... ", "Ask? [Y/n] "), *("hush> ", "Ask? [Y/n] ") * 2, "hush> "]
    printed = capsys.readouterr()
    assert printed.out.count("scale of Laplace noise") == 3
    assert printed.out.count("95 % interval") == 2
    assert "has your queries, not their answers. Queries can name people." in printed.err


def test_nothing_is_asked_before_it_is_confirmed(
    typed: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("hush.sql.Table.sql", refuse)
    for reply in ("n", "no", "what?", KeyboardInterrupt, EOFError):
        typed(Keys(f"{COUNT};", reply), "--epsilon", "9")
    assert "AssertionError" not in capsys.readouterr().err


def test_no_error_ends_the_session(
    typed: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    answer = shell_module.print_answer

    def fail_once(*arguments: object, noise_intervals: bool) -> None:
        asked.append("")
        if len(asked) == 1:
            raise ValueError("the record of Ann")
        answer(*arguments, noise_intervals=noise_intervals)  # type: ignore[arg-type]

    monkeypatch.setattr(shell_module, "print_answer", fail_once)
    keys = Keys("SELECT MAX(age) FROM people;", "\\what", "SELECT 1 +", KeyboardInterrupt, *(f"{COUNT};", "") * 2)
    typed(keys, "--epsilon", "9")
    printed = capsys.readouterr()
    assert "MAX over all rows" in printed.err
    assert r"command '\\what': expected one of" in printed.err
    assert "\nCancelled.\n" in printed.err
    assert "hush query: ValueError, whose message is hidden" in printed.err
    assert "Ann" not in printed.err
    assert printed.out.count("95 % interval") == 1


def test_an_interrupted_engine_is_a_cancelled_statement(
    typed: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from hush.sql import EngineFailed

    def interrupted(*_: object, **__: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:  # as DuckDB does
            raise EngineFailed("the engine could not run the query") from None

    monkeypatch.setattr("hush.sql.Table.sql", interrupted)
    typed(Keys(f"{COUNT};", "", r"\q", "never read"), "--epsilon", "9")
    printed = capsys.readouterr().err
    assert "Cancelled." in printed
    assert "could not run" not in printed


def test_what_is_left_of_the_budget(
    typed: Callable[..., list[str]], clinic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sqlalchemy")
    from hush.guarantee import CalendarWindow, Unit
    from hush.ledger import Ledger

    url = f"sqlite:///{clinic.parent / 'privacy.db'}"
    Ledger(url).budget("clinic", epsilon=3, unit=Unit.user_calendar(CalendarWindow.MONTH))
    keys = Keys(f"{COUNT};", "", r"\epsilon 0.5", f"{COUNT};", "", f"{COUNT};", "", r"\epsilon 9", f"{COUNT};", "")
    typed(keys, "--epsilon", "1", "--budget", "clinic", "--db", url)
    printed = capsys.readouterr().err
    states = re.findall(r"So far epsilon <= ([\d.]+) of 3; (\d+) of 100 standard queries are left", printed)
    assert states == [("0", "100"), ("1", "66"), ("1.5", "50"), ("1.5", "50")]
    assert "Charged to clinic (row " in printed
    assert "The ledger already had this answer" in printed
    assert "exceeds the budget" in printed


def read_until(handle: int, words: str) -> str:
    """Read what a terminal shows until it shows some words. It waits for them, and pytest's limit ends a hang."""
    shown = ""
    while words not in shown:
        piece = os.read(handle, 4096)
        assert piece, shown
        shown += piece.decode()
    return shown


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
def test_a_real_terminal(clinic: Path) -> None:
    pytest.importorskip("readline")
    import pty
    import subprocess

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "hush", "query", "--catalog", str(clinic), "--epsilon", "9"]
    environment = {**os.environ, "TERM": "dumb"}
    with subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, env=environment, start_new_session=True
    ) as process:
        os.close(follower)
        read_until(leader, "hush> ")
        os.write(leader, f"{COUNT};\n".encode())
        assert "scale of Laplace noise" in read_until(leader, "Ask? [Y/n] ")
        os.write(leader, b"\n")
        assert "95 % interval" in read_until(leader, "hush> ")
        os.write(leader, b"SELECT 1 +\n")
        read_until(leader, "  ... ")
        process.send_signal(signal.SIGINT)
        os.write(leader, b"\n")  # readline may have missed the signal, and looks for it after the next key
        assert "Cancelled." in read_until(leader, "hush> ")
        os.write(leader, b"\x04")  # Ctrl-D
        assert process.wait(timeout=600) == 0
    os.close(leader)
    history = clinic.parent / "state" / "hush" / "query_history"
    assert history.read_text() == f"{COUNT};\n"
