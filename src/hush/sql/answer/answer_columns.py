"""The columns of an answer, with the ends of intervals beside them, for CSV files and data frames.

Values keep their types as far as the library has them: counts are integers, dates are dates, and a missing key is
missing. A library is imported only when it is needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from hush.errors import Unsupported

_LARGEST_INTEGER = 2**63 - 1
_EXACT_IN_FLOATS = 2**53


class Answered(Protocol):
    """Rows with intervals: an answer or a preview."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows."""

    @property
    def intervals(self) -> list[dict[str, tuple[float, float]]]:
        """The intervals of each row, by column."""


def end_titles(name: str, answer: Answered) -> list[str]:
    """Return the titles of an interval's ends, which no column of the answer has; none without an interval."""
    if not any(name in ends for ends in answer.intervals):
        return []
    taken = {column.casefold() for column in answer.columns}
    titles = [f"{name}_low", f"{name}_high"]
    while taken.intersection(title.casefold() for title in titles):
        titles = [f"{title}_" for title in titles]
    return titles


def named_columns(answer: Answered, *, intervals: bool) -> list[tuple[str, list[Any]]]:
    """Return titles and values, column by column.

    Args:
        answer: The answer.
        intervals: Whether two more columns, the ends, follow each column that has an interval.
    """
    columns: list[tuple[str, list[Any]]] = []
    for index, name in enumerate(answer.columns):
        values = [row[index] for row in answer.rows]
        columns.append((name, values))
        titles = end_titles(name, answer) if intervals else []
        are_counts = all(isinstance(value, int) for value in values)
        for end, title in enumerate(titles):
            ends = [row[name][end] if name in row else None for row in answer.intervals]
            columns.append((title, list(map(without_decimals, ends)) if are_counts else ends))
    return columns


def without_decimals(value: Any) -> Any:
    """Return an integer for a float that is one."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_IN_FLOATS else value


def written(value: Any) -> str:
    r"""Return a value for display on one line: a float with six digits, and NULL for a missing value.

    A key may be any text; control characters are replaced, so that it cannot move a terminal's cursor or begin a new
    line.

    >>> written(1234.5678), written(1234567.0), written(None), written("a\x1b[2J") == "a\ufffd[2J"
    ('1234.57', '1234567', 'NULL', True)
    """
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    shown = without_decimals(value)
    if shown is None:
        return "NULL"
    text = f"{shown:.6g}" if isinstance(shown, float) else str(shown)
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def to_pandas(columns: Sequence[tuple[str, list[Any]]]) -> Any:
    """Return a data frame of pandas."""
    pandas = _library("pandas")
    series = [pandas.Series(_plain(values), dtype=_pandas_type(values)) for _, values in columns]
    return pandas.concat(series, axis=1).set_axis([title for title, _ in columns], axis=1)


def to_polars(columns: Sequence[tuple[str, list[Any]]]) -> Any:
    """Return a data frame of Polars."""
    polars = _library("polars")
    return polars.DataFrame([polars.Series(title, _plain(values)) for title, values in columns])


def to_arrow(columns: Sequence[tuple[str, list[Any]]]) -> Any:
    """Return a table of Arrow."""
    arrow = _library("pyarrow")
    arrays = [arrow.array(_plain(values)) for _, values in columns]
    return arrow.Table.from_arrays(arrays, names=[title for title, _ in columns])


def _library(name: str) -> Any:
    """Import an optional package."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Unsupported(
            f"this form of an answer needs {name}, which is not installed", f"pip install {name}"
        ) from None


_PANDAS_TYPES: Mapping[type, tuple[str, str]] = {  # without and with missing values
    bool: ("bool", "boolean"),
    int: ("int64", "Int64"),
    float: ("float64", "float64"),
    datetime: ("datetime64[us]", "datetime64[us]"),
}


def _pandas_type(values: list[Any]) -> str | None:
    """Return the type of a column; None for what pandas chooses, which for dates is objects."""
    kinds = {type(value) for value in _plain(values) if value is not None}
    names = _PANDAS_TYPES.get(next(iter(kinds))) if len(kinds) == 1 else None
    return None if names is None else names[None in values]


def _plain(values: list[Any]) -> list[Any]:
    """Return values of one type: integers among floats are floats, and those beyond 64 bits are decimals."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    if kinds == {int} and any(value is not None and abs(value) > _LARGEST_INTEGER for value in values):
        return [None if value is None else Decimal(value) for value in values]
    return values
