"""DuckDB as the engine: files, Arrow tables and data frames in place, or your own connection.

A CSV file is not read by DuckDB's CSV reader. Its sniffing looks at values, and a quote in one record could swallow the
records of other people. Each line is read as one text and split by a regular expression (`_csv_query`).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hush.errors import InvalidArgument, Unsupported
from hush.sql.engines.engine import EngineFailed, redact_errors

_SETTINGS: Mapping[str, Any] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",  # rows are not written to disk
    "pandas_analyze_sample": 0,  # a pandas column's type is not guessed from its values
}
ACCEPTED = (
    "a path (.parquet, .csv, .tsv), an Arrow table, a pandas or Polars data frame, a DuckDB relation or connection, a "
    "PostgreSQL address or connection, or a Spark data frame or session"
)
_MAX_HEADER_LENGTH = 1_000_000
# A view is built in parts of this many rows: more parts take more passes over the file, fewer take more memory.
_PART_ROWS, _MAX_PARTS = 900_000, 8
_NO_DELIMITER = "\x01\x02\x03"  # hardly ever in a text: the CSV reader returns complete lines
_CSV_ASSUMPTION = "each line of a CSV file belongs to the user that it names: no field contains a line break"


class DuckDBEngine:
    """Runs plans on DuckDB.

    Args:
        sources: The data of each table, by name: a path (.parquet, .csv, .tsv), an Arrow table, a pandas or Polars data
            frame, or None for a table that the connection has.
        connection: Your connection. Tables of its database are read where they are. By default, a new connection in
            memory that can read these files and no others.

    Assumes:
        Names and declared types of columns are public: *the caller's duty*. Columns of a CSV file are text, and each
        line is a record, even if quotes span several lines or a carriage return stands alone: *the caller's duty*.
        Lines with an odd number of quotes are dropped: *checked here*. Built-in functions of your connection are not
        redefined: *the caller's duty*. Running times, and whether memory suffices, are not hidden: *the caller's duty*.
    """

    dialect = "duckdb"

    def __init__(self, sources: Mapping[str, Any] | None = None, *, connection: Any = None) -> None:
        """Register the sources. No rows are read."""
        data_of = dict(sources or {})
        has_csv = any(str(data).lower().endswith((".csv", ".tsv")) for data in data_of.values())
        self.assumptions: tuple[str, ...] = (_CSV_ASSUMPTION,) if has_csv else ()
        self._connection = connect() if connection is None else connection
        if connection is not None:
            self._check_collation()
        paths = [self._register(name, data) for name, data in data_of.items()]
        self._parquet = {name for name, path in zip(data_of, paths, strict=True) if path and _is_parquet(path)}
        if connection is None:
            self._lock([str(path) for path in paths if path is not None])

    def columns(self, table: str) -> dict[str, str]:
        """Return the declared type of each of a table's columns."""
        with redact_errors():
            rows = self._connection.execute(f"DESCRIBE SELECT * FROM {quote_name(table)}").fetchall()
        return {str(row[0]): str(row[1]) for row in rows}

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with redact_errors():
            rows: list[tuple[Any, ...]] = self._connection.execute(sql).fetchall()
        return rows

    def materialise(self, name: str, sql: str) -> None:
        """Store the rows of a query in a temporary table."""
        with redact_errors():
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {quote_name(name)} AS {sql}")

    def append(self, name: str, sql: str) -> None:
        """Add the rows of a query to a temporary table."""
        with redact_errors():
            self._connection.execute(f"INSERT INTO temp.{quote_name(name)} {sql}")

    def parts(self, table: str) -> int:
        """Return the number of parts in which to bound units: several for large Parquet files, which are fast to read.

        It depends on the number of rows, but affects running times only, which are not hidden anyway.
        """
        if table not in self._parquet:
            return 1
        with redact_errors():
            rows = int(self._connection.execute(f"SELECT COUNT(*) FROM {quote_name(table)}").fetchall()[0][0])
        return max(1, min(_MAX_PARTS, math.ceil(rows / _PART_ROWS)))

    def drop(self, name: str) -> None:
        """Remove a temporary table."""
        with redact_errors():
            self._connection.execute(f"DROP TABLE IF EXISTS temp.{quote_name(name)}")

    def _register(self, name: str, data: Any) -> Path | None:
        """Make a table's data available under its name. Return the path, if the data are a file."""
        if data is None:
            return None
        if not isinstance(data, (str, Path)):
            self._register_frame(name, data)
            return None
        path = _checked_path(data)
        query = _READERS.get(path.suffix.lower())
        if query is None:
            raise InvalidArgument("data", path.name, "a file that ends in " + ", ".join(_READERS))
        try:
            with redact_errors():
                self._connection.execute(f"CREATE TEMP VIEW {quote_name(name)} AS {query(path)}")
        except EngineFailed:
            raise InvalidArgument("data", path.name, f"a readable {path.suffix.lower()} file") from None
        return path

    def _register_frame(self, name: str, data: Any) -> None:
        """Register a data frame or an Arrow table, which DuckDB reads in place."""
        try:
            if isinstance(data, (list, tuple, dict)):
                raise EngineFailed  # DuckDB would read a dictionary as columns of NumPy
            with redact_errors():
                self._connection.register(name, data)
        except EngineFailed:
            raise InvalidArgument(
                "data", type(data).__name__, ACCEPTED, "For example, pass pandas.DataFrame(rows)"
            ) from None

    def _lock(self, paths: list[str]) -> None:
        """Let the connection read these files and no others. Plans name no files; this is a second line of defence."""
        listed = ", ".join(quote_text(path) for path in paths)
        with redact_errors():
            self._connection.execute(f"SET allowed_paths = [{listed}]")
            self._connection.execute("SET enable_external_access = false")
            self._connection.execute("SET lock_configuration = true")

    def _check_collation(self) -> None:
        """Refuse a connection whose default collation is not binary."""
        with redact_errors():
            collation = self._connection.execute("SELECT current_setting('default_collation')").fetchall()[0][0]
        if collation not in (None, "", "binary", "BINARY"):
            # Two units whose ids are equal under the collation would be bounded as one.
            raise Unsupported("the connection has a default collation", "Reset it, so that units are compared exactly")


def quote_name(name: str) -> str:
    """Return a quoted name, as DuckDB and PostgreSQL write it."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(value: str) -> str:
    """Return a text constant, as DuckDB and PostgreSQL write it."""
    return "'" + value.replace("'", "''") + "'"


def connect() -> Any:
    """Return a new DuckDB connection in memory that loads no extensions and writes nothing to disk."""
    try:
        import duckdb
    except ModuleNotFoundError:
        raise Unsupported("this engine needs DuckDB", "pip install 'hush[sql]'") from None
    return duckdb.connect(config=dict(_SETTINGS))


def _checked_path(data: str | Path) -> Path:
    """Return the absolute path of an existing file."""
    path = Path(data)
    if any(character in str(path) for character in "*?[]{}"):
        raise InvalidArgument("data", path.name, "a path without any of *?[]{}", "DuckDB would read it as a pattern")
    if not path.is_file():
        raise InvalidArgument("data", path.name, "an existing file")
    return path.resolve()


def _parquet_query(path: Path) -> str:
    """Return the query that reads a Parquet file."""
    return f"SELECT * FROM read_parquet({quote_text(str(path))})"


def _csv_query(path: Path) -> str:
    """Return the query that reads a CSV file line by line, so that a quote affects its own record only."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("rb") as file:  # in text mode, Python would decode records after the first line, and could raise
        first_line = file.readline(_MAX_HEADER_LENGTH).decode("utf-8-sig", errors="replace")
    header = next(csv.reader([first_line.rstrip("\r\n")], delimiter=delimiter), [])
    names = [name.strip() for name in header]
    if not names or len({name.casefold() for name in names}) != len(names) or "" in names:
        raise InvalidArgument("data", path.name, "a file whose first line has a distinct name for each column")
    # A field is a quoted text, with quotes doubled, or a text without quotes.
    pattern = quote_text(delimiter + '("(?:[^"]|"")*"|[^' + delimiter + '"]*)')
    unquote = "CASE WHEN starts_with(f, '\"') THEN replace(substr(f, 2, length(f) - 2), '\"\"', '\"') ELSE f END"
    matches = f"regexp_extract_all({quote_text(delimiter)} || line, {pattern}, 1)"
    split = f"string_split(line, {quote_text(delimiter)})"  # much faster, for lines without quotes
    fields = f"CASE WHEN contains(line, '\"') THEN list_transform({matches}, lambda f: {unquote}) ELSE {split} END"
    columns = ", ".join(f"nullif(f[{position}], '') AS {quote_name(name)}" for position, name in enumerate(names, 1))
    balanced = "(length(line) - length(replace(line, '\"', ''))) % 2 = 0"
    return (
        f"SELECT {columns} FROM (SELECT {fields} AS f FROM (SELECT trim(line, chr(13) || chr(10)) AS line FROM "
        f"read_csv({quote_text(str(path))}, auto_detect=false, header=false, columns={{'line': 'VARCHAR'}}, "
        f"delim={quote_text(_NO_DELIMITER)}, "
        "quote='', escape='', skip=1, null_padding=true, ignore_errors=true, strict_mode=false)) "
        f"WHERE line <> '' AND {balanced})"
    )


def _is_parquet(path: Path) -> bool:
    """Return whether a file is read as Parquet."""
    return _READERS[path.suffix.lower()] is _parquet_query


_READERS = {".parquet": _parquet_query, ".pq": _parquet_query, ".csv": _csv_query, ".tsv": _csv_query}
