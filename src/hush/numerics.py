"""Conversion and checks of numbers where data enter a mechanism.

Data arrive as anything that NumPy can read. `as_floats` and `as_integers` convert them without raising or warning on
their *values*: an exception or a warning that depends on data would leak. They raise only on types and shapes, which
are public. `clip_rows` bounds what a row can contribute. `check_bounds` checks the public bounds that values are
clamped to. `round_down` and `round_up` move a derived bound to its safe side.

`number_or_nan` reads one value, for code in which a whole array must not affect how single values are read.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument

quiet_numpy = np.errstate(all="ignore")
"""A context manager and decorator that silences NumPy's warnings, which would depend on the data."""

# NumPy warns when it turns some of these into a float, and a warning would tell of a row. Dates have no scale.
_NOT_REAL = (np.ndarray, np.complexfloating, np.datetime64, np.timedelta64)

_LARGEST_EXACT = 1 << 53  # floats hold every integer up to here
_LARGEST_INTEGER = 1 << 61  # leaves room to add noise and to compare without overflow in 64 bits


def as_floats(name: str, values: object, shape: tuple[int, ...] | None = None) -> NDArray[np.float64]:
    """Return values as 64-bit floats. Error messages state their type and shape, never the values.

    Integers beyond 2^53 are clamped to 2^53. Rounding them to floats could move neighbouring datasets further apart
    than the sensitivity allows; clamping cannot.

    >>> as_floats("values", [1, None, 2**60]).tolist()
    [1.0, nan, 9007199254740992.0]

    Args:
        name: The argument's name, for messages.
        values: An array or nested lists of real numbers. None becomes NaN.
        shape: The required shape, if there is one.
    """
    array = _as_array(name, values)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        array = np.clip(array, -_LARGEST_EXACT if array.dtype.kind == "i" else 0, _LARGEST_EXACT)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise InvalidArgument(f"{name}.dtype", str(array.dtype), "real numbers of at most 64 bits")
    if shape is not None and array.shape != shape:
        raise InvalidArgument(f"{name}.shape", array.shape, str(shape), "Shapes are public: they come with the query")
    return array.astype(np.float64, copy=False)  # callers never write to it


def as_integers(name: str, values: object) -> NDArray[np.int64]:
    """Return integers as 64-bit integers, clamped to at most 2^61 in absolute value.

    >>> as_integers("counts", [3, None, 10**30]).tolist() == [3, 0, 2**61]
    True

    Args:
        name: The argument's name, for messages.
        values: An array or nested lists of integers or booleans. None becomes 0.
    """
    array = _as_array(name, values, integer_limit=_LARGEST_INTEGER)
    if array.dtype.kind not in "biu":
        raise InvalidArgument(
            f"{name}.dtype", str(array.dtype), "integers", "For real numbers, use Laplace or Gaussian"
        )
    if array.dtype.kind == "b":
        return array.astype(np.int64)
    smallest = 0 if array.dtype.kind == "u" else -_LARGEST_INTEGER
    clamped: NDArray[np.int64] = np.clip(array, smallest, _LARGEST_INTEGER).astype(np.int64)
    return clamped


def _as_array(name: str, values: object, integer_limit: int | None = None) -> NDArray[Any]:
    """Return an array of a numeric type.

    NumPy turns lists with None or large integers into objects, or rounds them. Such lists are converted one element
    at a time.

    Args:
        name: The argument's name, for messages.
        values: The values to convert.
        integer_limit: If set, lists of integers are clamped to it and None counts as 0; otherwise None counts as NaN.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidArgument(name, "a masked array", "an ordinary one", "Fill it: masked values would be used")
    try:
        array = np.asarray(values)
        is_float_list = isinstance(values, (list, tuple)) and array.dtype.kind == "f"
        if is_float_list and bool((np.abs(array) >= _LARGEST_EXACT).any()):
            array = np.asarray(values, dtype=object)  # NumPy may have rounded integers among them
    except ValueError:  # ragged lists
        raise InvalidArgument(name, type(values).__name__, "numbers in a regular shape") from None
    if array.dtype.kind != "O":
        return array
    elements = array.ravel().tolist()
    if integer_limit is not None and all(element is None or isinstance(element, Integral) for element in elements):
        clamped = [0 if element is None else _clamp(int(element), integer_limit) for element in elements]
        return np.array(clamped, dtype=np.int64).reshape(array.shape)
    if not all(element is None or isinstance(element, Real) for element in elements):
        raise InvalidArgument(f"{name}.dtype", "object", "real numbers")
    return np.array([_as_float(element) for element in elements], dtype=np.float64).reshape(array.shape)


def _clamp(value: int, limit: int) -> int:
    return max(min(value, limit), -limit)


def _as_float(value: Any) -> float:
    if value is None:
        return float("nan")
    if isinstance(value, Integral):
        return float(_clamp(int(value), _LARGEST_EXACT))
    try:
        return float(value)
    except OverflowError:  # a fraction beyond the range of floats
        return float("inf") if value > 0 else float("-inf")


def number_or_nan(value: Any) -> float:
    """Return a value as a float, or NaN if it is not a number.

    >>> number_or_nan("1.5"), number_or_nan("north")
    (1.5, nan)
    """
    if isinstance(value, _NOT_REAL):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def check_bounds(bounds: Any, name: str = "bounds") -> tuple[float, float]:
    """Return public bounds as (lower, upper), two finite numbers in this order."""
    try:
        lower, upper = (float(bound) for bound in bounds)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(name, bounds, "a pair of numbers (lower, upper)") from None
    if not -1e200 < lower < upper < 1e200:
        raise InvalidArgument(name, bounds, "finite numbers, the lower one first")
    return lower, upper


def clip_rows(rows: NDArray[np.float64], clip_norm: float, order: int) -> NDArray[np.float64]:
    """Scale each row that is longer than ``clip_norm`` down to it. NaN becomes 0, infinity the largest number.

    >>> clip_rows(np.array([[3.0, 4.0], [0.3, np.nan]]), 1.0, order=2).tolist()
    [[0.6000000000000001, 0.8], [0.3, 0.0]]

    Args:
        rows: One row for each record.
        clip_norm: The largest norm of a row.
        order: 1 for the L1 norm, 2 for the L2 norm.
    """
    finite = np.clip(np.nan_to_num(rows, nan=0.0), -1e150, 1e150)  # whose squares do not overflow
    norms = np.abs(finite).sum(axis=1) if order == 1 else np.sqrt((finite * finite).sum(axis=1))
    factors = np.divide(clip_norm, norms, out=np.ones_like(norms), where=norms > clip_norm)
    clipped: NDArray[np.float64] = finite * factors[:, None]
    return clipped


def round_down(value: float) -> float:
    """Return a slightly smaller number: a lower bound on the exact value after a few rounding errors.

    The relative margin of 2^-50 covers six operations of relative error at most 2^-53, and the product's own.
    """
    return value * (1 - 2.0**-50)


def round_up(value: float) -> float:
    """Return a slightly larger number: an upper bound on the exact value after a few rounding errors."""
    return value * (1 + 2.0**-50)


def expm1_or_infinity(value: float) -> float:
    """Return e^value - 1, or infinity where a float cannot hold it.

    >>> expm1_or_infinity(0.0), expm1_or_infinity(1000.0)
    (0.0, inf)
    """
    return math.expm1(value) if value < 700 else math.inf
