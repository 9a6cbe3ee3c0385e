"""Data frames out of results: named columns become a frame of pandas or Polars, or a table of Arrow.

Values keep their types as far as the library has them: counts are integers, dates are dates, and a missing value is
missing. A library is imported only when it is needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from hush.errors import Unsupported

_LARGEST_INTEGER = 2**63 - 1


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
            f"this form of a result needs {name}, which is not installed", f"pip install {name}"
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
