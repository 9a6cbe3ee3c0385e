"""PostgreSQL as the engine: tables are read where they are, in read-only transactions.

The text of a plan means the same under every configuration of the session: settings that change the meaning of SQL are
fixed in each transaction.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hush.data import quote_name, quote_text
from hush.errors import InvalidArgument, Unsupported
from hush.sql.engines.data_identity import Identity
from hush.sql.engines.engine import EngineFailed, redact_errors

# Fixed in each transaction of the engine, whatever the session or the server has.
_SETTINGS: Mapping[str, str] = {
    "standard_conforming_strings": "on",  # otherwise a backslash in a constant could end it
    "transform_null_equals": "off",
    "client_encoding": "UTF8",
    "client_min_messages": "error",  # notices may quote records
    "DateStyle": "ISO, YMD",
    "extra_float_digits": "1",  # numbers written as text are exact
}
FIX_SETTINGS = "SELECT " + ", ".join(
    f"pg_catalog.set_config({quote_text(name)}, {quote_text(value)}, true)" for name, value in _SETTINGS.items()
)

# A type is recognised by its name only if it is PostgreSQL's own: a user's type may have any name.
COLUMNS = """
SELECT CAST(a.attname AS text), CASE
    WHEN NOT COALESCE(c.collisdeterministic, true) THEN 'text COLLATE'
    WHEN t.typtype = 'e' THEN 'ENUM'
    WHEN t.typtype = 'b' AND t.typnamespace = CAST('pg_catalog' AS regnamespace)
        THEN pg_catalog.format_type(a.atttypid, a.atttypmod)
    WHEN t.typtype = 'd' AND b.typtype = 'b' AND b.typnamespace = CAST('pg_catalog' AS regnamespace)
        THEN pg_catalog.format_type(t.typbasetype, t.typtypmod)
    ELSE 'OTHER' END
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_type AS b ON b.oid = t.typbasetype
LEFT JOIN pg_catalog.pg_collation AS c ON c.oid = a.attcollation
WHERE a.attrelid = CAST(%s AS regclass) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""

_NAMED = """
SELECT relnamespace::regnamespace::text || '.' || relname::text, oid::int8
FROM pg_catalog.pg_class WHERE oid = CAST(%s AS regclass)
"""

# The address of a row (ctid) is its own in a table that has no partitions and no children.
_HAS_ROW_ADDRESSES = """
SELECT relkind IN ('r', 'm') AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE inhparent = oid)
FROM pg_catalog.pg_class WHERE oid = CAST(%s AS regclass)
"""


class PostgresEngine:
    """Runs plans on PostgreSQL, through psycopg 3.

    Queries run in read-only transactions, one statement at a time. A transaction may write only while an empty
    temporary table is created or one is dropped. Bounded views are temporary tables: only this session sees them, and
    they end with it. Settings are local to the engine's transactions, so your own session stays as it is. A session
    that is opened here is read-only by default, and is closed with the engine.

    Args:
        connection: A connection string, or an open connection outside a transaction. Its search path finds the tables.

    Assumes:
        Names and types of columns are public: *the caller's duty*. The database is in UTF-8, so that every text can be
        read: *checked here*. Built-in functions and operators are not redefined on the search path, and views that are
        queried compute row by row without errors: *the caller's duty*. The role may read the tables, may create
        temporary ones and should be allowed nothing else: *the caller's duty*. The server's log (which may quote
        statements), running times, time-outs, and whether memory suffices, are not hidden: *the caller's duty*.
    """

    dialect = "postgres"
    assumptions: tuple[str, ...] = ()

    def __init__(self, connection: Any) -> None:
        """Connect, or use the connection. No rows are read."""
        psycopg = _psycopg()
        self._owned = isinstance(connection, str)
        if not self._owned and not isinstance(connection, psycopg.Connection):
            advice = "Asynchronous connections are not supported"
            raise InvalidArgument("connection", "...", "a connection string, or a psycopg.Connection", advice)
        self._connection = _connect(connection) if self._owned else connection
        if self._owned:
            weakref.finalize(self, self._connection.close)
        if self._connection.info.parameter_status("server_encoding") != "UTF8":
            self.close()
            # A record that cannot be decoded would raise, and so reveal that it exists.
            raise Unsupported("the database's encoding is not UTF-8", "Copy the tables to a database that is in UTF-8")

    def columns(self, table: str) -> dict[str, str]:
        """Return the declared type of each of a table's columns. A domain has the type that it is based on."""
        with self._transaction("READ ONLY") as cursor:
            rows = cursor.execute(COLUMNS, [quote_name(table)], prepare=False).fetchall()
        return {str(name): str(declared) for name, declared in rows}

    def identity(self, table: str) -> Identity:
        """Return the server, the database and the table. PostgreSQL does not report when rows were changed."""
        with self._transaction("READ ONLY") as cursor:
            ((name, oid),) = cursor.execute(_NAMED, [quote_name(table)], prepare=False).fetchall()
        info = self._connection.info
        return {"where": f"{name} in postgresql://{info.host}:{info.port}/{info.dbname}", "version": str(oid)}

    def row_id(self, table: str) -> tuple[str, str]:
        """Return the name and type of a column that no two rows share: the address of each row."""
        with self._transaction("READ ONLY") as cursor:
            ((has_addresses,),) = cursor.execute(_HAS_ROW_ADDRESSES, [quote_name(table)], prepare=False).fetchall()
        if not has_addresses:
            advice = "Name a table, or add a column of row numbers to the view"
            raise Unsupported("rows of views and partitioned tables have no address of their own", advice)
        return "ctid", "text"

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._transaction("READ ONLY") as cursor:
            # Binary results use a protocol that accepts one statement only, so no text can end the transaction.
            rows: list[tuple[Any, ...]] = cursor.execute(sql, prepare=False, binary=True).fetchall()
        return rows

    def materialise(self, name: str, sql: str) -> None:
        """Store the rows of a query in a temporary table."""
        with self._transaction("READ WRITE") as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS pg_temp.{quote_name(name)}", prepare=False)
            cursor.execute(f"CREATE TEMP TABLE {quote_name(name)} AS {sql} WITH NO DATA", prepare=False, binary=True)
            # Temporary tables can be filled in read-only mode, in which the query can change nothing else.
            cursor.execute("SET TRANSACTION READ ONLY", prepare=False)
            cursor.execute(f"INSERT INTO pg_temp.{quote_name(name)} {sql}", prepare=False, binary=True)

    def drop(self, name: str) -> None:
        """Remove a temporary table."""
        with self._transaction("READ WRITE") as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS pg_temp.{quote_name(name)}", prepare=False)

    def close(self) -> None:
        """Close the connection, and with it all bounded views, if the engine opened it."""
        if self._owned:
            self._connection.close()

    @contextmanager
    def _transaction(self, access: str) -> Iterator[Any]:
        """Run statements in one transaction, with fixed settings and redacted errors.

        Args:
            access: READ ONLY or READ WRITE.
        """
        psycopg = _psycopg()
        if self._connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
            # In the caller's transaction, its mode and settings would not be the engine's alone.
            raise Unsupported("the connection is inside a transaction", "Commit it first, or pass a connection string")
        with (
            redact_errors(),
            self._connection.transaction(),
            psycopg.Cursor(self._connection, row_factory=psycopg.rows.tuple_row) as cursor,
        ):
            cursor.execute(f"SET TRANSACTION {access}", prepare=False)
            cursor.execute(FIX_SETTINGS, prepare=False)
            yield cursor


def _psycopg() -> Any:
    """Import psycopg, which is an optional dependency."""
    try:
        import psycopg
    except ImportError:  # raised as well if psycopg finds no libpq
        raise Unsupported("this engine needs psycopg 3", "pip install 'hush[postgres]'") from None
    return psycopg


def _connect(string: str) -> Any:
    """Open a connection that is read-only by default."""
    psycopg = _psycopg()
    try:
        connection = psycopg.connect(string, autocommit=True)
        connection.execute("SET default_transaction_read_only = on")
    except Exception:  # the message may quote the string, with its password
        raise EngineFailed("could not connect to PostgreSQL. Check the connection string and the server.") from None
    return connection
