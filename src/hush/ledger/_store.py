"""Where a ledger lives: one transaction for each row that is added, on SQLite or PostgreSQL."""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa

from hush.errors import HushError, InvalidArgument
from hush.ledger import _schema as schema
from hush.ledger._entry import Entry, Kind
from hush.ledger._errors import LedgerUnavailable, NotAllowed

Effect = Callable[[sa.Connection, Entry], None]

_CHARGES = (Kind.RESERVED, Kind.COMMITTED, Kind.VOIDED)


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
        with self.writing() as connection:
            created = schema.migrate(connection)
            self._prepare(connection, created)

    @abstractmethod
    def _connected(self) -> sa.Engine: ...

    @abstractmethod
    def _begin(self, connection: sa.Connection) -> None:
        """Begin a transaction that will write."""

    @abstractmethod
    def _durable(self, connection: sa.Connection) -> None:
        """Return when the last transaction is on the disk.

        Apart from the commit, so that the next one need not wait for the disk: all who write share the waiting.
        """

    @abstractmethod
    def _prepare(self, connection: sa.Connection, created: bool) -> None:
        """Do what else a new database needs."""

    @abstractmethod
    def _append(self, connection: sa.Connection, entry: Entry) -> Entry:
        """Write a row, with its place in the chain, and do what it says to the budgets."""

    @property
    def engine(self) -> sa.Engine:
        """The engine of this process: connections do not survive a fork."""
        if os.getpid() != self._process:
            self._engine.dispose(close=False)
            self._process = os.getpid()
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
            self._begin(connection)
            try:
                yield connection
                connection.commit()
            except BaseException:
                _roll_back(connection)
                raise
            self._durable(connection)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Read what one moment's ledger says."""
        with self._told_apart(), self.engine.connect() as connection:
            yield connection

    def rows(self, *conditions: sa.ColumnElement[bool]) -> list[Entry]:
        """Return rows in their order."""
        query = sa.select(schema.entries).where(*conditions).order_by(schema.entries.c.id)
        with self.reading() as connection:
            return [Entry(**row._mapping) for row in connection.execute(query)]

    @contextmanager
    def _told_apart(self) -> Iterator[None]:
        """Turn the database's errors into hush's, without the values that its messages quote."""
        try:
            yield
        except HushError:  # `NotAllowed` is an OSError, too
            raise
        except sa.exc.IntegrityError as error:
            raise _refusal(str(error.orig)) from None
        except sa.exc.DBAPIError as error:
            raise self._unavailable(error) from None
        except OSError as error:  # the disk itself
            raise LedgerUnavailable(_LOST.format(type(error).__name__, error.strerror)) from None

    def _unavailable(self, error: sa.exc.DBAPIError) -> HushError:
        return LedgerUnavailable(_LOST.format(type(error.orig).__name__, _first_line(error)))


class SqliteStore(Store):
    """A file. Many processes may use it at once; one writes at a time, and every row is on the disk when it returns."""

    def _connected(self) -> sa.Engine:
        engine = sa.create_engine(self.url, connect_args={"timeout": 120})

        @sa.event.listens_for(engine, "connect")
        def _set(connection: Any, _: Any) -> None:
            connection.isolation_level = None  # transactions begin where `_begin` says so
            cursor = connection.cursor()
            mode = cursor.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            # With a write-ahead log, `_durable` waits for the disk after others may go on; without, each commit does.
            cursor.execute(f"PRAGMA synchronous={'NORMAL' if mode == 'wal' else 'EXTRA'}")
            cursor.close()

        return engine

    def _begin(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def _durable(self, connection: sa.Connection) -> None:
        """Wait until the log is on the disk, with all rows up to the ones just written."""
        log = f"{self.url.database}-wal"
        for path in (log, os.path.dirname(os.path.abspath(log))):
            if not os.path.exists(path):
                continue  # another process has closed the file last: then everything is in the file itself
            file = os.open(path, os.O_RDONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)
            if self._folder_is_written:
                break
            self._folder_is_written = True

    _folder_is_written = False

    def _prepare(self, connection: sa.Connection, created: bool) -> None:
        if not created:
            return
        for what in ("UPDATE", "DELETE"):
            connection.exec_driver_sql(
                f"CREATE TRIGGER hush_only_added_{what.lower()} BEFORE {what} ON hush_entries "
                "BEGIN SELECT RAISE(ABORT, 'rows of a ledger are only ever added'); END"
            )

    def _append(self, connection: sa.Connection, entry: Entry) -> Entry:
        end = connection.execute(_HEAD).one()
        now = max(time.time_ns() // 1000, end.time)  # a clock that goes backwards stands still here
        placed = replace(entry, id=end.id + 1, previous=end.hash, time=now)
        if entry.kind in _CHARGES:
            placed = _charged(connection, placed)
        written = replace(placed, hash=placed.computed_hash())
        connection.execute(_INSERT, asdict(written))
        connection.execute(_MOVE_HEAD, {"new_id": written.id, "new_hash": written.hash, "new_time": written.time})
        return written


_COSTS = ("renyi", "pure", "unbounded", "delta")


def _spend(table: sa.Table, *more: sa.ColumnElement[bool]) -> sa.Update:
    same = (table.c.dataset == sa.bindparam("in_dataset"), table.c.block == sa.bindparam("in_block"), *more)
    return table.update().where(*same).values({name: table.c[name] + sa.bindparam(f"by_{name}") for name in _COSTS})


# Written once: building a statement takes longer than running it.
_HEAD = sa.select(schema.head)
_INSERT = schema.entries.insert()
_MOVE_HEAD = schema.head.update().values({name: sa.bindparam(f"new_{name}") for name in ("id", "hash", "time")})
_RESERVED = sa.select(schema.entries).where(schema.entries.c.id == sa.bindparam("charge"))
_BLOCK = sa.select(schema.budgets.c.retired, schema.budgets.c.expires).where(
    schema.budgets.c.dataset == sa.bindparam("dataset"), schema.budgets.c.block == sa.bindparam("block")
)
_SPEND = _spend(schema.budgets)
_SPEND_SHARE = _spend(schema.shares, schema.shares.c.name == sa.bindparam("by_name"))
_ROLE = sa.select(schema.people.c.role).where(schema.people.c.name == sa.bindparam("name"))


def blocks_of(entry: Entry) -> list[str]:
    """Return the blocks of a row; data that are not in blocks are one, without a name."""
    return list(json.loads(entry.block)) if entry.block else [""]


def _charged(connection: sa.Connection, entry: Entry) -> Entry:
    """Check a row that charges or settles, and change the budgets; PostgreSQL has a trigger that does the same."""
    spender = entry.author
    if entry.charge is not None:
        reserved = connection.execute(_RESERVED, {"charge": entry.charge}).one()
        entry = replace(entry, block=reserved.block, unit=reserved.unit, relation=reserved.relation)
        spender = reserved.author
    blocks = blocks_of(entry)
    role = connection.execute(_ROLE, {"name": spender}).scalar_one_or_none()
    added = {f"by_{name}": getattr(entry, name) for name in _COSTS}
    for block in blocks:
        place = connection.execute(_BLOCK, {"dataset": entry.dataset, "block": block}).one_or_none()
        closed = place is None or place.retired or (place.expires is not None and place.expires <= entry.time)
        if len(set(blocks)) != len(blocks) or (closed and entry.charge is None):
            raise _CLOSED
        where = {"in_dataset": entry.dataset, "in_block": block}
        connection.execute(_SPEND, {**where, **added})
        if role is None:
            continue  # nobody was admitted, and nothing is shared out
        shared = connection.execute(_SPEND_SHARE, {**where, **added, "by_name": spender}).rowcount
        if role == "analyst" and not shared:
            raise NotAllowed("You have no share of this budget. Nothing was charged. Ask the budget's owner.")
    return entry


_CLOSED = InvalidArgument("blocks", "...", "blocks of the data set, each once, not retired and not expired")


def _refusal(message: str) -> HushError:
    if "hush_closed" in message:
        return _CLOSED
    if "hush_within_share" in message:
        return NotAllowed("The charge exceeds your share of the budget. Nothing was charged. Ask the budget's owner.")
    if "hush_within_cap" in message:
        return DoesNotFit("the charge does not fit")
    if "only ever added" in message:
        return NotAllowed("Rows of a ledger are only ever added.")
    if "fingerprint" in message:
        return InvalidArgument("fingerprint", "...", "one that no other data set of the ledger has")
    return AlreadyThere("it is there already")


def _roll_back(connection: sa.Connection) -> None:
    try:
        connection.rollback()
    except sa.exc.DBAPIError:
        connection.invalidate()  # lost: the server rolls back by itself


def _first_line(error: sa.exc.DBAPIError) -> str:
    lines = str(error.orig).strip().splitlines()
    return lines[0] if lines else "no reason given"
