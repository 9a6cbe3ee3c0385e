"""A full disk: one line, exit status 1, and a run that was started can be resumed when there is space."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from hush.cli import main
from hush.runs import folder
from runs import files
from runs.files import command, resume

pytest.importorskip("torch", reason="trains")


@pytest.mark.slow
def test_a_full_disk_at_every_write(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each write in turn: one line, exit status 1, and a run that was started can be resumed."""
    source, number, num_resumed = files.write_csv(tmp_path / "t.csv", 200), 0, 0
    while True:
        run, number, writes = tmp_path / f"run{number}", number + 1, [0]
        original = os.fsync

        def full(handle: int, writes: list[int] = writes, number: int = number, original: Any = original) -> None:
            writes[0] += 1
            if writes[0] == number:
                raise OSError(errno.ENOSPC, "No space left on device")
            original(handle)

        capsys.readouterr()
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            status = main([*command(source, run, 1), "--quiet"])
        printed = capsys.readouterr()
        if status == 0:
            break
        assert (status, printed.out, printed.err.count("\n")) == (1, "", 1)
        assert "the disk is full" in printed.err
        if "--resume" in printed.err:
            resume(run)
            num_resumed += 1
        else:
            assert not run.exists()
            assert main([*command(source, run, 1), "--quiet"]) == 0
        # A point that was stored but not published yet is left out: half of it may have been seen.
        optional = {"metrics.jsonl", "not-private.jsonl"}
        assert files.names(run) | optional == files.FILES
        assert [row["step"] for row in folder.Folder(run).rows("metrics.jsonl")] in ([1], [])
    assert num_resumed >= 8


@pytest.mark.parametrize("name", ["run.json", "key.json", "data.json", "figures.json"])
@pytest.mark.quick_cases(2)
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
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert "the disk is full" in printed.err
    if name in ("run.json", "key.json"):
        assert not run.exists()
        assert "Nothing was started" in printed.err
    else:
        resume(run)
        assert files.names(run) == files.FILES


def test_no_room_for_weights(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch and safetensors raise errors of their own."""
    import torch

    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"

    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:668] . PytorchStreamWriter failed: file write failed")

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", full)
        assert main([*command(source, run), "--quiet"]) == 1
    assert "the disk is full" in capsys.readouterr().err
    resume(run)


@pytest.mark.parametrize("operation", ["lock", "append"])
def test_no_room_for_a_new_file(operation: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    original = Path.open

    def full(self: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if (operation == "lock" and self.name == "lock") or (operation == "append" and mode == "ab+"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(self, mode, *rest, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", full)
        assert main([*command(source, run), "--quiet"]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "--resume" in message
    resume(run)
