"""The table of a private search: arrays or data frames, with one placeholder row that belongs to no unit.

A split may leave no row to train on, but estimators need at least one. A placeholder that appeared only in that case
would disappear when the first person is added: two changes, while the accounting covers one. So the placeholder is part
of every training set.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from hush.estimators.base.labels import label_column, redact_cells, with_numbers_only

_MAX_SIZE = 1e30  # larger numbers could overflow in sums


@dataclass(frozen=True, slots=True)
class SearchTable:
    """Rows and labels. The last row is the placeholder: its values are missing, and its label is not a declared class.

    Attributes:
        rows: A data frame or an array.
        labels: One label per row.
        row_numbers: The usable rows, by position; the placeholder is not among them.
    """

    rows: Any
    labels: NDArray[Any]
    row_numbers: NDArray[np.int64]

    @property
    def count(self) -> int:
        """Number of usable rows."""
        return len(self.row_numbers)

    def training(self, selected: NDArray[np.bool_]) -> tuple[Any, NDArray[Any]]:
        """Return the selected rows and the placeholder, with their labels."""
        positions = np.append(self.row_numbers[selected], len(self.labels) - 1)
        return _safe_indexing(self.rows, positions), self.labels[positions]

    def placeholders(self) -> SearchTable:
        """Return a table of the same size that has placeholders only, to determine the cost of fits."""
        return replace(self, row_numbers=np.full(self.count, len(self.labels) - 1))

    def predictions(self, model: Any, selected: NDArray[np.bool_]) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Yield predictions and labels of the selected rows, in batches. Rows that the model refuses are skipped.

        An error would depend on the data, so batches that raise one are halved until the refused rows are isolated.
        """
        pending = [self.row_numbers[selected]]
        while pending:
            positions = pending.pop()
            if len(positions) == 0:
                continue
            try:
                predicted = np.asarray(model.predict(_safe_indexing(self.rows, positions)))
            except (ValueError, TypeError, ArithmeticError):
                half = len(positions) // 2
                pending += [positions[:half], positions[half:]] if half else []
                continue
            yield predicted, self.labels[positions]


def build_table(X: Any, y: Any, *, classes: bool, numeric: bool = False) -> SearchTable:
    """Return the table of X and y. Rows with NaN or with numbers above 1e30 are dropped.

    Args:
        X: An array, a data frame or lists.
        y: Labels.
        classes: Whether labels are classes; otherwise they are numbers.
        numeric: Whether the estimator reads numbers only. A cell of anything else then counts as NaN.
    """
    X = with_numbers_only(X) if numeric else X
    frame = hasattr(X, "iloc") and hasattr(X, "select_dtypes")
    values = X if frame else _as_array(X)
    with redact_cells():
        checked = check_array(values, dtype=np.float64 if numeric else None, ensure_all_finite=False)
    labels = _labels(y, classes=classes)
    check_consistent_length(checked, labels)
    if frame:  # columns of objects may hold numbers, too
        cells = X.select_dtypes("number").to_numpy(dtype=np.float64, na_value=np.nan)
        cells = np.concatenate([cells, X.select_dtypes(exclude="number").to_numpy(dtype=object)], axis=1)
    else:
        cells = checked
    usable = _in_range(cells).all(axis=1)
    if not classes:
        usable &= np.isfinite(labels)
    if frame:
        rows = X.reset_index(drop=True).reindex(range(len(labels) + 1))
    else:
        missing = np.full((1, checked.shape[1]), np.nan, dtype=np.float64 if checked.dtype.kind in "fiub" else object)
        rows = np.concatenate([checked, missing])
    return SearchTable(rows, _with_placeholder(labels), np.flatnonzero(usable))


def _in_range(cells: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which cells are not numbers, or are numbers small enough that sums do not overflow.

    Whether a sum overflows depends on the order of its terms, and so on other rows.
    """
    if cells.dtype.kind in "fiub":
        return np.asarray(np.abs(cells) < _MAX_SIZE)
    # Cell by cell: a string somewhere in the table must not change how other rows are treated.
    return np.array([_cell_in_range(cell) for cell in cells.ravel().tolist()], dtype=bool).reshape(cells.shape)


def _cell_in_range(cell: Any) -> bool:
    if isinstance(cell, Container) and not isinstance(cell, str | bytes):
        return False  # a list, for example, which no estimator reads
    size: Any = cell
    return not isinstance(cell, (float, int, np.number)) or bool(abs(size) < _MAX_SIZE)


def _as_array(X: Any) -> Any:
    """Return nested lists as an array in which no cell changes another: 1 stays 1 next to a string."""
    if hasattr(X, "dtype") or hasattr(X, "toarray") or hasattr(X, "__array__"):
        return X
    cells = np.array(X, dtype=object)
    return cells.astype(np.float64) if all(_is_exact_double(cell) for cell in cells.ravel().tolist()) else cells


def _is_exact_double(cell: Any) -> bool:
    """Return whether a cell is a number that a double represents exactly."""
    return isinstance(cell, float) or (isinstance(cell, int) and abs(cell) <= 1 << 53)


def _labels(y: Any, *, classes: bool) -> NDArray[Any]:
    """Return the labels: classes as they are, or numbers as floats."""
    if classes:
        return label_column(y)
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    try:
        return np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("y: expected numbers.") from None  # NumPy's message would quote a label


def _with_placeholder(labels: NDArray[Any]) -> NDArray[Any]:
    """Append a label that is not a declared class, of the same type where possible."""
    kind = labels.dtype.kind
    if kind == "b":
        labels, kind = labels.astype(np.int8), "i"
    if kind in "iu":
        limits = np.iinfo(labels.dtype)
        return np.append(labels, labels.dtype.type(limits.min if kind == "i" else limits.max))
    if kind == "f":
        return np.append(labels, labels.dtype.type(np.nan))
    return np.append(labels.astype(object), np.array([None], dtype=object))


def equal_labels(predicted: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which predictions equal their labels. Values that cannot be compared are not equal."""
    if labels.dtype.kind != "O" and predicted.dtype.kind != "O":
        return np.asarray(predicted == labels)
    answers = [left == right for left, right in zip(predicted.tolist(), labels.tolist(), strict=True)]
    return np.array([isinstance(answer, (bool, np.bool_)) and bool(answer) for answer in answers], dtype=bool)
