"""Spark as the engine: tables and views of a session, for data beyond one machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hush.errors import InvalidArgument
from hush.sql.engines.engine import wordless

# In force while the engine works, whatever the session has: what a plan's text means hangs on them.
_SETTINGS: Mapping[str, str] = {
    "spark.sql.ansi.enabled": "true",  # as in Spark 4: no sum wraps around
    "spark.sql.caseSensitive": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.parser.escapedStringLiterals": "false",  # otherwise a quote within a constant could end it
    "spark.sql.parser.quotedRegexColumnNames": "false",  # a quoted name is a name, and no pattern
    "spark.sql.variable.substitute": "false",  # ${...} in a constant is itself, and not a setting of the cluster
}


class SparkEngine:
    """Runs plans on Spark, by PySpark 3.5 or later.

    Bounded views are temporary views of rows that are computed once and kept by the executors (a local checkpoint):
    they do not change when tables do. Spark frees them some time after they are dropped.

    Args:
        session: A session, whose tables and temporary views are read where they are.

    Assumes:
        Names and types of columns are public: *the caller's duty*. Built-in functions are not redefined in the session,
        and views that are queried are deterministic, row by row and without errors: *the caller's duty*. No other
        thread uses the session while a question runs, since a few settings are changed meanwhile: *the caller's duty*.
        Spark's logs and its web pages, running times, and whether memory suffices, are not hidden: *the caller's duty*.
    """

    dialect = "spark"
    assumptions: tuple[str, ...] = ()

    def __init__(self, session: Any) -> None:
        """Take the session; no rows are read."""
        if not all(hasattr(session, name) for name in ("sql", "table", "conf", "catalog")):
            raise InvalidArgument("session", "...", "a SparkSession", "SparkSession.builder.getOrCreate() gives one")
        self._session = session

    def columns(self, table: str) -> dict[str, str]:
        """Return the names and declared types of a table's columns."""
        with self._settled():
            fields = self._session.table(_quoted(table)).schema.fields
            found = {str(field.name): str(field.dataType.simpleString()) for field in fields}
        return found

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._settled():
            found = [tuple(row) for row in self._query(sql).collect()]
        return found

    def materialise(self, name: str, sql: str) -> None:
        """Store the rows of a query, and give them a temporary view."""
        with self._settled():
            # A cache would be filled again, with other rows, when a table changes or an executor is lost.
            self._query(sql).localCheckpoint(eager=True).createOrReplaceTempView(_quoted(name))

    def drop(self, name: str) -> None:
        """Remove a temporary view."""
        with self._settled():
            self._session.catalog.dropTempView(name)

    def _query(self, sql: str) -> Any:
        # Within parentheses there can be a query only: Spark runs commands as soon as it reads them.
        return self._session.sql(f"SELECT * FROM ({sql}) AS hush_answer")

    @contextmanager
    def _settled(self) -> Iterator[None]:
        conf = self._session.conf
        with wordless():
            before = {name: conf.get(name) for name in _SETTINGS}
            try:
                for name, value in _SETTINGS.items():
                    conf.set(name, value)
                yield
            finally:
                for name, value in before.items():
                    conf.set(name, value)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
