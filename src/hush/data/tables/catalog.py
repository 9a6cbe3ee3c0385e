"""What is known, publicly, about the tables that a query may name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from textwrap import shorten
from types import MappingProxyType
from typing import Any

import numpy as np

from hush.errors import InvalidArgument, check_count, check_instance


class ColumnKind(StrEnum):
    """What a column's values are to hush."""

    BOOL = "boolean"
    INT = "integer"
    FLOAT = "number"
    TEXT = "text"
    DATE = "date"
    TIME = "timestamp"
    NULL = "null"
    OTHER = "other"


# Declared types by their first letters, the longest match first; whatever is not listed is OTHER.
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
_OTHER = (
    "INTERVAL",
    "BYTEA",
    "[",
    "WITH TIME ZONE",
    "TIMESTAMPTZ",
    "TIMETZ",
    "_LTZ",
    "STRUCT",
    "MAP",
    "LIST",
    "ARRAY",
    "UNION",
)

WINDOWS = ("hour", "day", "week", "month", "quarter", "year")
_PYTHON: Mapping[ColumnKind, tuple[type, ...]] = {
    ColumnKind.BOOL: (bool,),
    ColumnKind.INT: (int,),
    ColumnKind.FLOAT: (int, float),
    ColumnKind.TEXT: (str,),
    ColumnKind.DATE: (date,),
    ColumnKind.TIME: (datetime,),
}
_ZONES = "Of one that has a time zone, make a view with (column AT TIME ZONE 'UTC')"
_NUMERIC = re.compile(r"[\d\s.,:;/+-]+")
LARGEST = 1e100  # a number beyond this is treated as missing, on every engine


def kind_of(declared: str) -> ColumnKind:
    """Return what a type, as an engine declares it, is to hush.

    >>> kind_of("BIGINT"), kind_of("DECIMAL(18,2)"), kind_of("TIMESTAMP WITH TIME ZONE")
    (<Kind.INT: 'integer'>, <Kind.FLOAT: 'number'>, <Kind.OTHER: 'other'>)
    """
    bare = declared.upper().strip()
    if any(word in bare for word in _OTHER) and not bare.startswith("ENUM"):
        return ColumnKind.OTHER
    return next((kind for kind, names in _DECLARED.items() if bare.startswith(names)), ColumnKind.OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicTable:
    """A table about nobody: its contents may be known to anyone.

    Attributes:
        columns: Names and declared types.
    """

    columns: Mapping[str, str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", MappingProxyType(_checked_columns(self.columns)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateTable:
    """A table in which each row belongs to one unit; rows without one (NULL) are left out.

    Attributes:
        columns: Names and declared types, which are public, as are bounds and keys.
        unit: The column that says whose row it is.
        time: With ``window``: what is protected is a user within a calendar window of this column.
        window: One of hour, day, week, month, quarter, year.
        entity: What the unit column identifies; tables are joined only where it is the same.
        bounds: For columns that are summed, the least and the largest value of a row. Values beyond are clamped.
        keys: For columns that queries group by, the groups to report, whether or not they occur.
        required: Columns whose missing values count as the middle of their bounds, so that AVG shares COUNT(*).
        only: A condition in SQL; rows that do not meet it are not looked at. `Table.only` writes it.
    """

    columns: Mapping[str, str]
    unit: str
    time: str | None = None
    window: str | None = None
    entity: str = "user"
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    keys: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    only: str | None = None

    def __post_init__(self) -> None:
        columns = _checked_columns(self.columns)
        _check_unit(self.unit, columns)
        _check_window(self.time, self.window, columns)
        bounds = {
            _known("bounds", name, columns): _checked_bounds(pair) for name, pair in _mapping("bounds", self.bounds)
        }
        keys = {_known("keys", name, columns): _listed(name, values) for name, values in _mapping("keys", self.keys)}
        for name, values in keys.items():
            kind = kind_of(columns[name])
            _check_keys(values, ColumnKind.FLOAT if name in bounds and kind is ColumnKind.TEXT else kind)
        for name in self.required:
            if name not in bounds:
                raise InvalidArgument("required", name, "a column that has bounds", "Declare its bounds")
        for name, value in (("columns", columns), ("bounds", bounds), ("keys", keys)):
            object.__setattr__(self, name, MappingProxyType(value))
        object.__setattr__(self, "required", frozenset(self.required))


@dataclass(frozen=True, slots=True)
class Catalog:
    """The tables that a query may name.

    Attributes:
        tables: By name. Names are compared without regard to case, quoted or not.
    """

    tables: Mapping[str, PrivateTable | PublicTable]

    def __post_init__(self) -> None:
        tables = {str(name): table for name, table in dict(self.tables).items()}
        _check_names("tables", list(tables))
        for name in tables:
            if name.casefold().startswith("hush_"):
                raise InvalidArgument("tables", name, "a name that does not begin with hush_", "Plans use such names")
        for table in tables.values():
            check_instance("tables", table, (PrivateTable, PublicTable), "Say which tables are public by PublicTable")
        object.__setattr__(self, "tables", MappingProxyType(tables))


@dataclass(frozen=True, slots=True, kw_only=True)
class ContributionLimits:
    """How much one unit may contribute to one question.

    Attributes:
        groups_per_unit: In how many groups a unit takes part at most (L0); the others are dropped at random.
        rows_per_unit: How many rows of a unit count in one group; sums are clamped to this many times the bounds.
    """

    groups_per_unit: int = 1
    rows_per_unit: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups_per_unit", check_count("groups_per_unit", self.groups_per_unit))
        object.__setattr__(self, "rows_per_unit", check_count("rows_per_unit", self.rows_per_unit))
        if self.rows_per_unit > 10**6:
            raise InvalidArgument("rows_per_unit", self.rows_per_unit, "at most 1000000", "Noise grows with it")


def _checked_columns(columns: Mapping[str, str]) -> dict[str, str]:
    found = {str(name): str(declared) for name, declared in dict(columns).items()}
    if not found:
        raise InvalidArgument("columns", columns, "at least one column")
    _check_names("columns", list(found))
    return found


def _check_names(what: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not name or "\x00" in name:
            raise InvalidArgument(what, name, "a name that is not empty")
        if name.casefold() in seen:
            raise InvalidArgument(what, name, "names that differ in more than case", "Engines disagree about case")
        seen.add(name.casefold())


def _known(role: str, name: str, columns: Mapping[str, str]) -> str:
    if name not in columns:
        lines = "The first line of a CSV file names its columns, with commas between them (.tsv: tabs)"
        if any(_NUMERIC.fullmatch(each) for each in columns):  # a file without such a line: this one is a record
            raise InvalidArgument(role, name, "a column of the table", lines, "Here some names are numbers")
        advice = [f"It has {shorten(', '.join(columns), 300, placeholder=' ...')}"]
        if len(columns) == 1:
            advice.append(lines)
        raise InvalidArgument(role, name, "a column of the table", *advice)
    return name


def _mapping(name: str, given: object) -> list[tuple[Any, Any]]:
    if not isinstance(given, Mapping):
        raise InvalidArgument(name, given, "a dictionary by column")
    return list(given.items())


def plain(value: Any) -> Any:
    """Return a NumPy array or scalar as Python's own values; others as they are."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _listed(name: str, values: Any) -> tuple[Any, ...]:
    """Return keys as a tuple of plain values; the letters of a text are no keys."""
    given = plain(values)
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidArgument("keys", {name: given}, "a list of values", f"Write [{given!r}]")
    return tuple(plain(value) for value in given)


def _check_unit(unit: str, columns: Mapping[str, str]) -> None:
    declared = columns[_known("unit", unit, columns)].upper()
    if kind_of(declared) in (ColumnKind.INT, ColumnKind.TEXT) or declared.startswith(
        ("DECIMAL", "NUMERIC", "HUGEINT", "U")
    ):
        return
    raise InvalidArgument("unit", unit, "a column of integers or text", "Other types do not identify a unit exactly")


def _check_window(time: str | None, window: str | None, columns: Mapping[str, str]) -> None:
    if time is None and window is None:
        return
    if time is None or window is None:
        raise InvalidArgument("time", time, "a column, together with a window", "Give both, or neither")
    if window not in WINDOWS:
        raise InvalidArgument("window", window, "one of " + ", ".join(WINDOWS))
    if kind_of(columns[_known("time", time, columns)]) not in (ColumnKind.DATE, ColumnKind.TIME):
        raise InvalidArgument("time", time, "a column of dates or of timestamps without a time zone", _ZONES)


def _checked_bounds(given: Any) -> tuple[float, float]:
    advice = "Choose them from what is known publicly, not from the data"
    pair = plain(given)
    ends = [plain(end) for end in pair] if isinstance(pair, (tuple, list)) else []
    if len(ends) != 2 or any(isinstance(end, bool) or not isinstance(end, (int, float)) for end in ends):
        raise InvalidArgument("bounds", given, "a pair of numbers, lower and upper", advice)
    try:
        low, high = (float(end) for end in ends)
    except OverflowError:  # an integer beyond the range of floats
        low, high = math.nan, math.nan
    if not (-1e50 <= low < high <= 1e50 and math.isfinite(high - low)) or high - low < 1e-50:
        raise InvalidArgument("bounds", pair, "finite numbers with lower < upper", advice)
    if any(0 < abs(end) < 1e-50 for end in (low, high)):
        raise InvalidArgument("bounds", pair, "ends that are 0 or not closer to it than 1e-50", advice)
    return low, high


def _check_keys(values: Sequence[Any], kind: ColumnKind) -> None:
    if not values or len(set(values)) != len(values):
        raise InvalidArgument("keys", values, "a list of distinct values, at least one")
    for value in values:
        wrong = isinstance(value, bool) != (kind is ColumnKind.BOOL) or not isinstance(value, _PYTHON.get(kind, ()))
        if value is not None and wrong:
            raise InvalidArgument("keys", values, f"values of the column's type, {kind.value}, or None")
        if isinstance(value, float) and not abs(value) <= LARGEST:
            raise InvalidArgument("keys", values, "finite numbers")
        if isinstance(value, str) and "\x00" in value:
            raise InvalidArgument("keys", values, "text without zero characters")
