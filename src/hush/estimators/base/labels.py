"""Reading the labels and cells of private rows, each one on its own.

An ordinary conversion looks at a whole column: one text in a list makes NumPy turn all numbers into text, and one bad
value raises an error that quotes it. Both would let a single record change how all the others are read. The functions
here treat every value on its own. An unreadable label becomes NaN, or class -1, and only its own row is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from numbers import Number
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from hush.errors import InvalidArgument
from hush.numerics import number_or_nan

_TEXT, _NUMBERS = "US", "biuf"
_PLAIN_TYPES = {float, int, bool, NoneType, np.float64, np.float32, np.int64, np.int32, np.bool_}


@contextmanager
def redact_cells() -> Iterator[None]:
    """Report text in a table of numbers without quoting it; NumPy's own message would quote it."""
    try:
        yield
    except ValueError as error:
        if "could not convert" in str(error):
            raise InvalidArgument("X", "a table", "numbers", "Some cells are text") from None
        raise


def index_of(table: dict[Any, int], value: Any) -> int:
    """Return the index of a value in a table, or -1 if the table does not have it."""
    try:
        return table.get(value, -1)
    except TypeError:  # a list, for instance
        return -1


def label_column(y: Any) -> NDArray[Any]:
    """Return labels as one column. Labels in a list keep their types: in an array, one text makes all of them text."""
    if isinstance(y, (list, tuple)) and not all(isinstance(label, (list, tuple, np.ndarray)) for label in y):
        labels = np.empty(len(y), dtype=object)
        for index, label in enumerate(y):
            labels[index] = label
        return labels
    return np.asarray(column_or_1d(y, warn=True))


def with_numbers_only(X: Any) -> Any:
    """Return a table in which each cell of a list, or of type object, that is no number is missing.

    Otherwise one text, or one number that is too large for a float, would make a fit fail. That depends on a row. So
    would reading the table as a whole where that succeeds: NumPy reads some cells, such as dates, in another way.
    """
    if hasattr(X, "columns") and hasattr(X, "apply"):
        kinds = [getattr(dtype, "kind", "O") for dtype in X.dtypes]
        return X if all(kind in _NUMBERS for kind in kinds) else X.apply(_column_of_numbers)
    if not (isinstance(X, (list, tuple)) or (isinstance(X, np.ndarray) and X.dtype.kind == "O")):
        return X
    rows = [row.tolist() if hasattr(row, "tolist") else row for row in X]
    if not all(isinstance(row, (list, tuple)) for row in rows) or len({len(row) for row in rows}) != 1:
        return X  # scikit-learn refuses its shape
    cells = list(chain.from_iterable(rows))
    if all(isinstance(cell, (list, tuple, np.ndarray)) for cell in cells):
        return X  # three dimensions, or no columns
    return _numbers(cells).reshape(len(rows), -1)


def _column_of_numbers(column: Any) -> Any:
    """Return a column of a data frame as numbers. The type of a column is public."""
    return column if getattr(column.dtype, "kind", "O") in _NUMBERS else column.map(number_or_nan)


def _numbers(cells: list[Any]) -> NDArray[np.float64]:
    """Return cells as floats, each as `number_or_nan` reads it."""
    if set(map(type, cells)) <= _PLAIN_TYPES:
        with suppress(OverflowError):
            return np.array(cells, dtype=np.float64)  # the same, and some ten times as fast
    return np.array([number_or_nan(cell) for cell in cells], dtype=np.float64)


def numeric_labels(labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return labels as floats, NaN where a label is not a number. An array of text is refused: its type is public."""
    if labels.dtype.kind in _TEXT:
        raise InvalidArgument("y.dtype", str(labels.dtype), "numbers")
    if labels.dtype.kind == "c" or any(isinstance(label, complex) for label in labels[:1].tolist()):
        raise ValueError("Complex data not supported")
    if labels.dtype.kind == "O":
        return np.array([number_or_nan(label) for label in labels.tolist()], dtype=np.float64)
    return labels.astype(np.float64)


def _check_kind(labels: NDArray[Any], classes: NDArray[Any]) -> None:
    """Refuse labels of which none has a type that compares with the classes: text for numbers, for instance.

    The type of a column is public. In a list, and in an array of objects, it is what all labels have in common. One
    label of another type among them is an undeclared one: whether it occurs depends on a row.
    """
    if labels.dtype.kind == "O":
        comparable = _comparable_types(classes)
        mismatch = not any(issubclass(kind, comparable) for kind in set(map(type, labels.tolist())))
        stated = "objects"
    else:
        kinds = labels.dtype.kind, classes.dtype.kind
        mismatch = "O" not in kinds and kinds[0] != kinds[1] and not set(kinds) <= set(_NUMBERS)
        stated = str(labels.dtype)
    if mismatch and len(labels):
        advice = "With another type, no label could match a declared class"
        raise InvalidArgument("y.dtype", stated, f"a type that compares with classes, {classes.dtype}", advice)


def _comparable_types(classes: NDArray[Any]) -> tuple[type, ...]:
    """Return the types of labels that can equal a class. A missing label has any type."""
    kind = classes.dtype.kind
    if kind in _NUMBERS:
        return (Number, np.number, np.bool_, NoneType)
    return (object,) if kind == "O" else (str, NoneType) if kind == "U" else (bytes, NoneType)


def check_classes(classes: Any) -> None:
    """Check that ``classes`` lists at least two different labels of one kind."""
    advice = "Classes are public: pass a list of numbers, or a list of strings"
    labels = np.asarray(classes)
    mixed = labels.dtype.kind in _TEXT and not all(isinstance(label, (str, bytes)) for label in classes)
    if labels.ndim != 1 or mixed or labels.dtype.kind not in _TEXT + _NUMBERS + "O":
        raise InvalidArgument("classes", classes, "two or more different labels", advice)
    if not (len(labels) >= 2 and len(np.unique(labels)) == len(labels)):
        raise InvalidArgument("classes", classes, "two or more different labels", advice)


def to_class_indices(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of each label in the sorted classes, or -1 for a label that is not declared."""
    _check_kind(labels, classes)
    kinds = (labels.dtype.kind, classes.dtype.kind)
    if "O" in kinds or all(kind in _TEXT for kind in kinds):
        table = {label: index for index, label in enumerate(classes.tolist())}
        return np.array([index_of(table, label) for label in labels.tolist()], dtype=np.int64)
    nearest = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[nearest] == labels, nearest, -1)
