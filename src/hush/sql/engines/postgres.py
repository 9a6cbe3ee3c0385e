"""PostgreSQL as the engine: tables are read where they are, in transactions that may not write."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hush.errors import InvalidArgument, Unsupported
from hush.sql.engines.duckdb import quoted, text
from hush.sql.engines.engine import EngineFailed, wordless

# In force for each transaction of the engine, whatever the session or the server has.
_SETTINGS: Mapping[str, str] = {
    "standard_conforming_strings": "on",  # otherwise a backslash in a constant could end it
    "transform_null_equals": "off",
    "client_encoding": "UTF8",
    "client_min_messages": "error",  # notices may quote records
    "DateStyle": "ISO, YMD",
    "extra_float_digits": "1",  # numbers as text are exact
}
_SETTLED = "SELECT " + ", ".join(f"pg_catalog.set_config({text(k)}, {text(v)}, true)" for k, v in _SETTINGS.items())

# A type counts by its name only if it is PostgreSQL's own: others, and ranges, may be called anything.
_COLUMNS = """
SELECT CAST(a.attname AS text), CASE
    WHEN t.typtype = 'e' THEN 'ENUM'
    WHEN t.typtype = 'b' AND t.typnamespace = CAST('pg_catalog' AS regnamespace)
        THEN pg_catalog.format_type(a.atttypid, a.atttypmod)
    WHEN t.typtype = 'd' AND b.typtype = 'b' AND b.typnamespace = CAST('pg_catalog' AS regnamespace)
        THEN pg_catalog.format_type(t.typbasetype, t.typtypmod)
    ELSE 'OTHER' END
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_type AS b ON b.oid = t.typbasetype
WHERE a.attrelid = CAST(%s AS regclass) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""


class PostgresEngine:
    """Runs plans on PostgreSQL, by psycopg 3.

    Queries run in read-only transactions, one statement at a time; read and write are allowed only while an empty
    temporary table is made or one is dropped. Bounded views are temporary tables, which only this session sees and
    which end with it. Settings hold for the engine's transactions; a session that is given stays as it is. One that is
    made here is read-only by default, and is closed with the engine.

    Args:
        connection: A connection string, or a connection that is in no transaction. Tables are found by its search path.

    Assumes:
        Names and types of columns are public: *the caller's duty*. The database is in UTF-8, so that no text fails to
        be read: *checked here*. Built-in functions and operators are not redefined on the search path, and views that
        are queried compute row by row without errors: *the caller's duty*. The role may read the tables, may create
        temporary ones and had better be allowed nothing else: *the caller's duty*. The server's log, which may quote
        statements, running times, time-outs, and whether memory suffices, are not hidden: *the caller's duty*.
    """

    dialect = "postgres"
    assumptions: tuple[str, ...] = ()

    def __init__(self, connection: Any) -> None:
        """Connect, or take the connection; no rows are read."""
        psycopg = _psycopg()
        self._owned = isinstance(connection, str)
        if not self._owned and not isinstance(connection, psycopg.Connection):
            advice = "Asynchronous connections are not supported"
            raise InvalidArgument("connection", "...", "a connection string, or a psycopg.Connection", advice)
        self._connection = _connected(connection) if self._owned else connection
        if self._owned:
            weakref.finalize(self, self._connection.close)
        if self._connection.info.parameter_status("server_encoding") != "UTF8":
            self.close()
            # A record that cannot be decoded would raise, and so be told apart.
            raise Unsupported("the database's encoding is not UTF-8", "Copy the tables to one that is")

    def columns(self, table: str) -> dict[str, str]:
        """Return the names and declared types of a table's columns; a domain is what it is made of."""
        with self._transaction("READ ONLY") as cursor:
            rows = cursor.execute(_COLUMNS, [quoted(table)], prepare=False).fetchall()
        return {str(name): str(declared) for name, declared in rows}

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._transaction("READ ONLY") as cursor:
            # Binary results come by a protocol that takes one statement only, so that no text can end the transaction.
            found: list[tuple[Any, ...]] = cursor.execute(sql, prepare=False, binary=True).fetchall()
        return found

    def materialise(self, name: str, sql: str) -> None:
        """Store the rows of a query in a temporary table."""
        with self._transaction("READ WRITE") as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS pg_temp.{quoted(name)}", prepare=False)
            cursor.execute(f"CREATE TEMP TABLE {quoted(name)} AS {sql} WITH NO DATA", prepare=False, binary=True)
            # Temporary tables may be filled in read-only mode, and the query can then change nothing else.
            cursor.execute("SET TRANSACTION READ ONLY", prepare=False)
            cursor.execute(f"INSERT INTO pg_temp.{quoted(name)} {sql}", prepare=False, binary=True)

    def drop(self, name: str) -> None:
        """Remove a temporary table."""
        with self._transaction("READ WRITE") as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS pg_temp.{quoted(name)}", prepare=False)

    def close(self) -> None:
        """Close the connection, and with it all bounded views, unless it was given."""
        if self._owned:
            self._connection.close()

    @contextmanager
    def _transaction(self, access: str) -> Iterator[Any]:
        psycopg = _psycopg()
        if self._connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
            # Within another's transaction, neither its mode nor its settings could be ours alone.
            raise Unsupported("the connection is within a transaction", "Commit it first, or give a connection string")
        with (
            wordless(),
            self._connection.transaction(),
            psycopg.Cursor(self._connection, row_factory=psycopg.rows.tuple_row) as cursor,
        ):
            cursor.execute(f"SET TRANSACTION {access}", prepare=False)
            cursor.execute(_SETTLED, prepare=False)
            yield cursor


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:  # also where psycopg finds no libpq
        raise Unsupported("this engine needs psycopg 3", "pip install 'hush[postgres]'") from None
    return psycopg


def _connected(string: str) -> Any:
    psycopg = _psycopg()
    try:
        found = psycopg.connect(string, autocommit=True)
        found.execute("SET default_transaction_read_only = on")
    except Exception:  # its words may quote the string, and a password in it
        raise EngineFailed("PostgreSQL could not be reached. Check the connection string and the server.") from None
    return found
