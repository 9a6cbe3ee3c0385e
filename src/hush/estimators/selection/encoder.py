"""One-hot encoding of public categories, which releases nothing."""

from __future__ import annotations

from itertools import repeat
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from hush.errors import InvalidArgument
from hush.estimators.base.estimator import check_width
from hush.estimators.base.labels import index_of

_NUMBERS = "biuf"


class PublicOneHotEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """One 0/1 column for each public category. The encoder does not look at the data, so it costs no privacy.

    Choose it before any numeric model where features are categories and you know all of them. Reading categories from
    the data would be a release: a rare category can reveal that a person is present. A value that is missing or not in
    the list has zeros in all columns of its feature. Types matter: the text "1" is not the number 1.

    Args:
        categories: For each feature, the list of its categories; public.

    Attributes:
        categories_: The same, as lists.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.

    Guarantee:
        The fitted encoder does not depend on the data.

    Assumes:
        Categories are public (the caller's duty). Transformed rows are treated as private data (the caller's duty).

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
            valid = len(self.categories) > 0 and all(len(set(known)) == len(known) > 0 for known in self.categories)
            valid = valid and not any(isinstance(known, (str, bytes)) for known in (self.categories, *self.categories))
        except TypeError:
            valid = False
        if not valid:
            advice = 'With two features write [["red", "green"], [1, 2, 3]], for example'
            raise InvalidArgument("categories", self.categories, "one list of distinct categories per feature", advice)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that text, categories and missing values are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the number of features."""
        self._check()
        validate_data(self, _as_cells(X), dtype=None, ensure_all_finite=False)
        if self.n_features_in_ != len(self.categories):
            raise InvalidArgument("categories", self.categories, f"one list per feature ({self.n_features_in_})")
        self.categories_ = [list(known) for known in self.categories]
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the one-hot columns of all features."""
        check_is_fitted(self)
        rows = np.asarray(validate_data(self, _as_cells(X), reset=False, dtype=None, ensure_all_finite=False))
        starts = np.cumsum([0, *map(len, self.categories_)])
        columns = np.zeros((len(rows), int(starts[-1])))
        for start, cells, known in zip(starts[:-1], rows.T, self.categories_, strict=True):
            indices = _category_indices(cells, known)
            matched = np.flatnonzero(indices >= 0)
            columns[matched, start + indices[matched]] = 1.0
        return columns

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return for each feature the category with the largest column, or None if no column is above 0."""
        check_is_fitted(self)
        ends = np.cumsum([*map(len, self.categories_)])
        rows = check_width("X", X, int(ends[-1]))
        values = np.empty((len(rows), len(ends)), dtype=object)
        for feature, block in enumerate(np.split(rows, ends[:-1], axis=1)):
            known = np.empty(block.shape[1] + 1, dtype=object)
            known[:-1] = self.categories_[feature]
            values[:, feature] = known[np.where((block > 0).any(axis=1), block.argmax(axis=1), -1)]
        return values

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns: feature_category."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        pairs = zip(names, self.categories_, strict=True)
        return np.array([f"{name}_{category}" for name, known in pairs for category in known], dtype=object)


def _as_cells(X: Any) -> Any:
    """Return lists as an array of objects: otherwise one text cell would turn all cells into text."""
    return np.array(X, dtype=object) if isinstance(X, (list, tuple)) else X


def _category_indices(cells: NDArray[Any], known: list[Any]) -> NDArray[np.int64]:
    """Return the index of each cell among the known categories, or -1."""
    categories, kind = np.asarray(known), cells.dtype.kind
    comparable = (kind in _NUMBERS and categories.dtype.kind in _NUMBERS) or (
        kind == "U" and all(type(k) is str for k in known)
    )
    # Sorted search where types compare and no category is NaN; otherwise a table, cell by cell.
    if comparable and categories.ndim == 1 and not (categories != categories).any():
        order = np.argsort(categories)
        nearest = order[np.minimum(np.searchsorted(categories, cells, sorter=order), len(known) - 1)]
        return np.where(categories[nearest] == cells, nearest, -1)
    table, values = {category: index for index, category in enumerate(known) if category == category}, cells.tolist()
    try:
        return np.fromiter(map(table.get, values, repeat(-1)), dtype=np.int64, count=len(values))
    except TypeError:  # a cell that is a list, for instance
        return np.array([index_of(table, value) for value in values], dtype=np.int64)
