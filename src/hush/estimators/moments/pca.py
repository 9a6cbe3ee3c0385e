"""Private principal component analysis."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting import Event
from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count, check_instance
from hush.estimators.base.bounds import check_public_norm
from hush.estimators.base.estimator import Floats, PrivateEstimator, blame_epsilon, check_width
from hush.estimators.moments.gram import UNIT
from hush.estimators.moments.second_moments import AnalyzeGauss, Components, SecondMomentsMethod
from hush.randomness import RandomSource


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Principal components: eigenvectors of a noisy covariance matrix, or random directions of large variance.

    Use it to project many features onto a few directions before another model learns from them. The error of the matrix
    grows with sqrt(number of features) / (number of rows). It does not depend on how many directions you ask for.

    The method decides what is released: `AnalyzeGauss` (the default, and the best choice with delta > 0), `Wishart`, or
    `ExponentialPCA` (delta = 0, for few directions). With a public ``center`` no mean is needed, and none is released.

    Args:
        n_components: Number of directions. Default: all.
        epsilon: Privacy budget of one fit.
        delta: Failure probability of the guarantee, in (0, 1). `ExponentialPCA` does not use it.
        data_norm: Public clip norm: bound on the L2 norm of a row minus ``center``. Longer rows are scaled down.
        center: Public point to subtract from each row. Default: the mean, which is learned.
        method: `AnalyzeGauss` (the default), `Wishart` or `ExponentialPCA`.
        whiten: Whether to divide transformed columns by their standard deviation.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        components_: The directions, as rows.
        explained_variance_: Noisy variance along each direction, at least 0.
        explained_variance_ratio_: ``explained_variance_`` divided by the noisy total variance.
        singular_values_: Square roots of ``explained_variance_`` times the noisy number of rows.
        noise_variance_: Mean variance along the directions that were dropped.
        mean_: The point that is subtracted from rows.
        n_components_: Number of directions.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy when one row is added or removed; delta = 0 with `ExponentialPCA`.

    Assumes:
        Rows are clipped to ``data_norm`` (checked here). ``data_norm`` and ``center`` are public (the caller's duty).
        Each person has one row (the caller's duty).

    References:
        Dwork, Talwar, Thakurta & Zhang 2014, Algorithm 1; and the references of the methods.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.outer(np.linspace(-1, 1, 10_000), [0.6, 0.8])
    >>> pca = PrivatePCA(1, epsilon=1.0, delta=1e-6, data_norm=1.0, source=TestSource(1)).fit(x)
    >>> np.abs(pca.components_).round(1).tolist()
    [[0.6, 0.8]]
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        epsilon: float,
        delta: float,
        data_norm: float,
        center: Any = None,
        method: SecondMomentsMethod | None = None,
        whiten: bool = False,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.center = center
        self.method = method
        self.whiten = whiten
        self.budget = budget
        self.source = source
        self._check()

    def _method(self) -> SecondMomentsMethod:
        return AnalyzeGauss() if self.method is None else self.method

    @property
    def _needs_delta(self) -> bool:  # type: ignore[override]
        return self._method().needs_delta

    def _check(self) -> None:
        check_instance(
            "method", self._method(), SecondMomentsMethod, "Pass AnalyzeGauss(), Wishart() or ExponentialPCA()"
        )
        super()._check()
        if self._method().needs_center and self.center is None:
            raise InvalidArgument("center", None, "a public point", "This method cannot learn a mean")
        if self.center is not None:
            check_center(self.center)
        check_public_norm("data_norm", self.data_norm)
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        if not isinstance(self.whiten, (bool, np.bool_)):
            raise InvalidArgument("whiten", self.whiten, "True or False")
        self._event(1, 1)  # refuses an unusable epsilon in the constructor

    def _event(self, num_features: int, num_components: int) -> Event:
        delta = float(self.delta) if self._method().needs_delta else 0.0
        return blame_epsilon(
            self.epsilon, lambda: self._method().event(num_features, num_components, float(self.epsilon), delta)
        )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to rows. Rows with a missing or infinite value are dropped; longer rows are scaled down."""
        self._check()
        rows = self._rows(X)
        num_components = self.n_features_in_ if self.n_components is None else int(self.n_components)
        if not num_components <= self.n_features_in_:
            raise InvalidArgument(
                "n_components", num_components, f"at most the number of features, {self.n_features_in_}"
            )
        center = public_center(self.center, self.n_features_in_)
        norm, epsilon = float(self.data_norm), float(self.epsilon)
        method = self._method()
        delta = float(self.delta) if method.needs_delta else 0.0
        source = self._charge(
            self._event(self.n_features_in_, num_components), *method.assumptions, spent=(epsilon, delta)
        )
        components = method.components(rows, norm, center, num_components, epsilon, delta, source)
        self._set_fitted(components, center)
        return self

    def _set_fitted(self, components: Components, center: Floats | None) -> None:
        """Set the fitted attributes, in the data's units; each direction's largest entry is made positive."""
        directions, norm = components.directions, float(self.data_norm)
        num_components, size = directions.shape
        # The sign of a direction is arbitrary: make its largest entry positive.
        signs = np.sign(directions[np.arange(num_components), np.abs(directions).argmax(axis=1)])
        self.n_components_ = num_components
        self.mean_ = location(components.mean, center, norm)
        self.components_ = directions * signs[:, None]
        # Rows were divided by the norm, so variances are in units of its square.
        self.explained_variance_ = components.variances * norm**2
        self.explained_variance_ratio_ = components.variances / max(components.total, 1 / UNIT)
        self.singular_values_ = np.sqrt(self.explained_variance_ * components.count)
        # The trace of a covariance is the sum of all variances. Noise may make the difference negative.
        dropped_variance = max(components.total - float(components.variances.sum()), 0.0) * norm**2
        self.noise_variance_ = dropped_variance / (size - num_components) if num_components < size else 0.0

    def transform(self, X: Any) -> Floats:
        """Return the coordinates of rows along the directions; NaN for a row with a missing value."""
        check_is_fitted(self)
        projected: Floats = (self._rows(X, reset=False, missing=True) - self.mean_) @ self.components_.T
        return projected / self._scales() if self.whiten else projected

    def inverse_transform(self, X: Any) -> Floats:
        """Map coordinates back to rows."""
        check_is_fitted(self)
        coordinates = check_width("X", X, self.n_components_) * (self._scales() if self.whiten else 1.0)
        rows: Floats = coordinates @ self.components_ + self.mean_
        return rows

    def _scales(self) -> Floats:
        # A direction in which noise left no variance would be divided by 0.
        scales: Floats = np.sqrt(np.maximum(self.explained_variance_, np.finfo(np.float64).eps))
        return scales

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)


def public_center(center: Any, num_features: int) -> Floats | None:
    """Return the public centre with one number per feature, or None if the mean is to be learned."""
    if center is None:
        return None
    point = check_center(center)
    if point.shape not in ((), (num_features,)):
        raise InvalidArgument("center", center, f"one number per feature ({num_features}), or one for all")
    return np.broadcast_to(point, (num_features,)).copy()


def check_center(center: Any) -> Floats:
    """Return the public centre as an array: one number per feature, or one for all."""
    try:
        point = np.asarray(center, dtype=np.float64)
        valid = point.ndim <= 1 and bool((np.abs(point) < 1e100).all())
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise InvalidArgument("center", center, "a public point: one number per feature, or one for all")
    return point


def location(mean: Floats | None, center: Floats | None, norm: float) -> Floats:
    """Return the point that rows are centred at: the public centre, or the learned mean in the data's units."""
    if center is not None:
        return center
    assert mean is not None
    return mean * norm
