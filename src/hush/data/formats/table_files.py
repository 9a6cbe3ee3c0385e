"""Files with tables: CSV, Excel, Parquet and arrays. Opening one reads names and declared types of columns only.

Each opener returns a `TableData` with a function that creates a table on a DuckDB connection. It runs when the rows
are needed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hush.data.formats.csv import ASSUMPTION, CsvFile
from hush.data.formats.parquet import ParquetFile
from hush.data.formats.records import Record
from hush.data.formats.worksheet import Worksheet
from hush.data.tables.table import UNTYPED, TableData
from hush.errors import InvalidArgument

CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET_ENDINGS = (".parquet", ".pq")
_EXCEL_ENDINGS = (".xlsx", ".xlsm")
_OTHER_SPREADSHEETS = (".xls", ".xlsb", ".ods", ".numbers")
DECIMAL_POINTS = (
    "in the CSV file, which has semicolons, 1.234 is a number between 1 and 2: if it is more than a thousand in some "
    "column, declare that column with decimal_comma"
)
TABLE_FILES = "a .csv, .tsv, .csv.gz, .xlsx or .parquet file"


class _TextFile(Protocol):
    """A file whose cells are text."""

    columns: list[str]

    def batches(self) -> Iterator[list[Record]]:
        """Yield the records."""


def open_table_file(
    path: Path,
    name: str,
    delimiter: str | None = None,
    decimal_comma: Sequence[str] = (),
    ids: Collection[str] = (),
    connection: Any = None,
) -> TableData | None:
    """Open a table file by its file-name ending; None for any other ending.

    Args:
        path: The file.
        name: The name that the caller used.
        delimiter: The separator of a CSV file; None for the most frequent one of the header.
        decimal_comma: The columns of a CSV file whose numbers have decimal commas.
        ids: The columns of ids in a CSV file, which stay as they are written.
        connection: A connection of `hush.data.connect` that may read a Parquet file; None for a new one.
    """
    file_name = path.name.lower()
    if file_name.endswith(CSV_ENDINGS):
        file = CsvFile(path, delimiter, decimal_comma, ids)
        is_clear = file.delimiter != ";" or bool(decimal_comma)
        with_ids = None
        if file.delimiter == ";" or decimal_comma:  # otherwise all cells stay as they are written

            def with_ids(names: Collection[str]) -> TableData | None:
                return open_table_file(path, name, delimiter, decimal_comma, names)

        return _text_table(name, file, (ASSUMPTION,) if is_clear else (ASSUMPTION, DECIMAL_POINTS), with_ids)
    if decimal_comma:
        raise InvalidArgument("decimal_comma", list(decimal_comma), "none, unless the data are a CSV file")
    if file_name.endswith(_EXCEL_ENDINGS):
        return _text_table(name, Worksheet(path), ("the table is the first worksheet of the workbook",))
    if file_name.endswith(PARQUET_ENDINGS):
        return open_parquet(path, name, connection)
    if file_name.endswith(_OTHER_SPREADSHEETS):
        raise InvalidArgument("data", name, TABLE_FILES, "Save the workbook as CSV UTF-8, or as .xlsx")
    return None


def _text_table(
    name: str,
    file: _TextFile,
    assumptions: tuple[str, ...],
    with_ids: Callable[[Collection[str]], TableData | None] | None = None,
) -> TableData:
    columns = [f"c{number}" for number in range(len(file.columns))]

    def fill(connection: Any, table: str) -> None:
        connection.execute(f"CREATE TEMP TABLE {table} ({', '.join(f'{column} VARCHAR' for column in columns)})")
        # Cast, because DuckDB gives a column without values another type.
        items = ", ".join(f"nullif(CAST({column} AS VARCHAR), '')" for column in columns)
        with _without_collection():
            for records in file.batches():
                cells = zip(columns, zip(*records, strict=True), strict=False)  # none, if there are no records
                given = {column: np.array(values, dtype=object) for column, values in cells}
                if given:
                    connection.register("hush_given", given)
                    connection.execute(f"INSERT INTO {table} SELECT {items} FROM hush_given")
                    connection.unregister("hush_given")

    return TableData(name, file.columns, [UNTYPED] * len(columns), fill, assumptions, with_ids=with_ids)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Pause Python's garbage collection. It would scan all records again and again, which doubles the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def open_parquet(path: Path, name: str, connection: Any = None) -> TableData:
    """Open a Parquet file. Only its footer is read here.

    Args:
        path: The file.
        name: The name that the caller used.
        connection: As for `open_table_file`.
    """
    file = ParquetFile(path, connection)
    columns = ", ".join(f"c{number}" for number in range(len(file.columns)))

    def fill(connection: Any, table: str) -> None:
        import duckdb

        try:
            connection.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM ({file.query()}) AS p({columns})")
        except (duckdb.InvalidInputException, duckdb.ConversionException):
            query = file.tolerant_query(connection, f"{table}_not_text")
            connection.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM ({query}) AS p({columns})")

    return TableData(name, file.columns, file.types, fill, file=file)


def from_arrays(
    name: str, columns: Sequence[str], types: Sequence[str], read: Callable[[], Sequence[NDArray[Any]]]
) -> TableData:
    """Return arrays, one per column, as a table.

    Args:
        name: The name that the caller used.
        columns: The names of the columns.
        types: Their types, in DuckDB's words.
        read: Returns the arrays. It is called when the rows are needed.
    """

    def fill(connection: Any, table: str) -> None:
        connection.register("hush_given", {f"c{number}": _encodable(array) for number, array in enumerate(read())})
        connection.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM hush_given")
        connection.unregister("hush_given")

    return TableData(name, columns, types, fill)


def _encodable(array: NDArray[Any]) -> NDArray[Any]:
    """Return text that UTF-8 can encode. Halves of surrogate pairs are replaced: one would stop the reading."""
    if array.dtype.kind != "U":
        return array
    try:
        np.char.encode(array, "utf-8")
        return array
    except UnicodeEncodeError:
        return np.array([str(text).encode("utf-8", "replace").decode() for text in array])
