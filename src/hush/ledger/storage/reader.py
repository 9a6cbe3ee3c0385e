"""Reads a ledger's file without writing anything, for auditors and for backups.

SQLite needs shared memory beside a file with a log, and creates it if it is missing. A process without write permission
can use it while a writer is connected. Once the last writer has disconnected, there is no log, and the file alone is
complete.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

BACKUP = "hush_backup"
"""The name of the trigger that refuses new rows in a backup. It marks the file as one, for every version of hush."""

_HEADER = b"SQLite format 3\0"
_OPENINGS = 5


def may_write(path: str) -> bool:
    """Return whether this process may write a file, and its log beside it. A file that does not exist can be made."""
    effective = os.access in os.supports_effective_ids
    names = [os.path.dirname(path), *([path] if os.path.exists(path) else [])]
    return all(os.access(name, os.W_OK, effective_ids=effective) for name in names)


def is_backup(path: str) -> bool:
    """Return whether a file is the backup of a ledger."""
    try:
        with Path(path).open("rb") as file:
            header = file.read(20)
    except OSError:
        return False
    if not header.startswith(_HEADER) or header[18:19] != b"\1":  # 2: it has a write-ahead log, and so is no backup
        return False
    try:
        with closing(_connect(path, "immutable=1")) as connection:
            return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (BACKUP,)).fetchall())
    except sqlite3.DatabaseError:
        return False


def open_reader(path: str) -> sqlite3.Connection:
    """Return a connection that reads a file as it is now, and needs no right to write."""
    for attempt in range(_OPENINGS):
        try:
            return _opened(path)
        except sqlite3.OperationalError:  # the last writer may have removed its log meanwhile
            if attempt == _OPENINGS - 1:
                raise
    raise AssertionError


class State(NamedTuple):
    """The properties of a file that change when it is written to."""

    time: int
    size: int
    has_log: bool


def state(path: str) -> State:
    """Return the state of a file and its log."""
    status = os.stat(path)
    return State(status.st_mtime_ns, status.st_size, os.path.exists(f"{path}-wal"))


def copied(path: str) -> sqlite3.Connection:
    """Return a copy of a database in memory."""
    memory = sqlite3.connect(":memory:", check_same_thread=False)
    with closing(open_reader(path)) as file:
        file.backup(memory)
    return memory


def _opened(path: str) -> sqlite3.Connection:
    if not os.path.exists(f"{path}-wal"):
        return _checked(_connect(path, "immutable=1"))
    if os.path.exists(f"{path}-shm"):
        return _checked(_connect(path, "mode=ro"))
    return _copied_with_log(path)  # no process has it open; a crash, or a copy, has left the log


def _copied_with_log(path: str) -> sqlite3.Connection:
    """Return a copy of a file and its log in memory, since SQLite cannot read the two without writing beside them."""
    memory = sqlite3.connect(":memory:", check_same_thread=False)
    with tempfile.TemporaryDirectory(prefix="hush_") as folder:
        for ending in ("", "-wal"):
            shutil.copyfile(path + ending, f"{folder}/copy{ending}")
        with closing(sqlite3.connect(f"{folder}/copy")) as copy:
            copy.backup(memory)
    return memory


def _connect(path: str, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(path)}?{how}", uri=True, check_same_thread=False)


def _checked(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return the connection, if the file can be read."""
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection
