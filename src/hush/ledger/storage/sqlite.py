"""A ledger in an SQLite file."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import pysqlite

from hush.errors import InvalidArgument
from hush.ledger.storage import reader, store
from hush.ledger.storage import schema as schema
from hush.ledger.storage.disk import Disk
from hush.ledger.storage.entry import COSTS, HASHED, Entry, EntryKind, cost_columns
from hush.ledger.storage.errors import LedgerUnavailable, NotAllowed
from hush.ledger.storage.ledger_file import file_of, refuse_links, refuse_split
from hush.ledger.storage.store import BACKUP_REFUSED, AlreadyThere, Store, closed

_CHARGES = (EntryKind.RESERVED, EntryKind.COMMITTED, EntryKind.VOIDED)


class SqliteStore(Store):
    """A ledger in a file. Many processes may use it, one writes at a time. A row is on disk when `append` returns.

    Attributes:
        path: The absolute path of the file, without symbolic links.
        is_backup: Whether the file is the backup of a ledger, which takes no charges.
        is_read_only: Whether this process cannot write to it.
    """

    is_backup = is_read_only = False

    def _connected(self) -> sa.Engine:
        self._reset_locks()
        self.path = path = file_of(self.url)
        self.is_backup = reader.is_backup(path)
        if not self.is_backup:
            refuse_split(path)
        if self.is_backup or not reader.may_write(path):
            self.is_read_only = True
            engine = sa.create_engine("sqlite://", creator=lambda: reader.open_reader(path), poolclass=sa.NullPool)
            sa.event.listen(engine, "connect", _set_up_reader)
            return engine
        engine = sa.create_engine(self.url, connect_args={"timeout": store.PATIENCE}, pool_size=16, max_overflow=-1)
        sa.event.listen(engine, "connect", _set_up)
        return engine

    def _open(self) -> None:
        if not self.is_read_only:
            return super()._open()
        with self.reading() as connection:
            if not sa.inspect(connection).has_table(schema.about.name):
                raise LedgerUnavailable("The file is not a ledger.")
            if schema.is_current(connection):
                return None
        path = self.path
        self._engine = sa.create_engine("sqlite://", creator=lambda: _migrated(path), poolclass=sa.NullPool)
        sa.event.listen(self._engine, "connect", _set_up_reader)
        return None

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Run one read transaction on a consistent snapshot."""
        with super().reading() as connection:
            before = reader.state(self.path) if self.is_read_only else None
            yield connection
        if before is not None and not before.has_log and reader.state(self.path) != before:
            raise LedgerUnavailable("The ledger was written to while it was being read. Try again.")

    def _address(self) -> str:
        return self.url.set(database=self.path).render_as_string()

    def _reset_locks(self) -> None:
        self._writer, self._disk = threading.Lock(), Disk()

    def _after_fork(self) -> None:
        super()._after_fork()
        self._reset_locks()  # another thread may have held the lock when the process was forked

    def close(self) -> None:
        """Close the connections and the log."""
        super().close()
        self._disk.close()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        # SQLite polls while another connection writes; a lock between the threads of one process is faster.
        if not self._writer.acquire(timeout=store.PATIENCE):
            raise LedgerUnavailable("Timed out waiting for other threads of this process. Nothing was charged.")
        try:
            yield
        finally:
            self._writer.release()

    def _begin(self, connection: sa.Connection) -> None:
        if self.is_backup:
            raise NotAllowed(BACKUP_REFUSED)
        if self.is_read_only:
            raise NotAllowed(
                "You may read this ledger's file, but not write to it and its folder. Nothing was charged."
            )
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        self._check_file(connection)

    def _begin_reading(self, connection: sa.Connection) -> sa.Connection:
        connection.exec_driver_sql("BEGIN")
        return connection

    def _durable(self, connection: sa.Connection) -> None:
        """Flush the write-ahead log, and with it every row committed so far."""
        if self.is_read_only:
            return
        self._check_file(connection)
        if connection.info["has_log"]:
            self._disk.sync(f"{connection.info['path']}-wal")

    def _check_file(self, connection: sa.Connection) -> None:
        """Refuse to write to a file that was removed or replaced: it would vanish when the last process closes it."""
        try:
            state = os.stat(connection.info["path"])
            same = os.path.samestat(state, connection.info["file"])
            refuse_links(connection.info["path"], state)
        except FileNotFoundError:
            same = False
        if not same:
            connection.invalidate()
            raise LedgerUnavailable("The ledger file was removed or replaced while it was open. Nothing was released.")

    def _lock_tables(self, connection: sa.Connection) -> None:
        """Do nothing: SQLite admits one writer at a time."""

    def now(self, connection: sa.Connection) -> int:
        """Return this machine's time."""
        return time.time_ns() // 1000

    def _prepare(self, connection: sa.Connection, version: int) -> None:
        if version:
            return  # nothing that is new since then has triggers
        for action in ("UPDATE", "DELETE"):
            connection.exec_driver_sql(
                f"CREATE TRIGGER hush_only_added_{action.lower()} BEFORE {action} ON hush_entries "
                "BEGIN SELECT RAISE(ABORT, 'rows of a ledger are only ever added'); END"
            )

    def _append(self, connection: sa.Connection, entry: Entry) -> Entry:
        end = _run(connection, _END, name=entry.author).one()
        if end.role is None and end.known:
            raise NotAllowed("This ledger requires a token. Open it with the token that you were given.")
        role = end.role or "owner"  # before the first person is admitted, everybody is the owner
        if not (role == "owner" or (role == "analyst" and entry.kind in _CHARGES)):
            raise NotAllowed(f"This needs the role of owner{' or analyst' if entry.kind in _CHARGES else ''}.")
        if entry.request is not None and _run(connection, _REQUESTED, budget=entry.budget, request=entry.request).all():
            raise AlreadyThere("the request was made before")  # checked before the cap: a repeat always succeeds
        # The time as it is: a clock that was wrong once must not close blocks that expire for good.
        placed = replace(entry, id=end.id + 1, previous=end.hash, time=self.now(connection))
        if entry.kind in _CHARGES:
            placed = _charged(connection, placed, role)
        written = replace(placed, hash=placed.computed_hash())
        _run(connection, _INSERT, hash=written.hash, **{name: getattr(written, name) for name in HASHED})
        _run(connection, _MOVE_HEAD, new_id=written.id, new_hash=written.hash, new_time=written.time)
        return written


def _set_up(connection: Any, record: Any) -> None:
    """Configure a new connection, and remember which file it has open."""
    connection.isolation_level = None  # `_begin` starts transactions explicitly
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    mode = _log_mode(connection)
    # With a write-ahead log, `_durable` waits for the disk outside the lock. Without one, each commit waits.
    connection.execute(f"PRAGMA synchronous={'NORMAL' if mode == 'wal' else 'EXTRA'}")
    record.info.update(path=path, has_log=mode == "wal", file=os.stat(path))


def _set_up_reader(connection: Any, _: Any) -> None:
    connection.isolation_level = None


def _migrated(path: str) -> sqlite3.Connection:
    """Return a copy in memory of an older ledger that cannot be written to, with the tables of this version."""
    memory = reader.copied(path)
    engine = sa.create_engine("sqlite://", creator=lambda: memory, poolclass=sa.StaticPool)
    with engine.begin() as connection:
        schema.migrate(connection)
    return memory


def _log_mode(connection: Any) -> str:
    """Switch to a write-ahead log. SQLite does not wait for others that do the same, so retry."""
    end = time.monotonic() + store.PATIENCE
    while True:
        try:
            return str(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0])
        except Exception as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _charged(connection: sa.Connection, entry: Entry, role: str) -> Entry:
    """Check a row that charges or settles, and update the budgets. PostgreSQL does the same in a trigger."""
    spender, spender_role, update = entry.author, role, _CHARGE
    costs = cost_columns(entry.cost)
    if entry.charge is not None:
        reserved = _settled(connection, entry, role, costs)
        entry = replace(entry, block=reserved.block, unit=reserved.unit, relation=reserved.relation)
        spender, spender_role, update = reserved.author, reserved.role, _SETTLE
    elif entry.kind == EntryKind.VOIDED or min(costs.values()) < 0:
        raise _not_reserved()
    blocks = blocks_of(entry)
    change = {f"by_{name}": steps for name, steps in costs.items()}
    if not blocks or len(set(blocks)) != len(blocks):
        raise closed()
    for block in blocks:
        key = {"in_budget": entry.budget, "in_block": block, **change}
        if not _run(connection, update, **key, now=entry.time).rowcount:
            raise closed()
        if spender_role != "analyst":
            continue
        if not _run(connection, _SPEND_SHARE, **key, by_name=spender).rowcount:
            raise NotAllowed("You have no share of this budget. Nothing was charged. Ask the owner for one.")
    return entry


def _settled(connection: sa.Connection, entry: Entry, role: str, costs: dict[str, int]) -> sa.Row[Any]:
    """Return the reservation that a row settles; refuse what it may not settle."""
    reserved = _run(connection, _RESERVED, charge=entry.charge, budget=entry.budget).one_or_none()
    if reserved is None or entry.kind == EntryKind.RESERVED:
        raise _not_reserved()
    if not (role == "owner" or reserved.author == entry.author):
        raise NotAllowed("Only the person who made a reservation, or an owner, can settle it.")
    if reserved.settled:
        raise AlreadyThere("the reservation was settled before")
    if any(not -(getattr(reserved, name) or 0) <= steps <= 0 for name, steps in costs.items()):
        raise InvalidArgument("event", "...", "at most what was reserved")
    return reserved


def _not_reserved() -> InvalidArgument:
    return InvalidArgument("reservation", "...", "a reservation of this budget")


def blocks_of(entry: Entry) -> list[str]:
    """Return the blocks of a row. A budget without blocks has one, with an empty name."""
    return list(json.loads(entry.block)) if entry.block else [""]


def _spend(table: sa.Table, *more: sa.ColumnElement[bool]) -> sa.Update:
    conditions = (table.c.budget == sa.bindparam("in_budget"), table.c.block == sa.bindparam("in_block"), *more)
    return (
        table.update().where(*conditions).values({name: table.c[name] + sa.bindparam(f"by_{name}") for name in COSTS})
    )


def _role_of(name: Any) -> sa.ScalarSelect[Any]:
    return sa.select(schema.people.c.role).where(schema.people.c.name == name).scalar_subquery()


_END = sa.select(
    schema.head.c.id,
    schema.head.c.hash,
    _role_of(sa.bindparam("name")).label("role"),
    sa.exists(sa.select(schema.people.c.name)).label("known"),
)
_INSERT = schema.entries.insert()
_MOVE_HEAD = schema.head.update().values({name: sa.bindparam(f"new_{name}") for name in ("id", "hash", "time")})
_REQUESTED = sa.select(schema.entries.c.id).where(
    schema.entries.c.budget == sa.bindparam("budget"), schema.entries.c.request == sa.bindparam("request")
)
_LATER = schema.entries.alias()
_RESERVED = sa.select(
    *(schema.entries.c[name] for name in ("block", "unit", "relation", "author", *COSTS)),
    _role_of(schema.entries.c.author).label("role"),
    sa.exists(sa.select(_LATER.c.id).where(_LATER.c.charge == schema.entries.c.id)).label("settled"),
).where(
    schema.entries.c.id == sa.bindparam("charge"),
    schema.entries.c.budget == sa.bindparam("budget"),
    schema.entries.c.kind == EntryKind.RESERVED.value,
)
_OPEN = sa.or_(schema.budgets.c.expires.is_(None), schema.budgets.c.expires > sa.bindparam("now"))
_CHARGE = _spend(schema.budgets, ~schema.budgets.c.retired, _OPEN)
_SETTLE = _spend(schema.budgets)
_SPEND_SHARE = _spend(schema.shares, schema.shares.c.name == sa.bindparam("by_name"))


@lru_cache(maxsize=64)
def _compiled(statement: Any) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    compiled = statement.compile(dialect=pysqlite.dialect())
    return str(compiled), tuple(compiled.positiontup or ()), dict(compiled.params)


def _run(connection: sa.Connection, statement: Any, **values: Any) -> sa.CursorResult[Any]:
    """Run a statement whose text is compiled once: compiling takes longer than running."""
    text, names, fixed = _compiled(statement)
    given = {**fixed, **values}
    return connection.exec_driver_sql(text, tuple([given[name] for name in names]))
