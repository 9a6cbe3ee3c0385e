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


def opened(source: Any, name: str | None, public: Mapping[str, Any]) -> tuple[Engine, str]:
    """Return the engine that a source is on, and what queries call its table."""
    if isinstance(source, str) and source.startswith(_URLS):
        return _on_postgres(source, name, public)
    if source is None:
        raise InvalidArgument("source", None, ACCEPTED)
    if isinstance(source, (str, Path)):
        _check_path(str(source))
        called = name or Path(source).name.split(".")[0]
        return DuckDBEngine({called: source, **public}), called
    # Packages that may not be installed are told by their names: also of classes that something of theirs is a base of.
    packages = [each.__module__.split(".")[0] for each in type(source).__mro__]
    place = next((_PLACES[each] for each in packages if each in _PLACES), _in_memory)
    return place(source, name, public)


def _check_path(source: str) -> None:
    """Refuse what looks like an address of something else before a message could show it: it may hold a password."""
    if any(sign in source for sign in ("://", "=", "@")) and not Path(source).is_file():
        expected = "a file that exists, or an address that starts with postgresql://"
        raise InvalidArgument("source", "...", expected, "It is not shown, since it may hold a password")


def _in_memory(source: Any, name: str | None, public: Mapping[str, Any]) -> tuple[Engine, str]:
    called = name or "data"
    return DuckDBEngine({called: source, **public}), called


def _on_duckdb(source: Any, name: str | None, public: Mapping[str, Any]) -> tuple[Engine, str]:
    if not hasattr(source, "cursor"):  # a relation: rows that DuckDB is yet to compute
        return _in_memory(source, name, public)
    called = _named(name)
    return DuckDBEngine(public, connection=source), called


def _on_postgres(source: Any, name: str | None, public: Mapping[str, Any]) -> tuple[Engine, str]:
    called = _named(name)
    _check_there(public)
    return PostgresEngine(source), called


def _on_spark(source: Any, name: str | None, public: Mapping[str, Any]) -> tuple[Engine, str]:
    if hasattr(source, "sparkSession"):
        called = name or "data"
        return SparkEngine(_session_with({called: source, **public}, source.sparkSession)), called
    called = _named(name)
    _check_there(public)
    return SparkEngine(source), called


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
