"""Downloads of public datasets. A file is checked against its published checksum, and kept only if it is complete."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hush.errors import InvalidArgument

_CHUNK_BYTES = 1 << 18
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A file with a public address.

    Attributes:
        url: The address.
        sha256: The published checksum.
    """

    url: str
    sha256: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.url.rpartition("/")[2]


def download(remote: Remote, folder: Path, *, advice: str) -> Path:
    """Return the path of the file in the folder, downloaded if it is not there. A failure leaves nothing behind.

    Args:
        remote: The file.
        folder: Where it is kept.
        advice: Advice for the error message if the download fails.
    """
    path = folder / remote.name
    if path.is_file():
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{remote.name}.")
    except OSError:
        raise InvalidArgument("data_dir", str(folder), "a folder that can be written to", advice) from None
    try:
        with os.fdopen(handle, "wb") as file:
            digest = _fetch(remote, file, advice)
        if digest != remote.sha256:
            raise InvalidArgument("download", remote.url, "the published checksum", "The file has changed", advice)
        os.replace(temporary, path)  # in one step, so that no other process sees half a file
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path


def _fetch(remote: Remote, file: IO[bytes], advice: str) -> str:
    """Write the content of an address to a file; return its checksum."""
    digest, done = hashlib.sha256(), 0
    try:
        with urllib.request.urlopen(remote.url, timeout=_TIMEOUT_SECONDS) as response:
            size = int(response.headers.get("Content-Length") or 0)
            while chunk := response.read(_CHUNK_BYTES):
                digest.update(chunk)
                file.write(chunk)
                done += len(chunk)
                _show_progress(remote.name, done, size)
    except (OSError, ValueError):  # URLError is an OSError, and so is a full disk
        raise InvalidArgument("download", remote.url, "a network connection, and enough disk space", advice) from None
    return digest.hexdigest()


def _show_progress(name: str, done: int, size: int) -> None:
    """Draw a progress bar if the output is a terminal."""
    if not sys.stderr.isatty():
        return
    share = done / size if size else 0.0
    bar = "#" * int(30 * min(share, 1.0))
    end = "\n" if size and done >= size else ""
    sys.stderr.write(f"\r{name} [{bar:<30}] {done / 1e6:.1f} MB{end}")
    sys.stderr.flush()
