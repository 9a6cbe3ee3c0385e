"""Labels and cells of private rows: each is read by itself, so that no record decides how others are read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from hush.errors import InvalidArgument

_TEXT, _NUMBERS = "US", "biuf"


@contextmanager
def cells_unquoted() -> Iterator[None]:
    """Say that a table has text in it without quoting the text, as NumPy's message does."""
    try:
        yield
    except ValueError as error:
        if "could not convert" in str(error):
            raise InvalidArgument("X", "a table", "numbers", "Some of it is text") from None
        raise


def number(value: Any) -> float:
    """Return a number, NaN for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def place_of(table: dict[Any, int], value: Any) -> int:
    """Return where a value is in a table, -1 if it is not."""
    try:
        return table.get(value, -1)
    except TypeError:  # a list, for instance
        return -1


def column(y: Any) -> NDArray[Any]:
    """Return labels in one column. Those of a list keep their own types: as an array, one text would make all text."""
    if isinstance(y, (list, tuple)) and not all(isinstance(each, (list, tuple, np.ndarray)) for each in y):
        labels = np.empty(len(y), dtype=object)
        for index, each in enumerate(y):
            labels[index] = each
        return labels
    return np.asarray(column_or_1d(y, warn=True))


def numbers(labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return labels as numbers, NaN for what is none; text is refused: the type of a whole array is public."""
    if labels.dtype.kind in _TEXT:
        raise InvalidArgument("y.dtype", str(labels.dtype), "numbers")
    if labels.dtype.kind == "c" or any(isinstance(each, complex) for each in labels[:1].tolist()):
        raise ValueError("Complex data not supported")
    if labels.dtype.kind == "O":
        return np.array([number(each) for each in labels.tolist()], dtype=np.float64)
    return labels.astype(np.float64)


def check_classes(classes: Any) -> None:
    """Refuse what is no list of classes."""
    advice = "They are public, and given as a list of numbers or of text"
    found = np.asarray(classes)
    mixed = found.dtype.kind in _TEXT and not all(isinstance(each, (str, bytes)) for each in classes)
    if found.ndim != 1 or mixed or found.dtype.kind not in _TEXT + _NUMBERS + "O":
        raise InvalidArgument("classes", classes, "two or more different labels", advice)
    if not (len(found) >= 2 and len(np.unique(found)) == len(found)):
        raise InvalidArgument("classes", classes, "two or more different labels", advice)


def places(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return each label's number among sorted classes, -1 for one that is not declared."""
    kinds = (labels.dtype.kind, classes.dtype.kind)
    if "O" in kinds or all(kind in _TEXT for kind in kinds):
        table = {label: index for index, label in enumerate(classes.tolist())}
        return np.array([place_of(table, label) for label in labels.tolist()], dtype=np.int64)
    if any(kind in _TEXT for kind in kinds):
        advice = "Of another type, no row would have a declared class"
        raise InvalidArgument("y.dtype", str(labels.dtype), f"one that compares with classes, {classes.dtype}", advice)
    found = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[found] == labels, found, -1)
