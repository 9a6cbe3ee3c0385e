"""Private feature selection: the features that differ most between classes, chosen by the exponential mechanism."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count
from hush.estimators.base.bounds import check_public_norm
from hush.estimators.base.estimator import Floats, PrivateClassifierMixin, PrivateEstimator, blame_epsilon
from hush.estimators.linear.sums import MAX_ROWS, exact_products, truncate
from hush.mechanisms import IteratedTopK
from hush.numerics import quiet_numpy
from hush.randomness import RandomSource

_SLACK = 1e-7  # sums are exact; converting them to floats rounds by far less than this


class PrivateSelectBest(SelectorMixin, PrivateClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Keep the k features that differ most between the classes.

    The score of a feature is the largest, over classes, of |sum in the class - mean sum of the other classes|, for
    values clamped to [-data_bound, data_bound]. Choose it where there are many features and the next estimator pays for
    each. Centre features by public means first: with classes of different sizes, a feature far from 0 in all classes
    looks informative.

    Args:
        k: Number of features to keep.
        epsilon: Privacy budget of one fit.
        data_bound: Public bound on the size of every value. Values are clamped to it.
        classes: All class labels, public. Rows of any other class are dropped.
        delta: Failure probability of the guarantee, in [0, 1).
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        support_: Mask of the features that are kept.
        classes_: The declared class labels, sorted.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy of the selection when one row is added or removed.

    Assumes:
        ``data_bound`` and ``classes`` are public (the caller's duty). Values are clamped and sums are exact in fixed
        point, so that a row changes every score by at most 1 (checked here).

    References:
        McSherry & Talwar 2007; Durfee & Rogers 2019 (the k best in one pass).

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> X = np.tile([[0.1, -1.0, 0.2], [0.1, 1.0, -0.2]], (500, 1))
    >>> selector = PrivateSelectBest(k=1, epsilon=1.0, data_bound=1.0, classes=[0, 1], source=TestSource(1))
    >>> selector.fit(X, [0, 1] * 500).get_support().tolist()
    [False, True, False]
    """

    _max_rows = MAX_ROWS

    def __init__(
        self,
        *,
        k: int,
        epsilon: float,
        data_bound: float,
        classes: Any,
        delta: float = 0.0,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.k = k
        self.epsilon = epsilon
        self.data_bound = data_bound
        self.classes = classes
        self.delta = delta
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        self._check_classes()
        check_count("k", self.k)
        check_public_norm("data_bound", self.data_bound)
        self._selection()  # refuses an unusable epsilon in the constructor

    def _selection(self) -> IteratedTopK:
        epsilon, delta = float(self.epsilon), float(self.delta)
        return blame_epsilon(
            epsilon, lambda: IteratedTopK(epsilon=epsilon, delta=delta, k=int(self.k), sensitivity=1 + _SLACK)
        )

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that missing values may be transformed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @quiet_numpy
    def fit(self, X: Any, y: Any) -> Self:
        """Choose the features. Rows with NaN are dropped."""
        self._check()
        rows = self._rows(X)
        if not self.k <= rows.shape[1]:
            raise InvalidArgument("k", self.k, f"at most the number of features, {rows.shape[1]}")
        class_indices = self._class_indices(self._labels(rows, y, numeric=False))
        selection = self._selection()
        source = self._charge(selection._event)
        usable = (class_indices >= 0) & ~np.isnan(rows).any(axis=1)
        values = truncate(np.clip(rows[usable] / float(self.data_bound), -1, 1))
        chosen = selection.release(class_contrasts(values, class_indices[usable], len(self.classes_)), source).value
        self.support_ = np.isin(np.arange(rows.shape[1]), chosen)
        return self

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_


def class_contrasts(values: Floats, class_indices: NDArray[np.int64], num_classes: int) -> Floats:
    """Return the score of each feature. A row with values in [-1, 1] changes each score by at most 1."""
    in_class = class_indices[:, None] == np.arange(num_classes)
    # Weights 1 in the class and -1 / (K - 1) outside: a row moves each contrast by at most 1.
    contrasts = exact_products(truncate(np.where(in_class, 1.0, -1.0 / (num_classes - 1))), values)
    scores: Floats = np.abs(contrasts).max(axis=0)
    return scores
