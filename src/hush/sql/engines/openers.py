"""Chooses the engine for the data passed to `hush.table`.

`open_engine` looks at the type of ``data`` only:

| data | engine | name of the table |
|---|---|---|
| a path | a new DuckDB | the file's name without its ending |
| a data frame of pandas or Polars, an Arrow table | a new DuckDB | data |
| a DuckDB connection | that connection | required |
| postgresql://..., a psycopg connection | PostgreSQL | required |
| an engine or connection of SQLAlchemy, a connection of ADBC | that database | required |
| a Spark data frame | a new session on its cluster | data |
| a Spark session | that session | required |
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hush.errors import InvalidArgument
from hush.sql.engines.connections import ConnectionEngine
from hush.sql.engines.duckdb import ACCEPTED, DuckDBEngine
from hush.sql.engines.engine import Engine, redact_errors
from hush.sql.engines.postgres import PostgresEngine
from hush.sql.engines.spark import SparkEngine

_URLS = ("postgresql://", "postgres://")
_TIME_ZONE_SETTING = "spark.sql.session.timeZone"


def open_engine(data: Any, name: str | None, others: Mapping[str, Any]) -> tuple[Engine, str]:
    """Return the engine of a table's data, and the table's name in queries.

    Args:
        data: A path, a data frame, an Arrow table, a connection, an address or a Spark session.
        name: The table's name; None for the file's name without its ending, or ``data``.
        others: The data of further tables, by name.
    """
    if isinstance(data, str) and data.startswith(_URLS):
        return _open_postgres(data, name, others)
    if data is None:
        raise InvalidArgument("data", None, ACCEPTED)
    if isinstance(data, (str, Path)):
        _check_path(str(data))
        table = name or Path(data).name.split(".")[0]
        return DuckDBEngine({table: data, **others}), table
    # Recognised by the names of packages, which may not be installed; a base class of theirs will do.
    packages = [base.__module__.split(".")[0] for base in type(data).__mro__]
    opener = next((_OPENERS[package] for package in packages if package in _OPENERS), _open_in_memory)
    return opener(data, name, others)


def _check_path(data: str) -> None:
    """Refuse addresses of other databases before a message quotes them as paths: they may contain a password."""
    if any(sign in data for sign in ("://", "=", "@")) and not Path(data).is_file():
        expected = "an existing file, or an address that starts with postgresql://"
        raise InvalidArgument("data", "...", expected, "Your value is hidden, because it may contain a password")


def _open_in_memory(data: Any, name: str | None, others: Mapping[str, Any]) -> tuple[Engine, str]:
    """Open a data frame or an Arrow table in DuckDB."""
    table = name or "data"
    return DuckDBEngine({table: data, **others}), table


def _open_duckdb(data: Any, name: str | None, others: Mapping[str, Any]) -> tuple[Engine, str]:
    """Use a DuckDB connection."""
    if not hasattr(data, "cursor"):  # a relation, which only its own connection can read
        advice = "Write relation.create_view(NAME), and pass the connection and the name"
        raise InvalidArgument("data", type(data).__name__, "the connection of the relation", advice)
    table = _required_name(name)
    return DuckDBEngine(others, connection=data), table


def _open_postgres(data: Any, name: str | None, others: Mapping[str, Any]) -> tuple[Engine, str]:
    """Use a PostgreSQL connection, or connect to an address."""
    table = _required_name(name)
    _check_in_database(others)
    return PostgresEngine(data), table


def _open_connection(data: Any, name: str | None, others: Mapping[str, Any]) -> tuple[Engine, str]:
    """Use an engine or a connection of SQLAlchemy, or a connection of ADBC."""
    table = _required_name(name)
    _check_in_database(others)
    return ConnectionEngine(data), table


def _open_spark(data: Any, name: str | None, others: Mapping[str, Any]) -> tuple[Engine, str]:
    """Use a Spark session, or the session of a data frame."""
    if hasattr(data, "sparkSession"):  # a data frame, and not a session
        table = name or "data"
        return SparkEngine(_session_with({table: data, **others}, data.sparkSession)), table
    table = _required_name(name)
    _check_in_database(others)
    return SparkEngine(data), table


def _session_with(frames: Mapping[str, Any], session: Any) -> Any:
    """Return a new session on the same cluster, with data frames as temporary views.

    The data frames' own session may already have views of these names, and may need them.
    """
    for name, frame in frames.items():
        if not hasattr(frame, "createOrReplaceGlobalTempView"):
            raise InvalidArgument("public", {name: "..."}, "a Spark data frame, because data is one")
    with redact_errors():
        new_session = session.newSession()
        new_session.conf.set(_TIME_ZONE_SETTING, session.conf.get(_TIME_ZONE_SETTING))
        for name, frame in frames.items():
            # A data frame belongs to its session. A global view is visible to all sessions, and passes it on.
            global_name = f"hush_{secrets.token_hex(8)}"
            frame.createOrReplaceGlobalTempView(global_name)
            new_session.table(f"global_temp.{global_name}").createTempView(f"`{name.replace('`', '``')}`")
            new_session.catalog.dropGlobalTempView(global_name)
    return new_session


def _check_in_database(others: Mapping[str, Any]) -> None:
    """Refuse further tables that are not in the same database: engines do not copy data."""
    for name, data in others.items():
        if data is not None:
            expected = "None for each name: a table in the same database or session"
            raise InvalidArgument("public", {name: "..."}, expected, "Copy the table there")


def _required_name(name: str | None) -> str:
    """Return the name of the table. A database has many, so there is no default."""
    if not name:
        raise InvalidArgument("name", name, "the name of a table or view in the database")
    return name


_OPENERS: Mapping[str, Callable[[Any, str | None, Mapping[str, Any]], tuple[Engine, str]]] = {
    "_duckdb": _open_duckdb,
    "adbc_driver_manager": _open_connection,
    "duckdb": _open_duckdb,
    "psycopg": _open_postgres,
    "pyspark": _open_spark,
    "sqlalchemy": _open_connection,
}
