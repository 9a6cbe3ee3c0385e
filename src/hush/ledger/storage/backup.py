"""Backups of ledger files, and files made from them.

A backup is one file, complete in itself. It takes no charges: a trigger refuses them, whichever program writes, because
a ledger continued from a backup lacks all later charges.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from hush.errors import InvalidArgument
from hush.ledger.storage import reader
from hush.ledger.storage.errors import LedgerUnavailable

_MARK = (
    f"CREATE TRIGGER IF NOT EXISTS {reader.BACKUP} BEFORE INSERT ON hush_entries "
    "BEGIN SELECT RAISE(ABORT, 'this is a backup'); END"
)


def write_backup(path: str, destination: Path) -> None:
    """Write a backup of the ledger at ``path``, which may be in use."""
    with new_file(destination) as unfinished:
        copy(path, unfinished, _MARK)


def copy(path: str, destination: str, *statements: str) -> None:
    """Copy a snapshot of a database into an empty file, run statements there, and wait for the disk."""
    try:
        with closing(reader.open_reader(path)) as file, closing(sqlite3.connect(destination)) as made:
            file.backup(made)
            made.execute("PRAGMA journal_mode=DELETE")
            for statement in statements:
                made.execute(statement)
            made.commit()
    except sqlite3.Error as error:
        raise LedgerUnavailable(f"The copy failed ({type(error).__name__}: {error}). Nothing was written.") from None


@contextmanager
def new_file(destination: Path) -> Iterator[str]:
    """Give the path of a file to fill, and move it to its destination, which must not exist, when it is complete."""
    if not destination.parent.is_dir() or os.path.lexists(destination):
        raise InvalidArgument("file", str(destination), "a new file in an existing folder")
    try:
        handle, unfinished = tempfile.mkstemp(prefix=f".{destination.name}.", dir=destination.parent)
        os.close(handle)
        try:
            yield unfinished
            _flush(unfinished)
            os.link(unfinished, destination)  # unlike a renamed file, a link never replaces another file
        finally:
            for ending in ("", "-journal", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(unfinished + ending)
        _flush(str(destination.parent))
    except FileExistsError:
        raise InvalidArgument("file", str(destination), "a new file", "Another process has just created it") from None
    except OSError as error:
        raise LedgerUnavailable(f"{destination} cannot be written ({error.strerror}).") from None


def _flush(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
