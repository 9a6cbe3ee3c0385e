"""The catalog: all public knowledge about the tables that a query may name.

Declarations are checked here before any row is read. A `PrivateTable` names the column that identifies the privacy
unit, the bounds of the columns that are summed, and the keys of the groups to report. A `PublicTable` has columns only.
`hush.sql` plans queries from a `Catalog` alone, so that the amount of noise never depends on the data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import date, datetime
from enum import StrEnum
from textwrap import shorten
from types import MappingProxyType
from typing import Any

import numpy as np

from hush.errors import InvalidArgument, check_instance


class ColumnKind(StrEnum):
    """The type of a column, as far as hush distinguishes types. Columns of kind OTHER cannot be used in a query."""

    BOOL = "boolean"
    INT = "integer"
    FLOAT = "number"
    TEXT = "text"
    DATE = "date"
    TIME = "timestamp"
    INSTANT = "timestamp with a time zone"
    NULL = "null"
    OTHER = "other"


# Declared types by prefix. A type that is not listed is OTHER.
_DECLARED: Mapping[ColumnKind, tuple[str, ...]] = {
    ColumnKind.BOOL: ("BOOL",),
    ColumnKind.INT: (
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "LONG",
        "SHORT",
        "BYTE",
        "UTINYINT",
        "USMALLINT",
        "UINTEGER",
    ),
    ColumnKind.FLOAT: ("FLOAT", "DOUBLE", "REAL", "DECIMAL", "NUMERIC", "HUGEINT", "UBIGINT", "UHUGEINT"),
    ColumnKind.TEXT: ("VARCHAR", "TEXT", "STRING", "CHAR", "ENUM", "UUID", "BPCHAR"),
    ColumnKind.DATE: ("DATE",),
    ColumnKind.TIME: ("TIMESTAMP", "DATETIME"),
}
_ZONED = ("WITH TIME ZONE", "TIMESTAMPTZ", "_LTZ")  # a TIMESTAMP that contains any of these is a moment
# A declared type that contains any of these is OTHER, whatever its prefix: DATE[] is a list, not a date.
_OTHER = (
    "INTERVAL",
    "BYTEA",
    "[",
    "TIME WITH TIME ZONE",
    "TIMETZ",
    "STRUCT",
    "MAP",
    "LIST",
    "ARRAY",
    "UNION",
    "COLLATE",  # text that is not compared byte by byte: the engine takes different values for equal
)
ROW = "row"  # the unit of a table whose rows are the units

WINDOWS = ("hour", "day", "week", "month", "quarter", "year")
_PYTHON: Mapping[ColumnKind, tuple[type, ...]] = {
    ColumnKind.BOOL: (bool,),
    ColumnKind.INT: (int,),
    ColumnKind.FLOAT: (int, float),
    ColumnKind.TEXT: (str,),
    ColumnKind.DATE: (date,),
    ColumnKind.TIME: (datetime,),
}
_TIME_ZONE_ADVICE = (
    "If it has one, create a view with (column AT TIME ZONE 'UTC'); on Spark, with CAST(column AS TIMESTAMP_NTZ)"
)
_NUMERIC_NAME = re.compile(r"[\d\s.,:;/+-]+")
LARGEST = 1e100  # numbers of larger magnitude count as missing, on every engine
# Bounds are wider than 1e-50 and within 1e50: products of a few such numbers stay within the range of a double.
_LARGEST_BOUND, _SMALLEST_BOUND = 1e50, 1e-50


def kind_of(declared: str) -> ColumnKind:
    """Return the kind of a column from the type that its engine declares.

    >>> [str(kind_of(declared)) for declared in ("BIGINT", "DECIMAL(18,2)", "TIMESTAMP WITH TIME ZONE")]
    ['integer', 'number', 'timestamp with a time zone']
    """
    type_name = declared.upper().strip()
    # The values of an ENUM are part of its type, and may contain any word.
    if any(word in type_name for word in _OTHER) and not type_name.startswith("ENUM"):
        return ColumnKind.OTHER
    if type_name.startswith("TIMESTAMP") and any(word in type_name for word in _ZONED):
        return ColumnKind.INSTANT
    return next((kind for kind, prefixes in _DECLARED.items() if type_name.startswith(prefixes)), ColumnKind.OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicTable:
    """A public table, such as a list of postcodes. It is joined with private tables and needs no protection.

    Attributes:
        columns: The declared type of each column, by name.
        bounds: The lower and upper bound of each column that sums compute with. Values outside are clamped.

    >>> PublicTable(columns={"postcode": "VARCHAR", "region": "VARCHAR"}).columns["region"]
    'VARCHAR'
    """

    columns: Mapping[str, str]
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = _checked_columns(self.columns)
        object.__setattr__(self, "columns", MappingProxyType(columns))
        object.__setattr__(self, "bounds", MappingProxyType(_bounds_by_column(self.bounds, columns)))


@dataclass(frozen=True, slots=True)
class Through:
    """The unit of a table without a unit column: each row belongs to the unit of the row that it refers to.

    A row counts if its column equals the key of a row of ``to``. It then belongs to the unit of that row, which may
    have its unit through a further table. A row that refers to no existing row, or whose column is NULL, belongs to no
    unit and is dropped. The query that the engine runs enforces both.

    A key must not occur in rows of two units, as a primary key cannot. If it does, a row that refers to it counts for
    both units, within the limits of each. So a person who takes the key of another one changes nothing that the other
    one contributes. But a row that counts for k units is protected as a group of k. No rule can do better without
    knowing which of the two is the right one: if such a row counted for one unit only, or for none, then whoever takes
    its key would move rows of others.

    Attributes:
        column: The column that refers.
        to: The private table that it refers to.
        key: The column there whose values it holds, of integers or of text like the column itself.

    >>> Through("l_orderkey", to="orders", key="o_orderkey")
    Through(column='l_orderkey', to='orders', key='o_orderkey')
    """

    column: str
    _: KW_ONLY
    to: str
    key: str

    def __str__(self) -> str:
        return f"{self.column}, through {self.to}.{self.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateTable:
    """A private table: every row belongs to one privacy unit. Rows whose unit is NULL are ignored.

    All of these declarations are public. Choose them from what is known about the table, not from its rows.

    Attributes:
        columns: The declared type of each column, by name.
        unit: The column that identifies the privacy unit; or a `Through`, if rows refer to another table that knows it;
            or ``row`` if there is no such column and each row is its own unit. ``row_id`` is then needed.
        time: Together with ``window``: the unit is then a user within a calendar window of this column.
        window: One of hour, day, week, month, quarter, year.
        zone: With ``window``: the time zone in which that column is written.
        bounds: The lower and upper bound of each column that is summed. Values outside are clamped.
        keys: The values of each column that queries group by. All of them are reported, whether or not they occur.
        required: Columns whose missing values count as the middle of their bounds. AVG then shares the count of
            COUNT(*), which leaves more of the budget for its sum.
        row_id: The name and the declared type of a column of the engine that no two rows share. Queries cannot name it.
        only: A condition in SQL. Rows that do not meet it are never read. `Table.only` writes it.

    >>> visits = PrivateTable(columns={"who": "BIGINT", "cost": "DOUBLE"}, unit="who", bounds={"cost": (0, 50)})
    >>> visits.bounds["cost"]
    (0.0, 50.0)
    """

    columns: Mapping[str, str]
    unit: str | Through
    time: str | None = None
    window: str | None = None
    zone: str = "UTC"
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    keys: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    row_id: tuple[str, str] | None = None
    only: str | None = None

    def __post_init__(self) -> None:
        columns = _checked_columns(self.columns)
        if isinstance(self.unit, Through):
            _check_reference(self, columns)
        elif self.row_id is None:
            _check_unit(self.unit, columns)
        elif self.unit != ROW or ROW in columns or self.time is not None:
            raise InvalidArgument("unit", self.unit, f"{ROW!r} with row_id, and no column of that name and no window")
        _check_window(self.time, self.window, columns)
        bounds = _bounds_by_column(self.bounds, columns)
        keys = {_existing("keys", name, columns): _key_values(name, value) for name, value in _items("keys", self.keys)}
        for name, values in keys.items():
            kind = kind_of(columns[name])
            _check_keys(values, ColumnKind.FLOAT if name in bounds and kind is ColumnKind.TEXT else kind)
        for name in self.required:
            if name not in bounds:
                raise InvalidArgument("required", name, "a column with bounds", "Declare its bounds")
        for name, value in (("columns", columns), ("bounds", bounds), ("keys", keys)):
            object.__setattr__(self, name, MappingProxyType(value))
        object.__setattr__(self, "required", frozenset(self.required))


@dataclass(frozen=True, slots=True)
class Catalog:
    """The tables that a query may name.

    Attributes:
        tables: The tables by name. Names ignore case, whether or not they are quoted.

    >>> Catalog({"zones": PublicTable(columns={"postcode": "VARCHAR"})}).tables["zones"].columns["postcode"]
    'VARCHAR'
    """

    tables: Mapping[str, PrivateTable | PublicTable]

    def __post_init__(self) -> None:
        tables = {str(name): table for name, table in dict(self.tables).items()}
        _check_names("tables", list(tables))
        for name in tables:
            if name.casefold().startswith("hush_"):
                raise InvalidArgument("tables", name, "a name that does not begin with hush_", "Plans use that prefix")
        for table in tables.values():
            check_instance("tables", table, (PrivateTable, PublicTable), "Declare each table as one of these")
        for name in tables:
            _check_path(name, tables)
        object.__setattr__(self, "tables", MappingProxyType(tables))


def _checked_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """Return the declared types by name, if the names are distinct."""
    types = {str(name): str(declared) for name, declared in dict(columns).items()}
    if not types:
        raise InvalidArgument("columns", columns, "at least one column")
    _check_names("columns", list(types))
    return types


def _check_names(argument: str, names: Sequence[str]) -> None:
    """Refuse empty names, and names that differ in case only."""
    seen: set[str] = set()
    for name in names:
        if not name or "\x00" in name:
            raise InvalidArgument(argument, name, "a name that is not empty")
        if name.casefold() in seen:
            raise InvalidArgument(
                argument, name, "names that differ in more than their case", "Some engines ignore the case of names"
            )
        seen.add(name.casefold())


def _existing(argument: str, name: str, columns: Mapping[str, str]) -> str:
    """Return the name of a column, if the table has one of that name."""
    if name in columns:
        return name
    header = "The first line of a CSV file must name its columns"
    if any(_NUMERIC_NAME.fullmatch(column) for column in columns):
        # The file probably has no header, and its first line is a record, which no message may show.
        raise InvalidArgument(argument, name, "a column of the table", header, "Some names in this table are numbers")
    advice = [f"The table has {shorten(', '.join(columns), 300, placeholder=' ...')}"]
    if len(columns) == 1:
        advice.append(header)
    if argument == "unit":
        advice.append(f"If each row belongs to a different person, pass unit={ROW!r}")
    raise InvalidArgument(argument, name, "a column of the table", *advice)


def _items(argument: str, mapping: object) -> list[tuple[Any, Any]]:
    """Return the items of a dictionary, or refuse anything else."""
    if not isinstance(mapping, Mapping):
        raise InvalidArgument(argument, mapping, "a dictionary by column")
    return list(mapping.items())


def plain(value: Any) -> Any:
    """Return a NumPy array or scalar as a Python list or number, and any other value unchanged.

    >>> plain(np.float64(0.5)), plain("x")
    (0.5, 'x')
    """
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _key_values(column: str, values: Any) -> tuple[Any, ...]:
    """Return keys as a tuple of plain values. A string is refused: it would be split into its letters."""
    keys = plain(values)
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        raise InvalidArgument("keys", {column: keys}, "a list of values", f"Write [{keys!r}]")
    return tuple(plain(value) for value in keys)


def _check_unit(unit: str, columns: Mapping[str, str]) -> None:
    """Refuse a unit column whose values are not exact. Two units must never compare as equal."""
    declared = columns[_existing("unit", unit, columns)].upper()
    if declared == "TEXT FOLDED":  # by MySQL, whose usual collations ignore case and accents
        raise InvalidArgument(
            "unit",
            unit,
            "a column whose collation compares texts exactly",
            "Texts of this column that differ can be equal in the database",
            "Create a view with CONVERT(column USING utf8mb4) COLLATE utf8mb4_bin, if they are different people",
        )
    # Exact numbers are compared as text.
    exact_number = declared.startswith(("DECIMAL", "NUMERIC", "HUGEINT", "UBIGINT", "UHUGEINT"))
    if kind_of(declared) not in (ColumnKind.INT, ColumnKind.TEXT) and not exact_number:
        raise InvalidArgument(
            "unit", unit, "a column of integers or text", "Values of other types do not identify a unit exactly"
        )


def _check_reference(table: PrivateTable, columns: Mapping[str, str]) -> None:
    """Refuse a reference that is not a column, and options that require a unit column."""
    assert isinstance(table.unit, Through)
    _existing("unit", table.unit.column, columns)
    if table.time is not None or table.window is not None or table.row_id is not None:
        raise InvalidArgument("unit", table.unit, "a column, together with a window or row_id")


def _check_path(name: str, tables: Mapping[str, PrivateTable | PublicTable]) -> None:
    """Refuse references that do not lead to a table with a unit column. Only declarations are read."""
    visited: list[str] = []
    table = tables[name]
    while isinstance(table, PrivateTable) and isinstance(table.unit, Through):
        visited.append(name)
        reference, target = table.unit, tables.get(table.unit.to)
        if reference.to in visited:
            raise InvalidArgument(
                "unit", reference, "references that end at a table with a unit column", "These references form a cycle"
            )
        if not isinstance(target, PrivateTable):
            raise InvalidArgument("to", reference.to, "a private table", "Declare it, with its unit")
        _check_key(reference, table, target)
        name, table = reference.to, target


def _check_key(reference: Through, table: PrivateTable, target: PrivateTable) -> None:
    """Refuse a key that is not compared exactly with the column that refers to it."""
    _existing("key", reference.key, target.columns)
    kinds = [
        ColumnKind.FLOAT
        if column in side.bounds and kind_of(side.columns[column]) is ColumnKind.TEXT
        else kind_of(side.columns[column])
        for side, column in ((table, reference.column), (target, reference.key))
    ]
    if kinds[0] is not kinds[1] or kinds[0] not in (ColumnKind.INT, ColumnKind.TEXT):
        why = "Values of other types do not identify a row exactly"
        raise InvalidArgument("key", reference.key, "a column of integers or text, like the one that refers to it", why)
    if target.window is not None or target.row_id is not None:
        why = "Its rows belong to a user within a window, or are units themselves"
        raise InvalidArgument("to", reference.to, "a table whose unit is a column", why)


def _check_window(time: str | None, window: str | None, columns: Mapping[str, str]) -> None:
    """Refuse a window without its column, an unknown window, or a column that is not a date or timestamp."""
    if time is None and window is None:
        return
    if time is None or window is None:
        raise InvalidArgument("time", time, "a column, together with a window", "Give both or neither")
    if window not in WINDOWS:
        raise InvalidArgument("window", window, "one of " + ", ".join(WINDOWS))
    if kind_of(columns[_existing("time", time, columns)]) not in (ColumnKind.DATE, ColumnKind.TIME):
        raise InvalidArgument("time", time, "a column of dates or of timestamps without a time zone", _TIME_ZONE_ADVICE)


def _bounds_by_column(bounds: object, columns: Mapping[str, str]) -> dict[str, tuple[float, float]]:
    """Return the bounds of each column that has any."""
    return {_existing("bounds", name, columns): _checked_bounds(pair) for name, pair in _items("bounds", bounds)}


def _checked_bounds(bounds: Any) -> tuple[float, float]:
    """Return bounds as floats. Their size is limited, so that sums and squares stay in range on every engine."""
    advice = "Choose bounds from public knowledge, not from the data"
    pair = plain(bounds)
    ends = [plain(end) for end in pair] if isinstance(pair, (tuple, list)) else []
    if len(ends) != 2 or any(isinstance(end, bool) or not isinstance(end, (int, float)) for end in ends):
        raise InvalidArgument("bounds", bounds, "a pair of numbers (lower, upper)", advice)
    try:
        low, high = (float(end) for end in ends)
    except OverflowError:  # an integer beyond the range of floats
        low, high = math.nan, math.nan
    within_limits = -_LARGEST_BOUND <= low < high <= _LARGEST_BOUND and math.isfinite(high - low)
    if not within_limits or high - low < _SMALLEST_BOUND:
        raise InvalidArgument("bounds", pair, "finite numbers with lower < upper", advice)
    if any(0 < abs(end) < _SMALLEST_BOUND for end in (low, high)):
        raise InvalidArgument("bounds", pair, "ends that are 0 or at least 1e-50 away from 0", advice)
    return low, high


def _check_keys(values: Sequence[Any], kind: ColumnKind) -> None:
    """Refuse keys that are equal, or not of the column's kind. Two equal keys would be one group, counted twice."""
    if not values or len(set(values)) != len(values):
        raise InvalidArgument("keys", values, "a list of distinct values, at least one")
    for value in values:
        # In Python a bool is an int, and 1 == True; in a query they are different kinds.
        other_type = isinstance(value, bool) != (kind is ColumnKind.BOOL)
        if value is not None and (other_type or not isinstance(value, _PYTHON.get(kind, ()))):
            raise InvalidArgument("keys", values, f"values of the column's type, {kind.value}, or None")
        if isinstance(value, float) and not abs(value) <= LARGEST:
            raise InvalidArgument("keys", values, "finite numbers")
        if isinstance(value, str) and "\x00" in value:
            raise InvalidArgument("keys", values, "text without NUL characters")
