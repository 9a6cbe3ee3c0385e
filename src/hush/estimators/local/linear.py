"""Linear regression in the local model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_epsilon
from hush.estimators.base.bounds import check_bounds, fitted_bounds, scaled
from hush.estimators.base.estimator import Floats
from hush.estimators.linear.regression import ridge
from hush.estimators.local.learner import LocalLearner
from hush.estimators.local.randomizer import LocalRandomizer
from hush.randomness import RandomSource
from hush.statistics import Estimate

_ALONE = 2.5  # noise of a single number exceeds so many standard deviations in 1 % of cases; that of many is more even


class LocalLinearRegression(RegressorMixin, LocalLearner):  # type: ignore[misc]
    """Least squares from perturbed rows: each row tells some of the products that X'X and X'y are sums of.

    Features and target are scaled so that bounds become -1 and 1. A row draws one of its products (more of them with a
    large epsilon) and tells it by the piecewise mechanism of `LocalRandomizer`. Means of products are estimated without
    bias, so nothing needs to be corrected; perturbed features, whose noise must be taken away from X'X
    (`LocalRandomizer.second_moments`), vary far more: with 3 features and 100,000 rows coefficients were off by 0.026
    instead of 0.055 at epsilon 4, and by 0.16 at epsilon 1, where the other way gave nothing of use.

    Choose it where nobody may hold the rows, for few features; else `PrivateLinearRegression`. Measured, 3 features,
    epsilon 1: coefficients off by 0.08 take 300,000 rows here and 1,800 there (170 times, with delta 1e-6).

    Args:
        epsilon: For one row and its target.
        bounds: (lower, upper) of each feature, or of all; public: values are clamped.
        target_bounds: (lower, upper) of y, public: targets are clamped.
        alpha: What is added to the diagonal of the mean of x x', scaled features. With 0, coefficients are without bias
            but for what division by a noisy matrix brings. None for the size of the noise, about learned means, and
            with means and weights drawn to 0 as far as noise alone might explain them: with too few rows the model
            predicts the mean target, or the middle of its bounds, and no noise.
        budget: What each `tell` is charged to, and so each fit: a data set whose relation is replacement.
        source: Of randomness, for tests.

    Attributes:
        coef_: Weights.
        intercept_: The constant term.
        regularization_: What was added to the diagonal.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What was given away of one row.
        event_: The same for accountants.

    Guarantee:
        epsilon-differential privacy, delta = 0, for the values and the target of one row, replaced by any others,
        against everybody who sees what is told. The number of rows is public.

    Assumes:
        Bounds are public (the caller's duty) and applied; what is missing counts as their middle (checked here: done
        here). Each person has one row, told once (the caller's duty).

    References:
        Wang et al. 2019 (piecewise mechanism, coordinates drawn at random); Smith, Thakurta & Upadhyay 2017 (least
        squares without interaction, from perturbed products); James & Stein 1961 (shrinkage, its positive part).

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.tile(np.linspace(-1, 1, 1000), 100)[:, None]
    >>> model = LocalLinearRegression(epsilon=2.0, bounds=(-1, 1), target_bounds=(-3, 3), source=TestSource(1))
    >>> float(model.fit(x, 2 * x[:, 0]).coef_[0].round(1))
    2.0
    """

    def __init__(
        self,
        *,
        epsilon: float,
        bounds: Any,
        target_bounds: tuple[float, float],
        alpha: float | None = None,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.alpha = alpha
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        check_bounds("bounds", self.bounds)
        if any(end.ndim for end in check_bounds("target_bounds", self.target_bounds)):
            raise InvalidArgument("target_bounds", self.target_bounds, "a pair of numbers")
        if self.alpha is not None:
            check_epsilon("alpha", self.alpha)

    @staticmethod
    def _pairs(num_features: int) -> NDArray[np.intp]:
        """Return which products are told, of the constant (0), features and the target (the last)."""
        rows, columns = np.triu_indices(num_features + 2)
        last = num_features + 1
        kept = (columns > 0) & (rows < last)  # neither 1 * 1, which is known, nor the squared target
        return np.stack([rows[kept], columns[kept]])

    def _randomizer(self, num_features: int) -> LocalRandomizer:
        first, second = self._pairs(num_features)
        bounds = np.where(first == second, 0.0, -1.0), np.ones(len(first))
        made = LocalRandomizer(epsilon=self.epsilon, bounds=bounds, budget=self.budget, source=self.source)
        return made.fit(np.zeros((1, len(first))))

    def _told_table(self, rows: Floats, y: Any) -> Floats:
        targets = self._labels(rows, y, numeric=True)
        features, _ = scaled(rows, *fitted_bounds("bounds", self.bounds, rows.shape[1]))
        target, _ = scaled(targets[:, None], *fitted_bounds("target_bounds", self.target_bounds, 1))
        units = np.concatenate([np.ones((len(rows), 1)), np.nan_to_num(features), np.nan_to_num(target)], axis=1)
        first, second = self._pairs(rows.shape[1])
        products: Floats = units[:, first] * units[:, second]
        return products

    def _learn(self, randomizer: LocalRandomizer, told: Any) -> None:
        size = self.n_features_in_ + 2
        found = randomizer.means(told, confidence=0.68)
        moments = np.eye(size)
        first, second = self._pairs(self.n_features_in_)
        moments[first, second] = moments[second, first] = np.nan_to_num(found.value)
        if self.alpha is not None:
            self.regularization_ = float(self.alpha)
            self._store(ridge(moments[:-1, :-1], moments[:-1, -1], self.regularization_))
            return
        noise = self._noise(randomizer, found, len(np.asarray(told)))
        # The noise of a symmetric matrix has eigenvalues on a semicircle: this is their standard deviation.
        self.regularization_ = noise * math.sqrt(self.n_features_in_)
        self._store(_shrunk(moments, noise, self.regularization_))

    def _noise(self, randomizer: LocalRandomizer, found: Estimate, count: int) -> float:
        """Return the standard error of a typical product; at least what the noise of a value at its bounds has."""
        each = count * randomizer.sampled_ / len(randomizer.channels_)
        least = float(randomizer.channels_[0].standard_error(1)) / math.sqrt(each)
        seen = float(np.median((np.asarray(found.high) - np.asarray(found.low)) / 2))  # infinite for fewer than two
        return max(least, seen) if math.isfinite(seen) else least

    def _store(self, weights: Floats) -> None:
        """Turn weights of scaled features into those of the features."""
        lower, upper = fitted_bounds("bounds", self.bounds, self.n_features_in_)
        low, high = (float(end) for end in self.target_bounds)
        self.coef_ = weights[1:] / ((upper - lower) / 2) * (high - low) / 2
        shift = float(self.coef_ @ (lower + (upper - lower) / 2))
        self.intercept_ = low + (high - low) / 2 * (1 + float(weights[0])) - shift

    def predict(self, X: Any) -> Floats:
        """Return the predicted target of each row."""
        check_is_fitted(self)
        predicted: Floats = self._rows(X, reset=False) @ self.coef_ + self.intercept_
        return predicted


def _shrunk(moments: Floats, noise: float, penalty: float) -> Floats:
    """Return weights of the constant and the features, none of which is noise alone."""
    if not _ALONE * noise < 1:  # bounds say more than rows do
        return np.zeros(len(moments) - 1)
    means = _drawn(moments[0, 1:, None], _ALONE * noise)[:, 0]  # of the features, and of the target
    covariances = moments[1:, 1:] - np.outer(means, means)
    cross = _drawn(covariances[None, :-1, -1], noise)[0]
    weights = ridge(covariances[:-1, :-1], cross, penalty)
    return np.concatenate([[means[-1] - float(weights @ means[:-1])], weights])


def _drawn(rows: Floats, noise: float) -> Floats:
    """Draw each row to 0, as far as noise of its expected size goes."""
    squares = np.maximum((rows**2).sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    kept = rows * np.maximum(1 - rows.shape[1] * noise**2 / squares, 0.0)
    return np.asarray(np.clip(kept, -1.0, 1.0))
