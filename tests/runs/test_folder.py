"""A run's folder: what is in it, when, for whom, and that it is never overwritten."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from hush.cli import main
from hush.errors import InvalidArgument
from hush.runs import job
from hush.runs.folder import DiskFull, Folder, explained_errors
from runs import files


@pytest.fixture
def finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    source = files.write_csv(tmp_path / "t.csv")
    files.train(capsys, source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", tmp_path / "run")
    return tmp_path / "run"


def test_a_finished_folder_is_complete(finished: Path) -> None:
    assert files.names(finished) == files.FILES
    curve = files.rows(finished / "metrics.jsonl")
    assert [row["step"] for row in curve] == [1, 2, 3, 4, 5]
    spent = [row["epsilon"] for row in curve]
    assert spent == sorted(spent)
    assert spent[-1] <= 3
    assert all(row["private"] is True and 0 <= row["low"] <= row["high"] <= 1 for row in curve)


def test_a_second_run_changes_nothing(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files.listing(finished)
    source = finished.parent / "t.csv"
    message = files.refused(capsys, source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", finished)
    assert "never overwrites" in message
    assert files.listing(finished) == before


@pytest.mark.parametrize("content", ["something", None])
def test_other_peoples_folders_are_left_alone(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = files.write_csv(tmp_path / "t.csv"), tmp_path / "output"
    if content is None:
        output.write_text("a file")
    else:
        output.mkdir()
        (output / "letter.txt").write_text(content)
    files.refused(capsys, source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", output)
    assert output.is_file() if content is None else (output / "letter.txt").read_text() == content


def test_an_empty_folder_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = files.write_csv(tmp_path / "t.csv")
    (tmp_path / "run").mkdir()
    files.train(capsys, source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", tmp_path / "run")
    assert files.names(tmp_path / "run") == files.FILES


@pytest.mark.parametrize(
    "wrong",
    [
        ("--batch-size", "100000"),
        ("--delta", "0.1"),
        ("--model", "cnn"),
        ("--model", "no_such_module:make"),
        ("--train-only", "nothing"),
        ("--device", "nowhere"),
    ],
)
def test_a_refused_run_leaves_nothing(
    wrong: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = files.write_csv(tmp_path / "t.csv")
    command = (source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", tmp_path / "run")
    files.refused(capsys, *command, *wrong)
    assert not (tmp_path / "run").exists()


class Stopped(BaseException):
    """What a test raises to end a run; nothing catches it."""


def test_only_their_owner_can_read_the_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"

    def stop(*_: Any, **__: Any) -> None:
        raise Stopped

    monkeypatch.setattr(job, "publish", stop)
    with pytest.raises(Stopped):
        files.train(capsys, source, "--target", "y", *files.DECLARED, "--epsilon", 3, "--output", run)
    secret = run / files.SECRET
    assert secret.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in secret.iterdir()} == {
        "key.json", "counts.json", "data.json", "state.pt", "states.json", "lock",
        "model.safetensors", "model.json", "figures.json",
    }  # fmt: skip
    assert all(path.stat().st_mode & 0o077 == 0 for path in secret.iterdir() if path.name != "lock")
    key = json.loads((secret / "key.json").read_text())["key"]
    assert len(bytes.fromhex(key)) == 32
    public = {name: content for name, content in files.listing(run).items() if not name.startswith(files.SECRET)}
    assert not any(key.encode() in content for content in public.values())


def test_a_crash_during_the_removal_of_secrets(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The secrets were renamed when the machine stopped: they must not stay for ever."""
    left = finished / f".{files.SECRET}"
    left.mkdir()
    (left / "key.json").write_text("{}")
    assert "not finished" in files.refused(capsys, "--resume", finished)
    assert not left.exists()


def test_half_a_line_is_dropped(tmp_path: Path) -> None:
    folder = Folder.create(tmp_path / "run")
    folder.append("metrics.jsonl", {"step": 1})
    with (tmp_path / "run/metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 2, "acc')
    assert folder.rows("metrics.jsonl") == [{"step": 1}]
    folder.append("metrics.jsonl", {"step": 3})
    assert folder.rows("metrics.jsonl") == [{"step": 1}, {"step": 3}]
    (tmp_path / "run/other.jsonl").write_bytes(b'{"st')  # the very first line
    folder.append("other.jsonl", {"step": 1})
    assert folder.rows("other.jsonl") == [{"step": 1}]
    assert folder.rows("missing.jsonl") == []


def test_a_file_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    folder = Folder.create(tmp_path / "run")
    folder.write("run.json", "{}\n")
    folder.write("report.html", "first")

    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(InvalidArgument, match="Input/output error"):
        folder.write("report.html", fail)
    assert (folder.path / "report.html").read_text() == "first"
    assert (folder.path / "report.html").stat().st_mode & 0o777 == 0o600
    assert list(folder.secret("").iterdir()) == []


def test_files_are_read_as_they_were_written(tmp_path: Path) -> None:
    folder = Folder.create(tmp_path / "run")
    folder.write_json("key.json", {"key": "é"}, secret=True)
    assert folder.read_json("key.json", secret=True) == {"key": "é"}
    assert not folder.has("key.json")
    assert folder.secret("key.json").stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidArgument, match="a readable model.json"):
        folder.read_json("model.json")
    assert not folder.finished
    folder.finish()
    assert folder.finished


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), DiskFull),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), DiskFull),
        (OSError(errno.EACCES, "Permission denied"), InvalidArgument),
        (RuntimeError("PytorchStreamWriter failed: file write failed"), DiskFull),
        (RuntimeError("another error"), RuntimeError),
    ],
)
def test_errors_of_the_system_are_explained(error: Exception, expected: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(expected) as caught, explained_errors(tmp_path / "my run"):
        raise error
    if expected is DiskFull:
        assert f"hush train --resume '{tmp_path / 'my run'}'" in str(caught.value)


def test_a_folder_that_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "run.json" in files.refused(capsys, "--resume", tmp_path)
    assert main(["train", "--resume", str(tmp_path / "nothing"), "--quiet"]) == 2
