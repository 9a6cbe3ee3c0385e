"""Tables, read by DuckDB: every value as text or as the type that the file declares, no type guessed from values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.data.tables.raw import RawData
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
_FRACTIONS = ("FLOAT", "DOUBLE", "DECIMAL")
_MISSING = "('', 'na', 'n/a', 'nan', 'null', 'none')"


class RowTable:
    """The rows of one source in memory, in their order. Every answer is a function of each row by itself."""

    def __init__(self, connection: Any, columns: Sequence[str], types: Sequence[str]) -> None:
        """Take over a connection that has a table ``t`` with the columns c0, c1, ..."""
        self._connection = connection
        self._places = {name: place for place, name in enumerate(columns)}
        self._types = types
        self.num_rows = int(connection.execute("SELECT count(*) FROM t").fetchall()[0][0])

    def floats(self, names: Sequence[str]) -> list[NDArray[np.float64]]:
        """Return columns as numbers, NaN where there is none."""
        if not names:
            return []
        chosen = ", ".join(f"CAST({self._number(name)} AS DOUBLE) AS v{place}" for place, name in enumerate(names))
        found = self._arrays(f"SELECT {chosen} FROM t")
        return [_filled(found[f"v{place}"], np.nan) for place in range(len(names))]

    def text_columns(self, names: Sequence[str]) -> list[str]:
        """Return which of these hold text: more than half of all rows have something there that is no number.

        Of all rows, not of those that have a value: in a column that few have filled in, one of them would decide.
        """
        if not names:
            return []
        counts = ", ".join(f"count({self._not_number(name)})" for name in names)
        (found,) = self._rows(f"SELECT {counts} FROM t")
        return [name for name, others in zip(names, found, strict=True) if 2 * others > self.num_rows]

    def texts(self, name: str) -> NDArray[np.object_]:
        """Return a column as trimmed text, empty where nothing is."""
        return self._column(f"coalesce({self._text(name)}, '')", "")

    def codes(self, name: str, values: Sequence[str]) -> NDArray[np.int64]:
        """Return for each row the place of its value among these, or -1."""
        codes = np.full(self.num_rows, -1, dtype=np.int64)
        # A nested list is unnested rather than searched: thousands of values cost no more than two.
        query = (
            "SELECT t.rowid AS r, v.i - 1 AS i FROM t JOIN (SELECT unnest($1::VARCHAR[]) AS v, "
            f"generate_subscripts($1::VARCHAR[], 1) AS i) AS v ON {self._text(name)} = v.v"
        )
        found = self._arrays(query, [list(values)])
        codes[np.asarray(found["r"])] = np.asarray(found["i"])
        return codes

    def counts(self, name: str, chosen: NDArray[np.bool_]) -> dict[str, int]:
        """Return how often each text occurs among the chosen rows, in the order of the texts."""
        self._connection.register("chosen", {"c": chosen})
        query = (
            f"SELECT value, count(*) FROM (SELECT {self._text(name)} AS value, chosen.c AS c FROM t "
            "POSITIONAL JOIN chosen) WHERE c AND value IS NOT NULL GROUP BY value ORDER BY value"
        )
        found = {str(value): int(count) for value, count in self._rows(query)}
        self._connection.unregister("chosen")
        return found

    def hashes(self, name: str, key: bytes) -> tuple[NDArray[np.int64], ...]:
        """Return three independent 60-bit numbers for each row, a keyed hash of this column; -1 where nothing is.

        SHA-256 of 32 secret bytes and the text: nobody who lacks the key can predict them.
        """
        parts = ", ".join(
            f"coalesce(CAST('0x' || substr(h, {1 + 15 * part}, 15) AS BIGINT), -1) AS h{part}" for part in range(3)
        )
        query = f"SELECT {parts} FROM (SELECT sha256($1 || {self._text(name)}) AS h FROM t)"
        found = self._arrays(query, [key.hex()])
        return tuple(np.asarray(found[f"h{part}"], dtype=np.int64) for part in range(3))

    def words(self, name: str, vocabulary: Sequence[str]) -> NDArray[np.float32]:
        """Return how often each word of the vocabulary occurs in each row: [rows, words]."""
        counts = np.zeros((self.num_rows, len(vocabulary)), dtype=np.float32)
        split = f"unnest(string_split_regex(lower({self._text(name)}), '[^\\p{{L}}\\p{{N}}]+'))"
        query = (
            f"SELECT w.r AS r, v.i - 1 AS i, count(*) AS n FROM (SELECT t.rowid AS r, {split} AS w FROM t) AS w "
            "JOIN (SELECT unnest($1::VARCHAR[]) AS v, generate_subscripts($1::VARCHAR[], 1) AS i) AS v ON w.w = v.v "
            "GROUP BY ALL"
        )
        found = self._arrays(query, [list(vocabulary)])
        counts[np.asarray(found["r"]), np.asarray(found["i"])] = np.asarray(found["n"])
        return counts

    def _column(self, expression: str, missing: Any) -> NDArray[Any]:
        return _filled(self._arrays(f"SELECT {expression} AS value FROM t")["value"], missing)

    def _arrays(self, query: str, given: Sequence[Any] = ()) -> dict[str, Any]:
        with wordless():
            found: dict[str, Any] = self._connection.execute(query, given).fetchnumpy()
            return found

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with wordless():
            found: list[tuple[Any, ...]] = self._connection.execute(query).fetchall()
            return found

    def _place(self, name: str) -> tuple[str, str]:
        place = self._places[name]
        return f"t.c{place}", self._types[place]

    def _number(self, name: str) -> str:
        column, kind = self._place(name)
        if kind == UNTYPED:
            truth = f"CAST(TRY_CAST({column} AS BOOLEAN) AS DOUBLE)"  # true is 1, false is 0
            return f"coalesce(TRY_CAST({column} AS DOUBLE), {truth})"
        if kind_of(kind) == DATE:
            return f"(CASE WHEN isfinite({column}) THEN epoch({column}) / 86400.0 END)"  # days since 1970
        return f"TRY_CAST({column} AS DOUBLE)"

    def _not_number(self, name: str) -> str:
        column, _ = self._place(name)
        number = self._number(name)
        return f"(CASE WHEN {number} IS NULL AND lower(trim(CAST({column} AS VARCHAR))) NOT IN {_MISSING} THEN 1 END)"

    def _text(self, name: str) -> str:
        column, kind = self._place(name)
        text = f"CAST({column} AS VARCHAR)"
        if kind.startswith(_FRACTIONS):  # 3.0 is class 3
            number = f"CAST({column} AS DOUBLE)"
            whole = f"isfinite({number}) AND {number} = trunc({number}) AND abs({number}) < 9007199254740992"
            short = f"CAST(TRY_CAST({number} AS BIGINT) AS VARCHAR)"
            text = f"(CASE WHEN isnan({number}) THEN NULL WHEN {whole} THEN {short} ELSE {text} END)"
        return f"nullif(trim({text}), '')"


def _filled(values: Any, missing: Any) -> NDArray[Any]:
    return values.filled(missing) if isinstance(values, np.ma.MaskedArray) else np.asarray(values)


def kind_of(declared: str) -> str:
    """Return what a type of DuckDB's is to hush."""
    if declared == UNTYPED:
        return UNTYPED
    bare = declared.upper()
    if bare.endswith("]"):  # a list of something
        return OTHER
    return next((kind for kind, names in _TYPES.items() if bare.startswith(names)), OTHER)


class TableSource(RawData):
    """A table in a file: the names and declared types of its columns are read when it is opened, rows when needed."""

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        types: Sequence[str],
        fill: Callable[[Any], None],
        assumptions: tuple[str, ...] = (),
    ) -> None:
        """Describe a source; ``fill`` makes the table ``t`` with the columns c0, c1, ... on a connection."""
        self.name = name
        self._columns, self._types = list(columns), list(types)
        self._fill = fill
        self._assumptions = assumptions

    @property
    def is_image(self) -> bool:
        """Never."""
        return False

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of the file."""
        return list(self._columns)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is taken to be public."""
        shared = "names and declared types of columns, the number of rows, and which columns hold text are public"
        return (shared, *self._assumptions)

    def kind(self, name: str) -> str:
        """Return what the file declares a column to be."""
        return kind_of(self._types[self._columns.index(name)])

    def check_column(self, role: str, name: str) -> str:
        """Refuse a column that does not exist, and name those that do."""
        if name not in self._columns:
            raise InvalidArgument(role, name, "one of the columns " + _listed(self._columns))
        return name

    @cached_property
    def table(self) -> RowTable:
        """The rows; read once."""
        connection = connect()
        with wordless(self.name):
            self._fill(connection)
            table = RowTable(connection, self._columns, self._types)
        if table.num_rows == 0:
            raise InvalidArgument("data", self.name, "at least one row below the names of the columns")
        return table


@contextmanager
def wordless(name: str = "the table") -> Iterator[None]:
    """Replace DuckDB's errors: their words may quote a record."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("duckdb", "_duckdb")):
            raise
        raise InvalidArgument(
            "data", name, "a file that can be read whole, into memory", "It is damaged, of another format, or too large"
        ) from None


def connect() -> Any:
    """Return a connection that fetches nothing and writes nothing to the disk, where rows would outlive the run."""
    try:
        import duckdb
    except ModuleNotFoundError:
        raise Unsupported("reading tables needs DuckDB", "pip install 'hush[data]'") from None
    settings: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "temp_directory": "",
    }
    return duckdb.connect(config=settings)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
