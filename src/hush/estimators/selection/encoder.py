"""One-hot columns of public categories."""

from __future__ import annotations

from itertools import repeat
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from hush.errors import InvalidArgument
from hush.estimators.base.estimator import check_width
from hush.estimators.base.labels import place_of

_NUMBERS = "biuf"


class PublicOneHotEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A column of 0 and 1 for each public category. It looks at no value to find them, so it gives nothing away.

    A value that is no category, or missing, has zeros in all columns of its feature. Categories that are read from the
    data would be a release: that a rare one exists tells who is there.

    Choose it before any model of numbers where features are categories, and all that there may be are known. Types
    count: the text "1" is not the number 1.

    Args:
        categories: For each feature, a list of its categories; public.

    Attributes:
        categories_: The same, as lists.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.

    Guarantee:
        What fit stores does not depend on the data.

    Assumes:
        Categories are public (the caller's duty). Transformed rows are as private as the rows (the caller's duty).

    References:
        None: nothing is released.

    >>> encoder = PublicOneHotEncoder(categories=[["red", "green"]]).fit([["green"]])
    >>> encoder.transform([["green"], ["blue"]]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    >>> encoder.inverse_transform([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [['green'], [None]]
    """

    def __init__(self, *, categories: Any) -> None:
        self.categories = categories
        self._check()

    def _check(self) -> None:
        try:
            fine = len(self.categories) > 0 and all(len(set(each)) == len(each) > 0 for each in self.categories)
            fine = fine and not any(isinstance(each, (str, bytes)) for each in (self.categories, *self.categories))
        except TypeError:
            fine = False
        if not fine:
            advice = 'Such as [["red", "green"], [1, 2, 3]] for two features'
            raise InvalidArgument("categories", self.categories, "a list of different categories for each", advice)

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
        if isinstance(X, (list, tuple)):
            X = np.array(X, dtype=object)  # as text, all cells would be what one of them is
        rows = np.asarray(validate_data(self, X, reset=False, dtype=None, ensure_all_finite=False))
        starts = np.cumsum([0, *map(len, self.categories_)])
        columns = np.zeros((len(rows), int(starts[-1])))
        for start, cells, known in zip(starts[:-1], rows.T, self.categories_, strict=True):
            places = _places(cells, known)
            found = np.flatnonzero(places >= 0)
            columns[found, start + places[found]] = 1.0
        return columns

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return the category of each feature that has the largest column; None where no column is above 0."""
        check_is_fitted(self)
        ends = np.cumsum([*map(len, self.categories_)])
        rows = check_width("X", X, int(ends[-1]))
        values = np.empty((len(rows), len(ends)), dtype=object)
        for feature, part in enumerate(np.split(rows, ends[:-1], axis=1)):
            known = np.empty(part.shape[1] + 1, dtype=object)
            known[:-1] = self.categories_[feature]
            values[:, feature] = known[np.where((part > 0).any(axis=1), part.argmax(axis=1), -1)]
        return values

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return names of columns: the feature's, and the category."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        pairs = zip(names, self.categories_, strict=True)
        return np.array([f"{name}_{category}" for name, known in pairs for category in known], dtype=object)


def _places(cells: NDArray[Any], known: list[Any]) -> NDArray[np.int64]:
    """Return where each cell is among the known categories, -1 if it is not there."""
    kinds, sort = np.asarray(known), cells.dtype.kind
    both = (sort in _NUMBERS and kinds.dtype.kind in _NUMBERS) or (sort == "U" and all(type(k) is str for k in known))
    if both and kinds.ndim == 1 and not (kinds != kinds).any():
        order = np.argsort(kinds)
        found = order[np.minimum(np.searchsorted(kinds, cells, sorter=order), len(known) - 1)]
        return np.where(kinds[found] == cells, found, -1)
    table, values = {category: place for place, category in enumerate(known) if category == category}, cells.tolist()
    try:
        return np.fromiter(map(table.get, values, repeat(-1)), dtype=np.int64, count=len(values))
    except TypeError:  # a cell that is a list, for instance
        return np.array([place_of(table, value) for value in values], dtype=np.int64)
