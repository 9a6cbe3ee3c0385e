"""Runs without an output folder are written below the current folder, so every test has a folder of its own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
