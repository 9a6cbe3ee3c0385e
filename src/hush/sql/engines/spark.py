"""Spark as the engine: tables and views of a session, for data beyond one machine.

The text of a plan means the same under every configuration of the session. Settings that change the meaning of SQL are
fixed while the engine works, and restored afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hush.errors import InvalidArgument
from hush.sql.engines.data_identity import Identity
from hush.sql.engines.engine import EngineFailed, redact_errors

# Fixed while the engine works, whatever the session has: they change what a plan's text means.
_SETTINGS: Mapping[str, str] = {
    "spark.sql.ansi.enabled": "true",  # as in Spark 4: sums do not wrap around
    "spark.sql.caseSensitive": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.parser.escapedStringLiterals": "false",  # otherwise a quote inside a constant could end it
    "spark.sql.parser.quotedRegexColumnNames": "false",  # a quoted name is not a pattern
    "spark.sql.variable.substitute": "false",  # ${...} in a constant is not replaced by a setting of the cluster
}

_MOMENT = "timestamp with time zone"


class SparkEngine:
    """Runs plans on Spark, through PySpark 3.5 or later.

    Bounded views are temporary views of rows that are computed once and kept by the executors (a local checkpoint).
    They do not change when the tables do. Spark frees them some time after they are dropped.

    Args:
        session: A session. Its tables and temporary views are read where they are.

    Assumes:
        Names and types of columns are public: *the caller's duty*. Built-in functions are not redefined in the session,
        and views that are queried are deterministic and compute row by row without errors: *the caller's duty*. No
        other thread uses the session while a query runs, because some settings are changed meanwhile: *the caller's
        duty*. Spark's logs and web pages, running times, and whether memory suffices, are not hidden: *the caller's
        duty*.
    """

    dialect = "spark"
    assumptions: tuple[str, ...] = ()

    def __init__(self, session: Any) -> None:
        """Take the session; no rows are read."""
        if not all(hasattr(session, name) for name in ("sql", "table", "conf", "catalog")):
            raise InvalidArgument("session", "...", "a SparkSession", "SparkSession.builder.getOrCreate() returns one")
        self._session = session

    def columns(self, table: str) -> dict[str, str]:
        """Return the declared type of each of a table's columns."""
        with self._fixed_settings():
            fields = self._session.table(_quoted(table)).schema.fields
            types = {str(field.name): str(field.dataType.simpleString()) for field in fields}
            # Spark's TIMESTAMP is a moment, which is shown in the session's time zone.
            types = {name: _MOMENT if declared == "timestamp" else declared for name, declared in types.items()}
        return types

    def identity(self, table: str) -> Identity | None:
        """Return the name of a table in the session's catalog; None for a view of the session."""
        try:
            with self._fixed_settings():
                entry = self._session.catalog.getTable(_quoted(table))
                parts = (str(entry.catalog), *(entry.namespace or ()), str(entry.name))
                is_view = bool(entry.isTemporary) or "VIEW" in str(entry.tableType).upper()
        except EngineFailed:  # a session whose catalog cannot tell
            return None
        return None if is_view else {"where": f"{'.'.join(parts)} in Spark", "version": str(entry.tableType)}

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._fixed_settings():
            rows = [tuple(row) for row in self._query(sql).collect()]
        return rows

    def materialise(self, name: str, sql: str) -> None:
        """Store the rows of a query as a temporary view."""
        with self._fixed_settings():
            # A cache would be computed again, from other rows, if a table changes or an executor is lost.
            self._query(sql).localCheckpoint(eager=True).createOrReplaceTempView(_quoted(name))

    def drop(self, name: str) -> None:
        """Remove a temporary view."""
        with self._fixed_settings():
            self._session.catalog.dropTempView(name)

    def _query(self, sql: str) -> Any:
        """Return a query as a data frame. Commands are refused."""
        # Only a query can stand in parentheses. Spark would run a command as soon as it reads it.
        return self._session.sql(f"SELECT * FROM ({sql}) AS hush_answer")

    @contextmanager
    def _fixed_settings(self) -> Iterator[None]:
        """Fix the settings that change the meaning of SQL, and redact errors."""
        conf = self._session.conf
        with redact_errors():
            previous = {name: conf.get(name) for name in _SETTINGS}
            try:
                for name, value in _SETTINGS.items():
                    conf.set(name, value)
                yield
            finally:
                for name, value in previous.items():
                    conf.set(name, value)


def _quoted(name: str) -> str:
    """Return a quoted name, as Spark writes it."""
    return "`" + name.replace("`", "``") + "`"
