"""The identity of a table's data: a ledger returns a stored answer only if the data are the same.

| data | what identifies them |
|---|---|
| a file, also a compressed one | its path, and when it was changed |
| a data frame, an Arrow table | nothing outside this process: this `Table`, until `Table.forget` |
| a table in a file of DuckDB | the paths of the database and of its log, and when they were changed |
| a view, and a database in memory | as for a data frame |
| a table of a database or of Spark | its address; it does not say when rows were changed |
| with a `ContentKey`: a file, a data frame | a keyed hash of the content |

No values are read, except for a keyed hash. The size of a file is left out: a ledger is read by people who may not see
the data, and an exact size tells them whether a row is there. The time of a change catches every change of the size.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from hush.errors import InvalidArgument, Unsupported

_SHORTEST_KEY = 32
_CHUNK = 1 << 20

Identity = Mapping[str, str]
"""The location of data (``where``, for people), their ``version``, and when they were ``changed``, if known."""


@dataclass(frozen=True, slots=True)
class ContentKey:
    """A secret key under which data are recognised by their content, regardless of location and time of change.

    A ledger then stores a keyed hash (HMAC-SHA256) of the data. Without the key, no one can test a guess of the data
    against it, as they could with a plain hash of a small table. So keep the key away from the ledger. Asking a
    question again reveals whether anything in the data has changed.

    >>> ContentKey(bytes(range(32)))
    ContentKey()

    Attributes:
        key: At least 32 secret bytes, such as ``secrets.token_bytes(32)``.
    """

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse an invalid key. The message does not show it."""
        key: object = self.key
        if not isinstance(key, bytes) or len(key) < _SHORTEST_KEY:
            raise InvalidArgument("key", "...", f"at least {_SHORTEST_KEY} secret bytes", "Use secrets.token_bytes(32)")

    @classmethod
    def from_file(cls, path: str | Path) -> ContentKey:
        """Read a key from a file of at least 32 random bytes, such as ``head -c 32 /dev/urandom > key`` writes."""
        try:
            return cls(Path(path).read_bytes())
        except OSError:
            raise InvalidArgument("content_key", Path(path).name, "a file that can be read") from None

    def hash_file(self, path: Path) -> str:
        """Return the keyed hash of a file's bytes."""
        with path.open("rb") as file:
            return self._hash(b"file", iter(lambda: file.read(_CHUNK), b""))

    def hash_rows(self, columns: Mapping[str, str], rows: Iterable[tuple[Any, ...]]) -> str:
        """Return the keyed hash of rows, in their order."""
        return self._hash(b"rows", (f"{row!r}\n".encode(errors="backslashreplace") for row in [columns, *rows]))

    def _hash(self, kind: bytes, chunks: Iterable[bytes]) -> str:
        digest = hmac.new(self.key, b"hush data 1 " + kind + b"\n", "sha256")
        for chunk in chunks:
            digest.update(chunk)
        return digest.hexdigest()


@runtime_checkable
class IdentifiesData(Protocol):
    """An engine whose data can be identified beyond this process."""

    def identity(self, table: str) -> Identity | None:
        """Return the identity of a table's data; None if it has none outside this process."""


@runtime_checkable
class HashesContent(Protocol):
    """An engine that can hash a table's content, because its rows have an order."""

    def content_hash(self, table: str, key: ContentKey) -> str:
        """Return the keyed hash of a table's content."""


def file_identity(path: Path, *others: Path) -> Identity:
    """Return the identity of a file, and of files beside it that may not exist: the path and the last change.

    The time of the last change of the inode (ctime) cannot be set back, as the time that `touch` writes can.
    """
    stats = [file.stat() for file in (path, *others) if file.exists()]
    version = " ".join(f"{stat.st_mtime_ns}:{stat.st_ctime_ns}" for stat in stats)
    changed = datetime.fromtimestamp(max(stat.st_mtime for stat in stats), UTC)
    return {"where": str(path.resolve()), "changed": f"{changed:%Y-%m-%d %H:%M:%S} UTC", "version": version}


@dataclass(slots=True)
class DataIdentities:
    """The identities of an engine's tables, and whether the tables have changed since they were read.

    Attributes:
        engine: The engine.
        key: Identifies data by their content in ledgers; None for where they are and when they were changed.
    """

    engine: Any
    key: ContentKey | None = None
    _in_process: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    _read: dict[str, Identity] = field(default_factory=dict, repr=False)

    def text(self, names: Iterable[str]) -> str:
        """Return the identity of the data of some tables, as text for a ledger."""
        identify = self._version if self.key is None else self._content
        return json.dumps({name: dict(identify(name)) for name in sorted(names)}, sort_keys=True)

    def is_stale(self, names: Iterable[str]) -> bool:
        """Return whether any of these tables have changed since they were read, and record their current state."""
        versions = {name: self._version(name) for name in names}
        is_stale = any(self._read.get(name, version) != version for name, version in versions.items())
        self._read.update(versions)
        return is_stale

    def forget(self) -> None:
        """Forget what was read. Data without another identity count as different data from now on."""
        self._in_process = secrets.token_hex(16)
        self._read.clear()

    def _version(self, name: str) -> Identity:
        identity = self.engine.identity(name) if isinstance(self.engine, IdentifiesData) else None
        return identity or {"where": f"{name}, in memory or behind a view", "version": self._in_process}

    def _content(self, name: str) -> Identity:
        assert self.key is not None
        if not isinstance(self.engine, HashesContent):
            advice = "Leave the key out"
            raise Unsupported("a hash of the content of tables in a database: their rows have no order", advice)
        return {"where": f"{name}, by its content", "version": self.engine.content_hash(name, self.key)}
