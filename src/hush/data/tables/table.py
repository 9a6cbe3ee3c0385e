"""Tables, read by DuckDB. Every value is text, or of the type that the file declares: no type is guessed from values.

A `TableData` is a table in a file whose columns are known and whose rows are not read yet; its `RowTable` has the
rows in memory. A `RowTable` treats every row on its own, so no record affects how another one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.data.tables.raw_data import RawData
from hush.errors import InvalidArgument, Unsupported

UNTYPED, NUMBER, DATE, TEXT, OTHER = "untyped", "number", "date", "text", "other"

_TYPES = {
    NUMBER: (
        *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN"),
        *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
    ),
    DATE: ("DATE", "TIMESTAMP"),
    TEXT: ("VARCHAR", "ENUM", "UUID"),
}
_FRACTIONAL = ("FLOAT", "DOUBLE", "DECIMAL")
# Of dates that are not written as in ISO 8601: with dots the day comes first, with slashes the month, as in the US.
_DATE_FORMATS = str(
    [
        f"{date}{time}"
        for date in ("%d.%m.%Y", "%m/%d/%Y", "%d-%b-%Y", "%b %d, %Y")
        for time in ("", " %H:%M", " %H:%M:%S")
    ]
)
_MISSING = "('', 'na', 'n/a', 'nan', 'null', 'none')"
_TRUE, _FALSE = "('1', '1.0', 'true', 'yes', 't', 'y')", "('0', '0.0', 'false', 'no', 'f', 'n')"


class RowTable:
    """The rows of a table in memory, in the order of the file.

    Attributes:
        num_rows: The number of rows.
    """

    def __init__(self, connection: Any, columns: Sequence[str], types: Sequence[str]) -> None:
        """Take over a connection.

        Args:
            connection: A DuckDB connection that has a table ``t`` with the columns c0, c1, ...
            columns: The names of these columns.
            types: Their declared types.
        """
        self._connection = connection
        self._positions = {name: position for position, name in enumerate(columns)}
        self._types = types
        self.num_rows = int(connection.execute("SELECT count(*) FROM t").fetchall()[0][0])

    def floats(self, names: Sequence[str]) -> list[NDArray[np.float64]]:
        """Return columns as numbers, with NaN for everything else."""
        if not names:
            return []
        numbers = ", ".join(f"CAST({self._number(name)} AS DOUBLE) AS v{index}" for index, name in enumerate(names))
        arrays = self._arrays(f"SELECT {numbers} FROM t")
        return [_filled(arrays[f"v{index}"], np.nan) for index in range(len(names))]

    def moments(self, names: Sequence[str]) -> list[NDArray[np.float64]]:
        """Return columns of dates or moments as days since 1970, with NaN for everything else."""
        if not names:
            return []
        days = ", ".join(f"{self._days(name)} AS v{index}" for index, name in enumerate(names))
        arrays = self._arrays(f"SELECT {days} FROM t")
        return [_filled(arrays[f"v{index}"], np.nan) for index in range(len(names))]

    def date_columns(self, names: Sequence[str], unit: str | None = None) -> list[str]:
        """Return which of these columns hold dates: more than half of all rows have one.

        Args:
            names: The columns.
            unit: The column of the privacy unit. With it, the first row of each unit counts, and no other: a person
                with many rows decides no more than any other person.
        """
        return self._majorities(names, self._days, unit)

    def text_columns(self, names: Sequence[str], unit: str | None = None) -> list[str]:
        """Return which of these columns hold text: more than half of all rows have a value that is not a number.

        The share is of all rows, not of those with a value. Otherwise, a single person could decide the type of a
        column that few people filled in. The arguments are those of `date_columns`.
        """
        return self._majorities(names, self._not_number, unit)

    def other_columns(self, names: Sequence[str], unit: str | None = None) -> list[str]:
        """Return which of these columns are no truth values: more than half of all rows have another value.

        The arguments are those of `date_columns`.
        """
        return self._majorities(names, self._no_truth, unit)

    def _majorities(self, names: Sequence[str], counted: Callable[[str], str], unit: str | None) -> list[str]:
        """Return the columns in which an expression is not NULL in more than half of the rows that count."""
        if not names:
            return []
        rows = "t" if unit is None else f"t SEMI JOIN ({self._first_rows(unit)}) AS u ON t.rowid = u.r"
        counts = ", ".join(f"count({counted(name)})" for name in names)
        ((num_rows, *majorities),) = self._rows(f"SELECT count(*), {counts} FROM {rows}")
        return [name for name, count in zip(names, majorities, strict=True) if 2 * count > num_rows]

    def _first_rows(self, unit: str) -> str:
        """Return the SQL of the first row of each unit. Rows without a unit belong to nobody, and are left out."""
        text = self._text(unit)
        return f"SELECT min(t.rowid) AS r FROM t WHERE {text} IS NOT NULL GROUP BY {text}"

    def texts(self, name: str) -> NDArray[np.object_]:
        """Return a column as trimmed text, which is empty where the value is missing."""
        values = self._arrays(f"SELECT coalesce({self._text(name)}, '') AS value FROM t")["value"]
        return _filled(values, "")

    def codes(self, name: str, values: Sequence[str]) -> NDArray[np.int64]:
        """Return the position of each row's value among these, or -1."""
        codes = np.full(self.num_rows, -1, dtype=np.int64)
        # Joined with the unnested list, rather than searched in it: thousands of values cost no more than two.
        query = (
            "SELECT t.rowid AS r, v.i - 1 AS i FROM t JOIN (SELECT unnest($1::VARCHAR[]) AS v, "
            f"generate_subscripts($1::VARCHAR[], 1) AS i) AS v ON {self._text(name)} = v.v"
        )
        matches = self._arrays(query, [list(values)])
        codes[np.asarray(matches["r"])] = np.asarray(matches["i"])
        return codes

    def counts(self, name: str, chosen: NDArray[np.bool_]) -> dict[str, int]:
        """Return how often each value occurs in the chosen rows, in alphabetical order."""
        self._connection.register("chosen", {"c": chosen})
        query = (
            f"SELECT value, count(*) FROM (SELECT {self._text(name)} AS value, chosen.c AS c FROM t "
            "POSITIONAL JOIN chosen) WHERE c AND value IS NOT NULL GROUP BY value ORDER BY value"
        )
        counts = {str(value): int(count) for value, count in self._rows(query)}
        self._connection.unregister("chosen")
        return counts

    def num_values(self, name: str) -> int:
        """Return how many distinct values a column has."""
        ((count,),) = self._rows(f"SELECT count(DISTINCT {self._text(name)}) FROM t")
        return int(count)

    def hashes(self, name: str, key: bytes) -> tuple[NDArray[np.int64], ...]:
        """Return three independent 60-bit numbers per row, from a keyed hash of a column; -1 where it is missing.

        The hash is SHA-256 of the key and the text. Without the key, the numbers cannot be predicted.

        Args:
            name: The column.
            key: 32 secret bytes.
        """
        parts = ", ".join(
            f"coalesce(CAST('0x' || substr(h, {1 + 15 * part}, 15) AS BIGINT), -1) AS h{part}" for part in range(3)
        )
        query = f"SELECT {parts} FROM (SELECT sha256($1 || {self._text(name)}) AS h FROM t)"
        arrays = self._arrays(query, [key.hex()])
        return tuple(np.asarray(arrays[f"h{part}"], dtype=np.int64) for part in range(3))

    def words(self, name: str, vocabulary: Sequence[str]) -> NDArray[np.float32]:
        """Return how often each word of the vocabulary occurs in each row: [rows, words]."""
        counts = np.zeros((self.num_rows, len(vocabulary)), dtype=np.float32)
        split = f"unnest(string_split_regex(lower({self._text(name)}), '[^\\p{{L}}\\p{{N}}]+'))"
        query = (
            f"SELECT w.r AS r, v.i - 1 AS i, count(*) AS n FROM (SELECT t.rowid AS r, {split} AS w FROM t) AS w "
            "JOIN (SELECT unnest($1::VARCHAR[]) AS v, generate_subscripts($1::VARCHAR[], 1) AS i) AS v ON w.w = v.v "
            "GROUP BY ALL"
        )
        matches = self._arrays(query, [list(vocabulary)])
        counts[np.asarray(matches["r"]), np.asarray(matches["i"])] = np.asarray(matches["n"])
        return counts

    def hashed_words(self, name: str, num_features: int) -> NDArray[np.float32]:
        """Return how many words of each row have each hash: [rows, num_features].

        The hash is public, so the inputs are those of the row alone.
        """
        counts = np.zeros((self.num_rows, num_features), dtype=np.float32)
        split = f"unnest(string_split_regex(lower({self._text(name)}), '[^\\p{{L}}\\p{{N}}]+'))"
        query = (
            f"SELECT r, CAST('0x' || substr(sha256(w), 1, 12) AS BIGINT) % {num_features:d} AS i, count(*) AS n FROM "
            f"(SELECT t.rowid AS r, {split} AS w FROM t) WHERE w <> '' GROUP BY ALL"
        )
        matches = self._arrays(query)
        counts[np.asarray(matches["r"]), np.asarray(matches["i"])] = np.asarray(matches["n"])
        return counts

    def truths(self, name: str) -> NDArray[np.int64]:
        """Return 1 for each row whose value is 1, true, yes, t or y, 0 for 0, false, no, f and n, and -1 for others."""
        return np.asarray(self._arrays(f"SELECT {self._truth(name)} AS value FROM t")["value"], dtype=np.int64)

    def _arrays(self, query: str, parameters: Sequence[Any] = ()) -> dict[str, Any]:
        with redact_errors():
            arrays: dict[str, Any] = self._connection.execute(query, parameters).fetchnumpy()
            return arrays

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with redact_errors():
            rows: list[tuple[Any, ...]] = self._connection.execute(query).fetchall()
            return rows

    def _column(self, name: str) -> tuple[str, str]:
        """Return a column in the table ``t``, and its declared type."""
        position = self._positions[name]
        column, kind = f"t.c{position}", self._types[position]
        # No function takes moments in nanoseconds.
        return f"CAST({column} AS TIMESTAMPTZ)" if kind == "TIMESTAMPTZ_NS" else column, kind

    def _number(self, name: str) -> str:
        """Return the SQL of a column as a number; NULL where it is none."""
        column, kind = self._column(name)
        if kind == UNTYPED:
            # DuckDB would cast y, n, t and f as well, and a column of F and M would be half numbers.
            truth = f"(CASE lower(trim({column})) WHEN 'true' THEN 1.0 WHEN 'false' THEN 0.0 END)"
            return f"coalesce(TRY_CAST({column} AS DOUBLE), {truth})"
        if kind_of(kind) == DATE:
            return f"(CASE WHEN isfinite({column}) THEN epoch({column}) / 86400.0 END)"  # days since 1970
        return f"TRY_CAST({column} AS DOUBLE)"

    def _days(self, name: str) -> str:
        """Return the SQL of a column as days since 1970; NULL where it holds no date."""
        column, kind = self._column(name)
        if kind_of(kind) == DATE:
            return self._number(name)
        text = f"trim(CAST({column} AS VARCHAR))"
        moment = f"coalesce(TRY_CAST({text} AS TIMESTAMP), try_strptime({text}, {_DATE_FORMATS}))"
        return f"(CASE WHEN isfinite({moment}) THEN epoch({moment}) / 86400.0 END)"

    def _not_number(self, name: str) -> str:
        """Return the SQL of 1 where a column has a value that is not a number; NULL elsewhere."""
        column, kind = self._column(name)
        number = self._number(name)
        text = f"lower(trim(CAST({_in_calendar(column, kind)} AS VARCHAR)))"
        return f"(CASE WHEN {number} IS NULL AND {text} NOT IN {_MISSING} THEN 1 END)"

    def _truth(self, name: str) -> str:
        """Return the SQL of a column as 1 or 0; -1 where it is neither true nor false."""
        text = f"lower({self._text(name)})"
        return f"(CASE WHEN {text} IN {_TRUE} THEN 1 WHEN {text} IN {_FALSE} THEN 0 ELSE -1 END)"

    def _no_truth(self, name: str) -> str:
        """Return the SQL of 1 where a column has a value that is neither true nor false; NULL elsewhere."""
        text = f"lower({self._text(name)})"
        return f"(CASE WHEN {self._truth(name)} = -1 AND {text} NOT IN {_MISSING} THEN 1 END)"

    def _text(self, name: str) -> str:
        """Return the SQL of a column as trimmed text; NULL where it is empty."""
        column, kind = self._column(name)
        text = f"CAST({_in_calendar(column, kind)} AS VARCHAR)"
        if kind.startswith(_FRACTIONAL):  # so that 3.0 is the class 3
            number = f"CAST({column} AS DOUBLE)"
            is_integer = f"isfinite({number}) AND {number} = trunc({number}) AND abs({number}) < 9007199254740992"
            short = f"CAST(TRY_CAST({number} AS BIGINT) AS VARCHAR)"
            text = f"(CASE WHEN isnan({number}) THEN NULL WHEN {is_integer} THEN {short} ELSE {text} END)"
        return f"nullif(trim({text}), '')"


def _in_calendar(column: str, kind: str) -> str:
    """Return a column without dates outside years 1 to 9999, some of which DuckDB cannot write as text."""
    return f"(CASE WHEN year({column}) BETWEEN 1 AND 9999 THEN {column} END)" if kind_of(kind) == DATE else column


def _filled(values: Any, missing: Any) -> NDArray[Any]:
    """Return an array with this value where DuckDB's array is masked."""
    return values.filled(missing) if isinstance(values, np.ma.MaskedArray) else np.asarray(values)


def kind_of(declared: str) -> str:
    """Return the kind of a type that DuckDB or a file declares."""
    if declared == UNTYPED:
        return UNTYPED
    bare = declared.upper()
    if bare.endswith("]"):  # a list
        return OTHER
    return next((kind for kind, names in _TYPES.items() if bare.startswith(names)), OTHER)


class TableData(RawData):
    """A table in a file. Names and declared types of columns are read when it is opened; rows are read when needed."""

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        types: Sequence[str],
        fill: Callable[[Any, str], None],
        assumptions: tuple[str, ...] = (),
        *,
        file: Any = None,
        with_ids: Callable[[Collection[str]], TableData | None] | None = None,
    ) -> None:
        """Describe the table.

        Args:
            name: The name that the caller used.
            columns: The names of the columns.
            types: Their declared types; ``UNTYPED`` if the file declares none.
            fill: Creates a temporary table of this name, with the columns c0, c1, ..., on a DuckDB connection.
            assumptions: Assumptions about files of this kind, besides what holds for all tables.
            file: The file itself, if DuckDB can read it where it is.
            with_ids: Opens the table again with columns of ids; None if its text is read as it is written anyway.
        """
        self.name = name
        self._columns, self._types = list(columns), list(types)
        self._fill = fill
        self.file_assumptions = assumptions
        self.file = file
        self._with_ids = with_ids

    @property
    def is_image(self) -> bool:
        """Always false."""
        return False

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the order of the file."""
        return list(self._columns)

    @property
    def public_facts(self) -> tuple[str, ...]:
        """The properties that are taken to be public."""
        return (
            "names and declared types of columns and the number of rows are public, and so is which columns hold text, "
            "dates or truth values. More than half of all rows decide it, or with a privacy unit, of all units' first "
            "rows",
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The public facts, and what is assumed about files of this kind."""
        return (*self.public_facts, *self.file_assumptions)

    def kind(self, name: str) -> str:
        """Return the kind of a column that the file declares."""
        return kind_of(self._types[self._columns.index(name)])

    def declared_type(self, name: str) -> str:
        """Return the type of a column that the file declares, in DuckDB's words."""
        return self._types[self._columns.index(name)]

    def check_column(self, role: str, name: str) -> str:
        """Return the name of a column that exists; otherwise refuse, and list those that do.

        Args:
            role: The argument's name, for messages.
            name: The column.
        """
        if name not in self._columns:
            raise InvalidArgument(role, name, "one of the columns " + _listed(self._columns))
        return name

    def with_ids(self, *names: str) -> TableData:
        """Return the table with these columns as they are written, so that no two ids are read as one number."""
        return (self._with_ids(names) if self._with_ids else None) or self

    def fill(self, connection: Any, table: str) -> None:
        """Create a temporary table of this name on a DuckDB connection: c0, c1, ... in the order of the columns."""
        with redact_errors(self.name):
            self._fill(connection, table)

    @cached_property
    def rows(self) -> RowTable:
        """The rows, of which there may be none. They are read once."""
        connection = connect()
        with redact_errors(self.name):
            self._fill(connection, "t")
            return RowTable(connection, self._columns, self._types)

    @property
    def table(self) -> RowTable:
        """The rows. A table without any is refused: for what uses it, the number of rows is public."""
        if self.rows.num_rows == 0:
            raise InvalidArgument("data", self.name, "at least one row below the column names")
        return self.rows


@contextmanager
def redact_errors(name: str = "the table") -> Iterator[None]:
    """Replace DuckDB's errors by our own, because their messages may quote a record."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("duckdb", "_duckdb")):
            raise
        raise InvalidArgument(
            "data",
            name,
            "a file that can be read into memory completely",
            "It is damaged, has another format, or is too large",
        ) from None


def connect() -> Any:
    """Return a connection that downloads no extensions, and writes no rows to the disk."""
    try:
        import duckdb
    except ModuleNotFoundError:
        raise Unsupported("reading tables needs DuckDB", "pip install duckdb") from None
    settings: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "temp_directory": "",
        "pandas_analyze_sample": 0,  # a column's type is not guessed from its values
        # The operating system keeps files in its cache already. A second copy, and reading ahead, take memory.
        "enable_external_file_cache": "false",
        "async_threads": 0,
    }
    return duckdb.connect(config=settings)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
