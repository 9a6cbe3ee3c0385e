"""Columns as numbers and codes. Each row is read on its own, so no record affects how another is read.

A list is read element by element. The type of a NumPy array is public, so an array of one type is read at once. Values
that cannot be used are *missing*: None, NaN, and anything that is not of the column's kind. Rows with missing values
are left out. No value in a column raises an exception, because an exception would reveal it.

- `as_floats`: a column of numbers.
- `codes_of`: ids, numbered; `labels_of`: labels that may be released, numbered; `key_codes`: positions in a public
  list.
- `check_keys`: the public list itself, which may raise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]

MISSING = -1
_MAX_DEPTH = 8  # of tuples within tuples
_PLAIN_TYPES = frozenset({str, bytes, bool, int, float, date, datetime, timedelta, Decimal, Fraction, UUID})
_FIXED_KINDS = "biufUSmM"  # NumPy dtypes whose elements are all of one kind
_SMALL_TABLE = 1 << 16  # entries of a lookup table that are always affordable


@dataclass(frozen=True, slots=True)
class EachRow:
    """Pass it as ``units`` if every row is its own privacy unit. The guarantee is then per row, not per person.

    >>> from hush.randomness import TestSource
    >>> from hush.statistics import count
    >>> str(count([7, 7], units=EachRow(), epsilon=1.0, source=TestSource(1)).guarantee.unit)
    'example'
    """


def length_of(name: str, column: Any) -> int:
    """Return the number of rows of a column; refuse anything that is not a one-dimensional column.

    Args:
        name: The argument's name, for messages.
        column: A list, or an array of one dimension.
    """
    if isinstance(column, np.ma.MaskedArray):
        raise InvalidArgument(name, "a masked array", "an ordinary array", "Fill it: masked values would be used")
    shape = getattr(column, "shape", None)
    is_flat = not isinstance(shape, tuple) or len(shape) == 1
    if isinstance(column, (str, bytes)) or not hasattr(column, "__len__") or not is_flat:
        raise InvalidArgument(name, type(column).__name__, "a list or an array of one dimension")
    return len(column)


def as_array(column: Any) -> NDArray[Any] | None:
    """Return an array whose elements are of one kind; None for a column that must be read element by element."""
    if isinstance(column, (list, tuple)):
        return None
    array = np.asarray(column)
    return array if array.dtype.kind in _FIXED_KINDS and array.ndim == 1 else None


def elements(column: Any) -> list[Any]:
    """Return a column's elements, with NumPy scalars as plain Python values."""
    values = column if isinstance(column, (list, tuple)) else np.asarray(column)
    if isinstance(values, np.ndarray):
        kind = values.dtype.kind
        # In units finer than microseconds, NumPy would return integers, and NaT as one of them.
        values = (values.astype(f"{kind}8[us]") if kind in "mM" else values).tolist()
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def as_floats(name: str, column: Any) -> Floats:
    """Return a column as floats. Everything that is not a number becomes NaN; infinity stays, for bounds to clamp.

    Args:
        name: The argument's name, for messages.
        column: A list, or an array of one dimension.
    """
    length_of(name, column)
    array = as_array(column)
    if array is None:
        return np.fromiter((_as_float(value) for value in elements(column)), dtype=np.float64, count=len(column))
    if array.dtype.kind not in "biuf":
        raise InvalidArgument(f"{name}.dtype", str(array.dtype), "real numbers", "The type of an array is public")
    with np.errstate(all="ignore"):
        return array.astype(np.float64, copy=False)


def _as_float(value: Any) -> float:
    if type(value) is float:
        return value
    if not isinstance(value, (Real, Decimal)):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # beyond the range of floats
        return math.inf if value > type(value)(0) else -math.inf  # type: ignore[call-arg, operator]
    except (ValueError, TypeError):  # a signalling Decimal
        return math.nan


def is_present(column: Any, name: str = "values") -> NDArray[np.bool_]:
    """Return which rows hold a value: not None, NaN or NaT, and of a type that can be compared."""
    length_of(name, column)
    array = as_array(column)
    if array is None:
        return np.fromiter((_plain(value) is not None for value in elements(column)), dtype=np.bool_, count=len(column))
    if array.dtype.kind in "mM":
        return np.asarray(~np.isnat(array), dtype=np.bool_)
    present: NDArray[np.bool_] = array == array  # False for NaN only
    return present


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a value that can be compared and hashed safely; None for any other value, and for NaN.

    Types are compared by identity: a subclass could override ``__eq__`` or ``__hash__``, and run code of its own.
    """
    kind = type(value)
    if kind is tuple and depth > _MAX_DEPTH:
        return None
    if kind is tuple:
        parts = tuple(_plain(part, depth + 1) for part in value)
        return None if any(part is None for part in parts) else parts
    if kind not in _PLAIN_TYPES:
        return None
    if kind is Decimal:
        return None if value.is_nan() else value
    try:
        return value if value == value and hash(value) is not None else None
    except Exception:  # a datetime's time zone may be of any class; one record must not stop the release
        return None


def codes_of(name: str, column: Any) -> tuple[Codes, int]:
    """Number the distinct ids of a column from 0.

    Equal ids have the same code: 1 and 1.0 are the same unit, and "1" is another one. Codes are never released, so
    their order may depend on the data.

    Args:
        name: The argument's name, for messages.
        column: A list, or an array of one dimension.

    Returns:
        The code of each row, -1 where the id is missing; and an upper bound on the codes.
    """
    length_of(name, column)
    array = as_array(column)
    if array is not None and array.dtype.kind in "biu":
        return _integer_codes(array)
    if array is not None and array.dtype.kind in "fmM":
        present = is_present(array)
        codes = np.full(len(array), MISSING, dtype=np.int64)
        distinct, codes[present] = np.unique(array[present], return_inverse=True)
        return codes, len(distinct)
    numbering: dict[Any, int] = {}
    plain = (_plain(value) for value in elements(column))
    numbers = (MISSING if value is None else numbering.setdefault(value, len(numbering)) for value in plain)
    return np.fromiter(numbers, dtype=np.int64, count=len(column)), len(numbering)


def _integer_codes(array: NDArray[Any]) -> tuple[Codes, int]:
    if len(array) == 0:
        return np.zeros(0, dtype=np.int64), 0
    smallest, largest = int(array.min()), int(array.max())
    if largest - smallest <= 4 * len(array) + _SMALL_TABLE:  # unused codes do no harm, and sorting takes longer
        if largest < 1 << 63:
            return array.astype(np.int64) - smallest, largest - smallest + 1
        return (array - array.dtype.type(smallest)).astype(np.int64), largest - smallest + 1
    distinct, codes = np.unique(array, return_inverse=True)
    return codes.astype(np.int64), len(distinct)


def labels_of(name: str, column: Any) -> tuple[Codes, list[Any]]:
    """Number the distinct labels of a column, which may be released after a private selection.

    Labels of different types are different labels: if 1, 1.0 and True were one, the label that is shown would reveal
    whose row came first. The order of the labels does not depend on the order of the rows. Tuples and other composite
    values count as missing.

    Args:
        name: The argument's name, for messages.
        column: A list, or an array of one dimension.

    Returns:
        The code of each row, -1 where the label is missing; and the labels in the order of their codes.
    """
    length_of(name, column)
    numbering: dict[tuple[type, Any], int] = {}
    codes = np.fromiter((_label_code(value, numbering) for value in elements(column)), np.int64, count=len(column))
    labels = [label for _, label in numbering]
    order = sorted(range(len(labels)), key=lambda code: _sort_key(labels[code]))
    new_codes = np.empty(len(labels) + 1, dtype=np.int64)
    new_codes[order] = np.arange(len(labels))
    new_codes[MISSING] = MISSING  # -1 is the last entry
    return new_codes[codes], [labels[code] for code in order]


def _label_code(value: Any, numbering: dict[tuple[type, Any], int]) -> int:
    label = _canonical(_plain(value))
    return MISSING if label is None else numbering.setdefault((type(label), label), len(numbering))


def _canonical(label: Any) -> Any:
    """Return one representative for labels that are equal but look different; None for types that have none.

    Equal labels are 0.0 and -0.0, and one instant in two time zones. Which of them came first must not show.
    """
    kind = type(label)
    if kind is float:
        return label + 0.0
    if kind is datetime:
        try:
            return (label if label.tzinfo is None else label.astimezone(UTC)).replace(fold=0)
        except OverflowError:  # at the ends of the calendar
            return None
    return None if kind in (tuple, Decimal) else label


def _sort_key(label: Any) -> tuple[str, Any]:
    return type(label).__name__, str(label) if type(label) is datetime else label


def key_codes(name: str, column: Any, keys: Sequence[Any]) -> Codes:
    """Return the position of each row's value in the public list of keys, -1 if it is not in the list.

    Args:
        name: The argument's name, for messages.
        column: A list, or an array of one dimension.
        keys: The list, as `check_keys` returns it.
    """
    length_of(name, column)
    positions = {key: position for position, key in enumerate(keys)}
    array = as_array(column)
    if array is not None and array.dtype.kind in "biu" and all(type(key) is int and abs(key) < 1 << 62 for key in keys):
        return _integer_key_codes(array, np.array(keys, dtype=np.int64))
    plain = (_plain(value) for value in elements(column))
    codes = (MISSING if value is None else positions.get(value, MISSING) for value in plain)
    return np.fromiter(codes, dtype=np.int64, count=len(column))


def _integer_key_codes(array: NDArray[Any], keys: NDArray[np.int64]) -> Codes:
    numbers = np.minimum(array, 1 << 62).astype(np.int64) if array.dtype == np.uint64 else array.astype(np.int64)
    smallest, largest = int(keys.min()), int(keys.max())
    if largest - smallest <= _SMALL_TABLE:
        table = np.full(largest - smallest + 1, MISSING, dtype=np.int64)
        table[keys - smallest] = np.arange(len(keys))
        inside = (numbers >= smallest) & (numbers <= largest)
        return np.where(inside, table[np.where(inside, numbers, smallest) - smallest], MISSING)
    order = np.argsort(keys)
    positions = np.minimum(np.searchsorted(keys, numbers, sorter=order), len(keys) - 1)
    return np.where(keys[order[positions]] == numbers, order[positions], MISSING)


def check_keys(name: str, keys: Any) -> tuple[Any, ...]:
    """Return the public list of keys, plain and distinct. Its values may appear in messages.

    Args:
        name: The argument's name, for messages.
        keys: The list.
    """
    advice = "Keys are public: write them down, do not read them from the data"
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        raise InvalidArgument(name, type(keys).__name__, "a list of keys", advice)
    result = tuple(key.item() if isinstance(key, np.generic) else key for key in keys)
    if not result or any(_plain(key) is None for key in result):
        raise InvalidArgument(name, list(result), "at least one string, number or date", advice)
    if len(set(result)) != len(result):
        raise InvalidArgument(name, list(result), "distinct keys", advice)
    return result
