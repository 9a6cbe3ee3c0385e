"""Private feature selection: the features that differ most between classes, by the exponential mechanism."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count
from hush.estimators.base.bounds import check_public_norm
from hush.estimators.base.estimator import Floats, PrivateClassifierMixin, PrivateEstimator, planned
from hush.estimators.linear.sums import MOST_ROWS, exact_products, truncated
from hush.mechanisms import IteratedTopK
from hush.numerics import silent
from hush.randomness import RandomSource

_SLACK = 1e-7  # sums are exact; what their conversion to floats rounds is far below


class PrivateSelectBest(SelectorMixin, PrivateClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Keep the k features that go along with the classes most.

    A feature's score is the largest, over classes, of |sum in the class - mean sum of the others|, of values clamped to
    [-data_bound, data_bound]. Choose it where there are many features and a later estimator pays for each. Features
    should be centred by public means: what is far from 0 in all classes looks telling where classes differ in size.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> X = np.tile([[0.1, -1.0, 0.2], [0.1, 1.0, -0.2]], (500, 1))
    >>> selector = PrivateSelectBest(k=1, epsilon=1.0, data_bound=1.0, classes=[0, 1], source=TestSource(1))
    >>> selector.fit(X, [0, 1] * 500).get_support().tolist()
    [False, True, False]

    Guarantee:
        (epsilon, delta)-differential privacy of which features are kept, add or remove.

    Assumes:
        ``data_bound`` and ``classes`` are public (the caller's duty); values are clamped, and sums are exact in fixed
        point, so that a record moves every score by 1 at most (checked here).

    References:
        McSherry & Talwar 2007; Durfee & Rogers 2019 (the k best in one pass).

    Args:
        k: How many features are kept.
        epsilon: Of the guarantee.
        data_bound: A public bound on the size of every value.
        classes: All labels, public; rows of others are left out.
        delta: Of the guarantee.
        budget: What fits are charged to.
        source: Of noise, for tests.

    Attributes:
        support_: Which features are kept.
        classes_: The labels, sorted.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What fit gave away.
        event_: The same for accountants.
    """

    _most_rows = MOST_ROWS

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
        self._choice()  # what is wrong with epsilon is said here

    def _choice(self) -> IteratedTopK:
        epsilon, delta = float(self.epsilon), float(self.delta)
        return planned(
            epsilon, lambda: IteratedTopK(epsilon=epsilon, delta=delta, k=int(self.k), sensitivity=1 + _SLACK)
        )

    def __sklearn_tags__(self) -> Any:
        """Say that rows with something missing may be transformed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @silent
    def fit(self, X: Any, y: Any) -> Self:
        """Choose features; rows with NaN are left out."""
        self._check()
        rows = self._rows(X)
        if not self.k <= rows.shape[1]:
            raise InvalidArgument("k", self.k, f"at most {rows.shape[1]} features")
        places = self._places(self._labels(rows, y, numeric=False))
        choice = self._choice()
        source = self._start(choice._event)
        kept = (places >= 0) & ~np.isnan(rows).any(axis=1)
        values = truncated(np.clip(rows[kept] / float(self.data_bound), -1, 1))
        chosen = choice.release(class_contrasts(values, places[kept], len(self.classes_)), source).value
        self.support_ = np.isin(np.arange(rows.shape[1]), chosen)
        return self

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_


def class_contrasts(values: Floats, places: NDArray[np.int64], num_classes: int) -> Floats:
    """Return each feature's score; one record of values in [-1, 1] moves each by 1 at most."""
    inside = places[:, None] == np.arange(num_classes)
    contrasts = exact_products(truncated(np.where(inside, 1.0, -1.0 / (num_classes - 1))), values)
    scores: Floats = np.abs(contrasts).max(axis=0)
    return scores
