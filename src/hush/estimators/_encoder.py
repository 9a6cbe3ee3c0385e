"""One-hot columns of public categories."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from hush.errors import InvalidArgument


class PublicOneHotEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A column of 0 and 1 for each public category. It looks at no value to find them, so it gives nothing away.

    A value that is no category, or missing, has zeros in all columns of its feature. Categories that are read from the
    data would be a release: that a rare one exists tells who is there.

    Args:
        categories: For each feature, its categories; public.

    Guarantee:
        What fit stores does not depend on the data.

    Assumes:
        Categories are public (the caller's duty). Transformed rows are as private as the rows (the caller's duty).

    References:
        None: nothing is released.

    >>> encoder = PublicOneHotEncoder(categories=[["red", "green"]]).fit([["green"]])
    >>> encoder.transform([["green"], ["blue"]]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """

    def __init__(self, *, categories: Any) -> None:
        self.categories = categories
        self._check()

    def _check(self) -> None:
        try:
            fine = all(len(each) > 0 and len(set(each)) == len(each) for each in self.categories)
        except TypeError:
            fine = False
        if not fine or isinstance(self.categories, str):
            raise InvalidArgument("categories", self.categories, "different categories for each feature")

    def __sklearn_tags__(self) -> Any:
        """Say that any value is fine."""
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the number of features."""
        self._check()
        validate_data(self, X, dtype=None, ensure_all_finite=False)
        if self.n_features_in_ != len(self.categories):
            raise InvalidArgument("categories", self.categories, f"a list for each of {self.n_features_in_} features")
        self.categories_ = [list(each) for each in self.categories]
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the columns."""
        check_is_fitted(self)
        rows = np.asarray(validate_data(self, X, reset=False, dtype=None, ensure_all_finite=False), dtype=object)
        parts = [
            np.array([[float(value == category) for category in known] for value in column]).reshape(len(rows), -1)
            for column, known in zip(rows.T, self.categories_, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return names of columns: the feature's, and the category."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        pairs = zip(names, self.categories_, strict=True)
        return np.array([f"{name}_{category}" for name, known in pairs for category in known], dtype=object)
