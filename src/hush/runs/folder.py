"""A run's folder: made once, never overwritten, and consistent at any time.

Every file is written under a temporary name, flushed to disk and then moved into place, so that a crash leaves either
the old version or the new one. Files of JSON lines grow line by line; an incomplete line left by a crash is dropped.

The secrets are in a sub-folder that only its owner can read, and that is removed when the run is finished:

- key.json: the key that decides which units are held out, and the noise of learning;
- counts.json, data.json: the numbers of units, and a fingerprint of the data: a run is not continued with other data;
- state.pt, states.json: weights, optimizer and the key of the noise, to continue from; how many states were stored;
- model.safetensors, model.json, figures.json, committed.json: what is about to be published, and its hash;
- lock: held by the process that works on the run.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from hush.errors import HushError, InvalidArgument
from hush.strict_json import parse

SECRET = "secret-until-finished"
_NOT_PRIVATE = ("not-private.jsonl", "report.html")  # only for people who may see the data
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_LONGEST_LINE = 1 << 16  # bytes of a line in a file of JSON lines


class DiskFull(HushError):
    """The disk is full. Everything stored before is still there."""

    exit_status = 1

    def __init__(self, path: Path, *, begun: bool = True) -> None:
        advice = "Nothing was started. Free some space, then try again."
        if begun:
            advice = f"Nothing is lost. Free some space, then continue: {resume_command(path)}"
        super().__init__(f"output={str(path)!r}: the disk is full. {advice}")


def resume_command(path: Path) -> str:
    """Return the command that continues a run. A model of your own is named, since the command runs its code.

    >>> resume_command(Path("my run"))
    "hush train --resume 'my run'"
    """
    words = ["hush", "train", "--resume", str(path)]
    try:
        model = parse((path / "run.json").read_text(encoding="utf-8"))["settings"]["model"]
    except (OSError, ValueError, TypeError, KeyError):  # the folder does not say
        model = None
    return shlex.join([*words, "--model", model] if isinstance(model, str) and ":" in model else words)


def private_files(path: Path) -> list[str]:
    """Return the names of a finished run's files that are for those only who may see the data."""
    names = sorted(file.name for file in path.iterdir())
    return [name for name in names if name in _NOT_PRIVATE or name.startswith("not-private")]


class Folder:
    """The files of a run."""

    def __init__(self, path: Path) -> None:
        """Take the path of an existing folder."""
        self.path = path

    @classmethod
    def create(cls, path: Path) -> Folder:
        """Make a new folder; refuse one that is not empty."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InvalidArgument(
                "output", str(path), "a folder that is new or empty", "A run never overwrites another one",
                "Choose another name, or continue the run with hush train --resume",
            )  # fmt: skip
        with explained_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            (path / SECRET).mkdir(mode=0o700)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> Folder:
        """Open the folder of a run that was started."""
        if not (path / "run.json").is_file():
            raise InvalidArgument("resume", str(path), "the folder of a run, which has a run.json")
        folder = cls(path)
        if folder.finished and folder._doomed.exists():
            with explained_errors(path):
                shutil.rmtree(folder._doomed)  # the process was killed between the two steps of `finish`
        return folder

    @property
    def finished(self) -> bool:
        """Whether the run is finished, and its secrets are removed."""
        return not (self.path / SECRET).exists()

    def has(self, name: str) -> bool:
        """Return whether the folder has a file of this name."""
        return (self.path / name).exists()

    def write(self, name: str, content: str | bytes | Callable[[Path], None], *, secret: bool = False) -> None:
        """Write a file completely or not at all.

        Args:
            name: The file's name.
            content: Its content, or a function that writes it to a path.
            secret: Whether it belongs to the secrets.
        """
        path = self._path(name, secret)
        partial = self.path / SECRET / f".{name}.partial"  # a partial file is removed with the secrets
        with explained_errors(self.path):
            try:
                if callable(content):
                    content(partial)
                else:
                    partial.write_bytes(content.encode() if isinstance(content, str) else content)
                if secret or name in _NOT_PRIVATE:
                    partial.chmod(0o600)
                elif callable(content):  # libraries ignore the user's file mode mask
                    partial.chmod((self.path / "run.json").stat().st_mode & 0o777)
                with partial.open("rb") as written:
                    os.fsync(written.fileno())
                partial.replace(path)
                _sync_folder(path.parent)
            finally:
                partial.unlink(missing_ok=True)

    def write_json(self, name: str, content: Any, *, secret: bool = False) -> None:
        """Write a JSON file."""
        self.write(name, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", secret=secret)

    def read_json(self, name: str, *, secret: bool = False) -> Any:
        """Read a JSON file."""
        try:
            return parse(self._path(name, secret).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            raise InvalidArgument("run", str(self.path), f"a folder with a readable {name}") from None

    def read_object(self, name: str, *, secret: bool = False) -> dict[str, Any]:
        """Read a JSON file that holds an object."""
        content = self.read_json(name, secret=secret)
        if not isinstance(content, dict):
            raise InvalidArgument("run", str(self.path), f"a folder with a readable {name}")
        return content

    def has_secret_json(self, name: str, content: Any) -> bool:
        """Return whether a JSON file among the secrets has this content."""
        return self.secret(name).exists() and self.read_json(name, secret=True) == content

    def secret(self, name: str) -> Path:
        """Return the path of a secret file."""
        return self._path(name, secret=True)

    def _path(self, name: str, secret: bool) -> Path:
        """Return the path of a file, among the secrets or not."""
        return self.path / SECRET / name if secret else self.path / name

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Add a line to a file of JSON lines, after removing an incomplete line that a crash may have left."""
        path = self.path / name
        with explained_errors(self.path), path.open("ab+") as file:
            if name in _NOT_PRIVATE:
                path.chmod(0o600)
            _cut_half_line(file)
            file.write((json.dumps(row, allow_nan=False) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the lines of a file of JSON lines."""
        path = self.path / name
        if not path.exists():
            return []
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]  # after the last line end, there is half a line
        return [parse(line) for line in lines]

    def finish(self) -> None:
        """Remove the secrets for good."""
        with explained_errors(self.path):
            # Renamed first, which is atomic: a folder with half of its secrets would look like a run to resume.
            (self.path / SECRET).replace(self._doomed)
            shutil.rmtree(self._doomed)

    @property
    def _doomed(self) -> Path:
        """The folder of secrets while it is being removed."""
        return self.path / f".{SECRET}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out: two processes that continue from one state would each spend the run's budget."""
        with explained_errors(self.path):
            file = (self.path / SECRET / "lock").open("w")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InvalidArgument("resume", str(self.path), "a run that no other process is working on") from None
            yield


@contextmanager
def explained_errors(path: Path) -> Iterator[None]:
    """Turn errors of the operating system into one line that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise DiskFull(path) from None
        raise InvalidArgument("output", str(path), "a folder that can be written to", error.strerror or "") from None
    except RuntimeError as error:  # torch and safetensors raise this when the disk is full
        if "No space left" in str(error) or "file write failed" in str(error):
            raise DiskFull(path) from None
        raise


def _sync_folder(folder: Path) -> None:
    """Make a move durable: after a power cut, a file that was written later must not be there without it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _cut_half_line(file: IO[bytes]) -> None:
    """Remove what follows the last line end, and go to the end of the file."""
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        return
    file.seek(max(size - _LONGEST_LINE, 0))
    tail = file.read()
    if not tail.endswith(b"\n"):
        file.truncate(size - len(tail) + tail.rfind(b"\n") + 1)
    file.seek(0, os.SEEK_END)
