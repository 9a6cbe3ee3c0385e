"""Reading the labels and cells of private rows, each one on its own.

An ordinary conversion looks at a whole column: one text in a list makes NumPy turn all numbers into text, and one bad
value raises an error that quotes it. Both would let a single record change how all the others are read. The functions
here treat every value on its own. An unreadable label becomes NaN, or class -1, and only its own row is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from hush.errors import InvalidArgument
from hush.numerics import number_or_nan

_TEXT, _NUMBERS = "US", "biuf"


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

    Otherwise one text, or one number that is too large for a float, would make a fit fail. That depends on a row.
    """
    is_table = hasattr(X, "iloc")
    if not (is_table or isinstance(X, (list, tuple)) or (isinstance(X, np.ndarray) and X.dtype.kind == "O")):
        return X
    with suppress(ValueError, TypeError, OverflowError):
        np.asarray(X, dtype=np.float64)
        return X
    if is_table and hasattr(X, "map"):
        return X.map(number_or_nan)
    cells = np.array(X, dtype=object)
    return X if cells.ndim != 2 else np.array([[number_or_nan(cell) for cell in row] for row in cells])


def numeric_labels(labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return labels as floats, NaN where a label is not a number. An array of text is refused: its type is public."""
    if labels.dtype.kind in _TEXT:
        raise InvalidArgument("y.dtype", str(labels.dtype), "numbers")
    if labels.dtype.kind == "c" or any(isinstance(label, complex) for label in labels[:1].tolist()):
        raise ValueError("Complex data not supported")
    if labels.dtype.kind == "O":
        return np.array([number_or_nan(label) for label in labels.tolist()], dtype=np.float64)
    return labels.astype(np.float64)


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
    kinds = (labels.dtype.kind, classes.dtype.kind)
    if "O" in kinds or all(kind in _TEXT for kind in kinds):
        table = {label: index for index, label in enumerate(classes.tolist())}
        return np.array([index_of(table, label) for label in labels.tolist()], dtype=np.int64)
    if any(kind in _TEXT for kind in kinds):
        advice = "With another type, no label could match a declared class"
        raise InvalidArgument(
            "y.dtype", str(labels.dtype), f"a type that compares with classes, {classes.dtype}", advice
        )
    nearest = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[nearest] == labels, nearest, -1)
