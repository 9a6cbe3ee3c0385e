"""A ledger in PostgreSQL. Triggers (postgres.sql) enforce the rules in the database itself."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib import resources
from typing import Any

import sqlalchemy as sa

from hush.errors import HushError, InvalidArgument
from hush.ledger.storage import schema as schema
from hush.ledger.storage import store
from hush.ledger.storage.entry import HASHED, Entry
from hush.ledger.storage.errors import LedgerUnavailable, NotAllowed
from hush.ledger.storage.store import Effect, Store

_SCRIPTS = {2: "postgres_leases.sql", 3: "postgres_roles.sql", 5: "postgres_rights.sql"}
"""What is new in each version."""

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_DENIED, _TAKEN, _LOCKED = "42501", "42710", "55P03"
_GIVEN_BY_TRIGGER = ("id", "previous", "time", "author", "block", "unit", "relation", "hash")
_INSERT = schema.entries.insert().returning(*(schema.entries.c[name] for name in _GIVEN_BY_TRIGGER))
# Writes a record to the write-ahead log and waits for it, and so for all transactions committed before. Sessions that
# wait at the same time share the flush. Independent of the session's or the role's synchronous_commit.
_WAIT = (
    "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') "
    "WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true), pg_logical_emit_message(true, 'hush', '')"
)
_LOCK = 0x68757368  # "hush": the key of our advisory lock
_TURN = 5.0
"""Seconds to wait for the end of the chain before sessions that block others are ended. See `postgres_roles.sql`."""


class Blocked(LedgerUnavailable):
    """Another session has held a lock for too long."""


class PostgresStore(Store):
    """A ledger for a team. Each person is a role of the database, so no one can write under another person's name."""

    def _connected(self) -> sa.Engine:
        # `_begin` starts transactions, together with their settings, in one round trip.
        engine = sa.create_engine(
            self.url,
            isolation_level="AUTOCOMMIT",
            pool_size=16,
            max_overflow=64,
            pool_pre_ping=True,
            pool_timeout=store.PATIENCE,
        )
        sa.event.listen(engine, "connect", _set_path)
        return engine

    def append(self, entry: Entry, effect: Effect | None = None) -> Entry:
        """Append a row. End other people's sessions that block all writers with an open transaction."""
        end = time.monotonic() + store.PATIENCE
        while True:
            try:
                return super().append(entry, effect)
            except Blocked:
                if time.monotonic() > end:
                    raise
                with self._translated_errors(), self.engine.connect() as connection:
                    connection.exec_driver_sql("SELECT hush_end_blockers()")

    def _begin(self, connection: sa.Connection) -> None:
        # The lock on the end of the chain is held until the commit returns, so the commit must not wait for the disk.
        patience = int(min(store.PATIENCE, _TURN) * 1000)
        connection.exec_driver_sql(f"BEGIN; SET LOCAL synchronous_commit = off; SET LOCAL lock_timeout = {patience}")

    def _begin_reading(self, connection: sa.Connection) -> sa.Connection:
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return connection

    def _durable(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql(_WAIT)

    def _lock_tables(self, connection: sa.Connection) -> None:
        if connection.execute(_IS_KEEPER).scalar_one_or_none() is False:
            raise NotAllowed("The ledger was created by an older version of hush. Its creator must open it once.")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")

    def now(self, connection: sa.Connection) -> int:
        """Return the server's time."""
        return int(connection.execute(_NOW).scalar_one())

    def _prepare(self, connection: sa.Connection, version: int) -> None:
        names = [table.name for table in schema.metadata.sorted_tables]
        fields, later = (
            " || ".join(f"{{{{schema}}}}.hush_field(NEW.{schema.entries.c[name].name}::text)" for name in names)
            for names in ([name for name in HASHED if name not in schema.LATER_COSTS], schema.LATER_COSTS)
        )
        values = {
            # All rows from now on have the later costs. Rows of older versions are hashed without them.
            "hashed": f"{fields} || {later}",
            "limits": ", ".join(f"most_{name}" for name in schema.LIMITS),
            "names": ", ".join(f"'{name}'" for name in names),
            "tables": ", ".join(f"{{{{schema}}}}.{name}" for name in names),
            "schema": _schema_name(connection),
        }
        for script in ("postgres.sql", *(script for number, script in _SCRIPTS.items() if number > version)):
            text = resources.files("hush.ledger.storage").joinpath(script).read_text()
            for name, value in values.items():
                text = text.replace(f"{{{{{name}}}}}", value)
            connection.exec_driver_sql(text.replace("%", "%%"))

    def _append(self, connection: sa.Connection, entry: Entry) -> Entry:
        values = {name: getattr(entry, name) for name in HASHED}  # the trigger sets id, previous, time and hash
        row = connection.execute(_INSERT, {**values, "hash": ""}).one()
        return replace(entry, **row._mapping)

    def _unavailable(self, error: sa.exc.DBAPIError) -> HushError:
        state = getattr(error.orig, "sqlstate", None)
        if state == _DENIED:
            return NotAllowed("Your database role does not permit this. Nothing was charged.")
        if state == _LOCKED:
            return Blocked("Timed out waiting for another session of the database. Nothing was charged.")
        if state == _TAKEN:
            return InvalidArgument("name", "...", "a name that is not a role of the database server")
        return super()._unavailable(error)

    def admit(self, connection: sa.Connection, name: str, role: str, token: str) -> None:
        """Create a database role for a person, who connects with the token as password, and list the person."""
        driver: Any = connection.connection.driver_connection
        # Send the password verifier, not the token: statements may end up in the server's log.
        verifier = driver.pgconn.encrypt_password(token.encode(), name.encode(), b"scram-sha-256").decode()
        connection.exec_driver_sql("SELECT hush_admit(%s, %s, %s)", (name, str(role), verifier))


_NOW = sa.text("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
_IS_KEEPER = sa.text(
    "SELECT pg_has_role(tableowner, 'MEMBER') FROM pg_tables WHERE tablename = 'hush_entries' "
    "AND schemaname = current_schema()"
)
_SCHEMAS = """
SELECT pg_catalog.quote_ident(path.name), pg_catalog.has_schema_privilege('public', space.oid, 'CREATE')
FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS path(name, place)
JOIN pg_catalog.pg_namespace AS space ON space.nspname OPERATOR(pg_catalog.=) path.name
WHERE path.name OPERATOR(pg_catalog.<>) session_user
    OR pg_catalog.pg_get_userbyid(space.nspowner) OPERATOR(pg_catalog.=) session_user
ORDER BY path.place LIMIT 1
"""


def _set_path(connection: Any, _: Any) -> None:
    """Look for tables and functions in one schema only.

    By default, the path begins with a schema named after the user, which somebody else may have created and filled. If
    everyone may create functions, as by default before PostgreSQL 15, somebody could make an operator that fits hush's
    statements better than the system's, and that would run with the rights of the person who charges.
    """
    with connection.cursor() as cursor:
        place = cursor.execute(_SCHEMAS).fetchone()
        if place is None:
            raise InvalidArgument("url", "...", "a database with a schema that you may use")
        if place[1]:
            raise InvalidArgument(
                "url",
                "...",
                "a database with a schema in which not everyone may create functions",
                "Their functions would run with your rights",
                f"Let its owner run: REVOKE CREATE ON SCHEMA {place[0]} FROM PUBLIC",
            )
        cursor.execute(f"SET search_path = {place[0]}, pg_temp")
    connection.commit()


def _schema_name(connection: sa.Connection) -> str:
    return _quoted(connection, connection.execute(sa.text("SELECT current_schema()")).scalar_one())


def _quoted(connection: sa.Connection, name: str) -> str:
    return connection.dialect.identifier_preparer.quote(name)
