"""Progress: the protocol that a caller implements, and the default that shows nothing."""

from __future__ import annotations

import pytest

from hush.cli.terminal import TerminalProgress
from hush.runs import Progress
from hush.runs.progress import Silence


def test_silence_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    progress: Progress = Silence()
    progress.say("a line")
    progress.show("training", 1, 2, "a note")
    assert capsys.readouterr() == ("", "")


def test_the_bar_of_the_command_line_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    progress: Progress = TerminalProgress(quiet=False)
    progress.say("a line")
    progress.show("training", 1, 2)
    assert capsys.readouterr().err == "a line\ntraining ...\n"
