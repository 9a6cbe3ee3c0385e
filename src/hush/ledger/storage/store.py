"""Where a ledger lives: one transaction for each row that is added. `_sqlite.py` and `_postgres.py` have two places."""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from hush.errors import HushError, InvalidArgument
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import Entry
from hush.ledger.storage.errors import LedgerDamaged, LedgerUnavailable, NotAllowed

Effect = Callable[[sa.Connection, Entry], None]

PATIENCE = 120.0
"""So many seconds a change waits for others, before it is refused."""

_LOST = (
    "The ledger's database refused or was lost ({}: {}). Nothing was released. If the charge was written, it counts: "
    "see `hush ledger pending`."
)


class DoesNotFit(HushError):
    """A row was refused because of the cap; `Dataset` turns it into `OverBudget`, which says more."""


class AlreadyThere(HushError):
    """The same reservation was settled, or the same request made, by somebody else in the meantime."""


class Store(ABC):
    """A database with a ledger's tables.

    Every change is one transaction that first locks the end of the chain, so that changes happen one after the other
    and never wait for each other in a circle.
    """

    def __init__(self, url: sa.URL) -> None:
        """Connect, and create or update the tables."""
        self.url = url
        self._process = os.getpid()
        self._engine = self._connected()
        self._closing = weakref.finalize(self, _dispose, self._engine, self._process)  # if nobody calls `close`
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
            created = schema.migrate(connection)
            self._prepare(connection, created)

    @abstractmethod
    def _connected(self) -> sa.Engine: ...

    @abstractmethod
    def _begin(self, connection: sa.Connection) -> None:
        """Begin a transaction that will write."""

    @abstractmethod
    def _begin_reading(self, connection: sa.Connection) -> sa.Connection:
        """Begin a transaction that reads what one moment's ledger says."""

    @abstractmethod
    def _durable(self, connection: sa.Connection) -> None:
        """Return when the last transaction is on the disk.

        Apart from the commit, so that the next one need not wait for the disk: all who write share the waiting.
        """

    @abstractmethod
    def _lock_tables(self, connection: sa.Connection) -> None:
        """Let nobody else create or change the tables until the end of the transaction."""

    @abstractmethod
    def _prepare(self, connection: sa.Connection, created: bool) -> None:
        """Do what else a new database needs."""

    @abstractmethod
    def _append(self, connection: sa.Connection, entry: Entry) -> Entry:
        """Write a row, with its place in the chain, and do what it says to the budgets."""

    def _after_fork(self) -> None:
        """Forget what belongs to the process that this one was forked from."""
        self._engine.dispose(close=False)

    @property
    def engine(self) -> sa.Engine:
        """The engine of this process: connections do not survive a fork."""
        if os.getpid() != self._process:
            self._after_fork()
            self._process = os.getpid()
            self._closing.detach()
            self._closing = weakref.finalize(self, _dispose, self._engine, self._process)
        return self._engine

    def append(self, entry: Entry, effect: Effect | None = None) -> Entry:
        """Add a row, and whatever else has to happen with it; all of it, or nothing."""
        with self.writing() as connection:
            written = self._append(connection, entry)
            if effect is not None:
                effect(connection, written)
        return written

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Run one transaction."""
        with self._told_apart(), self.engine.connect() as connection:
            with self._alone():
                self._begin(connection)
                try:
                    yield connection
                    connection.commit()
                except BaseException:
                    _roll_back(connection)
                    raise
            self._durable(connection)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads waiting, where the database is not good at it."""
        yield

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Read what one moment's ledger says."""
        with self._told_apart(), self.engine.connect() as connection:
            yield self._begin_reading(connection)

    def rows(self, *conditions: sa.ColumnElement[bool]) -> list[Entry]:
        """Return rows in their order."""
        query = sa.select(schema.entries).where(*conditions).order_by(schema.entries.c.id)
        with self.reading() as connection:
            return [Entry(**row._mapping) for row in connection.execute(query)]

    def lasting_rows(self, *conditions: sa.ColumnElement[bool]) -> list[Entry]:
        """Return rows that somebody will act on: another may have written them and not waited for the disk yet."""
        found = self.rows(*conditions)
        if found:
            with self._told_apart(), self.engine.connect() as connection:
                self._durable(connection)
        return found

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()

    @contextmanager
    def _told_apart(self) -> Iterator[None]:
        """Turn the database's errors into hush's, without the values that its messages quote."""
        try:
            yield
        except HushError:  # `NotAllowed` is an OSError, too
            raise
        except sa.exc.IntegrityError as error:
            raise _refusal(_first_line(error)) from None
        except sa.exc.DBAPIError as error:
            raise self._unavailable(error) from None
        except sa.exc.TimeoutError:
            raise LedgerUnavailable(_LOST.format("Timeout", "too many use it at once")) from None
        except OSError as error:  # the disk itself; a refusal of hush's own is none
            if isinstance(error, HushError):
                raise
            raise LedgerUnavailable(_LOST.format(type(error).__name__, error.strerror)) from None

    def _unavailable(self, error: sa.exc.DBAPIError) -> HushError:
        return LedgerUnavailable(_LOST.format(type(error.orig).__name__, _first_line(error)))


def closed() -> HushError:
    """Return the refusal of a charge to blocks that take none."""
    return InvalidArgument("blocks", "...", "blocks of the data set, each once, not retired and not expired")


def _refusal(message: str) -> HushError:
    """Say what a constraint that was violated stands for; the message is the first line, which quotes no values."""
    if "hush_closed" in message:
        return closed()
    if "hush_within_share" in message:
        return NotAllowed("The charge exceeds your share of the budget. Nothing was charged. Ask the budget's owner.")
    if "hush_within_cap" in message:
        return DoesNotFit("the charge does not fit")
    if "only ever added" in message:
        return NotAllowed("Rows of a ledger are only ever added.")
    if "fingerprint" in message:
        return InvalidArgument("fingerprint", "...", "one that no other data set of the ledger has")
    if "unique" in message.lower():
        return AlreadyThere("it is there already")
    return LedgerDamaged("A row does not go with what the ledger says of its budgets: see `hush ledger verify`.")


def _dispose(engine: sa.Engine, process: int) -> None:
    """Close the connections, in the process that opened them: to a server, a forked child would say goodbye for it."""
    if os.getpid() == process:
        engine.dispose()


def _roll_back(connection: sa.Connection) -> None:
    try:
        connection.rollback()
    except sa.exc.DBAPIError:
        connection.invalidate()  # lost: the server rolls back by itself


def _first_line(error: sa.exc.DBAPIError) -> str:
    lines = str(error.orig).strip().splitlines()
    return lines[0] if lines else "no reason given"
