"""Parquet files. A value that DuckDB cannot read counts as missing: it neither ends a query nor changes another value.

There are two kinds of such values, and a single record could make its whole column unusable with either:

- **Text that is not UTF-8.** DuckDB raises an error, but can also replace such bytes, or drop them. A text that differs
  between the two is not UTF-8, and is missing.
- **Timestamps in milliseconds beyond the range of microseconds.** DuckDB converts them while it reads, and raises an
  error. pyarrow reads them as they are. Without pyarrow, columns of such timestamps are not read at all.

Both read the file again, so it is done only after such an error. Columns of nested types are never read.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hush.data.tables.quoting import quote_name, quote_text
from hush.data.tables.table import connect, redact_errors
from hush.errors import InvalidArgument

_ROW_NUMBER = "file_row_number"
_NESTED = ("STRUCT", "MAP", "UNION", "VARIANT")
_UNREAD = "MILLISECONDS, WITHOUT PYARROW"  # a type that no query can use
_MOST = (2**63 - 1) // 1000  # milliseconds whose number of microseconds is one of 64 bits


class ParquetFile:
    """A Parquet file of which only the footer has been read.

    Attributes:
        path: The file.
        columns: The names of the columns.
        types: Their types, in DuckDB's words.
    """

    def __init__(self, path: Path, connection: Any = None) -> None:
        """Read the footer.

        Args:
            path: The file.
            connection: A connection of `hush.data.connect`; None for a new one, which takes time and memory.
        """
        self.path = path
        self._location = quote_text(plain_path(path))
        connection = connect() if connection is None else connection
        with redact_errors(path.name):
            rows = connection.execute(f"DESCRIBE SELECT * FROM read_parquet({self._location})").fetchall()
            in_milliseconds = connection.execute(
                f"SELECT name FROM parquet_schema({self._location}) WHERE converted_type = 'TIMESTAMP_MILLIS' "
                "OR logical_type LIKE '%(MILLIS=MilliSeconds%'"
            ).fetchall()
        self.columns, self.types = [str(row[0]) for row in rows], [str(row[1]) for row in rows]
        names = {str(name) for (name,) in in_milliseconds}
        self._milliseconds = [
            column
            for column, declared in zip(self.columns, self.types, strict=True)
            if column in names and declared.startswith("TIMESTAMP")
        ]
        if find_spec("pyarrow") is None:
            unread, self._milliseconds = self._milliseconds, []
            pairs = zip(self.columns, self.types, strict=True)
            self.types = [_UNREAD if column in unread else declared for column, declared in pairs]

    def query(self, row_id: str | None = None) -> str:
        """Return the query that reads the file. It fails if DuckDB cannot read a value.

        Args:
            row_id: The name of a further column with the number of each row; None for no such column.
        """
        reading = f"read_parquet({self._location})" if row_id is None else self._reading("strict")
        return f"SELECT {', '.join(self._items({}, row_id))} FROM {reading}"

    def tolerant_query(self, connection: Any, table: str, row_id: str | None = None) -> str:
        """Return a query that reads the file, with NULL in place of values that DuckDB cannot read.

        Args:
            connection: A DuckDB connection that may read the file.
            table: The name of a temporary table to create, which will list where text is not UTF-8.
            row_id: As for `query`.
        """
        texts = [column for column, declared in zip(self.columns, self.types, strict=True) if declared == "VARCHAR"]
        connection.execute(f"CREATE TEMP TABLE {table} (place INTEGER, line BIGINT)")
        items = {}
        for index, column in enumerate(texts):
            name = quote_name(column)
            connection.execute(
                f"INSERT INTO {table} SELECT {index}, {_ROW_NUMBER} FROM {self._reading('replace')} AS a "
                f"JOIN {self._reading('ignore')} AS b USING ({_ROW_NUMBER}) WHERE a.{name} <> b.{name}"
            )
            lines = f"(SELECT line FROM {table} WHERE place = {index})"
            items[column] = f"CASE WHEN {_ROW_NUMBER} NOT IN {lines} THEN {name} END"
        reading = self._reading("replace")
        if self._milliseconds:
            moments = f"{table}_moments"
            self._store_moments(connection, moments)
            items |= {column: f"m.m{index}" for index, column in enumerate(self._milliseconds)}
            reading = f"{reading} AS p JOIN {moments} AS m ON m.line = p.{_ROW_NUMBER}"
        return f"SELECT {', '.join(self._items(items, row_id))} FROM {reading}"

    def _store_moments(self, connection: Any, table: str) -> None:
        """Create a temporary table of the timestamps in milliseconds, in which those that are too large are NULL."""
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet

        rows = pyarrow.parquet.ParquetFile(self.path).read(columns=self._milliseconds)
        given = {"line": pyarrow.array(range(rows.num_rows), pyarrow.int64())}
        for index, column in enumerate(self._milliseconds):
            numbers = rows.column(column).cast(pyarrow.int64())
            # An operand that is missing is neither inside nor outside.
            is_inside = pyarrow.compute.and_(
                pyarrow.compute.greater_equal(numbers, -_MOST), pyarrow.compute.less_equal(numbers, _MOST)
            )
            given[f"m{index}"] = pyarrow.compute.if_else(is_inside, numbers, None)
        connection.register("hush_given", pyarrow.table(given))
        types = dict(zip(self.columns, self.types, strict=True))
        moments = [
            f"make_timestamp{'tz' if 'ZONE' in types[column] else ''}(1000 * m{index}) AS m{index}"
            for index, column in enumerate(self._milliseconds)
        ]
        connection.execute(f"DROP TABLE IF EXISTS temp.{table} CASCADE")
        connection.execute(f"CREATE TEMP TABLE {table} AS SELECT {', '.join(['line', *moments])} FROM hush_given")
        connection.unregister("hush_given")

    def _items(self, instead: dict[str, str], row_id: str | None) -> list[str]:
        """Return the items that select the columns, some of them from other places than the file."""
        items = []
        for column, declared in zip(self.columns, self.types, strict=True):
            name = quote_name(column)
            is_read = declared != _UNREAD and not declared.endswith("]") and not declared.startswith(_NESTED)
            items.append(f"{instead.get(column, name)} AS {name}" if is_read else f"NULL AS {name}")
        return [*items, f"{_ROW_NUMBER} AS {row_id}"] if row_id else items

    def _reading(self, validation: str) -> str:
        return f"read_parquet({self._location}, {_ROW_NUMBER}=true, utf8_validation='{validation}')"


def plain_path(path: Path) -> str:
    """Return a path without characters that DuckDB expands as a pattern, which could match other files."""
    if any(character in str(path) for character in "*?[]{}"):
        raise InvalidArgument("data", path.name, "a path without any of *?[]{}", "Rename the file")
    return str(path.resolve())
