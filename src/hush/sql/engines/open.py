"""From what `table` is given to the engine that data are on."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hush.errors import InvalidArgument
from hush.sql.engines.duckdb import ACCEPTED, DuckDBEngine
from hush.sql.engines.engine import Engine, wordless
from hush.sql.engines.postgres import PostgresEngine
from hush.sql.engines.spark import SparkEngine

_URLS = ("postgresql://", "postgres://")
_ZONE = "spark.sql.session.timeZone"


def opened(data: Any, name: str | None, public: Mapping[str, Any]) -> tuple[Engine, str]:
    """Return the engine that a source is on, and what queries call its table."""
    if isinstance(data, str) and data.startswith(_URLS):
        return _on_postgres(data, name, public)
    if data is None:
        raise InvalidArgument("data", None, ACCEPTED)
    if isinstance(data, (str, Path)):
        _check_path(str(data))
        called = name or Path(data).name.split(".")[0]
        return DuckDBEngine({called: data, **public}), called
    # Packages that may not be installed are told by their names: also of classes that something of theirs is a base of.
    packages = [each.__module__.split(".")[0] for each in type(data).__mro__]
    place = next((_PLACES[each] for each in packages if each in _PLACES), _in_memory)
    return place(data, name, public)


def _check_path(data: str) -> None:
    """Refuse what looks like an address of something else before a message could show it: it may hold a password."""
    if any(sign in data for sign in ("://", "=", "@")) and not Path(data).is_file():
        expected = "a file that exists, or an address that starts with postgresql://"
        raise InvalidArgument("data", "...", expected, "It is not shown, since it may hold a password")


def _in_memory(data: Any, name: str | None, public: Mapping[str, Any]) -> tuple[Engine, str]:
    called = name or "data"
    return DuckDBEngine({called: data, **public}), called


def _on_duckdb(data: Any, name: str | None, public: Mapping[str, Any]) -> tuple[Engine, str]:
    if not hasattr(data, "cursor"):  # a relation: rows that DuckDB is yet to compute
        return _in_memory(data, name, public)
    called = _named(name)
    return DuckDBEngine(public, connection=data), called


def _on_postgres(data: Any, name: str | None, public: Mapping[str, Any]) -> tuple[Engine, str]:
    called = _named(name)
    _check_there(public)
    return PostgresEngine(data), called


def _on_spark(data: Any, name: str | None, public: Mapping[str, Any]) -> tuple[Engine, str]:
    if hasattr(data, "sparkSession"):
        called = name or "data"
        return SparkEngine(_session_with({called: data, **public}, data.sparkSession)), called
    called = _named(name)
    _check_there(public)
    return SparkEngine(data), called


def _session_with(frames: Mapping[str, Any], session: Any) -> Any:
    """Return a new session, on the same cluster, that has data frames as temporary views.

    In the given one a view of that name may be there already, and may be needed.
    """
    for name, frame in frames.items():
        if not hasattr(frame, "createOrReplaceGlobalTempView"):
            raise InvalidArgument("public", {name: "..."}, "a Spark data frame, as the source is one")
    with wordless():
        own = session.newSession()
        own.conf.set(_ZONE, session.conf.get(_ZONE))
        for name, frame in frames.items():
            passing = f"hush_{secrets.token_hex(8)}"  # a data frame belongs to its session; global views to all
            frame.createOrReplaceGlobalTempView(passing)
            own.table(f"global_temp.{passing}").createTempView(f"`{name.replace('`', '``')}`")
            own.catalog.dropGlobalTempView(passing)
    return own


def _check_there(public: Mapping[str, Any]) -> None:
    for name, given in public.items():
        if given is not None:
            expected = "None for each name: a table of the same database or session"
            raise InvalidArgument("public", {name: "..."}, expected, "Copy it there")


def _named(name: str | None) -> str:
    if not name:
        raise InvalidArgument("name", name, "the name of a table or view in the database")
    return name


_PLACES: Mapping[str, Callable[[Any, str | None, Mapping[str, Any]], tuple[Engine, str]]] = {
    "_duckdb": _on_duckdb,
    "duckdb": _on_duckdb,
    "psycopg": _on_postgres,
    "pyspark": _on_spark,
}
