"""A ledger in a file."""

from __future__ import annotations

import json
import os
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
from hush.ledger.storage import schema as schema
from hush.ledger.storage import store
from hush.ledger.storage.disk import Disk
from hush.ledger.storage.entry import HASHED, Entry, EntryKind
from hush.ledger.storage.errors import LedgerUnavailable, NotAllowed
from hush.ledger.storage.store import AlreadyThere, Store, closed

_CHARGES = (EntryKind.RESERVED, EntryKind.COMMITTED, EntryKind.VOIDED)
_COSTS = ("renyi", "pure", "unbounded", "delta")


class SqliteStore(Store):
    """A file. Many processes may use it at once; one writes at a time, and every row is on the disk when it returns."""

    def _connected(self) -> sa.Engine:
        self._new_process()
        engine = sa.create_engine(self.url, connect_args={"timeout": store.PATIENCE}, pool_size=16, max_overflow=-1)
        sa.event.listen(engine, "connect", _set_up)
        return engine

    def _new_process(self) -> None:
        self._writer, self._disk = threading.Lock(), Disk()

    def _after_fork(self) -> None:
        super()._after_fork()
        self._new_process()  # another thread may have held the lock at the time of the fork

    def close(self) -> None:
        """Close the connections and the log."""
        super().close()
        self._disk.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        # SQLite sleeps and tries again while others write; threads of one process can do better.
        if not self._writer.acquire(timeout=store.PATIENCE):
            raise LedgerUnavailable("Other threads have kept the ledger for too long. Nothing was charged.")
        try:
            yield
        finally:
            self._writer.release()

    def _begin(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        self._is_still_there(connection)

    def _begin_reading(self, connection: sa.Connection) -> sa.Connection:
        connection.exec_driver_sql("BEGIN")
        return connection

    def _durable(self, connection: sa.Connection) -> None:
        """Wait until the log is on the disk, with all rows up to the ones just written."""
        self._is_still_there(connection)
        if connection.info["has_log"]:
            self._disk.sync(f"{connection.info['path']}-wal")

    def _is_still_there(self, connection: sa.Connection) -> None:
        """Refuse to write into a file that was removed or replaced: it ends with the last process that has it open."""
        try:
            same = os.path.samestat(os.stat(connection.info["path"]), connection.info["file"])
        except FileNotFoundError:
            same = False
        if not same:
            connection.invalidate()
            raise LedgerUnavailable(
                "The ledger's file was removed or replaced while it was open. Nothing was released."
            )

    def _lock_tables(self, connection: sa.Connection) -> None:
        """Do nothing: whoever writes is alone."""

    def _prepare(self, connection: sa.Connection, created: bool) -> None:
        if not created:
            return
        for what in ("UPDATE", "DELETE"):
            connection.exec_driver_sql(
                f"CREATE TRIGGER hush_only_added_{what.lower()} BEFORE {what} ON hush_entries "
                "BEGIN SELECT RAISE(ABORT, 'rows of a ledger are only ever added'); END"
            )

    def _append(self, connection: sa.Connection, entry: Entry) -> Entry:
        end = _run(connection, _END, name=entry.author).one()
        if end.role is None and end.known:
            raise NotAllowed("This ledger knows its people: open it again, with the token that you were given.")
        role = end.role or "owner"  # as long as nobody was admitted
        if not (role == "owner" or (role == "analyst" and entry.kind in _CHARGES)):
            raise NotAllowed(f"This takes an owner{' or an analyst' if entry.kind in _CHARGES else ''}.")
        if (
            entry.request is not None
            and _run(connection, _REQUESTED, dataset=entry.dataset, request=entry.request).all()
        ):
            raise AlreadyThere("it was requested already")  # also if it would not fit any more
        now = max(time.time_ns() // 1000, end.time)  # a clock that goes backwards stands still here
        placed = replace(entry, id=end.id + 1, previous=end.hash, time=now)
        if entry.kind in _CHARGES:
            placed = _charged(connection, placed, role)
        written = replace(placed, hash=placed.computed_hash())
        _run(connection, _INSERT, hash=written.hash, **{name: getattr(written, name) for name in HASHED})
        _run(connection, _MOVE_HEAD, new_id=written.id, new_hash=written.hash, new_time=written.time)
        return written


def _set_up(connection: Any, record: Any) -> None:
    """Prepare a new connection, and note which file it has open, whatever name it was given by."""
    connection.isolation_level = None  # transactions begin where `_begin` says so
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    mode = _log_mode(connection)
    # With a write-ahead log, `_durable` waits for the disk after others may go on; without, each commit does.
    connection.execute(f"PRAGMA synchronous={'NORMAL' if mode == 'wal' else 'EXTRA'}")
    record.info.update(path=path, has_log=mode == "wal", file=os.stat(path))


def _log_mode(connection: Any) -> str:
    """Switch to a write-ahead log; while others do the same, SQLite refuses at once and does not wait."""
    end = time.monotonic() + store.PATIENCE
    while True:
        try:
            return str(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0])
        except Exception as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _charged(connection: sa.Connection, entry: Entry, role: str) -> Entry:
    """Check a row that charges or settles, and change the budgets; PostgreSQL has a trigger that does the same."""
    spender, spender_role, charge = entry.author, role, _CHARGE
    if entry.charge is not None:
        reserved = _settled(connection, entry, role)
        entry = replace(entry, block=reserved.block, unit=reserved.unit, relation=reserved.relation)
        spender, spender_role, charge = reserved.author, reserved.role, _SETTLE
    elif entry.kind == EntryKind.VOIDED or min(getattr(entry, name) for name in _COSTS) < 0:
        raise _not_reserved()
    blocks = blocks_of(entry)
    added = {f"by_{name}": getattr(entry, name) for name in _COSTS}
    if not blocks or len(set(blocks)) != len(blocks):
        raise closed()
    for block in blocks:
        where = {"in_dataset": entry.dataset, "in_block": block, **added}
        if not _run(connection, charge, **where, now=entry.time).rowcount:
            raise closed()
        if spender_role != "analyst":
            continue
        if not _run(connection, _SPEND_SHARE, **where, by_name=spender).rowcount:
            raise NotAllowed("You have no share of this budget. Nothing was charged. Ask the budget's owner.")
    return entry


def _settled(connection: sa.Connection, entry: Entry, role: str) -> sa.Row[Any]:
    """Return the reservation that a row settles, if it may."""
    reserved = _run(connection, _RESERVED, charge=entry.charge, dataset=entry.dataset).one_or_none()
    if reserved is None or entry.kind == EntryKind.RESERVED:
        raise _not_reserved()
    if not (role == "owner" or reserved.author == entry.author):
        raise NotAllowed("It was reserved by somebody else. Only they, or an owner, can settle it.")
    if reserved.settled:
        raise AlreadyThere("it was settled already")
    if any(not -getattr(reserved, name) <= getattr(entry, name) <= 0 for name in _COSTS):
        raise InvalidArgument("event", "...", "a part of what was reserved")
    return reserved


def _not_reserved() -> InvalidArgument:
    return InvalidArgument("reservation", "...", "one of this data set")


def blocks_of(entry: Entry) -> list[str]:
    """Return the blocks of a row; data that are not in blocks are one, without a name."""
    return list(json.loads(entry.block)) if entry.block else [""]


def _spend(table: sa.Table, *more: sa.ColumnElement[bool]) -> sa.Update:
    same = (table.c.dataset == sa.bindparam("in_dataset"), table.c.block == sa.bindparam("in_block"), *more)
    return table.update().where(*same).values({name: table.c[name] + sa.bindparam(f"by_{name}") for name in _COSTS})


def _role_of(name: Any) -> sa.ScalarSelect[Any]:
    return sa.select(schema.people.c.role).where(schema.people.c.name == name).scalar_subquery()


_END = sa.select(
    schema.head.c.id,
    schema.head.c.hash,
    schema.head.c.time,
    _role_of(sa.bindparam("name")).label("role"),
    sa.exists(sa.select(schema.people.c.name)).label("known"),
)
_INSERT = schema.entries.insert()
_MOVE_HEAD = schema.head.update().values({name: sa.bindparam(f"new_{name}") for name in ("id", "hash", "time")})
_REQUESTED = sa.select(schema.entries.c.id).where(
    schema.entries.c.dataset == sa.bindparam("dataset"), schema.entries.c.request == sa.bindparam("request")
)
_LATER = schema.entries.alias()
_RESERVED = sa.select(
    schema.entries,
    _role_of(schema.entries.c.author).label("role"),
    sa.exists(sa.select(_LATER.c.id).where(_LATER.c.charge == schema.entries.c.id)).label("settled"),
).where(
    schema.entries.c.id == sa.bindparam("charge"),
    schema.entries.c.dataset == sa.bindparam("dataset"),
    schema.entries.c.kind == EntryKind.RESERVED.value,
)
_OPEN = sa.or_(schema.budgets.c.expires.is_(None), schema.budgets.c.expires > sa.bindparam("now"))
_CHARGE = _spend(schema.budgets, ~schema.budgets.c.retired, _OPEN)
_SETTLE = _spend(schema.budgets)
_SPEND_SHARE = _spend(schema.shares, schema.shares.c.name == sa.bindparam("by_name"))


@lru_cache(maxsize=64)
def _written(statement: Any) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    compiled = statement.compile(dialect=pysqlite.dialect())
    return str(compiled), tuple(compiled.positiontup or ()), dict(compiled.params)


def _run(connection: sa.Connection, statement: Any, **values: Any) -> sa.CursorResult[Any]:
    """Run a statement that was written once: building one takes longer than running it."""
    text, names, fixed = _written(statement)
    return connection.exec_driver_sql(text, tuple(values.get(name, fixed.get(name)) for name in names))
