"""Queries about rows: a function of columns with one number in [0, 1] per row, and its mean."""

from __future__ import annotations

import copy
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
    """Return a query's values. If it fails, run it row by row, with 0 for rows that fail.

    An answer of another shape than one number for each row is a failure like an exception: an error that depends on a
    row would reveal something about it.
    """
    try:
        values = row_values(query, unchangeable(columns))
    except Exception:  # any error
        values = np.empty(())
    if values.shape == (size,):
        return values
    return np.array([_row_value(query, columns, row) for row in range(size)], dtype=np.float64)


def _row_value(query: Query, columns: Columns, row: int) -> float:
    try:
        values = row_values(query, unchangeable(tuple(column[row : row + 1] for column in columns)))
    except Exception:
        return 0.0
    return float(values[0]) if values.shape == (1,) else 0.0


def copied(columns: Sequence[Any]) -> Columns:
    """Return copies of columns, which stay as they are when the caller's change. Arrays cannot be written to."""
    return tuple(_read_only(np.array(column)) if _is_flat(column) else copy.deepcopy(column) for column in columns)


def unchangeable(columns: Columns) -> Columns:
    """Return what a query may see of copied columns: whatever it does, the next query sees the same rows.

    Arrays of numbers or texts refuse to be written to. Of everything else (lists, tables, arrays of objects), each
    query gets a copy.
    """
    return tuple(column.view() if _is_flat(column) else copy.deepcopy(column) for column in columns)


def _is_flat(column: Any) -> bool:
    """Return whether a column is an array whose entries are not objects, which could change on their own."""
    return type(column) in (np.ndarray, np.memmap) and not column.dtype.hasobject


def _read_only(column: NDArray[Any]) -> NDArray[Any]:
    column.flags.writeable = False
    return column.view()  # of which it cannot be made writeable again


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


def check_separate(training: Sequence[Any], holdout: Sequence[Any]) -> None:
    """Refuse a holdout that is the training set: every column is the same object, or shares memory.

    No value is looked at. A single column may be shared, such as predictions that are all equal.
    """
    if len(training) == len(holdout) and all(_is_shared(*pair) for pair in zip(training, holdout, strict=True)):
        advice = "The rows would agree with themselves, whatever you ask. Hold out rows before you train"
        raise InvalidArgument("holdout", "columns", "other rows than those of training", advice)


def _is_shared(first: Any, second: Any) -> bool:
    are_arrays = isinstance(first, np.ndarray) and isinstance(second, np.ndarray)
    return first is second or (are_arrays and bool(np.shares_memory(first, second)))
