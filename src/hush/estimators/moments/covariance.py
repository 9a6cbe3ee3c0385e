"""A private covariance matrix, with its mean and its inverse."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.utils.validation import check_is_fitted

from hush.accounting import Event
from hush.accounting.budget import Budget
from hush.errors import check_instance
from hush.estimators.base.bounds import check_public_norm
from hush.estimators.base.estimator import Floats, PrivateEstimator, blame_epsilon
from hush.estimators.moments.pca import check_center, location, public_center
from hush.estimators.moments.second_moments import AnalyzeGauss, CovarianceMethod
from hush.randomness import RandomSource


class PrivateCovariance(PrivateEstimator, EmpiricalCovariance):  # type: ignore[misc]
    """Mean, covariance and precision matrix from a single noisy release.

    Choose it for correlations, Mahalanobis distances, and anything else that second moments determine. For directions
    alone, `PrivatePCA` adds the same noise.

    The release is S + noise, where S is the sum of x x' over the clipped rows, with the sum and the number of rows. The
    eigenvalues of the noisy covariance are raised to at least the noise's standard deviation, so that the matrix can be
    inverted. ``score``, ``mahalanobis``, ``error_norm`` and ``get_precision`` are those of scikit-learn. The first
    three are exact functions of the rows that you pass, so their results are not private.

    Args:
        epsilon: Privacy budget of one fit.
        delta: Failure probability of the guarantee, in (0, 1).
        data_norm: Public clip norm: bound on the L2 norm of a row minus ``center``. Longer rows are scaled down.
        center: Public point about which the covariance is taken. Default: the mean, which is learned.
        method: `AnalyzeGauss` (the default) or `Wishart`.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        location_: The noisy mean, or the public centre.
        covariance_: The noisy covariance. Its eigenvalues are at least the standard deviation of the noise.
        precision_: Inverse of ``covariance_``.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy when one row is added or removed.

    Assumes:
        Rows are clipped to ``data_norm`` (checked here). ``data_norm`` and ``center`` are public (the caller's duty).
        Each person has one row (the caller's duty).

    References:
        Dwork, Talwar, Thakurta & Zhang 2014, Algorithm 1; and the references of the methods.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.random.default_rng(0).normal(size=(50_000, 2)) * [2.0, 1.0]
    >>> model = PrivateCovariance(epsilon=1.0, delta=1e-6, data_norm=8.0, source=TestSource(1)).fit(x)
    >>> np.abs(model.covariance_).round(1).tolist()
    [[4.0, 0.0], [0.0, 1.0]]
    """

    _needs_delta = True
    store_precision = True  # otherwise the inherited methods invert the matrix again
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
        check_instance("method", self._method(), CovarianceMethod, "Pass AnalyzeGauss() or Wishart()")
        check_public_norm("data_norm", self.data_norm)
        if self.center is not None:
            check_center(self.center)
        self._event(1)  # refuses an unusable epsilon in the constructor

    def _event(self, num_features: int) -> Event:
        epsilon, delta = float(self.epsilon), float(self.delta)
        return blame_epsilon(epsilon, lambda: self._method().event(num_features, num_features, epsilon, delta))

    def _method(self) -> CovarianceMethod:
        return AnalyzeGauss() if self.method is None else self.method

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to rows. Rows with a missing or infinite value are dropped; longer rows are scaled down."""
        self._check()
        rows = self._rows(X)
        center = public_center(self.center, self.n_features_in_)
        norm, epsilon, delta = float(self.data_norm), float(self.epsilon), float(self.delta)
        source = self._charge(self._event(self.n_features_in_))
        moments = self._method().moments(rows, norm, center, epsilon, delta, source)
        values, vectors = np.linalg.eigh(moments.covariance)
        # Eigenvalues below the noise are indistinguishable from 0, and their inverses would explode.
        values = np.maximum(values, moments.stddev)
        self.location_ = location(moments.mean, center, norm)
        # V diag(values) V', in the data's units, which are norm times those of the rows.
        self.covariance_ = (vectors * values) @ vectors.T * norm**2
        self.precision_ = (vectors / values) @ vectors.T / norm**2
        return self

    def get_precision(self) -> Floats:
        """Return the precision matrix."""
        check_is_fitted(self)  # the inherited method does not check
        precision: Floats = super().get_precision()
        return precision

    def score(self, X_test: Any, y: Any = None) -> float:
        """Return the log-likelihood of rows. It is computed exactly: not private."""
        check_is_fitted(self)
        return float(super().score(X_test, y))

    def mahalanobis(self, X: Any) -> Floats:
        """Return the squared Mahalanobis distance of each row. It is computed exactly: not private."""
        check_is_fitted(self)
        distances: Floats = super().mahalanobis(X)
        return distances
