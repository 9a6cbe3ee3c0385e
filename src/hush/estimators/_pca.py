"""Principal components of a noisy covariance matrix."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting import events
from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count, check_positive
from hush.estimators._gram import STEPS, UNIT, gram, noisy, noisy_symmetric, unit_rows
from hush.estimators._private import Floats, PrivateEstimator, noise_multiplier
from hush.randomness import Source

_SECOND, _FIRST, _COUNT = 0.8, 0.15, 0.05  # shares of the squared sensitivity


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Principal components from a covariance matrix with Gaussian noise (Analyze Gauss).

    For a few directions out of many, to project on before something else is learned. The error of the matrix grows
    with the root of the number of features over the number of rows, and not with how many directions are asked for.

    Variant: noise beside the diagonal is smaller by sqrt(2) than in the paper (see the Frobenius norm of x x'); the
    number of rows and the mean are part of the same release (5 and 15 % of the squared sensitivity), unless a public
    ``center`` is given: then the mean is not needed and not released.

    Args:
        n_components: How many directions; None for all.
        epsilon: For everything that fit releases.
        delta: The same; above 0.
        data_norm: L2 norm of a row, less ``center``; public: longer rows are scaled down.
        center: A public point that is subtracted from each row; None for a mean that is learned.
        whiten: Whether transformed columns are divided by their standard deviation.
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        components_: Directions, as rows.
        explained_variance_: Of each direction, from the noisy matrix; at least 0.
        explained_variance_ratio_: The same over the total.
        mean_: What is subtracted from rows.
        guarantee_: What fit gave away.
        event_: The same for accountants.

    Guarantee:
        (epsilon, delta)-differential privacy for one row, added or removed.

    Assumes:
        Rows are clipped to the norm (checked here: done here). ``data_norm`` and ``center`` are public (the caller's
        duty). Each person has one row (the caller's duty).

    References:
        Dwork, Talwar, Thakurta & Zhang 2014, Algorithm 1; Balle & Wang 2018 (the noise).

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.outer(np.linspace(-1, 1, 10_000), [0.6, 0.8])
    >>> pca = PrivatePCA(1, epsilon=1.0, delta=1e-6, data_norm=1.0, source=TestSource(1)).fit(x)
    >>> np.abs(pca.components_).round(1).tolist()
    [[0.6, 0.8]]
    """

    _needs_delta = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        epsilon: float,
        delta: float,
        data_norm: float,
        center: Any = None,
        whiten: bool = False,
        budget: Budget | None = None,
        source: Source | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.center = center
        self.whiten = whiten
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        check_positive("data_norm", self.data_norm, "It is public: the L2 norm that longer rows are scaled down to")
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        if not isinstance(self.whiten, (bool, np.bool_)):
            raise InvalidArgument("whiten", self.whiten, "True or False")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to rows. Those with something missing or infinite are left out; longer ones are scaled down."""
        self._check()
        rows = self._rows(X)
        wanted = self.n_features_in_ if self.n_components is None else int(self.n_components)
        if not wanted <= self.n_features_in_:
            raise InvalidArgument("n_components", wanted, f"at most the {self.n_features_in_} features")
        center = self._center()
        multiplier = noise_multiplier(float(self.epsilon), float(self.delta))
        source = self._start(events.Gaussian(multiplier))
        units, complete = unit_rows(rows - center if center is not None else rows, float(self.data_norm))
        ones = np.where(complete, float(STEPS), 0.0)
        totals = gram(np.concatenate([units, ones[:, None]], axis=1))
        count, covariance, mean = self._moments(totals, multiplier, source, centred=center is not None)
        self.mean_ = center if center is not None else mean * float(self.data_norm)
        self._store(covariance * float(self.data_norm) ** 2, count, wanted)
        return self

    def _center(self) -> Floats | None:
        if self.center is None:
            return None
        center = np.broadcast_to(np.asarray(self.center, dtype=np.float64), (self.n_features_in_,)).copy()
        if not bool(np.isfinite(center).all()):
            raise InvalidArgument("center", self.center, "finite numbers")
        return center

    def _moments(
        self, totals: Any, multiplier: float, source: Source, *, centred: bool
    ) -> tuple[float, Floats, Floats]:
        """Return a noisy count, covariance and mean, in units of the norm."""
        second, first = (_SECOND + _FIRST, 0.0) if centred else (_SECOND, _FIRST)
        size = len(totals) - 1
        matrix = noisy_symmetric(totals[:size, :size], multiplier / math.sqrt(second), source)
        count = max(float(noisy(totals[size:, size], multiplier / math.sqrt(_COUNT), source)[0]), 1.0)
        if centred:
            return count, matrix / count, np.zeros(size)
        mean = noisy(totals[:size, size], multiplier / math.sqrt(first), source) / count
        mean /= max(1.0, float(np.linalg.norm(mean)))
        return count, matrix / count - np.outer(mean, mean), mean

    def _store(self, covariance: Floats, count: float, wanted: int) -> None:
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))])
        self.n_components_ = wanted
        self.components_ = (vectors * signs).T[:wanted].copy()
        self.explained_variance_ = values[:wanted].copy()
        self.explained_variance_ratio_ = self.explained_variance_ / max(float(values.sum()), 1 / UNIT)
        self.singular_values_ = np.sqrt(self.explained_variance_ * count)
        self.noise_variance_ = float(values[wanted:].mean()) if wanted < len(values) else 0.0

    def transform(self, X: Any) -> Floats:
        """Return the coordinates of rows along the directions."""
        check_is_fitted(self)
        projected: Floats = (self._rows(X, reset=False) - self.mean_) @ self.components_.T
        return projected / self._scales() if self.whiten else projected

    def inverse_transform(self, X: Any) -> Floats:
        """Return the rows that coordinates stand for."""
        check_is_fitted(self)
        coordinates = np.asarray(X, dtype=np.float64) * (self._scales() if self.whiten else 1.0)
        rows: Floats = coordinates @ self.components_ + self.mean_
        return rows

    def _scales(self) -> Floats:
        scales: Floats = np.sqrt(np.maximum(self.explained_variance_, np.finfo(np.float64).eps))
        return scales

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)
