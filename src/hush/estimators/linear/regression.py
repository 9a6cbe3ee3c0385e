"""Linear regression from noisy sufficient statistics: one Gaussian release of X'X and X'y, then a ridge solution.

rows, targets  clipped to ``data_norm``, clamped to ``target_bounds``
totals         exact sums of products of features, a constant feature and the target (`moments.gram`)
released       noisy X'X and X'y
weights        (X'X + penalty I)^-1 X'y, back in the units of the data
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting import events
from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_epsilon
from hush.estimators.base.bounds import check_bounds, check_public_norm
from hush.estimators.base.estimator import Floats, PrivateEstimator
from hush.estimators.moments.gram import (
    STEPS,
    UNIT,
    add_noise,
    add_symmetric_noise,
    check_noise,
    clipped_gram,
    spectral_norm,
)
from hush.randomness import RandomSource

_GRAM, _CROSS, _EIGENVALUE = 0.45, 0.45, 0.10  # shares of the squared sensitivity: X'X, X'y, smallest eigenvalue
_EXCEEDANCE = 0.05  # probability with which the noise is larger than its bound


class SufficientStatistics(RegressorMixin, PrivateEstimator, ABC):  # type: ignore[misc]
    """The common part: release X'X and X'y of clipped rows. Subclasses choose the penalty."""

    _needs_delta = True
    _smallest_share = 0.5  # smallest share of the squared sensitivity among the released parts

    def _check(self) -> None:
        super()._check()
        check_public_norm("data_norm", self.data_norm)
        lower, upper = check_bounds("target_bounds", self.target_bounds)
        if lower.ndim or upper.ndim:
            raise InvalidArgument("target_bounds", self.target_bounds, "a pair of numbers")
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise InvalidArgument("fit_intercept", self.fit_intercept, "True or False")
        check_noise(self.epsilon, self.delta, self._smallest_share)

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows and targets. Rows with a missing or infinite value are dropped; longer rows are scaled down."""
        self._check()
        rows = self._rows(X)
        targets = self._labels(rows, y, numeric=True)
        multiplier = check_noise(self.epsilon, self.delta, self._smallest_share)
        source = self._charge(events.GaussianEvent(multiplier))
        self._set_fitted(self._solve(self._totals(rows, targets), multiplier, source))
        return self

    def _totals(self, rows: Floats, targets: Floats) -> NDArray[np.int64]:
        """Return exact sums of products of the features, the constant feature if there is one, and the target."""
        lower, upper = (float(end) for end in self.target_bounds)
        middle, half = lower + (upper - lower) / 2, (upper - lower) / 2
        constant = bool(self.fit_intercept)
        # The constant feature takes half of the squared norm, so that the whole row has norm at most 1.
        length = math.sqrt(0.5) if constant else 1.0

        def fill(out: Floats, part: slice) -> NDArray[np.bool_]:
            block = targets[part]
            if constant:
                out[:, 0] = math.floor(STEPS * length)
            out[:, -1] = np.trunc(np.clip((block - middle) / half, -1.0, 1.0) * STEPS)
            return np.isfinite(block)

        return clipped_gram(rows, float(self.data_norm), 1 + constant, fill, length=length)

    @abstractmethod
    def _solve(self, totals: Any, multiplier: float, source: RandomSource) -> Floats:
        """Add noise to the totals and return the weights of scaled features."""

    def _set_fitted(self, weights: Floats) -> None:
        """Convert weights of scaled features and targets to the data's units."""
        lower, upper = (float(end) for end in self.target_bounds)
        middle, half = lower + (upper - lower) / 2, (upper - lower) / 2
        length = math.sqrt(0.5) if self.fit_intercept else 1.0
        scaled_weights = weights[: self.n_features_in_] * length / float(self.data_norm)
        self.coef_ = scaled_weights * half
        self.intercept_ = middle + half * (float(weights[-1]) * length if self.fit_intercept else 0.0)

    def predict(self, X: Any) -> Floats:
        """Return the predicted target of each row."""
        check_is_fitted(self)
        predicted: Floats = self._rows(X, reset=False) @ self.coef_ + self.intercept_
        return predicted


class PrivateLinearRegression(SufficientStatistics):
    """Least squares from noisy X'X and X'y, with a penalty that adapts to the noise (AdaSSP).

    Try this first for linear regression with delta > 0. It makes one release, has no learning rate, and its
    error is close to optimal when there are many more rows than features. With few rows, the noise makes it a ridge
    regression, and predictions tend towards the middle of ``target_bounds``.

    Variant: the paper spends a third of epsilon and delta on each of the smallest eigenvalue, X'X and X'y. Here the
    three are one Gaussian release, with 10, 45 and 45 % of the squared sensitivity. Off-diagonal noise is smaller by
    sqrt(2). The penalty is a bound on the norm of the noise from random matrix theory, where the paper has a looser
    one. Negative eigenvalues are cut off. The intercept is the weight of a constant feature, and it is regularised as
    well.

    Args:
        epsilon: Privacy budget of one fit.
        delta: Failure probability of the guarantee, in (0, 1).
        data_norm: Public clip norm: bound on the L2 norm of a row of X. Longer rows are scaled down.
        target_bounds: Public (lower, upper) of y. Targets are clamped to it.
        fit_intercept: Whether to fit an intercept.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        coef_: Weights of the features.
        intercept_: Intercept of the model.
        regularization_: Penalty added to the diagonal of X'X, in units of the squared ``data_norm``.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy when one row of X and y is added or removed.

    Assumes:
        Rows are clipped to ``data_norm`` and targets clamped to ``target_bounds`` (checked here). ``data_norm`` and
        ``target_bounds`` are public (the caller's duty). Each person has one row (the caller's duty).

    References:
        Wang 2018, Algorithm 2 (AdaSSP); Balle & Wang 2018 (calibration of the noise); Dwork, Talwar, Thakurta & Zhang
        2014.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.linspace(-1, 1, 10_000)[:, None]
    >>> model = PrivateLinearRegression(
    ...     epsilon=1.0, delta=1e-6, data_norm=1.0, target_bounds=(-3, 3), source=TestSource(1)
    ... )
    >>> float(model.fit(x, 2 * x[:, 0]).coef_[0].round(1))
    2.0
    """

    _smallest_share = _EIGENVALUE / 2  # halved: rounding of eigenvalues adds to the noise

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        data_norm: float,
        target_bounds: tuple[float, float],
        fit_intercept: bool = True,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.target_bounds = target_bounds
        self.fit_intercept = fit_intercept
        self.budget = budget
        self.source = source
        self._check()

    def _solve(self, totals: Any, multiplier: float, source: RandomSource) -> Floats:
        size = len(totals) - 1
        gram_stddev = multiplier / math.sqrt(_GRAM)
        gram = totals[:size, :size]
        matrix = add_symmetric_noise(gram, gram_stddev, source)
        cross = add_noise(totals[:size, size], multiplier / math.sqrt(_CROSS), source)
        # By Weyl's inequality one row moves the smallest eigenvalue by at most 1. It is computed to within size 2^-52
        # of the largest eigenvalue, which is at most the number of rows, 2^30.
        smallest = np.array([np.rint(np.linalg.eigvalsh(gram.astype(np.float64))[0])]).astype(np.int64)
        eigenvalue_stddev = multiplier / math.sqrt(_EIGENVALUE) * (1 + size * 2.0**-20)
        lower_bound = float(add_noise(smallest, eigenvalue_stddev, source)[0]) - eigenvalue_stddev * math.sqrt(
            2 * math.log(1 / _EXCEEDANCE)
        )
        # Wang 2018: the penalty makes up for the noise where the smallest eigenvalue does not exceed it.
        self.regularization_ = max(0.0, spectral_norm(size, gram_stddev, _EXCEEDANCE) - max(lower_bound, 0.0))
        return ridge(matrix, cross, self.regularization_)


class PrivateRidge(SufficientStatistics):
    """Ridge regression from noisy X'X and X'y, with a penalty that you set.

    Use it if you know the penalty. Otherwise `PrivateLinearRegression` finds one that suits the noise. Negative
    eigenvalues of the noisy X'X are set to 0 before the penalty is added.

    Args:
        epsilon: Privacy budget of one fit.
        delta: Failure probability of the guarantee, in (0, 1).
        data_norm: Public clip norm: bound on the L2 norm of a row of X. Longer rows are scaled down.
        target_bounds: Public (lower, upper) of y. Targets are clamped to it.
        alpha: Penalty, as in scikit-learn; it applies to the intercept, too, in units of ``data_norm``.
        fit_intercept: Whether to fit an intercept.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        coef_: Weights of the features.
        intercept_: Intercept of the model.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy when one row of X and y is added or removed.

    Assumes:
        Rows are clipped to ``data_norm`` and targets clamped to ``target_bounds`` (checked here). ``data_norm`` and
        ``target_bounds`` are public (the caller's duty). Each person has one row (the caller's duty).

    References:
        Vu & Slavkovic 2009; Wang 2018, Section 3 (sufficient statistics perturbation); Balle & Wang 2018.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.linspace(-1, 1, 10_000)[:, None]
    >>> model = PrivateRidge(epsilon=1.0, delta=1e-6, data_norm=1.0, target_bounds=(-3, 3), source=TestSource(1))
    >>> float(model.fit(x, 2 * x[:, 0]).coef_[0].round(1))
    2.0
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        data_norm: float,
        target_bounds: tuple[float, float],
        alpha: float = 1.0,
        fit_intercept: bool = True,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.target_bounds = target_bounds
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        check_epsilon("alpha", self.alpha)

    def _solve(self, totals: Any, multiplier: float, source: RandomSource) -> Floats:
        size = len(totals) - 1
        # X'X and X'y have half of the squared sensitivity each.
        stddev = multiplier * math.sqrt(2)
        matrix = add_symmetric_noise(totals[:size, :size], stddev, source)
        cross = add_noise(totals[:size, size], stddev, source)
        # The penalty is on weights of unscaled features, and clipped rows are shortened to make room for the intercept.
        squared_length = 0.5 if self.fit_intercept else 1.0
        return ridge(matrix, cross, float(self.alpha) * squared_length / float(self.data_norm) ** 2)


def ridge(matrix: Floats, cross: Floats, penalty: float) -> Floats:
    """Solve (A + penalty I) w = b, where A is ``matrix`` without its negative eigenvalues.

    Directions in which A + penalty I vanishes get weight 0.
    """
    values, vectors = np.linalg.eigh(matrix)
    denominators = np.maximum(values, 0.0) + penalty
    # Below the resolution of the sums a direction carries no information.
    inverse = np.divide(1.0, denominators, out=np.zeros_like(values), where=denominators > UNIT**-1)
    weights: Floats = vectors @ (inverse * (vectors.T @ cross))
    return weights
