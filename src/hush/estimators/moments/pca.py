"""Principal components of a noisy covariance matrix."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting import Event
from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count, check_instance
from hush.estimators.base.bounds import check_public_norm
from hush.estimators.base.estimator import Floats, PrivateEstimator, check_width, planned
from hush.estimators.moments.gram import UNIT
from hush.estimators.moments.second_moments import AnalyzeGauss, Components, SecondMomentsMethod
from hush.randomness import RandomSource


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Principal components: eigenvectors of a noisy covariance matrix, or random directions of large variance.

    For a few directions out of many, to project on before something else is learned. The error of the matrix grows
    with the root of the number of features over the number of rows, and not with how many directions are asked for.

    Three ways: `AnalyzeGauss` (the default, and the one to take with a delta), `Wishart` and `ExponentialPCA`
    (without a delta, for few directions). With a public ``center`` no mean is needed, and none is released.

    Args:
        n_components: How many directions; None for all.
        epsilon: For everything that fit releases.
        delta: The same; above 0, but for `ExponentialPCA`, which does not use it.
        data_norm: L2 norm of a row, less ``center``; public: longer rows are scaled down.
        center: A public point that is subtracted from each row; None for a mean that is learned.
        method: `AnalyzeGauss` (None for it), `Wishart` or `ExponentialPCA`.
        whiten: Whether transformed columns are divided by their standard deviation.
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        components_: Directions, as rows.
        explained_variance_: Of each direction, from the noisy matrix; at least 0.
        explained_variance_ratio_: The same over the total.
        singular_values_: Roots of the variances times the noisy number of rows.
        noise_variance_: Mean variance along the directions that are left out.
        mean_: What is subtracted from rows.
        n_components_: How many directions there are.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What fit gave away.
        event_: The same for accountants.

    Guarantee:
        (epsilon, delta)-differential privacy for one row, added or removed; delta = 0 by `ExponentialPCA`.

    Assumes:
        Rows are clipped to the norm (checked here: done here). ``data_norm`` and ``center`` are public (the caller's
        duty). Each person has one row (the caller's duty).

    References:
        Dwork, Talwar, Thakurta & Zhang 2014, Algorithm 1; those of the methods.

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
        check_instance("method", self._method(), SecondMomentsMethod, "AnalyzeGauss(), Wishart() or ExponentialPCA()")
        super()._check()
        if self._method().needs_center and self.center is None:
            raise InvalidArgument("center", None, "a public point", "This method learns no mean")
        if self.center is not None:
            check_center(self.center)
        check_public_norm("data_norm", self.data_norm)
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        if not isinstance(self.whiten, (bool, np.bool_)):
            raise InvalidArgument("whiten", self.whiten, "True or False")
        self._event(1, 1)  # what is wrong with epsilon is said here

    def _event(self, num_features: int, wanted: int) -> Event:
        delta = float(self.delta) if self._method().needs_delta else 0.0
        return planned(self.epsilon, lambda: self._method().event(num_features, wanted, float(self.epsilon), delta))

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to rows. Those with something missing or infinite are left out; longer ones are scaled down."""
        self._check()
        rows = self._rows(X)
        wanted = self.n_features_in_ if self.n_components is None else int(self.n_components)
        if not wanted <= self.n_features_in_:
            raise InvalidArgument("n_components", wanted, f"at most the {self.n_features_in_} features")
        center = public_center(self.center, self.n_features_in_)
        norm, epsilon = float(self.data_norm), float(self.epsilon)
        method = self._method()
        delta = float(self.delta) if method.needs_delta else 0.0
        source = self._start(self._event(self.n_features_in_, wanted), *method.assumptions, spent=(epsilon, delta))
        found = method.components(rows, norm, center, wanted, epsilon, delta, source)
        self._store(found, center)
        return self

    def _store(self, found: Components, center: Floats | None) -> None:
        directions, norm = found.directions, float(self.data_norm)
        wanted, size = directions.shape
        signs = np.sign(directions[np.arange(wanted), np.abs(directions).argmax(axis=1)])
        self.n_components_ = wanted
        self.mean_ = located(found.mean, center, norm)
        self.components_ = directions * signs[:, None]
        self.explained_variance_ = found.variances * norm**2
        self.explained_variance_ratio_ = found.variances / max(found.total, 1 / UNIT)
        self.singular_values_ = np.sqrt(self.explained_variance_ * found.count)
        rest = max(found.total - float(found.variances.sum()), 0.0) * norm**2
        self.noise_variance_ = rest / (size - wanted) if wanted < size else 0.0

    def transform(self, X: Any) -> Floats:
        """Return the coordinates of rows along the directions; NaN for a row with something missing."""
        check_is_fitted(self)
        projected: Floats = (self._rows(X, reset=False, missing=True) - self.mean_) @ self.components_.T
        return projected / self._scales() if self.whiten else projected

    def inverse_transform(self, X: Any) -> Floats:
        """Return the rows that coordinates stand for."""
        check_is_fitted(self)
        given = check_width("X", X, self.n_components_)
        coordinates = given * (self._scales() if self.whiten else 1.0)
        rows: Floats = coordinates @ self.components_ + self.mean_
        return rows

    def _scales(self) -> Floats:
        scales: Floats = np.sqrt(np.maximum(self.explained_variance_, np.finfo(np.float64).eps))
        return scales

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)


def public_center(center: Any, num_features: int) -> Floats | None:
    """Return a public point, or None where a mean is to be learned."""
    if center is None:
        return None
    point = check_center(center)
    if point.shape not in ((), (num_features,)):
        raise InvalidArgument("center", center, f"one number for each of {num_features} features, or one for all")
    return np.broadcast_to(point, (num_features,)).copy()


def check_center(center: Any) -> Floats:
    """Return a public point, or one number for all of its coordinates."""
    try:
        point = np.asarray(center, dtype=np.float64)
        fine = point.ndim <= 1 and bool((np.abs(point) < 1e100).all())
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise InvalidArgument("center", center, "a public point: a number for each feature, or one for all")
    return point


def located(mean: Floats | None, center: Floats | None, norm: float) -> Floats:
    """Return where rows are: about a public point, or a mean that was learned in units of the norm."""
    if center is not None:
        return center
    assert mean is not None
    return mean * norm
