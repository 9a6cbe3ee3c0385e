"""A run's folder: made once, never written over, and complete at any time.

Every file is written beside its place and moved there, so that a crash leaves the old one. What must stay secret, the
keys of noise and of who was held out, is in one sub-folder of its own, which only its owner can read, and which is
removed when the run is finished.
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
_NOT_PRIVATE = ("not-private.jsonl", "report.html")  # for whoever may see the data
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class NoRoom(HushError):
    """The disk is full: what was there before is there still."""

    exit_status = 1

    def __init__(self, path: Path, *, begun: bool = True) -> None:
        advice = "What was stored before is there still. Make room, then go on with hush train --resume "
        advice = advice + shlex.quote(str(path)) if begun else "Nothing was begun. Make room, then try again."
        super().__init__(f"output={str(path)!r}: the disk is full. {advice}")


class Folder:
    """The files of a run."""

    def __init__(self, path: Path) -> None:
        """Take a folder that exists."""
        self.path = path

    @classmethod
    def create(cls, path: Path) -> Folder:
        """Make a new folder; refuse one that has something in it."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InvalidArgument(
                "output", str(path), "a folder that is new or empty", "A run never writes over another one",
                "Choose another name, or go on with hush train --resume",
            )  # fmt: skip
        with telling(path):
            path.mkdir(parents=True, exist_ok=True)
            (path / SECRET).mkdir(mode=0o700)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> Folder:
        """Open the folder of a run that was begun."""
        if not (path / "run.json").is_file():
            raise InvalidArgument("resume", str(path), "the folder of a run: it has a run.json")
        folder = cls(path)
        if folder.finished and folder._going.exists():
            with telling(path):
                shutil.rmtree(folder._going)  # a crash came between the two steps of `finish`
        return folder

    @property
    def finished(self) -> bool:
        """Whether the run is over: then nothing secret is left."""
        return not (self.path / SECRET).exists()

    def has(self, name: str) -> bool:
        """Tell whether there is such a file."""
        return (self.path / name).exists()

    def write(self, name: str, content: str | bytes | Callable[[Path], None], *, secret: bool = False) -> None:
        """Write a file, all of it or nothing; half of one is among the secrets, and goes with them."""
        place = self.path / SECRET / name if secret else self.path / name
        beside = self.path / SECRET / f".{name}.partial"
        with telling(self.path):
            try:
                if callable(content):
                    content(beside)
                else:
                    beside.write_bytes(content.encode() if isinstance(content, str) else content)
                if secret or name in _NOT_PRIVATE:
                    beside.chmod(0o600)
                elif callable(content):  # libraries have their own opinions
                    beside.chmod((self.path / "run.json").stat().st_mode & 0o777)
                with beside.open("rb") as written:
                    os.fsync(written.fileno())
                beside.replace(place)
                _settle(place.parent)
            finally:
                beside.unlink(missing_ok=True)

    def write_json(self, name: str, content: Any, *, secret: bool = False) -> None:
        """Write a JSON file."""
        self.write(name, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", secret=secret)

    def read_json(self, name: str, *, secret: bool = False) -> Any:
        """Read one."""
        place = self.path / SECRET / name if secret else self.path / name
        try:
            return parse(place.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            raise InvalidArgument("run", str(self.path), f"a folder with a readable {name}") from None

    def secret(self, name: str) -> Path:
        """Return where a secret file is."""
        return self.path / SECRET / name

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Add a line to a file of JSON objects; half a line, left by a crash, is cut off first."""
        place = self.path / name
        with telling(self.path), place.open("ab+") as file:
            if name in _NOT_PRIVATE:
                place.chmod(0o600)
            _cut_half_line(file)
            file.write((json.dumps(row, allow_nan=False) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the lines of such a file."""
        place = self.path / name
        if not place.exists():
            return []
        lines = place.read_text(encoding="utf-8").split("\n")[:-1]  # what follows the last line end is half a line
        return [parse(line) for line in lines]

    def finish(self) -> None:
        """Remove what is secret, for good."""
        with telling(self.path):
            (self.path / SECRET).replace(self._going)  # at once: half of it would look like a run that can go on
            shutil.rmtree(self._going)

    @property
    def _going(self) -> Path:
        return self.path / f".{SECRET}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out of this run: two that go on from one state would each spend its budget."""
        with telling(self.path):
            file = (self.path / SECRET / "lock").open("w")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InvalidArgument("resume", str(self.path), "a run that no other process is working on") from None
            yield


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Turn what the operating system says into one line that a person can act on."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise NoRoom(path) from None
        raise InvalidArgument("output", str(path), "a folder that can be written to", error.strerror or "") from None
    except RuntimeError as error:  # what torch and safetensors make of it
        if "No space left" in str(error) or "file write failed" in str(error):
            raise NoRoom(path) from None
        raise


def _settle(folder: Path) -> None:
    """Make a move last: after a power cut, no later file may be there without it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _cut_half_line(file: IO[bytes]) -> None:
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        return
    file.seek(max(size - (1 << 16), 0))
    tail = file.read()
    if not tail.endswith(b"\n"):
        file.truncate(size - len(tail) + tail.rfind(b"\n") + 1)
    file.seek(0, os.SEEK_END)
