"""A full disk: one line, exit status 1, and whatever was begun goes on when there is room."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from hush.cli import main
from hush.runs import folder
from runs import files
from runs.files import command, go_on


@pytest.mark.slow
def test_a_full_disk_at_every_write(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each moment in turn: one line, exit status 1; and whatever was begun goes on."""
    source, number, resumed = files.write_csv(tmp_path / "t.csv", 200), 0, 0
    while True:
        run, number, seen = tmp_path / f"run{number}", number + 1, [0]
        original = os.fsync

        def full(handle: int, seen: list[int] = seen, number: int = number, original: Any = original) -> None:
            seen[0] += 1
            if seen[0] == number:
                raise OSError(errno.ENOSPC, "No space left on device")
            original(handle)

        capsys.readouterr()
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            status = main([*command(source, run, 1), "--quiet"])
        told = capsys.readouterr()
        if status == 0:
            break
        assert (status, told.out, told.err.count("\n")) == (1, "", 1)
        assert "the disk is full" in told.err
        if "--resume" in told.err:
            go_on(run)
            resumed += 1
        else:
            assert not run.exists()
            assert main([*command(source, run, 1), "--quiet"]) == 0
        # A point that was stored and not told yet is left out: half of it may have been seen.
        optional = {"metrics.jsonl", "not-private.jsonl"}
        assert ({each.name for each in run.iterdir()} | optional) - {"schema.json"} == files.FILES
        assert [row["step"] for row in folder.Folder(run).rows("metrics.jsonl")] in ([1], [])
    assert resumed >= 8


@pytest.mark.parametrize("name", ["run.json", "key.json", "data.json", "figures.json"])
def test_a_full_disk(name: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    original = Path.write_bytes

    def full(self: Path, content: bytes) -> int:
        if self.name == f".{name}.partial":
            original(self, content[: len(content) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(self, content)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        assert main([*command(source, run), "--quiet"]) == 1
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert "the disk is full" in told.err
    if name in ("run.json", "key.json"):
        assert not run.exists()
        assert "Nothing was begun" in told.err
    else:
        go_on(run)
        assert {each.name for each in run.iterdir()} - {"schema.json"} == files.FILES


def test_no_room_for_weights(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch and safetensors have errors of their own for it."""
    import torch

    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"

    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:668] . PytorchStreamWriter failed: file write failed")

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", full)
        assert main([*command(source, run), "--quiet"]) == 1
    assert "the disk is full" in capsys.readouterr().err
    go_on(run)


@pytest.mark.parametrize("place", ["lock", "append"])
def test_no_room_for_a_new_file(place: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    original = Path.open

    def full(self: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if (place == "lock" and self.name == "lock") or (place == "append" and mode == "ab+"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(self, mode, *rest, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", full)
        assert main([*command(source, run), "--quiet"]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "--resume" in told
    go_on(run)
