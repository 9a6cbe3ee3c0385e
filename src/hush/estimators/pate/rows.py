"""What goes into PATE: private rows that can be used, labels by number, whose they are, and public rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_feature_names, check_array, check_consistent_length, validate_data

from hush.errors import InvalidArgument
from hush.estimators.base.labels import cells_unquoted, check_classes, column, places


class PrivateRows(NamedTuple):
    """Rows, the numbers of their classes, and whose they are (None: each one of its own)."""

    rows: Any
    labels: NDArray[np.int64]
    units: Any


def known_classes(classes: Any) -> NDArray[Any]:
    """Return all classes, sorted."""
    if classes is None:
        raise InvalidArgument("classes", None, "all labels", "Read from the data, they would tell which there are")
    check_classes(classes)
    return np.unique(np.asarray(classes))


def private_rows(x: Any, y: Any, units: Any, classes: NDArray[Any], estimator: Any) -> PrivateRows:
    """Return rows that can be used; others are dropped, each for itself."""
    rows = _table(x, estimator)
    if y is None:
        raise InvalidArgument(
            "y", None, "one label per row", "A classifier requires y to be passed, but the target y is None"
        )
    given = column(y)
    check_consistent_length(rows, given, units)
    found = places(given, classes)
    usable = np.isfinite(rows).all(axis=1) & (found >= 0)
    whose = None if units is None else _named(column(units))[usable]
    return PrivateRows(rows[usable], found[usable], whose)


def public_rows(public: Any, num_features: int, estimator: Any) -> Any:
    """Return public rows, which must be whole: they are no secret, so that refusing them tells nothing."""
    if public is None:
        raise InvalidArgument("public", None, "public rows, without labels", "Teachers need something to vote on")
    rows = check_array(public, dtype="numeric", estimator=estimator, input_name="public")
    if rows.shape[1] != num_features:
        raise InvalidArgument("public.shape", rows.shape, f"{num_features} features, as X has")
    if hasattr(public, "columns") and hasattr(estimator, "feature_names_in_"):
        _check_feature_names(estimator, public, reset=False)  # in another order they would be other features
    return rows


def _table(x: Any, estimator: Any) -> Any:
    """Return private rows, and let the estimator know how many features they have, and their names."""
    with cells_unquoted():
        return validate_data(estimator, x, dtype="numeric", ensure_all_finite=False)


def _named(units: NDArray[Any]) -> NDArray[Any]:
    """Return units that can be sorted: objects by their text. Two of one text share a teacher, which harms nobody."""
    return units.astype(str) if units.dtype.kind == "O" else units
