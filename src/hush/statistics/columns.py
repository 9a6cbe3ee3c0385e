"""Columns as numbers and codes, by rules that look at one row at a time: no record decides how another one is read.

A list is read element by element; the type of a NumPy array is public. What cannot be used is *missing*: None, NaN,
and whatever is not of the column's kind. Missing rows are left out; nothing in a column raises an exception.
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
_DEEPEST = 8  # tuples within tuples
_PLAIN = frozenset({str, bytes, bool, int, float, date, datetime, timedelta, Decimal, Fraction, UUID})
_FIXED_KINDS = "biufUSmM"  # NumPy types of which all elements are of one kind
_SPARE = 1 << 16


@dataclass(frozen=True, slots=True)
class EachRow:
    """In place of ids: every row is a unit of its own. Privacy is then per row, not per person."""


def length_of(name: str, column: Any) -> int:
    """Return how many rows a column has; refuse what is no column."""
    if isinstance(column, np.ma.MaskedArray):
        raise InvalidArgument(name, "a masked array", "an ordinary one", "Fill it: what is masked would be used")
    shape = getattr(column, "shape", None)
    flat = not isinstance(shape, tuple) or len(shape) == 1  # only an array has a shape that is public
    if isinstance(column, (str, bytes)) or not hasattr(column, "__len__") or not flat:
        raise InvalidArgument(name, type(column).__name__, "a list or an array of one dimension")
    return len(column)


def as_array(column: Any) -> NDArray[Any] | None:
    """Return an array of one kind, or None for a column that is to be read element by element."""
    if isinstance(column, (list, tuple)):
        return None
    array = np.asarray(column)
    return array if array.dtype.kind in _FIXED_KINDS and array.ndim == 1 else None


def elements(column: Any) -> list[Any]:
    """Return a column's elements as plain Python values, others as they are."""
    values = column if isinstance(column, (list, tuple)) else np.asarray(column)
    if isinstance(values, np.ndarray):
        kind = values.dtype.kind
        # Finer units would come as integers, and NaT as one of them.
        values = (values.astype(f"{kind}8[us]") if kind in "mM" else values).tolist()
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def as_floats(name: str, column: Any) -> Floats:
    """Return numbers; what is none becomes NaN, which stands for a missing row. Infinity stays: bounds clamp it."""
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
    """Tell which rows hold something: not None, NaN or NaT."""
    length_of(name, column)
    array = as_array(column)
    if array is None:
        return np.fromiter((_plain(value) is not None for value in elements(column)), dtype=np.bool_, count=len(column))
    if array.dtype.kind in "mM":
        return np.asarray(~np.isnat(array), dtype=np.bool_)
    present: NDArray[np.bool_] = array == array  # all but NaN
    return present


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a value that can be compared and hashed without surprises; None for any other, and for NaN."""
    kind = type(value)
    if kind is tuple and depth > _DEEPEST:
        return None
    if kind is tuple:
        parts = tuple(_plain(part, depth + 1) for part in value)
        return None if any(part is None for part in parts) else parts
    if kind not in _PLAIN:
        return None
    if kind is Decimal:
        return None if value.is_nan() else value
    try:
        return value if value == value and hash(value) is not None else None
    except Exception:  # somebody's own time zone, say: one record must not end a question
        return None


def codes_of(name: str, column: Any) -> tuple[Codes, int]:
    """Number the distinct ids of a column from 0; return a number for each row, -1 where it is missing, and how many.

    Equal ids have one number: 1 and 1.0 are the same user, "1" is another one.
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
    known: dict[Any, int] = {}
    plain = (_plain(value) for value in elements(column))
    numbered = (MISSING if value is None else known.setdefault(value, len(known)) for value in plain)
    return np.fromiter(numbered, dtype=np.int64, count=len(column)), len(known)


def _integer_codes(array: NDArray[Any]) -> tuple[Codes, int]:
    if len(array) == 0:
        return np.zeros(0, dtype=np.int64), 0
    least, most = int(array.min()), int(array.max())
    if most - least <= 4 * len(array) + _SPARE:  # numbers that nobody has do no harm, and sorting is saved
        shifted = array.astype(np.int64) if most < 1 << 63 else array - array.dtype.type(least)
        return shifted.astype(np.int64) - (least if most < 1 << 63 else 0), most - least + 1
    distinct, codes = np.unique(array, return_inverse=True)
    return codes.astype(np.int64), len(distinct)


def labels_of(name: str, column: Any) -> tuple[Codes, list[Any]]:
    """Number the distinct labels of a column, which may be released; return numbers and labels.

    Labels of different types are different: which of 1, 1.0 and True came first would tell whose it is. Their order
    does not depend on the rows' order. Tuples and other composite labels are missing.
    """
    length_of(name, column)
    known: dict[tuple[type, Any], int] = {}
    codes = np.fromiter((_label(value, known) for value in elements(column)), dtype=np.int64, count=len(column))
    labels = list(known)
    order = sorted(range(len(labels)), key=lambda place: _sort_key(labels[place][1]))
    renumbered = np.empty(len(labels) + 1, dtype=np.int64)
    renumbered[order] = np.arange(len(labels))
    renumbered[MISSING] = MISSING
    return renumbered[codes], [labels[place][1] for place in order]


def _label(value: Any, known: dict[tuple[type, Any], int]) -> int:
    label = _one_of_equals(_plain(value))
    return MISSING if label is None else known.setdefault((type(label), label), len(known))


def _one_of_equals(label: Any) -> Any:
    """Return the same for labels that are equal: -0.0 and 0.0, one instant in two time zones. None if there is none."""
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
    """Return for each row which of the public keys it has, -1 for none of them."""
    length_of(name, column)
    places = {key: place for place, key in enumerate(keys)}
    array = as_array(column)
    if array is not None and array.dtype.kind in "biu" and all(type(key) is int and abs(key) < 1 << 62 for key in keys):
        return _integer_places(array, np.array(keys, dtype=np.int64))
    plain = (_plain(value) for value in elements(column))
    found = (MISSING if value is None else places.get(value, MISSING) for value in plain)
    return np.fromiter(found, dtype=np.int64, count=len(column))


def _integer_places(array: NDArray[Any], keys: NDArray[np.int64]) -> Codes:
    numbers = np.minimum(array, 1 << 62).astype(np.int64) if array.dtype == np.uint64 else array.astype(np.int64)
    least, most = int(keys.min()), int(keys.max())
    if most - least <= _SPARE:
        table = np.full(most - least + 1, MISSING, dtype=np.int64)
        table[keys - least] = np.arange(len(keys))
        inside = (numbers >= least) & (numbers <= most)
        return np.where(inside, table[np.where(inside, numbers, least) - least], MISSING)
    order = np.argsort(keys)
    place = np.minimum(np.searchsorted(keys, numbers, sorter=order), len(keys) - 1)
    return np.where(keys[order[place]] == numbers, order[place], MISSING)


def check_keys(name: str, keys: Any) -> tuple[Any, ...]:
    """Return public keys, plain and distinct."""
    advice = "Keys are public: write them down, do not read them from the data"
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        raise InvalidArgument(name, type(keys).__name__, "a list of keys", advice)
    result = tuple(key.item() if isinstance(key, np.generic) else key for key in keys)
    if not result or any(_plain(key) is None for key in result):
        raise InvalidArgument(name, list(result), "texts, numbers or dates, one at least", advice)
    if len(set(result)) != len(result):
        raise InvalidArgument(name, list(result), "different keys", advice)
    return result
