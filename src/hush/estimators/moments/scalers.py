"""Scalers with public or privately learned bounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting import ComposedEvent, Event, events
from hush.accounting.budget import Budget
from hush.estimators.base.bounds import LearnBounds, check_bounds, fitted_bounds
from hush.estimators.base.estimator import Floats, PrivateEstimator, check_width, planned
from hush.estimators.moments.log_bins import bins_plan, learned_bounds
from hush.estimators.moments.moments import Steps, class_totals, moments_plan, noisy_moments
from hush.numerics import silent
from hush.randomness import RandomSource
from hush.statistics import NoisePlan


class _Scaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator, ABC):  # type: ignore[misc]
    def _check(self) -> None:
        super()._check()
        if not isinstance(self.bounds, LearnBounds):
            check_bounds("bounds", self.bounds)
        self._plan(1)  # what is wrong with epsilon is said here

    @abstractmethod
    def _plan(self, num_features: int) -> Any:
        """Return what is decided without looking at the data."""

    def _ends(self, num_features: int) -> tuple[Floats, Floats] | None:
        """Return public bounds, None where they are learned; it is asked before a fit is charged."""
        return None if isinstance(self.bounds, LearnBounds) else fitted_bounds("bounds", self.bounds, num_features)


class PrivateStandardScaler(_Scaler):
    """Columns less their mean, over their standard deviation; both from one noisy release.

    Before models that are sensitive to units. Where bounds are known and tight, `PrivateMinMaxScaler` costs nothing.

    Args:
        epsilon: For everything that fit releases.
        delta: 0 for Laplace noise; above it, whichever of Laplace and Gaussian noise is smaller.
        bounds: (lower, upper) of each feature, or of all, public; or `LearnBounds`: what is learned, twice as wide.
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        mean_: Of each feature.
        var_: Of each feature; not below what noise alone would suggest.
        scale_: Its root.
        bounds_: What values were clamped to.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What fit gave away.
        event_: The same for accountants.

    Guarantee:
        (epsilon, delta)-differential privacy for one row, added or removed; delta = 0 with Laplace noise.

    Assumes:
        Rows are clamped, and those with something missing left out (checked here: done here). Given bounds are public
        (the caller's duty). Each person has one row (the caller's duty). What is transformed afterwards is as private
        as it was before: the columns are not noisy (the caller's duty).

    References:
        Dwork, McSherry, Nissim & Smith 2006; Wilson et al. 2020 (learned bounds).

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.linspace(0, 10, 5000)[:, None]
    >>> scaler = PrivateStandardScaler(epsilon=1.0, bounds=(0, 10), source=TestSource(1)).fit(x)
    >>> scaler.mean_.round(1).tolist(), scaler.scale_.round(1).tolist()
    ([5.0], [2.9])
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float = 0.0,
        bounds: Any,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.budget = budget
        self.source = source
        self._check()

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn means and standard deviations."""
        self._check()
        rows = self._rows(X)
        ends, (learning, plan) = self._ends(self.n_features_in_), self._plan(self.n_features_in_)
        source = self._start(_event(learning, self.n_features_in_, plan), spent=(float(self.epsilon), plan.delta))
        if learning is not None:
            # Few rows of a tail do not stand out from noise: cut off, they are missed more than noise costs.
            low, high = learned_bounds(rows, learning, source)
            ends = low - (high - low) / 2, high + (high - low) / 2
        assert ends is not None
        self.bounds_ = lower, upper = ends
        found = noisy_moments(class_totals(rows, None, 1, Steps(lower, upper, len(rows))), plan, source)
        half = (upper - lower) / 2
        self.mean_ = lower + half + found.means[0] * half
        self.var_ = found.variances[0] * half**2
        self.scale_ = np.sqrt(self.var_)
        return self

    def _plan(self, num_features: int) -> tuple[NoisePlan | None, NoisePlan]:
        """Return the noise for bounds, if they are learned, and that of moments."""
        epsilon, share = float(self.epsilon), self.bounds.share if isinstance(self.bounds, LearnBounds) else 0.0

        def make() -> tuple[NoisePlan | None, NoisePlan]:
            learning = _learning(epsilon * share, num_features) if share else None
            return learning, moments_plan(num_features, epsilon * (1 - share), float(self.delta))

        return planned(epsilon, make)

    @silent
    def transform(self, X: Any) -> Floats:
        """Return scaled rows; what is missing stays missing."""
        check_is_fitted(self)
        rows: Floats = (self._rows(X, reset=False, missing=True) - self.mean_) / self.scale_
        return rows

    @silent
    def inverse_transform(self, X: Any) -> Floats:
        """Return rows in their own units."""
        check_is_fitted(self)
        rows: Floats = check_width("X", X, self.n_features_in_) * self.scale_ + self.mean_
        return rows


class PrivateMinMaxScaler(_Scaler):
    """Columns scaled so that their bounds become 0 and 1; values beyond are not clamped.

    Choose it where bounds are known, or where what comes next needs bounds, which are (0, 1) then, and they are not
    known. For features in very different units whose spread matters more than their range, `PrivateStandardScaler`.
    With public bounds it looks at no row and costs nothing. With `LearnBounds` all of epsilon is for learning them:
    the bounds are ends of bins, powers of 2, within which most values are.

    Args:
        epsilon: For learning bounds; public ones cost nothing.
        bounds: (lower, upper) of each feature, or of all, public; or `LearnBounds`, whose share does not matter here.
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        data_min_: Lower bounds.
        data_max_: Upper bounds.
        data_range_: Their difference.
        scale_: One over it: what columns are multiplied by.
        min_: What is added then, as in scikit-learn: x becomes x * ``scale_`` + ``min_``.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What fit gave away.
        event_: The same for accountants.

    Guarantee:
        epsilon-differential privacy for one row, added or removed; with public bounds nothing is given away.

    Assumes:
        Given bounds are public (the caller's duty). Each person has one row (the caller's duty). Learned bounds are
        from noisy counts in public bins (checked here: done here).

    References:
        Wilson et al. 2020 (learned bounds).

    >>> scaler = PrivateMinMaxScaler(epsilon=1.0, bounds=(0, 10)).fit([[3.0]])
    >>> scaler.transform([[2.5]]).tolist(), scaler.guarantee_.epsilon
    ([[0.25]], 0.0)
    """

    delta = 0.0

    def __init__(
        self, *, epsilon: float, bounds: Any, budget: Budget | None = None, source: RandomSource | None = None
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.budget = budget
        self.source = source
        self._check()

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn bounds, or take those given."""
        self._check()
        rows = self._rows(X)
        ends, learning = self._ends(self.n_features_in_), self._plan(self.n_features_in_)
        spent = (float(self.epsilon) if learning else 0.0, 0.0)
        source = self._start(_event(learning, self.n_features_in_), spent=spent)
        if learning is not None:
            ends = learned_bounds(rows, learning, source)
        assert ends is not None
        self.data_min_, self.data_max_ = ends
        self.data_range_ = self.data_max_ - self.data_min_
        self.scale_ = 1 / self.data_range_
        self.min_ = -self.data_min_ * self.scale_
        return self

    def _plan(self, num_features: int) -> NoisePlan | None:
        if not isinstance(self.bounds, LearnBounds):
            return None
        return planned(self.epsilon, lambda: _learning(float(self.epsilon), num_features))

    @silent
    def transform(self, X: Any) -> Floats:
        """Return scaled rows; what is missing stays missing."""
        check_is_fitted(self)
        rows: Floats = self._rows(X, reset=False, missing=True) * self.scale_ + self.min_
        return rows

    @silent
    def inverse_transform(self, X: Any) -> Floats:
        """Return rows in their own units."""
        check_is_fitted(self)
        rows: Floats = (check_width("X", X, self.n_features_in_) - self.min_) / self.scale_
        return rows


def _learning(epsilon: float, num_features: int) -> NoisePlan:
    """Return the noise of learning the bounds of each feature with an equal part of epsilon."""
    return bins_plan(epsilon / num_features * (1 - 1e-12))


def _event(learning: NoisePlan | None, num_features: int, *more: NoisePlan) -> Event:
    """Return what learning bounds costs, once for each feature, and what comes after it."""
    each = () if learning is None else (events.ApproximateDPEvent(learning.epsilon),) * num_features
    parts: tuple[Event, ...] = (*each, *(plan.event for plan in more))
    return parts[0] if len(parts) == 1 and not each else ComposedEvent(parts)
