"""Naive Bayes in the local model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count
from hush.estimators.base.bounds import check_bounds, fitted_bounds, scaled
from hush.estimators.base.estimator import Floats, PrivateClassifierMixin
from hush.estimators.local.learner import LocalLearner
from hush.estimators.local.randomizer import LocalRandomizer
from hush.randomness import RandomSource

_LEAST = 1e-9  # a share, so that a bin without rows has a logarithm where there is hardly any noise


class LocalNaiveBayes(PrivateClassifierMixin, ClassifierMixin, LocalLearner):  # type: ignore[misc]
    """Naive Bayes from perturbed rows: each row tells, of some features, its class and value as one.

    Features are cut into equal bins between public bounds; categories are numbers 0, .., k - 1, with bounds
    (-0.5, k - 0.5) and k bins. A row draws a feature, or some, and tells (class, bin), as one value of all pairs, by
    `LocalRandomizer`: from pairs that are told together the noise is far less than from a class and a value that are
    perturbed each by itself. Shares of pairs are estimated without bias; what noise brings below 0 counts as 0, and one
    standard error is added to each, so that what drowns in noise says nothing.

    Choose it where nobody may hold the rows and there are tens of thousands of them; else `PrivateGaussianNB`.
    Measured on two Gaussian classes in 4 features, epsilon 1: accuracy 0.82 takes 100,000 rows here and 1,000 there
    (100 times), 0.80 about 10,000 and 600; without privacy 0.84.

    Args:
        epsilon: For one row and its class.
        bounds: (lower, upper) of each feature, or of all; public: values are clamped.
        bins: Of each feature, or of all; public.
        classes: All labels that there may be; public. Another one counts as a pair drawn at random, as NaN does.
        budget: What each `tell` is charged to, and so each fit: a data set whose relation is replacement.
        source: Of randomness, for tests.

    Attributes:
        classes_: The labels, sorted.
        class_prior_: Their estimated shares.
        feature_log_prob_: For each feature, the logarithm of each bin's share in each class.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What was given away of one row.
        event_: The same for accountants.

    Guarantee:
        epsilon-differential privacy, delta = 0, for the values and the class of one row, replaced by any others,
        against everybody who sees what is told. The number of rows is public.

    Assumes:
        Bounds, bins and classes are public (the caller's duty) and applied (checked here: done here). Each person has
        one row, told once (the caller's duty).

    References:
        Yilmaz, Al-Rubaie & Chang 2019, "Naive Bayes classification under local differential privacy" (features told
        with their class; here a random feature instead of a part of epsilon for each).

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.tile(np.linspace(-1, 1, 2000), 10)[:, None]
    >>> model = LocalNaiveBayes(epsilon=1.0, bounds=(-1, 1), classes=[0, 1], source=TestSource(1))
    >>> model.fit(x, x[:, 0] > 0).predict([[-0.6], [0.6]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        *,
        epsilon: float,
        bounds: Any,
        bins: Any = 4,
        classes: Any,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.bins = bins
        self.classes = classes
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        check_bounds("bounds", self.bounds)
        self._check_classes()
        for each in np.atleast_1d(np.asarray(self.bins, dtype=object)).ravel():
            check_count("bins", each)

    def _num_bins(self, num_features: int) -> NDArray[np.int64]:
        given = np.asarray(self.bins, dtype=np.int64)
        if given.ndim > 1 or (given.ndim == 1 and len(given) != num_features):
            raise InvalidArgument("bins", self.bins, f"one number for each of {num_features} features, or one for all")
        return np.broadcast_to(given, (num_features,))

    def _randomizer(self, num_features: int) -> LocalRandomizer:
        pairs = {place: range(len(self.classes) * int(n)) for place, n in enumerate(self._num_bins(num_features))}
        made = LocalRandomizer(
            epsilon=self.epsilon, bounds=None, categories=pairs, budget=self.budget, source=self.source
        )
        return made.fit(np.zeros((1, num_features)))

    def _told_table(self, rows: Floats, y: Any) -> Floats:
        classes = self._places(self._labels(rows, y, numeric=False))[:, None]
        grid = self._cut(rows.shape[1])
        bins = _binned(rows, *grid)
        return np.where((classes < 0) | (bins < 0), -1, classes * grid[-1] + bins).astype(float)

    def _cut(self, num_features: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Return bounds and numbers of bins of each feature."""
        return *fitted_bounds("bounds", self.bounds, num_features), self._num_bins(num_features)

    def _learn(self, randomizer: LocalRandomizer, told: Any) -> None:
        self._grid = self._cut(self.n_features_in_)  # as fitted, whatever set_params does afterwards
        self.classes_ = np.unique(np.asarray(self.classes))
        smoothed, classes = [], []
        for place in range(self.n_features_in_):
            found = randomizer.frequencies(told, place)
            error = max(found.noise_scale, _LEAST) if math.isfinite(found.noise_scale) else 1.0
            shares = np.nan_to_num(np.asarray(found.value)).reshape(len(self.classes_), -1)
            classes.append(shares.sum(axis=1))  # without bias, before negative shares are cut off
            smoothed.append(np.maximum(shares, 0.0) + error)
        logs = [np.log(shares / shares.sum(axis=1, keepdims=True)) for shares in smoothed]
        self.feature_log_prob_ = logs
        prior = np.maximum(np.mean(classes, axis=0), 0.5 / len(self.classes_) ** 2)
        self.class_prior_ = prior / prior.sum()

    def predict_log_proba(self, X: Any) -> Floats:
        """Return logarithms of class probabilities."""
        check_is_fitted(self)
        bins = _binned(self._rows(X, reset=False), *self._grid)
        joint = np.log(self.class_prior_) + sum(
            log.T[column] for log, column in zip(self.feature_log_prob_, bins.T, strict=True)
        )
        logs: Floats = joint - logsumexp(joint, axis=1, keepdims=True)
        return logs

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row."""
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[best]


def _binned(rows: Floats, lower: Floats, upper: Floats, bins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bin of each value, -1 for NaN."""
    units, _ = scaled(rows, lower, upper)
    places = np.minimum(np.floor(np.nan_to_num(units + 1) / 2 * bins), bins - 1)
    return np.where(np.isnan(units), -1, places).astype(np.int64)
