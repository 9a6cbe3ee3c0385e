"""What a terminal shows: tables, bars, and progress that fits any width."""

from __future__ import annotations

import os
import pty
import struct
import sys
from typing import Any

import pytest

from cli.terminals import Terminal
from hush.cli.terminal import TerminalProgress, bar, coloured, progress, suggest, table, wrapped
from hush.guarantee import Guarantee


def test_columns_of_numbers_are_aligned_to_the_right() -> None:
    text = table(["name", "epsilon", "note"], [["a", "1.5", "x"], ["long", "1,000", "2"]])
    assert text.splitlines() == ["  name  epsilon  note", "  a         1.5  x", "  long    1,000  2"]
    assert table(["only"], []) == "  only"


@pytest.mark.parametrize(
    ("share", "drawn"), [(0.0, ""), (1.0, "████"), (0.5, "██"), (0.3, "█▎"), (7.0, "████"), (-1.0, "")]
)
def test_a_bar_is_drawn_in_eighths(share: float, drawn: str) -> None:
    assert bar(share, 4) == drawn


@pytest.mark.parametrize("columns", [0, 1, 10, 40, 200])
def test_narrow_terminals(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl
    import termios

    master, slave = pty.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        assert os.get_terminal_size(slave).columns == columns
        text = shown(slave, monkeypatch)
    finally:
        os.close(master)
        os.close(slave)
    drawn = [part for part in text.split("\r") if part.strip()]
    assert max(len(part.rstrip("\n")) for part in drawn if "training" in part) <= max((columns or 80) - 1, 20)


def test_a_terminal_whose_size_is_zero_has_lines_of_the_usual_width(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    try:
        assert os.get_terminal_size(slave).columns == 0
        monkeypatch.setattr(sys, "stderr", Terminal(slave))
        assert max(map(len, wrapped("word " * 40).splitlines())) > 70
    finally:
        os.close(master)
        os.close(slave)


def test_a_terminal_without_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "training" in shown(-1, monkeypatch)


def shown(handle: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a run shows on a terminal."""
    terminal: Any = Terminal(handle)
    monkeypatch.setattr(sys, "stderr", terminal)
    display = TerminalProgress(quiet=False)
    display.show("calibrating", 0, 1)
    for done in range(0, 101, 25):
        display.show("training", done, 100, "accuracy 12.3%, epsilon 1.00")
    display.say("A line.")
    display.close()
    monkeypatch.undo()
    assert "A line.\n" in terminal.text
    return str(terminal.text)


def test_without_a_terminal_each_stage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    display = TerminalProgress(quiet=False)
    for done in range(3):
        display.show("training", done, 3)
    display.show("measuring", 0, 1)
    display.close()
    assert capsys.readouterr().err == "training ...\nmeasuring ...\n"


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    display = TerminalProgress(quiet=True)
    display.say("A line.")
    display.show("training", 1, 3)
    display.close()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("count", "is_shown"), [(5, False), (21, True)])
def test_iterating_over_many_items_shows_a_bar(count: int, is_shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal: Any = Terminal(-1)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert list(progress(range(count), "epochs")) == list(range(count))
    assert ("epochs" in terminal.text) is is_shown


def test_lines_are_wrapped_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "one two " * 31 + "\nthree"
    assert wrapped(text) == text
    monkeypatch.setattr("sys.stderr", Terminal(-1))  # 80 columns
    lines = wrapped(text).splitlines()
    assert all(len(line) < 80 for line in lines)
    assert (len(lines), lines[-1]) == (4 + 1, "three")
    assert wrapped("one two " * 30, most_lines=2, rest="... more").endswith(" ... more")
    monkeypatch.setattr("hush.cli.terminal._terminal_width", lambda _: 1)
    assert wrapped("one two " * 30, most_lines=2, rest="... (--format json has all)").endswith(" ...")


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_a_table_fits_a_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["a name", "12.5", "a remark that is too long for most terminals, and for every narrow one"]] * 2
    monkeypatch.setattr("sys.stdout", Terminal(-1))
    monkeypatch.setattr("hush.cli.terminal._terminal_width", lambda *_: columns)
    lines = table(["name", "epsilon", "remark"], rows).splitlines()
    assert max(map(len, lines)) < columns
    assert " ".join(" ".join(lines).split()).count("every") == 2


def test_a_table_that_cannot_fit_becomes_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Terminal(-1))
    monkeypatch.setattr("hush.cli.terminal._terminal_width", lambda *_: 30)
    text = table(["budget", "left", "epsilon"], [["people", "█████████████ 64 of 100", "0.5"]])
    assert text.splitlines()[0] == "  budget   people"
    assert text.splitlines()[-1] == "  epsilon  0.5"


@pytest.mark.parametrize("columns", [30, 45, 60, 200])
def test_progress_is_not_cut_off(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What matters least is left out; the count of steps is always whole."""
    monkeypatch.setattr("hush.cli.terminal._terminal_width", lambda *_: columns)
    line = TerminalProgress(quiet=False)._line("training", 50, 100, "accuracy 12.3 %", 0.0)
    assert len(line) < columns
    assert "50/100" in line
    assert line.endswith(("50/100", "accuracy 12.3 %"))


def test_colours_respect_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal(-1))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured("Next:", "1") == "\x1b[1mNext:\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("Next:", "1") == "Next:"


def test_suggestions_are_for_people_only(capsys: pytest.CaptureFixture[str]) -> None:
    suggest("hush train")
    assert capsys.readouterr() == ("", "")


def test_an_explanation_is_broken_at_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = Guarantee(epsilon=3, delta=1e-5).explain()
    terminal: Any = Terminal(-1)
    lines = wrapped(text, stream=terminal).splitlines()
    assert max(map(len, lines)) < 80
    assert " ".join(" ".join(lines).split()) == " ".join(text.split())
    short = [line for line in lines if len(line) < 40 and not line.startswith("  ")]
    assert len(short) < 6  # only the ends of paragraphs
