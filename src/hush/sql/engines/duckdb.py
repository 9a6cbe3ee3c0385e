"""DuckDB as the engine: files, Arrow tables and data frames in place, or your own connection.

Files are read as `hush.data` reads them for training. A CSV file or a worksheet is loaded by `load` before the first
query: a damaged file is refused there, before anything is charged. Its columns are text. No type is inferred from
values: a column with bounds is read as numbers, and what is not a number is NULL. A Parquet file is read where it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hush.data import ParquetFile, TableData, connect, open_table_file, quote_name, quote_text
from hush.errors import InvalidArgument, Unsupported
from hush.sql.engines.data_identity import ContentKey, Identity, file_identity
from hush.sql.engines.engine import EngineFailed, redact_errors
from hush.sql.engines.frames import is_frame, with_text_columns, with_valid_moments, with_valid_texts

ACCEPTED = (
    "a path (.parquet, .csv, .tsv, .csv.gz, .xlsx), an Arrow table, a pandas or Polars data frame, a DuckDB "
    "connection, a PostgreSQL address or connection, a Spark data frame or session, or an engine or connection of "
    "SQLAlchemy or ADBC"
)
ROW_ID = "hush_row"
_COMMAS = "VARCHAR WITH DECIMAL COMMAS"
# More parts of a view take more passes over the file, fewer take more memory. Both grow with the root of the number of
# rows, over this one.
_PART_ROWS, _MAX_PARTS = 200_000, 16
# Everything of a name: a temporary table or a view may stand before a table. The path is NULL for databases in memory.
_DATABASE_OF = """
SELECT CASE WHEN NOT t.temporary THEN d.path END, t.schema_name
FROM duckdb_tables() AS t JOIN duckdb_databases() AS d USING (database_oid) WHERE lower(t.table_name) = lower($1)
UNION ALL SELECT NULL, v.schema_name FROM duckdb_views() AS v WHERE lower(v.view_name) = lower($1)
"""
_UNREADABLE = ("InvalidInputException", "ConversionException")  # errors over a value of a Parquet file
# What reads anything but stored tables: SQLITE_SCAN, PYTHON_ARROW_SCAN, READ_CSV_AUTO and others.
_UNCHECKED = re.compile(r'"name": "((?!(?:SEQ|INDEX|COLUMN_DATA|DUMMY|DELIM|CTE|REC_CTE)_SCAN)\w*SCAN\w*|READ_\w+) *"')
_COLLATED = re.compile(r'("(?:[^"]|"")*"|\w+) VARCHAR COLLATE', re.IGNORECASE)


class DuckDBEngine:
    """Runs plans on DuckDB.

    Args:
        data: The data of each table, by name: a path (.parquet, .csv, .tsv, .csv.gz, .xlsx), an Arrow table, a
            pandas or Polars data frame, or None for a table that the connection has.
        connection: Your connection. Tables of its database are read where they are. By default, a new connection in
            memory that can read these files and no others.

    Assumes:
        Names and declared types of columns are public: *the caller's duty*. CSV files quote cells that hold quotes,
        separators or line breaks: *the caller's duty*. Built-in functions of your connection are not redefined; views
        of it compare texts byte by byte, and compute row by row without errors: *the caller's duty*. Its tables are
        stored, and not read from files or data frames in each query: *checked here*. Running times, and whether memory
        suffices, are not hidden: *the caller's duty*.
    """

    dialect = "duckdb"

    def __init__(self, data: Mapping[str, Any] | None = None, *, connection: Any = None) -> None:
        """Register the data. No rows are read."""
        self._is_yours = connection is not None
        self._connection = connection if self._is_yours else connect()
        self._paths: dict[str, Path] = {}
        self._files: dict[str, TableData] = {}  # read into memory by `load`
        self._parquet: dict[str, ParquetFile] = {}
        self._frames: dict[str, Any] = {}
        self._commas: dict[str, tuple[str, ...]] = {}
        self._ids: dict[str, set[str]] = {}
        self._loaded: set[str] = set()
        self._tolerant: set[str] = set()
        self._numbered: set[str] = set()
        if self._is_yours:
            self._check_collation()
        for name, table in dict(data or {}).items():
            self._register(name, table)
        if not self._is_yours:
            self._lock([str(file.path.resolve()) for file in self._parquet.values()])

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed about the files."""
        return tuple(dict.fromkeys(line for file in self._files.values() for line in file.file_assumptions))

    def columns(self, table: str) -> dict[str, str]:
        """Return the declared type of each of a table's columns. Columns of a CSV file or a worksheet are text."""
        if table in self._files:
            commas = self._commas.get(table, ())
            return {name: _COMMAS if name in commas else "VARCHAR" for name in self._files[table].columns or ()}
        if table in self._parquet:
            file = self._parquet[table]
            return dict(zip(file.columns, file.types, strict=True))
        with redact_errors():
            origin = _frame_name(table) if table in self._frames and table in self._numbered else quote_name(table)
            rows = self._connection.execute(f"DESCRIBE SELECT * FROM {origin}").fetchall()
            collated = self._collated_columns(table)
        if table not in self._frames:
            check_values_are_stored(table, self.run)
        return {str(row[0]): "VARCHAR COLLATE" if row[0] in collated else str(row[1]) for row in rows}

    def read_decimal_commas(self, table: str, columns: Sequence[str]) -> None:
        """Read these columns of a CSV file as numbers with decimal commas. Their declared type says so."""
        self._read_cells(table, tuple(columns), self._ids.get(table, set()))

    def read_ids(self, table: str, columns: Sequence[str]) -> None:
        """Read these columns of a CSV file as they are written, so that no two ids are read as one number."""
        if table in self._files:
            self._read_cells(table, self._commas.get(table, ()), self._ids.get(table, set()).union(columns))

    def _read_cells(self, table: str, commas: tuple[str, ...], ids: set[str]) -> None:
        file = None
        if table in self._files:
            path = self._paths[table]
            file = open_table_file(path, path.name, decimal_comma=commas, ids=ids)
        if file is None:
            raise InvalidArgument("decimal_comma", list(commas), "none, unless the data are a CSV file")
        self._files[table], self._commas[table], self._ids[table] = file, commas, ids
        self._loaded.discard(table)

    def row_id(self, table: str) -> tuple[str, str]:
        """Return the name and type of a column that no two rows share, for tables whose rows are the units."""
        if table in self._files or table in self._parquet or table in self._frames:
            if any(column.casefold() == ROW_ID for column in self.columns(table)):
                raise InvalidArgument("column", ROW_ID, "another name", "hush numbers the rows by it")
            self._numbered.add(table)
            if table in self._frames:
                with redact_errors():
                    self._connection.unregister(table)
                    self._connection.register(_frame_name(table, quoted=False), self._frames[table])
            self.forget()
            return ROW_ID, "BIGINT"
        try:
            with redact_errors():
                self._connection.execute(f"SELECT rowid FROM {quote_name(table)} LIMIT 0")
        except EngineFailed:
            advice = "Pass a file or a table of a DuckDB connection, or add a column of row numbers"
            raise Unsupported("rows of a view have no number", advice) from None
        return "rowid", "BIGINT"

    def identity(self, table: str) -> Identity | None:
        """Return the identity of a file, or of a table in a database file.

        None for data in memory, for views, and in an open transaction, whose changes are in no file yet.
        """
        path = self._paths.get(table)
        if path is not None:
            return file_identity(path)
        if table in self._frames:
            return None
        with redact_errors():
            rows = self._connection.execute(_DATABASE_OF, [table]).fetchall()
            # Outside of a transaction, each statement has one of its own.
            transactions = {self._connection.execute("SELECT txid_current()").fetchone() for _ in range(2)}
        if len(transactions) == 1 or len(rows) != 1 or rows[0][0] is None or not Path(rows[0][0]).is_file():
            return None
        (database, schema), log = rows[0], Path(f"{rows[0][0]}.wal")
        identity = file_identity(Path(database), log)
        return {**identity, "where": f"{identity['where']}, {schema}.{table}"}

    def content_hash(self, table: str, key: ContentKey) -> str:
        """Return the keyed hash of a file's bytes, or of a data frame's rows."""
        path = self._paths.get(table)
        if path is not None:
            return key.hash_file(path)
        if table not in self._frames:
            advice = "Pass a file or a data frame, or leave the key out"
            raise Unsupported("a hash of the content of tables in a database: their rows have no order", advice)
        with redact_errors():
            name = _frame_name(table) if table in self._numbered else quote_name(table)
            columns, rows = self.columns(table), self._connection.execute(f"SELECT * FROM {name}")
            return key.hash_rows(columns, iter(rows.fetchone, None))

    def load(self) -> None:
        """Read CSV files and worksheets into memory, if that was not done yet. One that is damaged is refused."""
        for number, (name, file) in enumerate(self._files.items()):
            if name in self._loaded:
                continue
            rows, columns = f"hush_rows_{number}", file.columns or ()
            with redact_errors():
                self._connection.execute(f"DROP TABLE IF EXISTS temp.{rows} CASCADE")
                file.fill(self._connection, rows)
                items = ", ".join(f"c{index} AS {quote_name(column)}" for index, column in enumerate(columns))
                number_item = f", rowid AS {ROW_ID}" if name in self._numbered else ""
                self._view(name, f"SELECT {items}{number_item} FROM temp.{rows}")
            self._loaded.add(name)
        for name in self._numbered.intersection(self._frames) - self._loaded:
            numbered = f"SELECT *, ROW_NUMBER() OVER () AS {ROW_ID} FROM {_frame_name(name)}"
            with redact_errors():
                self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {quote_name(name)} AS {numbered}")
            self._loaded.add(name)

    def forget(self) -> None:
        """Read files again before the next query."""
        self._loaded.clear()
        self._tolerant.clear()
        for name, file in self._parquet.items():
            self._view(name, file.query(self._row_number(name)))

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        rows: list[tuple[Any, ...]] = self._execute(lambda: self._connection.execute(sql).fetchall())
        return rows

    def materialise(self, name: str, sql: str) -> None:
        """Store the rows of a query in a temporary table."""
        self._execute(lambda: self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {quote_name(name)} AS {sql}"))
        self._return_memory()

    def append(self, name: str, sql: str) -> None:
        """Add the rows of a query to a temporary table."""
        self._execute(lambda: self._connection.execute(f"INSERT INTO temp.{quote_name(name)} {sql}"))

    def parts(self, table: str) -> int:
        """Return in how many parts, a power of two, to bound units: several for large Parquet files, fast to read.

        It depends on the number of rows, but affects running times only, which are not hidden anyway.
        """
        if table not in self._parquet:
            return 1
        ((rows,),) = self.run(f"SELECT COUNT(*) FROM {quote_name(table)}")
        return int(min(_MAX_PARTS, 2 ** max(0, math.ceil(math.log2(max(rows, 1) / _PART_ROWS) / 2))))

    def drop(self, name: str) -> None:
        """Remove a temporary table."""
        with redact_errors():
            self._connection.execute(f"DROP TABLE IF EXISTS temp.{quote_name(name)}")
        self._return_memory()

    def _execute(self, statement: Callable[[], Any]) -> Any:
        """Run a statement. If it fails over a value of a Parquet file that DuckDB cannot read, such values are NULL."""
        self.load()
        with redact_errors():
            try:
                return statement()
            except Exception as error:
                strict = set(self._parquet) - self._tolerant
                if type(error).__name__ not in _UNREADABLE or not strict:
                    raise
                for number, name in enumerate(self._parquet):
                    if name in strict:
                        listed = f"hush_not_text_{number}"
                        self._connection.execute(f"DROP TABLE IF EXISTS temp.{listed} CASCADE")
                        self._view(
                            name, self._parquet[name].tolerant_query(self._connection, listed, self._row_number(name))
                        )
                        self._tolerant.add(name)
                return statement()

    def _register(self, name: str, data: Any) -> None:
        """Make a table's data available under its name."""
        if data is None:
            return
        if not isinstance(data, (str, Path)):
            self._register_frame(name, data)
            return
        path = Path(data)
        if not path.is_file():
            raise InvalidArgument("data", path.name, "an existing file")
        file = open_table_file(path, path.name, connection=None if self._is_yours else self._connection)
        if file is None:
            raise InvalidArgument("data", path.name, ACCEPTED)
        self._paths[name] = path
        if isinstance(file.file, ParquetFile):
            self._parquet[name] = file.file
            self._view(name, file.file.query())
        else:
            self._files[name] = file

    def _row_number(self, name: str) -> str | None:
        """Return the name of the column of row numbers; None if nothing needs it."""
        return ROW_ID if name in self._numbered else None

    def _view(self, name: str, query: str) -> None:
        with redact_errors():
            self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {quote_name(name)} AS {query}")

    def _register_frame(self, name: str, data: Any) -> None:
        """Register a data frame or an Arrow table, which DuckDB reads in place."""
        try:
            if not is_frame(data):
                raise EngineFailed  # DuckDB would read a dictionary as columns of NumPy
            with redact_errors():
                frame = with_valid_moments(with_valid_texts(data))
                self._frames[name] = with_text_columns(frame) if self._is_yours else frame
                self._connection.register(name, self._frames[name])
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
            # For `_return_memory`. The text is rounded down: read again after it is set, it would shrink each time.
            ((limit,),) = self._connection.execute("SELECT current_setting('memory_limit')").fetchall()
            self._memory_limit = str(limit)
            self._connection.execute("SET allowed_configs = ['memory_limit']")
            self._connection.execute("SET lock_configuration = true")

    def _return_memory(self) -> None:
        """Give what a query has freed back to the system. DuckDB does so when its limit is set, be it the same one."""
        if not self._is_yours:
            with redact_errors():
                self._connection.execute(f"SET memory_limit = {quote_text(self._memory_limit)}")

    def _check_collation(self) -> None:
        """Refuse a connection whose default collation is not binary."""
        with redact_errors():
            collation = self._connection.execute("SELECT current_setting('default_collation')").fetchall()[0][0]
        if collation not in (None, "", "binary", "BINARY"):
            # Two units whose ids are equal under the collation would be bounded as one.
            raise Unsupported("the connection has a default collation", "Reset it, so that units are compared exactly")

    def _collated_columns(self, table: str) -> set[str]:
        """Return the columns of a table that are not compared byte by byte."""
        query = "SELECT sql FROM duckdb_tables() WHERE lower(table_name) = lower(?)"
        definitions = self._connection.execute(query, [table]).fetchall()
        return set().union(*(collated_names(sql or "") for (sql,) in definitions))


def check_values_are_stored(table: str, run: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """Refuse what reads values unchecked: a data frame that was registered, or a view of a file.

    Types of data frames, CSV and JSON files are guessed from values, so one record could decide how all others are
    read. A text that is not UTF-8 in an Arrow table or a Parquet file would end each query, and so would one in a
    column of numbers of SQLite.

    Args:
        table: The name of the table.
        run: Returns the rows of a query.
    """
    ((_, plan),) = run(f"EXPLAIN (FORMAT JSON) SELECT * FROM {quote_name(table)}")
    if scan := _UNCHECKED.search(plan):
        reads = "data frame" if scan[1].endswith(("PANDAS_SCAN", "ARROW_SCAN")) else "file"
        what = f"{table} reads a {reads} whose values are not checked: one record could end each query"
        raise Unsupported(what, f"Pass the {reads} itself, or create a table from it")


def collated_names(definition: str) -> set[str]:
    """Return the columns with a collation in the text that defines a table."""
    names = _COLLATED.findall(definition)
    return {name[1:-1].replace('""', '"') if name.startswith('"') else name for name in names}


def _frame_name(table: str, *, quoted: bool = True) -> str:
    """Return the name under which a data frame is registered whose rows are numbered."""
    name = f"hush_frame_{table}"
    return quote_name(name) if quoted else name
