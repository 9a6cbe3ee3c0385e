"""A noisy covariance matrix."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.utils.validation import check_is_fitted

from hush.accounting import Event
from hush.accounting.budget import Budget
from hush.errors import check_instance
from hush.estimators.base.bounds import check_public_norm
from hush.estimators.base.estimator import Floats, PrivateEstimator, planned
from hush.estimators.moments.pca import check_center, located, public_center
from hush.estimators.moments.second_moments import AnalyzeGauss, CovarianceMethod
from hush.randomness import RandomSource


class PrivateCovariance(PrivateEstimator, EmpiricalCovariance):  # type: ignore[misc]
    """Mean, covariance and precision matrix, from one noisy release.

    For distances, correlations, and whatever is made of second moments; for directions alone, `PrivatePCA` has the same
    noise. ``score``, ``mahalanobis``, ``error_norm`` and ``get_precision`` are scikit-learn's; the first three look at
    the rows that they are given, exactly: what they return is as private as those.

    Args:
        epsilon: For everything that fit releases.
        delta: The same; above 0.
        data_norm: L2 norm of a row, less ``center``; public: longer rows are scaled down.
        center: A public point about which the covariance is taken; None for a mean that is learned.
        method: `AnalyzeGauss` (None for it) or `Wishart`.
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        location_: The mean, or the public centre.
        covariance_: Its eigenvalues are at least the standard deviation of the noise: below it they are noise.
        precision_: The inverse.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What fit gave away.
        event_: The same for accountants.

    Guarantee:
        (epsilon, delta)-differential privacy for one row, added or removed.

    Assumes:
        Rows are clipped to the norm (checked here: done here). ``data_norm`` and ``center`` are public (the caller's
        duty). Each person has one row (the caller's duty).

    References:
        Dwork, Talwar, Thakurta & Zhang 2014, Algorithm 1; those of the methods.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.random.default_rng(0).normal(size=(50_000, 2)) * [2.0, 1.0]
    >>> model = PrivateCovariance(epsilon=1.0, delta=1e-6, data_norm=8.0, source=TestSource(1)).fit(x)
    >>> np.abs(model.covariance_).round(1).tolist()
    [[4.0, 0.0], [0.0, 1.0]]
    """

    _needs_delta = True
    store_precision = True  # for what is inherited: it would invert the matrix again
    assume_centered = False

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        data_norm: float,
        center: Any = None,
        method: CovarianceMethod | None = None,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.center = center
        self.method = method
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        check_instance("method", self._method(), CovarianceMethod, "AnalyzeGauss() or Wishart()")
        check_public_norm("data_norm", self.data_norm)
        if self.center is not None:
            check_center(self.center)
        self._event(1)  # what is wrong with epsilon is said here

    def _event(self, num_features: int) -> Event:
        epsilon, delta = float(self.epsilon), float(self.delta)
        return planned(epsilon, lambda: self._method().event(num_features, num_features, epsilon, delta))

    def _method(self) -> CovarianceMethod:
        return AnalyzeGauss() if self.method is None else self.method

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to rows. Those with something missing or infinite are left out; longer ones are scaled down."""
        self._check()
        rows = self._rows(X)
        center = public_center(self.center, self.n_features_in_)
        norm, epsilon, delta = float(self.data_norm), float(self.epsilon), float(self.delta)
        source = self._start(self._event(self.n_features_in_))
        found = self._method().moments(rows, norm, center, epsilon, delta, source)
        values, vectors = np.linalg.eigh(found.covariance)
        values = np.maximum(values, found.stddev)
        self.location_ = located(found.mean, center, norm)
        self.covariance_ = (vectors * values) @ vectors.T * norm**2
        self.precision_ = (vectors / values) @ vectors.T / norm**2
        return self

    def get_precision(self) -> Floats:
        """Return the precision matrix."""
        check_is_fitted(self)  # which what is inherited leaves out
        precision: Floats = super().get_precision()
        return precision

    def score(self, X_test: Any, y: Any = None) -> float:
        """Return the log-likelihood of rows; it is as private as they are."""
        check_is_fitted(self)
        return float(super().score(X_test, y))

    def mahalanobis(self, X: Any) -> Floats:
        """Return squared Mahalanobis distances of rows; they are as private as the rows."""
        check_is_fitted(self)
        distances: Floats = super().mahalanobis(X)
        return distances
