"""A ledger in PostgreSQL. Triggers (postgres.sql) enforce the rules in the database itself."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from typing import Any

import sqlalchemy as sa

from hush.errors import HushError, InvalidArgument
from hush.ledger.storage import schema as schema
from hush.ledger.storage import store
from hush.ledger.storage.entry import HASHED, Entry
from hush.ledger.storage.errors import NotAllowed
from hush.ledger.storage.store import Store

_TABLES = "hush_ledger, hush_head, hush_entries, hush_datasets, hush_budgets, hush_people, hush_shares, hush_leases"
_SCRIPTS = ("postgres.sql", "postgres_leases.sql")  # of version 1, and new in version 2
_DENIED, _TAKEN = "42501", "42710"  # https://www.postgresql.org/docs/current/errcodes-appendix.html
_GIVEN_BY_TRIGGER = ("id", "previous", "time", "author", "block", "unit", "relation", "hash")
_INSERT = schema.entries.insert().returning(*(schema.entries.c[name] for name in _GIVEN_BY_TRIGGER))
# Writes a record to the write-ahead log and waits for it, and so for all transactions committed before. Sessions that
# wait at the same time share the flush. Independent of the session's or the role's synchronous_commit.
_WAIT = (
    "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') "
    "WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true), pg_logical_emit_message(true, 'hush', '')"
)
_LOCK = 0x68757368  # "hush": the key of our advisory lock


class PostgresStore(Store):
    """A ledger for a team. A person is a role of the database, so nobody can write under another person's name."""

    def _connected(self) -> sa.Engine:
        # `_begin` starts transactions, together with their settings, in one round trip.
        return sa.create_engine(
            self.url,
            isolation_level="AUTOCOMMIT",
            pool_size=16,
            max_overflow=64,
            pool_pre_ping=True,
            pool_timeout=store.PATIENCE,
        )

    def _begin(self, connection: sa.Connection) -> None:
        # The lock on the end of the chain is held until the commit returns, so the commit must not wait for the disk.
        patience = int(store.PATIENCE * 1000)
        connection.exec_driver_sql(f"BEGIN; SET LOCAL synchronous_commit = off; SET LOCAL lock_timeout = {patience}")

    def _begin_reading(self, connection: sa.Connection) -> sa.Connection:
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return connection

    def _durable(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql(_WAIT)

    def _lock_tables(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")

    def now(self, connection: sa.Connection) -> int:
        """Return the server's time."""
        return int(connection.execute(_NOW).scalar_one())

    def _prepare(self, connection: sa.Connection, version: int) -> None:
        columns = [schema.entries.c[name].name for name in HASHED]
        hashed = " || ".join(f"{{{{schema}}}}.hush_field(NEW.{column}::text)" for column in columns)
        for script in _SCRIPTS[version:]:
            text = resources.files("hush.ledger.storage").joinpath(script).read_text()
            filled = text.replace("{{hashed}}", hashed).replace("{{schema}}", _schema_name(connection))
            connection.exec_driver_sql(filled.replace("%", "%%"))

    def _append(self, connection: sa.Connection, entry: Entry) -> Entry:
        values = {name: getattr(entry, name) for name in HASHED}  # the trigger sets id, previous, time and hash
        row = connection.execute(_INSERT, {**values, "hash": ""}).one()
        return replace(entry, **row._mapping)

    def _unavailable(self, error: sa.exc.DBAPIError) -> HushError:
        state = getattr(error.orig, "sqlstate", None)
        if state == _DENIED:
            return NotAllowed("Your database role does not permit this. Nothing was charged.")
        if state == _TAKEN:
            return InvalidArgument("name", "...", "a name that is not a role of the database server")
        return super()._unavailable(error)

    def admit(self, connection: sa.Connection, name: str, role: str, token: str) -> None:
        """Create a database role for a person, who connects with the token as password."""
        driver: Any = connection.connection.driver_connection
        # Send the password verifier, not the token: statements may end up in the server's log.
        verifier = driver.pgconn.encrypt_password(token.encode(), name.encode(), b"scram-sha-256").decode()
        quoted = _quoted(connection, name)
        rights = " CREATEROLE" if role == "owner" else ""
        connection.exec_driver_sql(f"CREATE ROLE {quoted} LOGIN{rights} PASSWORD '{verifier}'")
        connection.execute(sa.text(f"GRANT USAGE ON SCHEMA {_schema_name(connection)} TO {quoted}"))
        connection.execute(sa.text(f"GRANT SELECT ON {_TABLES} TO {quoted}"))
        if role == "analyst":
            connection.execute(sa.text(f"GRANT INSERT ON hush_entries TO {quoted}"))
            connection.execute(sa.text(f"GRANT INSERT, UPDATE ON hush_leases TO {quoted}"))
        if role == "owner":
            tables_owner = connection.execute(_OWNER).scalar_one()
            connection.execute(sa.text(f"GRANT {_quoted(connection, tables_owner)} TO {quoted} WITH ADMIN OPTION"))


_NOW = sa.text("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
_OWNER = sa.text("SELECT tableowner FROM pg_tables WHERE tablename = 'hush_entries' AND schemaname = current_schema()")


def _schema_name(connection: sa.Connection) -> str:
    return _quoted(connection, connection.execute(sa.text("SELECT current_schema()")).scalar_one())


def _quoted(connection: sa.Connection, name: str) -> str:
    return connection.dialect.identifier_preparer.quote(name)
