"""The database under a ledger: one transaction per appended row.

`SqliteStore` (sqlite.py) and `PostgresStore` (postgres.py) implement `Store`. Every change is one transaction. It locks
the end of the hash chain, appends a row, and updates the budgets, which the database checks against their caps.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from hush.errors import HushError, InvalidArgument, Unsupported
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import Entry
from hush.ledger.storage.errors import LedgerDamaged, LedgerUnavailable, NotAllowed

Effect = Callable[[sa.Connection, Entry], None]

PATIENCE = 120.0
"""Seconds to wait for other writers before a change is refused."""

_LOST = (
    "The ledger's database failed ({}: {}). Nothing was released. If the charge was written, it still counts: "
    "see `hush ledger pending`."
)

BACKUP_REFUSED = (
    "This file is a backup of a ledger. It takes no charges, since those after it are missing. Restore it first: "
    "`hush ledger restore`."
)


class DoesNotFit(HushError):
    """The cap refused a row. `LedgerBudget` turns this into `OverBudget`, which has the figures."""


class AlreadyThere(HushError):
    """Another process settled the same reservation, or made the same request, first."""


class Store(ABC):
    """A database with a ledger's tables.

    Every change is one transaction that locks the end of the hash chain first. So changes are serialised, and cannot
    deadlock.
    """

    after_append: Callable[[Store, Entry], None] | None = None
    """An action on each new row once it is on disk, before its caller continues. Copies of the store have it, too."""

    def __init__(self, url: sa.URL) -> None:
        """Connect, and create or migrate the tables."""
        self.url = url
        self._process = os.getpid()
        self._engine = self._connected()
        self._closing = weakref.finalize(self, _dispose, self._engine, self._process)  # in case `close` is never called
        try:
            self._open()
        except BaseException:
            self._engine.dispose()
            raise

    def _open(self) -> None:
        with self.reading() as connection:
            if schema.is_current(connection):
                return
        with self.writing() as connection:
            self._lock_tables(connection)
            self._prepare(connection, schema.migrate(connection))

    @abstractmethod
    def _connected(self) -> sa.Engine: ...

    @abstractmethod
    def _begin(self, connection: sa.Connection) -> None:
        """Begin a transaction that will write."""

    @abstractmethod
    def _begin_reading(self, connection: sa.Connection) -> sa.Connection:
        """Begin a transaction that reads one consistent snapshot."""

    @abstractmethod
    def _durable(self, connection: sa.Connection) -> None:
        """Return once the last transaction is on disk.

        This is separate from the commit so that the next transaction need not wait for the disk (group commit).
        """

    @abstractmethod
    def _lock_tables(self, connection: sa.Connection) -> None:
        """Lock out other processes that create or migrate the tables, until the end of the transaction."""

    @abstractmethod
    def _prepare(self, connection: sa.Connection, version: int) -> None:
        """Create the triggers and functions that are new since a version; 0 stands for a new database."""

    @abstractmethod
    def now(self, connection: sa.Connection) -> int:
        """Return the database's time, in microseconds since 1970."""

    @abstractmethod
    def _append(self, connection: sa.Connection, entry: Entry) -> Entry:
        """Write a row at the end of the chain and apply it to the budgets."""

    def _after_fork(self) -> None:
        """Drop connections that belong to the parent process."""
        self._engine.dispose(close=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let another process of this machine open the same database. A password is not written down."""
        if self.url.password is not None:
            why = "a password would be written down wherever the copy goes"
            raise Unsupported(f"a copy of a ledger whose address has a password: {why}", "Use ~/.pgpass or PGPASSWORD")
        return _opened, (type(self), self._address(), self.after_append)

    def _address(self) -> str:
        """Return the address, for a process that may run in another folder."""
        return self.url.render_as_string()

    @property
    def engine(self) -> sa.Engine:
        """The SQLAlchemy engine of this process. Connections must not be used across a fork."""
        if os.getpid() != self._process:
            self._after_fork()
            self._process = os.getpid()
            self._closing.detach()
            self._closing = weakref.finalize(self, _dispose, self._engine, self._process)
        return self._engine

    def append(self, entry: Entry, effect: Effect | None = None) -> Entry:
        """Append a row and run `effect` in the same transaction: both happen, or neither."""
        with self.writing() as connection:
            written = self._append(connection, entry)
            if effect is not None:
                effect(connection, written)
        if self.after_append is not None:
            self.after_append(self, written)
        return written

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Run one write transaction, and wait until it is on disk."""
        with self._translated_errors(), self.engine.connect() as connection:
            with self._exclusive():
                self._begin(connection)
                try:
                    yield connection
                    connection.commit()
                except BaseException:
                    _roll_back(connection)
                    raise
            self._durable(connection)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Serialise the threads of this process, where the database does it badly."""
        yield

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Run one read transaction on a consistent snapshot."""
        with self._translated_errors(), self.engine.connect() as connection:
            yield self._begin_reading(connection)

    def rows(self, *conditions: sa.ColumnElement[bool]) -> list[Entry]:
        """Return the matching rows, oldest first."""
        query = sa.select(schema.entries).where(*conditions).order_by(schema.entries.c.id)
        with self.reading() as connection:
            return [Entry(**schema.named(schema.entries, row)) for row in connection.execute(query)]

    def lasting_rows(self, *conditions: sa.ColumnElement[bool]) -> list[Entry]:
        """Return the matching rows once they are on disk.

        Another process may have committed them without having waited for the disk yet; a caller that acts on them must.
        """
        entries = self.rows(*conditions)
        if entries:
            with self._translated_errors(), self.engine.connect() as connection:
                self._durable(connection)
        return entries

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Translate the database's errors into hush's, dropping the values that its messages quote."""
        try:
            yield
        except HushError:  # first, since `NotAllowed` is an OSError too
            raise
        except sa.exc.IntegrityError as error:
            raise _refusal(_first_line(error)) from None
        except sa.exc.DBAPIError as error:
            raise self._unavailable(error) from None
        except (sa.exc.NoResultFound, sa.exc.MultipleResultsFound):
            raise LedgerUnavailable("The tables are not those of a ledger. Nothing was released.") from None
        except sa.exc.TimeoutError:
            raise LedgerUnavailable(_LOST.format("Timeout", "too many connections")) from None
        except OSError as error:  # the disk
            if isinstance(error, HushError):
                raise
            raise LedgerUnavailable(_LOST.format(type(error).__name__, error.strerror)) from None

    def _unavailable(self, error: sa.exc.DBAPIError) -> HushError:
        return LedgerUnavailable(_LOST.format(type(error.orig).__name__, _first_line(error)))


_Action = Callable[[Store, Entry], None] | None
_OPENED: dict[tuple[type[Store], str, _Action], Store] = {}
_OPENING = threading.Lock()


def _opened(kind: type[Store], address: str, after_append: _Action) -> Store:
    """Return the database at an address. All copies in a process share it, and its connections."""
    with _OPENING:
        if (kind, address, after_append) not in _OPENED:
            url = sa.make_url(address)
            if url.get_backend_name() == "sqlite" and not os.path.isfile(url.database or ""):
                raise LedgerUnavailable("The ledger's file is not there. Nothing was charged.")
            _OPENED[kind, address, after_append] = made = kind(url)
            made.after_append = after_append
        return _OPENED[kind, address, after_append]


def closed() -> HushError:
    """Return the error for a charge to blocks that accept no charges."""
    return InvalidArgument("blocks", "...", "blocks of the budget, each listed once, neither retired nor expired")


def _refusal(message: str) -> HushError:
    """Return the error for a violated constraint. `message` is the first line only, which quotes no values."""
    if "hush_closed" in message:
        return closed()
    if "hush_within_share" in message:
        return NotAllowed(
            "The charge exceeds your share of the budget. Nothing was charged. Ask the owner for a larger share."
        )
    if "hush_within_cap" in message:
        return DoesNotFit("the charge does not fit")
    if "this is a backup" in message:
        return NotAllowed(BACKUP_REFUSED)
    if "only ever added" in message:
        return NotAllowed("Rows of a ledger are never changed or removed.")
    if "fingerprint" in message:
        return InvalidArgument("fingerprint", "...", "a fingerprint that no other budget in the ledger has")
    if "unique" in message.lower():
        return AlreadyThere("the row exists already")
    return LedgerDamaged("A row contradicts the budgets of this ledger. Run `hush ledger verify`.")


def _dispose(engine: sa.Engine, process: int) -> None:
    """Close the connections in the process that opened them. A forked child would end its parent's sessions."""
    if os.getpid() == process:
        engine.dispose()


def _roll_back(connection: sa.Connection) -> None:
    try:
        connection.rollback()
    except sa.exc.DBAPIError:
        connection.invalidate()  # the connection is lost; the server rolls back


def _first_line(error: sa.exc.DBAPIError) -> str:
    lines = str(error.orig).strip().splitlines()
    return lines[0] if lines else "no reason given"
