"""A ledger in PostgreSQL, which enforces by itself what `_postgres.sql` says."""

from __future__ import annotations

from dataclasses import asdict
from importlib import resources

import sqlalchemy as sa

from hush.errors import HushError
from hush.ledger import _schema as schema
from hush.ledger._entry import HASHED, Entry
from hush.ledger._errors import NotAllowed
from hush.ledger._store import Store

_TABLES = "hush_ledger, hush_head, hush_entries, hush_datasets, hush_budgets, hush_people, hush_shares"
_FIXED_BY_TRIGGER = ("id", "previous", "hash", "time", "author")
_DENIED = "42501"
_INSERT = schema.entries.insert().returning(schema.entries)


class PostgresStore(Store):
    """A database for a team. A person is a role of the database; nobody writes under another's name."""

    def _connected(self) -> sa.Engine:
        return sa.create_engine(self.url, pool_size=4, max_overflow=64, pool_pre_ping=True)

    def _begin(self, connection: sa.Connection) -> None:
        # The lock on the chain's end is held until the commit returns: it must not wait for the disk. `_durable` does.
        connection.exec_driver_sql("SET LOCAL synchronous_commit = off")

    def _durable(self, connection: sa.Connection) -> None:
        # A record of its own, written to the log after ours and waited for, as all who write at the same time do.
        connection.exec_driver_sql("SELECT pg_logical_emit_message(true, 'hush', '')")
        connection.commit()

    def _prepare(self, connection: sa.Connection, created: bool) -> None:
        if not created:
            return
        text = resources.files("hush.ledger").joinpath("_postgres.sql").read_text()
        hashed = " || ".join(f"hush_field(NEW.{name}::text)" for name in HASHED)
        connection.exec_driver_sql(text.replace("{{hashed}}", hashed).replace("%", "%%"))

    def _append(self, connection: sa.Connection, entry: Entry) -> Entry:
        given = {**asdict(entry), **dict.fromkeys(_FIXED_BY_TRIGGER[:3], ""), "id": 0}
        row = connection.execute(_INSERT, given).one()
        return Entry(**row._mapping)

    def _unavailable(self, error: sa.exc.DBAPIError) -> HushError:
        if getattr(error.orig, "sqlstate", None) == _DENIED:
            return NotAllowed("The database does not allow this to whoever is connected. Nothing was charged.")
        return super()._unavailable(error)

    def admit(self, connection: sa.Connection, name: str, role: str, token: str) -> None:
        """Create a role of the database for a person, who connects with the token as password."""
        quoted = connection.dialect.identifier_preparer.quote(name)
        connection.execute(sa.text(f"CREATE ROLE {quoted} LOGIN PASSWORD '{token}'"))
        schema_name = connection.dialect.identifier_preparer.quote(
            connection.execute(sa.text("SELECT current_schema()")).scalar_one()
        )
        connection.execute(sa.text(f"GRANT USAGE ON SCHEMA {schema_name} TO {quoted}"))
        connection.execute(sa.text(f"GRANT SELECT ON {_TABLES} TO {quoted}"))
        if role == "analyst":
            connection.execute(sa.text(f"GRANT INSERT ON hush_entries TO {quoted}"))
        if role == "owner":
            owner = connection.dialect.identifier_preparer.quote(
                connection.execute(sa.text("SELECT current_user")).scalar_one()
            )
            connection.execute(sa.text(f"GRANT {owner} TO {quoted}"))
