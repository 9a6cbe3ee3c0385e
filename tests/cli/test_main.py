"""`hush` itself: exit statuses, one-line errors, and help that reads as sentences."""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hush.cli import build_parser, main
from hush.cli.commands import account
from hush.errors import HushError

COMMAND = ["account", "--laplace-scale", "2", "--delta", "0"]


class MachineFailed(HushError):
    """An error with an exit status of its own."""

    exit_status = 1


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (HushError("epsilon=0: expected more."), 2, "hush account: epsilon 0: expected more.\n"),
        (MachineFailed("the disk is full."), 1, "hush account: the disk is full.\n"),
        (KeyboardInterrupt(), 130, "\nhush account: interrupted\n"),
    ],
)
def test_errors(
    error: BaseException, status: int, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(account, "_event", fail)
    assert main(COMMAND) == status
    assert capsys.readouterr() == ("", message)


def test_a_closed_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(account, "_event", fail)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert main(COMMAND) == 1


def test_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(COMMAND) == 0
    assert "Epsilon at delta = 0" in capsys.readouterr().out


def test_neither_the_parser_nor_a_plan_needs_torch() -> None:
    """Help and refusals come at once, also where torch is not installed. `main` builds the parser of all commands."""
    plan = ["plan", "--num-units", "1000", "--epsilon", "3", "--num-steps", "2", "--json"]
    code = f"import sys; from hush.cli import main; sys.exit(main({plan}) or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_flags_are_not_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ledger", "create", "people", "--epsilon", "1", "--unit", "person"])
    assert "required: --unit-name" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*COMMAND, "--step", "3"])
    assert "unrecognized arguments: --step 3" in capsys.readouterr().err


def all_actions(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from ((f"{name} {command}".strip(), item) for command, item in all_actions(child))
        else:
            yield "", action


def test_a_flag_takes_the_same_value_in_every_command() -> None:
    """A flag that names a column here, and a kind there, would have two meanings."""
    forms: dict[str, set[tuple[object, ...]]] = {}
    for _, action in all_actions(build_parser()):
        kind = "text" if action.type in (None, str, Path) else str(action.type)
        for flag in action.option_strings:
            forms.setdefault(flag, set()).add((kind, action.nargs, action.metavar, tuple(action.choices or ())))
    assert not {flag: form for flag, form in forms.items() if len(form) > 1}


def test_every_argument_has_a_help_text_that_is_a_phrase() -> None:
    for command, action in all_actions(build_parser()):
        argument = f"{command} {'/'.join(action.option_strings) or action.dest}"
        assert action.help, argument
        assert not action.help.startswith(("of ", "Of ", "such as ")), argument
        assert not action.help.removesuffix("...").endswith("."), argument
        action.help % {"prog": "hush", "default": ""}  # argparse formats it
