"""The history of the shell: a file of your own, and no failure if there can be none."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hush.cli.commands.query.history import History, history_file

readline = pytest.importorskip("readline")


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    readline.clear_history()
    yield
    readline.clear_history()
    readline.set_auto_history(True)


def test_statements_are_remembered_in_a_file_of_your_own() -> None:
    history = History()
    history.add("SELECT 1\nFROM a;")
    history.add("SELECT 2; -- all")  # a comment would swallow what follows on the line
    file = history_file()
    assert file.read_text() == "SELECT 1 FROM a;\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    readline.clear_history()
    assert History().is_stored
    assert readline.get_history_item(1) == "SELECT 1 FROM a;"


def test_a_file_that_others_can_read_is_closed_to_them() -> None:
    history_file().parent.mkdir(parents=True)
    history_file().write_text("SELECT 1;\n")
    history_file().chmod(0o644)
    History()
    assert stat.S_IMODE(history_file().stat().st_mode) == 0o600


def test_without_a_folder_there_is_no_history(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file, and no folder")
    history = History()
    assert not history.is_stored
    history.add("SELECT 1;")
    assert (tmp_path / "state").read_text() == "a file, and no folder"


def test_without_readline_there_is_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "readline", None)
    history = History()
    assert not history.is_stored
    history.add("SELECT 1;")
    assert not history_file().exists()


def test_by_default_it_is_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert history_file() == tmp_path / ".local" / "state" / "hush" / "query_history"
