"""Poisson regression from noisy sufficient statistics: the log-likelihood, made quadratic, then one Gaussian release.

    log-likelihood     sum of y s - e^s, with s = <x, w> + intercept
    made quadratic     e^s is replaced by a parabola that meets it at three points of a public range
    released           noisy X'X and X'y, as for linear regression (`regression`)
    weights            the maximum of the quadratic

A likelihood that is a polynomial depends on the data through sums alone. The same works for any generalised linear
model whose log-likelihood is y s - A(s): A is the part to replace. `FunctionalMechanism` does so for the logistic one,
and for the normal one nothing has to be replaced.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument
from hush.estimators.base.bounds import check_bounds
from hush.estimators.base.estimator import Floats
from hush.estimators.linear.regression import SufficientStatistics, ridge
from hush.estimators.moments.gram import add_noise, add_symmetric_noise, spectral_norm
from hush.randomness import RandomSource

_EXCEEDANCE = 0.05  # probability with which the noise is larger than its bound
_WIDEST = 1e6  # ratio of the ends of the rates: far beyond that of a useful parabola


class PrivatePoissonRegression(SufficientStatistics):
    """Counts that depend on features: log E[y] is linear. From one noisy release of X'X and X'y.

    Choose it for counts, with rates that you can bound within a factor of about ten. It has no learning rate and no
    number of steps. Beyond such a range the parabola is far from e^s, and predictions are biased towards the middle;
    `PrivateRegressor` with a Poisson loss has no such bias.

    Variant: the approximation of degree 2, in Chebyshev points of the range of log rates; X'X and X'y have half of the
    squared sensitivity each; the diagonal is lifted where the noise may exceed the smallest eigenvalue.

    Args:
        epsilon: Privacy budget of one fit.
        delta: Failure probability of the guarantee, in (0, 1).
        data_norm: Public clip norm: bound on the L2 norm of a row of X. Longer rows are scaled down.
        target_bounds: Public (lower, upper) of the counts. Others are clamped to it.
        rate_bounds: Public (lower, upper) of the rates E[y], above 0. Predictions are within it.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        coef_: Weights of the features, for the logarithm of the rate.
        intercept_: Intercept, on the same scale.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy when one row of X and y is added or removed.

    Assumes:
        Rows are clipped to ``data_norm`` and counts clamped to ``target_bounds`` (checked here). ``data_norm``,
        ``target_bounds`` and ``rate_bounds`` are public (the caller's duty). Each person has one row (the caller's
        duty).

    References:
        Huggins, Adams & Broderick 2017 (PASS-GLM: polynomial approximate sufficient statistics); Kulkarni, Jälkö,
        Koskela, Kaski & Honkela 2021 (their private release); Balle & Wang 2018 (calibration of the noise).

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.linspace(-1, 1, 20_000)[:, None]
    >>> y = np.random.default_rng(0).poisson(np.exp(0.5 + 0.8 * x[:, 0]))
    >>> model = PrivatePoissonRegression(
    ...     epsilon=1.0, delta=1e-6, data_norm=1.0, target_bounds=(0, 10), rate_bounds=(0.5, 5), source=TestSource(1)
    ... )
    >>> float(model.fit(x, y).coef_[0].round(1)), round(model.intercept_, 1)
    (0.8, 0.5)
    """

    fit_intercept = True  # the sum of the rows, which the parabola needs, is that of the constant feature's products

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        data_norm: float,
        target_bounds: tuple[float, float],
        rate_bounds: tuple[float, float],
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.target_bounds = target_bounds
        self.rate_bounds = rate_bounds
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        lower, upper = check_bounds("rate_bounds", self.rate_bounds)
        if lower.ndim or upper.ndim or not 1e-9 <= lower < upper <= min(1e9, _WIDEST * float(lower)):
            raise InvalidArgument(
                "rate_bounds", self.rate_bounds, "two rates above 0", "A parabola fits e^s in a narrow range only"
            )

    def _log_rates(self) -> tuple[float, float]:
        """Return the middle and half the width of the range of log rates."""
        low, high = (math.log(float(rate)) for rate in self.rate_bounds)
        return (low + high) / 2, (high - low) / 2

    def _solve(self, totals: Any, multiplier: float, source: RandomSource) -> Floats:
        size, stddev = len(totals) - 1, multiplier * math.sqrt(2)
        matrix = add_symmetric_noise(totals[:size, :size], stddev, source)
        cross = add_noise(totals[:size, size], stddev, source)
        lower, upper = (float(end) for end in self.target_bounds)
        # The constant feature is sqrt(1/2), so its products add up to the sum of the rows, times that.
        sums = matrix[:, -1] / math.sqrt(0.5)
        middle, half = self._log_rates()
        _, slope, curvature = _parabola(half) * math.exp(middle)
        # With s = middle + t: the maximum of sum y t - slope t - curvature t^2, where t = <x, w>.
        moments = (upper - lower) / 2 * cross + ((lower + upper) / 2 - slope) * sums
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        penalty = max(0.0, spectral_norm(size, stddev, _EXCEEDANCE) - max(smallest, 0.0))
        return ridge(matrix, moments / (2 * curvature), penalty)

    def _set_fitted(self, weights: Floats) -> None:
        length = math.sqrt(0.5)
        self.coef_ = weights[: self.n_features_in_] * length / float(self.data_norm)
        self.intercept_ = self._log_rates()[0] + float(weights[-1]) * length

    def predict(self, X: Any) -> Floats:
        """Return the predicted rate of each row, within ``rate_bounds``."""
        check_is_fitted(self)
        middle, half = self._log_rates()
        log_rates = self._rows(X, reset=False) @ self.coef_ + self.intercept_
        rates: Floats = np.exp(np.clip(log_rates, middle - half, middle + half))
        return rates


def _parabola(half: float) -> Floats:
    """Return the coefficients of the parabola that meets e^t at the three Chebyshev points of [-half, half].

    >>> [round(float(value), 2) for value in _parabola(1.0)]
    [1.0, 1.13, 0.53]
    """
    chebyshev = Chebyshev.interpolate(np.exp, 2, domain=[-half, half])
    return np.asarray(chebyshev.convert(kind=Polynomial).coef, dtype=np.float64)
