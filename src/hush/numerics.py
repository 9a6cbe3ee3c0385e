"""Numbers at the edge of a release: untrusted values to floats or integers, and rounding to the safe side."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument

# NumPy's warnings would depend on the data: releases are silent.
silent = np.errstate(all="ignore")

_EXACT = 1 << 53  # floats hold every integer up to here


def numbers(name: str, values: object, shape: tuple[int, ...] | None = None) -> NDArray[np.float64]:
    """Return values as floats, whatever they are; messages tell their type and shape, never the values.

    Integers beyond 2^53 count as 2^53: rounding them to floats would move neighbours apart, clamping does not.
    """
    array = _as_array(name, values)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        array = np.clip(array, -_EXACT if array.dtype.kind == "i" else 0, _EXACT)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise InvalidArgument(f"{name}.dtype", str(array.dtype), "real numbers of at most 64 bits")
    if shape is not None and array.shape != shape:
        raise InvalidArgument(f"{name}.shape", array.shape, str(shape), "Shapes are public: they come with the query")
    return array.astype(np.float64, copy=False)  # never written to


def integers(name: str, values: object) -> NDArray[np.int64]:
    """Return whole numbers as 64-bit integers, those beyond 2^61 as 2^61."""
    limit = 1 << 61
    array = _as_array(name, values, whole=limit)
    if array.dtype.kind not in "biu":
        raise InvalidArgument(
            f"{name}.dtype", str(array.dtype), "integers", "For real numbers take Laplace or Gaussian"
        )
    if array.dtype.kind == "b":
        return array.astype(np.int64)
    clamped: NDArray[np.int64] = np.clip(array, 0 if array.dtype.kind == "u" else -limit, limit).astype(np.int64)
    return clamped


def _as_array(name: str, values: object, whole: int | None = None) -> NDArray[Any]:
    """Return an array; lists that NumPy would take for objects or round (large integers, None) number by number.

    With ``whole``, lists of integers are clamped to it in size, and None counts as 0; else as NaN.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidArgument(name, "a masked array", "an ordinary one", "Fill it: what is masked would be used")
    try:
        array = np.asarray(values)
        if isinstance(values, (list, tuple)) and array.dtype.kind == "f" and bool((np.abs(array) >= _EXACT).any()):
            array = np.asarray(values, dtype=object)  # integers may have been rounded to floats
    except ValueError:  # ragged lists
        raise InvalidArgument(name, type(values).__name__, "numbers in a regular shape") from None
    if array.dtype.kind != "O":
        return array
    flat = array.ravel().tolist()
    if whole is not None and all(one is None or isinstance(one, Integral) for one in flat):
        clamped = [0 if one is None else max(min(int(one), whole), -whole) for one in flat]
        return np.array(clamped, dtype=np.int64).reshape(array.shape)
    if not all(one is None or isinstance(one, Real) for one in flat):
        raise InvalidArgument(f"{name}.dtype", "object", "real numbers")
    return np.array([_as_float(one) for one in flat], dtype=np.float64).reshape(array.shape)


def _as_float(value: Any) -> float:
    if value is None:
        return float("nan")
    if isinstance(value, Integral):
        return float(max(min(int(value), _EXACT), -_EXACT))
    try:
        return float(value)
    except OverflowError:  # a fraction beyond the range of floats
        return float("inf") if value > 0 else float("-inf")


def down(value: float) -> float:
    """Return a slightly smaller number: what a few roundings could have added is gone."""
    return value * (1 - 2.0**-50)


def up(value: float) -> float:
    """Return a slightly larger number: what a few roundings could have taken away is back."""
    return value * (1 + 2.0**-50)
