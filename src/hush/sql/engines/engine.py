"""The interface of an engine, and how its errors are redacted.

An engine runs the text of plans on data that stay in place. `hush.sql.engines.views` calls it. Only exact,
bounded aggregates come back, and noise is added to them in this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from hush.errors import HushError


class EngineFailed(HushError):
    """The engine could not run a query. The engine's own message is not shown, because it may quote a record.

    >>> import duckdb, hush
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE TABLE people (who BIGINT)")
    >>> people = hush.table(connection, name="people", unit="who")
    >>> _ = connection.execute("DROP TABLE people")
    >>> people.sql("SELECT COUNT(*) AS n FROM people", epsilon=1.0)
    Traceback (most recent call last):
        ...
    hush.sql.engines.engine.EngineFailed: the engine could not run the query. ...
    """


@contextmanager
def redact_errors() -> Iterator[None]:
    """Replace an engine's errors by `EngineFailed`. Errors of hush itself contain no data and pass unchanged."""
    try:
        yield
    except Exception as error:
        if isinstance(error, HushError):
            raise
        raise EngineFailed(
            "the engine could not run the query. Its message is hidden, because it may quote a record. "
            "Check that the tables are as declared and that there is enough memory."
        ) from None


class Engine(Protocol):
    """Runs the text of plans."""

    @property
    def dialect(self) -> str:
        """The dialect that the engine understands, a name in `hush.sql.write.dialects.DIALECTS`."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of guarantees about this engine's data."""

    def columns(self, table: str) -> dict[str, str]:
        """Return the declared type of each of a table's columns, without reading values."""

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Errors are redacted."""


@runtime_checkable
class KeepsViews(Protocol):
    """An engine that stores sums of bounded contributions for further queries. Others compute them for each query."""

    def materialise(self, name: str, sql: str) -> None:
        """Store the rows of a query in a temporary table, replacing any of that name."""

    def drop(self, name: str) -> None:
        """Remove a temporary table, if it exists."""


@runtime_checkable
class LoadsFiles(Protocol):
    """An engine that reads files into memory."""

    def load(self) -> None:
        """Read files, if that was not done yet. One that is damaged is refused: call it before anything is charged."""

    def forget(self) -> None:
        """Read files again before the next query."""


@runtime_checkable
class NumbersRows(Protocol):
    """An engine whose tables have a column that no two rows share."""

    def row_id(self, table: str) -> tuple[str, str]:
        """Return the name and the declared type of that column."""


@runtime_checkable
class ReadsNumbers(Protocol):
    """An engine that reads numbers from the text of files."""

    def read_decimal_commas(self, table: str, columns: Sequence[str]) -> None:
        """Read these columns of a CSV file as numbers with decimal commas; refuse any other table."""


@runtime_checkable
class InParts(Protocol):
    """An engine that builds views in parts: several passes over a table, each of which holds fewer units in memory."""

    def parts(self, table: str) -> int:
        """Return in how many parts, a power of two, to bound a table's units."""

    def append(self, name: str, sql: str) -> None:
        """Add the rows of a query to a temporary table."""
