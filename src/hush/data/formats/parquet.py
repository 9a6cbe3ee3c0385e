"""Parquet files. Text that is not UTF-8 counts as missing: it neither ends a query nor changes another value.

DuckDB raises an error if a text is not UTF-8, so a single record could make its whole column unusable. It can also
replace such bytes, or drop them. A text that differs between the two is not UTF-8, and is missing. This reads the file
twice, so it is done only after such an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hush.data.tables.quoting import quote_name, quote_text
from hush.data.tables.table import connect, redact_errors
from hush.errors import InvalidArgument

_ROW_NUMBER = "file_row_number"


class ParquetFile:
    """A Parquet file of which only the footer has been read.

    Attributes:
        path: The file.
        columns: The names of the columns.
        types: Their types, in DuckDB's words.
    """

    def __init__(self, path: Path) -> None:
        """Read the footer."""
        self.path = path
        self._location = quote_text(plain_path(path))
        with redact_errors(path.name):
            rows = connect().execute(f"DESCRIBE {self.query()}").fetchall()
        self.columns, self.types = [str(row[0]) for row in rows], [str(row[1]) for row in rows]

    def query(self, row_id: str | None = None) -> str:
        """Return the query that reads the file. It fails if a text is not UTF-8.

        Args:
            row_id: The name of a further column with the number of each row; None for no such column.
        """
        if row_id is None:
            return f"SELECT * FROM read_parquet({self._location})"
        return f"SELECT {self._items([], '', row_id)} FROM {self._reading('strict')}"

    def tolerant_query(self, connection: Any, table: str, row_id: str | None = None) -> str:
        """Return a query that reads the file, with NULL in place of text that is not UTF-8.

        Args:
            connection: A DuckDB connection that may read the file.
            table: The name of a temporary table to create, which will list where that text is.
            row_id: As for `query`.
        """
        texts = [column for column, declared in zip(self.columns, self.types, strict=True) if declared == "VARCHAR"]
        connection.execute(f"CREATE TEMP TABLE {table} (place INTEGER, line BIGINT)")
        for place, column in enumerate(texts):
            name = quote_name(column)
            connection.execute(
                f"INSERT INTO {table} SELECT {place}, {_ROW_NUMBER} FROM {self._reading('replace')} AS a "
                f"JOIN {self._reading('ignore')} AS b USING ({_ROW_NUMBER}) WHERE a.{name} <> b.{name}"
            )
        return f"SELECT {self._items(texts, table, row_id)} FROM {self._reading('replace')}"

    def _items(self, texts: list[str], table: str, row_id: str | None) -> str:
        items = []
        for column in self.columns:
            name = quote_name(column)
            if column in texts:
                places = f"(SELECT line FROM {table} WHERE place = {texts.index(column)})"
                items.append(f"CASE WHEN {_ROW_NUMBER} NOT IN {places} THEN {name} END AS {name}")
            else:
                items.append(name)
        return ", ".join([*items, f"{_ROW_NUMBER} AS {row_id}"] if row_id else items)

    def _reading(self, validation: str) -> str:
        return f"read_parquet({self._location}, {_ROW_NUMBER}=true, utf8_validation='{validation}')"


def plain_path(path: Path) -> str:
    """Return a path without characters that DuckDB expands as a pattern, which could match other files."""
    if any(character in str(path) for character in "*?[]{}"):
        raise InvalidArgument("data", path.name, "a path without any of *?[]{}", "Rename the file")
    return str(path.resolve())
