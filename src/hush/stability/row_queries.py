"""Queries about rows: a function of columns with one number in [0, 1] per row, and its mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument
from hush.numerics import number_or_nan

Query = Callable[..., Any]
Columns = tuple[Any, ...]
Floats = NDArray[np.float64]

_STEPS = float(1 << 30)  # values are multiples of 1 / this: sums of up to 2^23 of them are exact in double precision
_MAX_ROWS = 1 << 23


def row_values(query: Query, columns: Columns) -> Floats:
    """Return a query's answers as floats, with NaN for anything that is not a number."""
    values = np.asarray(query(*columns))
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    return np.array([number_or_nan(value) for value in values.ravel().tolist()], dtype=np.float64).reshape(values.shape)


def safe_row_values(query: Query, columns: Columns, size: int) -> Floats:
    """Return a query's values. If it fails, run it row by row, with 0 for rows that fail."""
    try:
        return row_values(query, columns)
    except Exception:  # any error, if it got out, would reveal something about a row
        return np.array([_row_value(query, columns, row) for row in range(size)], dtype=np.float64)


def _row_value(query: Query, columns: Columns, row: int) -> float:
    try:
        (value,) = row_values(query, tuple(column[row : row + 1] for column in columns))
    except Exception:
        return 0.0
    return float(value)


def mean_of(values: Floats, size: int) -> float:
    """Return the mean of values clamped to [0, 1], exact except for one rounding. NaN counts as 0."""
    if values.shape != (size,):
        raise InvalidArgument("query", "a function", "one number for each row", "The number of rows is public")
    # Integers up to 2^30, added at most 2^23 times, stay below 2^53: the sum is exact, whatever the order.
    steps: Floats = np.trunc(np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0) * _STEPS)
    return float(steps.sum()) / (_STEPS * size)


def checked_length(name: str, columns: Sequence[Any]) -> int:
    """Return the number of rows; refuse columns of different lengths."""
    sizes = {len(column) for column in columns}
    if len(sizes) != 1 or not 1 <= (size := sizes.pop()) <= _MAX_ROWS:
        raise InvalidArgument(name, "columns", f"columns of equal length, between 1 and {_MAX_ROWS}")
    return size
