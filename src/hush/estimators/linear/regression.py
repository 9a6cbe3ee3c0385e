"""Linear regression from noisy sufficient statistics."""

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
from hush.estimators.moments.gram import STEPS, UNIT, check_noise, clipped_gram, noisy, noisy_symmetric, spectral_norm
from hush.randomness import RandomSource

_GRAM, _CROSS, _EIGENVALUE = 0.45, 0.45, 0.10  # shares of the squared sensitivity
_WRONG = 0.05


class _SufficientStatistics(RegressorMixin, PrivateEstimator, ABC):  # type: ignore[misc]
    """Releases X'X and X'y of clipped rows; what is solved with them is what types differ in."""

    _needs_delta = True
    _least_share = 0.5  # of the squared sensitivity, among all that is released

    def _check(self) -> None:
        super()._check()
        check_public_norm("data_norm", self.data_norm)
        lower, upper = check_bounds("target_bounds", self.target_bounds)
        if lower.ndim or upper.ndim:
            raise InvalidArgument("target_bounds", self.target_bounds, "a pair of numbers")
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise InvalidArgument("fit_intercept", self.fit_intercept, "True or False")
        check_noise(self.epsilon, self.delta, self._least_share)

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows and targets. Rows with something missing or infinite are left out; others are clipped."""
        self._check()
        rows = self._rows(X)
        targets = self._labels(rows, y, numeric=True)
        multiplier = check_noise(self.epsilon, self.delta, self._least_share)
        source = self._start(events.GaussianEvent(multiplier))
        self._store(self._solve(self._totals(rows, targets), multiplier, source))
        return self

    def _totals(self, rows: Floats, targets: Floats) -> NDArray[np.int64]:
        """Return sums of products of features, perhaps a constant one, and the target."""
        lower, upper = (float(end) for end in self.target_bounds)
        middle, half = lower + (upper - lower) / 2, (upper - lower) / 2
        constant = bool(self.fit_intercept)
        length = math.sqrt(0.5) if constant else 1.0

        def fill(out: Floats, part: slice) -> NDArray[np.bool_]:
            some = targets[part]
            if constant:
                out[:, 0] = math.floor(STEPS * length)
            out[:, -1] = np.trunc(np.clip((some - middle) / half, -1.0, 1.0) * STEPS)
            return np.isfinite(some)

        return clipped_gram(rows, float(self.data_norm), 1 + constant, fill, length=length)

    @abstractmethod
    def _solve(self, totals: Any, multiplier: float, source: RandomSource) -> Floats: ...

    def _store(self, weights: Floats) -> None:
        """Turn weights of scaled features into those of the features."""
        lower, upper = (float(end) for end in self.target_bounds)
        middle, half = lower + (upper - lower) / 2, (upper - lower) / 2
        length = math.sqrt(0.5) if self.fit_intercept else 1.0
        inner = weights[: self.n_features_in_] * length / float(self.data_norm)
        self.coef_ = inner * half
        self.intercept_ = middle + half * (float(weights[-1]) * length if self.fit_intercept else 0.0)

    def predict(self, X: Any) -> Floats:
        """Return the predicted target of each row."""
        check_is_fitted(self)
        predicted: Floats = self._rows(X, reset=False) @ self.coef_ + self.intercept_
        return predicted


class PrivateLinearRegression(_SufficientStatistics):
    r"""Least squares from noisy X'X and X'y, regularised as much as the noise asks for (AdaSSP).

    The first thing to try for linear regression with a delta: one release, no learning rate, and error close to the
    least possible when there are many more rows than features. With few rows the noise makes it a ridge regression, and
    predictions tend to the middle of ``target_bounds``.

    Variant: the paper spends a third of epsilon and delta on each of the smallest eigenvalue, X'X and X'y, and adds
    them up. Here the three are one Gaussian release, with shares 10, 45 and 45 % of the squared sensitivity; noise
    beside the diagonal is smaller by sqrt(2); what is added to the diagonal is the norm of the noise by random matrix
    theory, where the paper has a looser bound; negative eigenvalues are cut off. The intercept is the weight of a
    constant feature; it is regularised, too.

    Args:
        epsilon: For everything that fit releases.
        delta: The same; above 0.
        data_norm: L2 norm of a row of X, public: longer rows are scaled down.
        target_bounds: (lower, upper) of y, public: targets are clamped.
        fit_intercept: Whether there is a constant term.
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        coef_: Weights.
        intercept_: The constant term.
        regularization_: What was added to the diagonal of X'X, in units of the squared ``data_norm``.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What fit gave away.
        event_: The same for accountants.

    Guarantee:
        (epsilon, delta)-differential privacy for one row of X and y, added or removed.

    Assumes:
        Rows are clipped to the norm and targets to the bounds (checked here: done here). ``data_norm`` and
        ``target_bounds`` are public (the caller's duty). Each person has one row (the caller's duty).

    References:
        Wang 2018, Algorithm 2 (AdaSSP); Balle & Wang 2018 (the noise); Dwork, Talwar, Thakurta & Zhang 2014.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.linspace(-1, 1, 10_000)[:, None]
    >>> model = PrivateLinearRegression(
    ...     epsilon=1.0, delta=1e-6, data_norm=1.0, target_bounds=(-3, 3), source=TestSource(1)
    ... )
    >>> float(model.fit(x, 2 * x[:, 0]).coef_[0].round(1))
    2.0
    """

    _least_share = _EIGENVALUE / 2  # some of the share is for what rounding does to eigenvalues

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
        spread = multiplier / math.sqrt(_GRAM)
        exact = totals[:size, :size]
        matrix = noisy_symmetric(exact, spread, source)
        cross = noisy(totals[:size, size], multiplier / math.sqrt(_CROSS), source)
        # By Weyl's inequality one row moves it by 1 at most. Eigenvalues are computed to within size 2^-52 of the
        # largest, which is at most the number of rows, 2^30.
        smallest = np.array([np.rint(np.linalg.eigvalsh(exact.astype(np.float64))[0])]).astype(np.int64)
        stddev = multiplier / math.sqrt(_EIGENVALUE) * (1 + size * 2.0**-20)
        least = float(noisy(smallest, stddev, source)[0]) - stddev * math.sqrt(2 * math.log(1 / _WRONG))
        self.regularization_ = max(0.0, spectral_norm(size, spread, _WRONG) - max(least, 0.0))
        return ridge(matrix, cross, self.regularization_)


class PrivateRidge(_SufficientStatistics):
    """Ridge regression from noisy X'X and X'y, with a penalty that is given.

    For a known penalty; else `PrivateLinearRegression` finds one that suits the noise. Negative eigenvalues of the
    noisy X'X, which are noise, are set to 0 before the penalty is added.

    Args:
        epsilon: For everything that fit releases.
        delta: The same; above 0.
        data_norm: As for `PrivateLinearRegression`.
        target_bounds: As for `PrivateLinearRegression`.
        alpha: The penalty, as in scikit-learn; on the constant term, too, in units of ``data_norm``.
        fit_intercept: Whether there is a constant term.
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        coef_: Weights.
        intercept_: The constant term.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What fit gave away.
        event_: The same for accountants.

    Guarantee:
        (epsilon, delta)-differential privacy for one row of X and y, added or removed.

    Assumes:
        As `PrivateLinearRegression`: bounds are public (the caller's duty) and applied (checked here: done here).

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
        spread = multiplier * math.sqrt(2)
        matrix = noisy_symmetric(totals[:size, :size], spread, source)
        cross = noisy(totals[:size, size], spread, source)
        length = 0.5 if self.fit_intercept else 1.0
        return ridge(matrix, cross, float(self.alpha) * length / float(self.data_norm) ** 2)


def ridge(matrix: Floats, cross: Floats, penalty: float) -> Floats:
    """Solve (A + penalty) w = b, A without its negative eigenvalues; directions without information get weight 0."""
    values, vectors = np.linalg.eigh(matrix)
    denominators = np.maximum(values, 0.0) + penalty
    inverse = np.divide(1.0, denominators, out=np.zeros_like(values), where=denominators > UNIT**-1)
    weights: Floats = vectors @ (inverse * (vectors.T @ cross))
    return weights
