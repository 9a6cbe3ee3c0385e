"""The file of an SQLite ledger, and the addresses and locations that are refused.

SQLite keeps the newest charges in a log beside the file (``-wal``), and finds the log by the file's name. If a file is
reached by two names, such as a hard link or a mount of the file alone, each name has its own log, and each can spend
the whole budget. Processes on two machines do not share the memory that guards the log.

SQLite's other journals do not help: they also lie beside the file, and undo a transaction that a crash cut off. They
also wait for the disk twice in every charge, while all other writers wait.

The checks can only see what the system reports: the number of links, and on Linux the mounts of this process.
"""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa

from hush.errors import InvalidArgument

MOUNTS = Path("/proc/self/mountinfo")

# File systems whose files another machine may open at the same time.
_NETWORK = frozenset(
    {"9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"}
)
# Of those that are programs, these are local; all others, such as sshfs, may be anywhere.
_LOCAL_PROGRAMS = frozenset(f"fuse.{name}" for name in ("encfs", "gocryptfs", "mergerfs", "ntfs-3g"))
_BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite adds to a file's name. A ledger of such a name would be overwritten as the log of another."""

_CREATION = 10.0
"""Seconds for which an empty file may be one that another process is creating."""


def file_of(url: sa.URL) -> str:
    """Return the absolute path of the file that an address names, or refuse the address."""
    path = url.database or ""
    if url.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise InvalidArgument("url", url.drivername, "sqlite:///file", "hush opens files with Python's own driver")
    if url.query or url.host or url.username or url.password or url.port:
        raise InvalidArgument("url", "...", "sqlite:///file, without a host and without parameters")
    if "\0" in path or not _is_unicode(path):
        raise InvalidArgument("url", "...", "the name of a file", "It has a character that no file name can have")
    if not path or path == ":memory:":
        raise InvalidArgument("url", str(url), "a file", "A budget in memory would end with the process")
    if path.startswith("file:"):
        raise InvalidArgument("url", str(url), "sqlite:///file", "An address inside the address is not followed")
    _check_kind(path, str(url))
    real = os.path.realpath(path)
    if real.endswith(_BESIDE):
        raise InvalidArgument(
            "url", str(url), f"a name that does not end in {', '.join(_BESIDE)}", "SQLite would take it for a log"
        )
    return real


def _check_kind(path: str, url: str) -> None:
    """Refuse anything that is not a file, and an emptied file, which would look like a ledger without charges."""
    try:
        if not Path(path).resolve().parent.is_dir():
            raise InvalidArgument("url", url, "a file in an existing folder")
        entry = _state(path)
        end = time.monotonic() + _CREATION
        while entry is not None and stat.S_ISREG(entry.st_mode) and not entry.st_size:
            if abs(time.time() - entry.st_mtime) > _CREATION or time.monotonic() > end:
                raise InvalidArgument(
                    "url", url, "a ledger, or no file", "This file is empty. Remove it, if it was new"
                )
            time.sleep(0.01)
            entry = _state(path)
    except OSError as error:
        raise InvalidArgument("url", url, f"a file that can be reached ({error.strerror})") from None
    except RuntimeError:  # Python 3.11 and 3.12
        raise InvalidArgument("url", url, "a file that can be reached (symbolic links in a circle)") from None
    if entry is not None and not stat.S_ISREG(entry.st_mode):
        raise InvalidArgument("url", url, "a file", "This is a folder or a device")


def _is_unicode(text: str) -> bool:
    """Return whether SQLite can be given a text."""
    try:
        return bool(text.encode()) or not text
    except UnicodeEncodeError:
        return False


def _state(path: str) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return os.stat(path)
    return None


def refuse_split(path: str) -> None:
    """Refuse a file whose log another process might look for elsewhere.

    ``path`` is absolute, without symbolic links.
    """
    mounts = _mounts()
    for name in (path, f"{path}-wal", f"{path}-shm"):
        if name in mounts:
            raise InvalidArgument(
                "url",
                path,
                "a file whose folder is mounted",
                "This file is mounted alone, so its log would stay outside, with the last charges",
                "Mount the folder that holds it",
            )
        state = _state(name)
        if state is not None:
            refuse_links(path, state)
    _refuse_network(path, mounts)


def refuse_links(path: str, state: os.stat_result) -> None:
    """Refuse a file that has a second name."""
    if state.st_nlink > 1:
        raise InvalidArgument(
            "url",
            path,
            "a file with one name",
            f"It has {state.st_nlink} (hard links), and under each one a log of its own",
            "Remove the other names, or replace them by symbolic links",
        )


def _refuse_network(path: str, mounts: dict[str, str]) -> None:
    folders = [str(folder) for folder in Path(path).parents if str(folder) in mounts]
    kind = mounts[folders[0]] if folders else ""
    program = kind == "fuse" or (kind.startswith("fuse.") and kind not in _LOCAL_PROGRAMS)
    if kind in _NETWORK or program:
        raise InvalidArgument(
            "url",
            path,
            "a file on a disk of this machine",
            f"This is a file system of type {kind}, which other machines may use at the same time",
            "Use a local disk, or a ledger in PostgreSQL",
        )


def _mounts() -> dict[str, str]:
    """Return the file system's type at each mount point of this process; empty if the system lists none."""
    try:
        lines = MOUNTS.read_bytes().splitlines()
    except OSError:
        return {}
    mounts = {}
    for line in lines:  # the last one at a point hides those before
        fields, _, kind = line.partition(b" - ")
        mounts[os.fsdecode(_unescaped(fields.split(b" ")[4]))] = os.fsdecode(kind.split(b" ")[0])
    return mounts


def _unescaped(name: bytes) -> bytes:
    r"""Return a name in which spaces and the like are written as numbers.

    >>> _unescaped(rb"/my\040disk")
    b'/my disk'
    """
    return re.sub(rb"\\([0-7]{3})", lambda number: bytes([int(number[1], 8)]), name)
