"""The rows of a private search: arrays or data frames, with one more row that is nobody's.

A search may be left with nobody to train on, and estimators want a row. One that is put there in that case only would
be replaced by the first person who comes: two changes, of which one is paid for. So it is in every training set.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from hush.estimators.base.labels import cells_unquoted, column

_LARGEST = 1e30


@dataclass(frozen=True, slots=True)
class SearchTable:
    """Rows and labels. The last of them is nobody's: all its values are missing, and its label is no declared one.

    Attributes:
        rows: A data frame or an array.
        labels: One for each row.
        people: Which rows they are by place; the last one, nobody's, is not among them.
    """

    rows: Any
    labels: NDArray[Any]
    people: NDArray[np.int64]

    @property
    def count(self) -> int:
        """The number of people."""
        return len(self.people)

    def training(self, chosen: NDArray[np.bool_]) -> tuple[Any, NDArray[Any]]:
        """Return the rows of some people, and nobody's."""
        places = np.append(self.people[chosen], len(self.labels) - 1)
        return _safe_indexing(self.rows, places), self.labels[places]

    def nobody(self) -> SearchTable:
        """Return as many rows, all of them nobody's: a fit to them tells what fits cost."""
        return replace(self, people=np.full(self.count, len(self.labels) - 1))

    def predicted(self, model: Any, chosen: NDArray[np.bool_]) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Return predictions and labels of some people, in parts; rows that the model refuses are in none.

        An error for a row would depend on the data. Those that are no errors are found by halving.
        """
        waiting = [self.people[chosen]]
        while waiting:
            places = waiting.pop()
            if len(places) == 0:
                continue
            try:
                found = np.asarray(model.predict(_safe_indexing(self.rows, places)))
            except (ValueError, TypeError, ArithmeticError):
                half = len(places) // 2
                waiting += [places[:half], places[half:]] if half else []
                continue
            yield found, self.labels[places]


def made_table(X: Any, y: Any, *, classes: bool, numeric: bool = False) -> SearchTable:
    """Return a table of what is given; rows with NaN or more than 1e30 among their numbers are left out.

    A ``numeric`` table has numbers only, and anything else is refused here, where all rows are: if a fit were to
    refuse it, then a coin would, which decides whether the row is among those that are fitted.
    """
    frame = hasattr(X, "iloc") and hasattr(X, "select_dtypes")
    values = X if frame else _array(X)
    with cells_unquoted():
        checked = check_array(values, dtype=np.float64 if numeric else None, ensure_all_finite=False)
    labels = _labels(y, classes=classes)
    check_consistent_length(checked, labels)
    if frame:  # columns of objects may have numbers, too
        numbers = X.select_dtypes("number").to_numpy(dtype=np.float64, na_value=np.nan)
        numbers = np.concatenate([numbers, X.select_dtypes(exclude="number").to_numpy(dtype=object)], axis=1)
    else:
        numbers = checked
    kept = _near(numbers).all(axis=1)
    if not classes:
        kept &= np.isfinite(labels)
    if frame:
        rows = X.reset_index(drop=True).reindex(range(len(labels) + 1))
    else:
        missing = np.full((1, checked.shape[1]), np.nan, dtype=np.float64 if checked.dtype.kind in "fiub" else object)
        rows = np.concatenate([checked, missing])
    return SearchTable(rows, _with_none(labels), np.flatnonzero(kept))


def _near(cells: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which cells are text and the like, or numbers of a size for which sums do not overflow.

    Whether a sum overflows depends on the order of its terms, and so on the rows beside it.
    """
    if cells.dtype.kind in "fiub":
        return np.asarray(np.abs(cells) < _LARGEST)
    # One by one: that a table has a text in it must not change how other rows are judged.
    return np.array([_is_near(cell) for cell in cells.ravel().tolist()], dtype=bool).reshape(cells.shape)


def _is_near(cell: Any) -> bool:
    if isinstance(cell, Container) and not isinstance(cell, str | bytes):
        return False  # a list, for instance, which no estimator reads
    size: Any = cell
    return not isinstance(cell, (float, int, np.number)) or bool(abs(size) < _LARGEST)


def _array(X: Any) -> Any:
    """Return what is no array as one in which no value changes by what is beside it: 1 stays 1 beside a text."""
    if hasattr(X, "dtype") or hasattr(X, "toarray") or hasattr(X, "__array__"):
        return X
    found = np.array(X, dtype=object)
    return found.astype(np.float64) if all(_plain(cell) for cell in found.ravel().tolist()) else found


def _plain(cell: Any) -> bool:
    """Return whether a cell is a number that a double has exactly."""
    return isinstance(cell, float) or (isinstance(cell, int) and abs(cell) <= 1 << 53)


def _labels(y: Any, *, classes: bool) -> NDArray[Any]:
    if classes:
        return column(y)
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    try:
        return np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("y: expected numbers.") from None  # the first message would quote one of them


def _with_none(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels and one more that nobody declares, of the same type where there is one."""
    kind = labels.dtype.kind
    if kind == "b":
        labels, kind = labels.astype(np.int8), "i"
    if kind in "iu":
        limits = np.iinfo(labels.dtype)
        return np.append(labels, labels.dtype.type(limits.min if kind == "i" else limits.max))
    if kind == "f":
        return np.append(labels, labels.dtype.type(np.nan))
    return np.append(labels.astype(object), np.array([None], dtype=object))


def same(found: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which labels are those found; what cannot be compared is not."""
    if labels.dtype.kind != "O" and found.dtype.kind != "O":
        return np.asarray(found == labels)
    answers = [one == other for one, other in zip(found.tolist(), labels.tolist(), strict=True)]
    return np.array([isinstance(each, (bool, np.bool_)) and bool(each) for each in answers], dtype=bool)
