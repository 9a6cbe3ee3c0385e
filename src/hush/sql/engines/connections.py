"""Databases behind SQLAlchemy or ADBC: plans run in their SQL, in sessions whose settings are fixed for that time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from hush.errors import InvalidArgument, Unsupported
from hush.sql.engines.data_identity import Identity
from hush.sql.engines.duckdb import check_values_are_stored
from hush.sql.engines.engine import EngineFailed, redact_errors
from hush.sql.engines.sessions import RULES
from hush.sql.write.dialects import dialect_named

_NAMES = {"postgresql": "postgres", **{name: name for name in RULES}}
_OLDEST_MYSQL, _OLDEST_MARIADB = (8, 0, 17), (10, 3)  # which have the collations and casts of a plan
_NO_SQLITE = "SQLite is not supported: its columns hold values of any type, and its sums raise when they overflow"
_IN_TRANSACTION = "the connection is inside a transaction"


class ConnectionEngine:
    """Runs plans through the cursor of a connection (DB-API).

    Nothing is stored in the database: each query is computed from the tables. Where the database has transactions, a
    query runs in one that cannot write, and which is rolled back. Settings that change the meaning of SQL are fixed
    while a query runs, and restored.

    Args:
        connection: An engine or a connection of SQLAlchemy, or a connection of ADBC.

    Assumes:
        Names and types of columns are public: *the caller's duty*. Built-in functions are not redefined, and views that
        are queried compute row by row without errors: *the caller's duty*. The role may read the tables and should be
        allowed nothing else: *the caller's duty*. No other thread uses the connection meanwhile: *the caller's duty*.
        The server's log, running times, time-outs of the server, and whether memory suffices, are not hidden: *the
        caller's duty*. BigQuery, Snowflake, Databricks and MySQL compute as their manuals say, because hush could not
        be tested on an account of theirs: *the caller's duty*.
    """

    assumptions: tuple[str, ...] = ()

    def __init__(self, connection: Any) -> None:
        """Look at the kind of database. No rows are read."""
        name, self._opened = _recognised(connection)
        self._address = _address(connection)
        if name not in _NAMES:
            known = ", ".join(sorted(RULES))
            raise Unsupported(f"{name} is not supported" if name != "sqlite" else _NO_SQLITE, f"There are {known}")
        self._name = _NAMES[name]
        with redact_errors():
            self.dialect = self._checked_version()
        self._rules = RULES[self.dialect]

    def columns(self, table: str) -> dict[str, str]:
        """Return the declared type of each of a table's columns."""
        dialect = dialect_named(self.dialect)
        names = [dialect.table(table), _quoted(table), _quoted(dialect.table(table))]
        rows = self.run(self._rules.columns.format(*names))
        types = {}
        for row in rows:
            if not row[0] or str(row[0]).startswith("#"):  # where Databricks goes on about partitions
                break
            types[str(row[0])] = self._rules.declared(row)
        if not types:
            raise EngineFailed("the engine has no such table, or may not read it.")
        if self.dialect == "duckdb":
            check_values_are_stored(table, self.run)
        return types

    def identity(self, table: str) -> Identity | None:
        """Return the database and the table; None if the driver does not report them, and for a database in memory."""
        return None if self._address is None else {"where": f"{table} in {self._address}", "version": ""}

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with redact_errors(), self._opened() as connection, _cursor(connection) as cursor:
            try:
                with self._session(cursor):
                    return _rows(cursor, sql)
            finally:
                if self._rules.in_transaction:
                    with suppress(Exception):  # DuckDB raises if its driver began no transaction
                        connection.rollback()

    @contextmanager
    def _session(self, cursor: Any) -> Iterator[None]:
        """Fix the settings that change the meaning of SQL, and begin a transaction that cannot write."""
        rules = self._rules
        previous = {name: _rows(cursor, rules.read_setting.format(name))[0] for name in rules.settings}
        try:
            for name, value in rules.settings.items():
                cursor.execute(rules.write_setting.format(name, value))
            for statement in rules.begin:
                cursor.execute(statement)
            self._check_transaction(cursor)
            yield
        finally:
            for name, row in previous.items():
                if row[rules.value_column] != "<undefined>":  # where Databricks has no such setting
                    cursor.execute(rules.write_setting.format(name, _as_value(row[rules.value_column])))

    def _check_transaction(self, cursor: Any) -> None:
        """Refuse a connection of PostgreSQL that commits each statement: settings would end with the statement."""
        if self.dialect != "postgres":
            return
        ((access,),) = _rows(cursor, "SELECT pg_catalog.current_setting('transaction_read_only')")
        if access != "on":
            raise Unsupported("the connection commits each statement by itself", "Switch its autocommit off")

    def _checked_version(self) -> str:
        """Return the dialect. Refuse a database that lacks features that plans need."""
        with self._opened() as connection, _cursor(connection) as cursor:
            if self._name in ("mysql", "mariadb"):
                return _mysql_dialect(str(_rows(cursor, "SELECT VERSION()")[0][0]))
            if self._name == "postgres":
                _check_encoding(_rows(cursor, "SELECT pg_catalog.current_setting('server_encoding')")[0][0])
                connection.rollback()
            if self._name == "duckdb":
                _check_collation(_rows(cursor, "SELECT current_setting('default_collation')")[0][0])
        return self._name


def _recognised(connection: Any) -> tuple[str, Callable[[], AbstractContextManager[Any]]]:
    """Return the name of a database, and how to open a connection of its driver."""
    if hasattr(connection, "adbc_get_info"):
        with redact_errors():
            name = str(connection.adbc_get_info().get("vendor_name") or "").lower()
        return name, lambda: _lent(connection)
    if hasattr(connection, "raw_connection"):
        return str(connection.dialect.name), lambda: _taken(connection)
    if hasattr(connection, "exec_driver_sql"):
        return str(connection.dialect.name), lambda: _of_sqlalchemy(connection)
    expected = "a path, a data frame, a synchronous engine or connection of SQLAlchemy, or a connection of ADBC"
    raise InvalidArgument("data", type(connection).__name__, expected)


def _address(connection: Any) -> str | None:
    """Return the address of SQLAlchemy's database, without people and passwords; None if there is none."""
    url = getattr(getattr(connection, "engine", None), "url", None)
    if url is None or not (url.host or (url.database or ":memory:") != ":memory:"):
        return None
    port = "" if url.port is None else f":{url.port}"
    return f"{url.get_backend_name()}://{url.host or ''}{port}/{url.database or ''}"


@contextmanager
def _lent(connection: Any) -> Iterator[Any]:
    yield connection


@contextmanager
def _taken(engine: Any) -> Iterator[Any]:
    """Borrow a connection from SQLAlchemy's pool."""
    connection = engine.raw_connection()
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _of_sqlalchemy(connection: Any) -> Iterator[Any]:
    """Use a connection of SQLAlchemy outside a transaction."""
    if connection.in_transaction():
        raise Unsupported(_IN_TRANSACTION, "Commit it first, or pass the engine")
    yield connection.connection


@contextmanager
def _cursor(connection: Any) -> Iterator[Any]:
    cursor = connection.cursor()
    try:
        yield cursor
    finally:
        cursor.close()


def _rows(cursor: Any, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement. It is given without parameters, so no driver looks for placeholders in it."""
    cursor.execute(sql)
    return [tuple(row) for row in cursor.fetchall()]


def _as_value(value: Any) -> str:
    """Return the value of a setting for a statement."""
    text = str(int(value)) if isinstance(value, (bool, int)) else str(value)
    return text if text.replace(".", "", 1).isdigit() or text in ("true", "false") else _quoted(text)


def _quoted(text: str) -> str:
    """Return a text constant. Names with a backslash, which databases read differently, are refused."""
    if "\\" in text:
        raise InvalidArgument("name", text, "a name without a backslash")
    return "'" + text.replace("'", "''") + "'"


def _mysql_dialect(version: str) -> str:
    """Return mysql or mariadb, according to the server's version string."""
    is_mariadb = "mariadb" in version.lower()
    oldest = _OLDEST_MARIADB if is_mariadb else _OLDEST_MYSQL
    numbers = version.split("-")[0].split(".")
    if not all(number.isdigit() for number in numbers) or tuple(map(int, numbers)) < oldest:
        name = "MariaDB" if is_mariadb else "MySQL"
        raise Unsupported(f"this version of {name} is too old", f"Use {'.'.join(map(str, oldest))} or later")
    return "mariadb" if is_mariadb else "mysql"


def _check_encoding(encoding: Any) -> None:
    if encoding != "UTF8":
        # A record that cannot be decoded would raise, and so reveal that it exists.
        raise Unsupported("the database's encoding is not UTF-8", "Copy the tables to a database that is in UTF-8")


def _check_collation(collation: Any) -> None:
    if collation not in (None, "", "binary", "BINARY"):
        raise Unsupported("the connection has a default collation", "Reset it, so that units are compared exactly")
