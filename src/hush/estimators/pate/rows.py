"""The inputs of PATE: usable private rows, their class numbers and units, and public rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_feature_names, check_array, check_consistent_length, validate_data

from hush.errors import InvalidArgument
from hush.estimators.base.labels import check_classes, label_column, redact_cells, to_class_indices, with_numbers_only
from hush.estimators.base.users import OneRowPerUser
from hush.statistics import codes_of


class PrivateRows(NamedTuple):
    """Usable private rows.

    Attributes:
        rows: The rows.
        labels: Class of each row, by number.
        units: Number of each row's privacy unit, or None if every row is its own.
    """

    rows: Any
    labels: NDArray[np.int64]
    units: Any


def known_classes(classes: Any) -> NDArray[Any]:
    """Return all classes, sorted."""
    if classes is None:
        raise InvalidArgument(
            "classes",
            None,
            "all class labels",
            "They are public: reading them from the data would reveal which ones occur",
        )
    check_classes(classes)
    # Sorted as in scikit-learn, so that class numbers do not depend on the order of the declaration.
    return np.unique(np.asarray(classes))


def private_rows(x: Any, y: Any, units: Any, classes: NDArray[Any], estimator: Any) -> PrivateRows:
    """Return the usable private rows. Each unusable row is dropped on its own."""
    rows = _table(x, estimator)
    if y is None:
        raise InvalidArgument(
            "y", None, "one label per row", "A classifier requires y to be passed, but the target y is None"
        )
    raw_labels = label_column(y)
    check_consistent_length(rows, raw_labels)
    class_indices = to_class_indices(raw_labels, classes)
    # A row is dropped by what it holds itself, so adding a row changes no other.
    usable = np.isfinite(rows).all(axis=1) & (class_indices >= 0)
    if units is None or isinstance(units, OneRowPerUser):
        return PrivateRows(rows[usable], class_indices[usable], None)
    # Equal ids have one number, however they are written: 1 and 1.0 must not have a teacher each.
    codes, _ = codes_of("units", units)
    check_consistent_length(rows, codes)
    usable &= codes >= 0
    return PrivateRows(rows[usable], class_indices[usable], codes[usable])


def public_rows(public: Any, num_features: int, estimator: Any) -> Any:
    """Return public rows, which must be complete. They are public, so refusing them reveals nothing."""
    if public is None:
        raise InvalidArgument("public", None, "public rows, without labels", "Teachers vote on them")
    rows = check_array(public, dtype="numeric", estimator=estimator, input_name="public")
    if rows.shape[1] != num_features:
        raise InvalidArgument("public.shape", rows.shape, f"{num_features} features, as in X")
    if hasattr(public, "columns") and hasattr(estimator, "feature_names_in_"):
        _check_feature_names(estimator, public, reset=False)  # columns in another order would be other features
    return rows


def _table(x: Any, estimator: Any) -> Any:
    """Return private rows, and record the number and names of their features."""
    with redact_cells():
        return validate_data(estimator, with_numbers_only(x), dtype="numeric", ensure_all_finite=False)
