"""DuckDB as the engine: files, Arrow, pandas and Polars in place, or a connection that there is."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hush.errors import InvalidArgument, Unsupported
from hush.sql.engines.engine import EngineFailed, wordless

_SETTINGS: Mapping[str, Any] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",  # rows do not outlive the process
    "pandas_analyze_sample": 0,  # the type of a pandas column is not guessed from values
}
ACCEPTED = (
    "a path (.parquet, .csv, .tsv), an Arrow table, a pandas or Polars data frame, a DuckDB relation or connection, a "
    "PostgreSQL address or connection, or a Spark data frame or session"
)
_LONGEST_HEADER = 1_000_000
_PART_ROWS, _MOST_PARTS = 900_000, 8  # a pass over a file costs time, pairs of units and groups cost memory
_NO_DELIMITER = "\x01\x02\x03"  # a line of a CSV file is read whole


_LINES = "each line of a CSV file belongs to the user that it names: no field contains a line break"


class DuckDBEngine:
    """Runs plans on DuckDB.

    Args:
        sources: For each table's name, where it is: a path (.parquet, .csv, .tsv), an Arrow table, a pandas or Polars
            data frame, or None for a table that the connection has.
        connection: A connection to use; tables of its database are read where they are. By default one in memory,
            which reads the given files and no others.

    Assumes:
        Names and declared types of columns are public: *the caller's duty*. Columns of a CSV file are text; each line
        is a record, also where quotes span several, or where a carriage return stands alone: *the caller's duty*. Lines
        with an odd number of quotes are dropped: *checked here*. On a connection that is given,
        built-in functions are not redefined: *the caller's duty*. Running times, and whether memory
        suffices, are not hidden: *the caller's duty*.
    """

    dialect = "duckdb"

    def __init__(self, sources: Mapping[str, Any] | None = None, *, connection: Any = None) -> None:
        """Register the sources; no rows are read."""
        given = dict(sources or {})
        lined = [each for each in given.values() if str(each).lower().endswith((".csv", ".tsv"))]
        self.assumptions: tuple[str, ...] = (_LINES,) if lined else ()
        self._connection = _connect() if connection is None else connection
        if connection is not None:
            self._check_collation()
        paths = [self._register(name, data) for name, data in given.items()]
        self._parquet = {name for name, path in zip(given, paths, strict=True) if path and _reads_parquet(path)}
        if connection is None:
            self._lock([str(path) for path in paths if path is not None])

    def columns(self, table: str) -> dict[str, str]:
        """Return the names and declared types of a table's columns."""
        with wordless():
            rows = self._connection.execute(f"DESCRIBE SELECT * FROM {quoted(table)}").fetchall()
        return {str(row[0]): str(row[1]) for row in rows}

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with wordless():
            found: list[tuple[Any, ...]] = self._connection.execute(sql).fetchall()
        return found

    def materialise(self, name: str, sql: str) -> None:
        """Store the rows of a query in a temporary table."""
        with wordless():
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {quoted(name)} AS {sql}")

    def append(self, name: str, sql: str) -> None:
        """Add the rows of a query to a temporary table."""
        with wordless():
            self._connection.execute(f"INSERT INTO temp.{quoted(name)} {sql}")

    def parts(self, table: str) -> int:
        """Return in how many parts units are bounded: several for large Parquet files, which are read quickly.

        Their number follows from the number of rows, and shows in running times only, which are not hidden anyway.
        """
        if table not in self._parquet:
            return 1
        with wordless():
            rows = int(self._connection.execute(f"SELECT COUNT(*) FROM {quoted(table)}").fetchall()[0][0])
        return max(1, min(_MOST_PARTS, math.ceil(rows / _PART_ROWS)))

    def drop(self, name: str) -> None:
        """Remove a temporary table."""
        with wordless():
            self._connection.execute(f"DROP TABLE IF EXISTS temp.{quoted(name)}")

    def _register(self, name: str, data: Any) -> Path | None:
        if data is None:
            return None
        if not isinstance(data, (str, Path)):
            self._register_frame(name, data)
            return None
        path = _plain(data)
        read = _READERS.get(path.suffix.lower())
        if read is None:
            raise InvalidArgument("data", path.name, "a file that ends in " + ", ".join(_READERS))
        try:
            with wordless():
                self._connection.execute(f"CREATE TEMP VIEW {quoted(name)} AS {read(path)}")
        except EngineFailed:
            raise InvalidArgument("data", path.name, "a file that can be read as what its name ends in") from None
        return path

    def _register_frame(self, name: str, data: Any) -> None:
        try:
            if isinstance(data, (list, tuple, dict)):
                raise EngineFailed  # DuckDB would take a dictionary for columns of NumPy
            with wordless():
                self._connection.register(name, data)
        except EngineFailed:
            kind = type(data).__name__
            raise InvalidArgument("data", kind, ACCEPTED, "Such as pandas.DataFrame(rows)") from None

    def _lock(self, paths: list[str]) -> None:
        """Leave the connection no file but those given. Plans name none anyway; this is a second wall."""
        listed = ", ".join(text(path) for path in paths)
        with wordless():
            self._connection.execute(f"SET allowed_paths = [{listed}]")
            self._connection.execute("SET enable_external_access = false")
            self._connection.execute("SET lock_configuration = true")

    def _check_collation(self) -> None:
        with wordless():
            found = self._connection.execute("SELECT current_setting('default_collation')").fetchall()[0][0]
        if found not in (None, "", "binary", "BINARY"):
            # Two units whose names a collation takes for equal would be bounded as one.
            raise Unsupported("the connection has a default collation", "Reset it: units are compared exactly")


def quoted(name: str) -> str:
    """Return a name, quoted."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return a text constant."""
    return "'" + value.replace("'", "''") + "'"


def _connect() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise Unsupported("this engine needs DuckDB", "pip install 'hush[sql]'") from None
    return duckdb.connect(config=dict(_SETTINGS))


def _plain(data: str | Path) -> Path:
    path = Path(data)
    if any(character in str(path) for character in "*?[]{}"):
        raise InvalidArgument("data", path.name, "a path without any of *?[]{}", "DuckDB reads them as patterns")
    if not path.is_file():
        raise InvalidArgument("data", path.name, "a file that exists")
    return path.resolve()


def _parquet(path: Path) -> str:
    return f"SELECT * FROM read_parquet({text(str(path))})"


def _csv(path: Path) -> str:
    """Return a CSV file as lines that are split one by one: a quote in one record cannot swallow others' records."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("rb") as file:  # bytes: a text file would decode, and could raise on, records behind the first line
        first = file.readline(_LONGEST_HEADER).decode("utf-8-sig", errors="replace")
    header = next(csv.reader([first.rstrip("\r\n")], delimiter=delimiter), [])
    names = [name.strip() for name in header]
    if not names or len({name.casefold() for name in names}) != len(names) or "" in names:
        raise InvalidArgument("data", path.name, "a file whose first line names its columns, each differently")
    pattern = text(delimiter + '("(?:[^"]|"")*"|[^' + delimiter + '"]*)')
    unquote = "CASE WHEN starts_with(f, '\"') THEN replace(substr(f, 2, length(f) - 2), '\"\"', '\"') ELSE f END"
    apart = f"list_transform(regexp_extract_all({text(delimiter)} || line, {pattern}, 1), lambda f: {unquote})"
    fields = f"CASE WHEN contains(line, '\"') THEN {apart} ELSE string_split(line, {text(delimiter)}) END"
    chosen = ", ".join(f"nullif(f[{place}], '') AS {quoted(name)}" for place, name in enumerate(names, 1))
    balanced = "(length(line) - length(replace(line, '\"', ''))) % 2 = 0"
    return (
        f"SELECT {chosen} FROM (SELECT {fields} AS f FROM (SELECT trim(line, chr(13) || chr(10)) AS line FROM read_csv("
        f"{text(str(path))}, auto_detect=false, header=false, columns={{'line': 'VARCHAR'}}, "
        f"delim={text(_NO_DELIMITER)}, "
        "quote='', escape='', skip=1, null_padding=true, ignore_errors=true, strict_mode=false)) "
        f"WHERE line <> '' AND {balanced})"
    )


def _reads_parquet(path: Path) -> bool:
    return _READERS[path.suffix.lower()] is _parquet


_READERS = {".parquet": _parquet, ".pq": _parquet, ".csv": _csv, ".tsv": _csv}
