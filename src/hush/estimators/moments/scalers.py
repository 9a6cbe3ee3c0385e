"""Private scalers, with public bounds or bounds that are learned with part of the budget.

A scaler is usually the first step of a pipeline. Its attributes are private; the rows that ``transform`` returns are
not: they are your data in other units.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting import ComposedEvent, Event, events
from hush.accounting.budget import Budget
from hush.estimators.base.bounds import check_bounds, feature_bounds
from hush.estimators.base.estimator import Floats, PrivateEstimator, blame_epsilon, check_width
from hush.estimators.moments.moments import FixedPoint, class_totals, moments_plan, noisy_moments
from hush.numerics import quiet_numpy
from hush.randomness import RandomSource
from hush.statistics import CalibratedPlan, LearnBounds, NoisePlan, bins_plan, learned_bounds


class _Scaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator, ABC):  # type: ignore[misc]
    """The common part of the scalers: public or learned bounds."""

    def _check(self) -> None:
        super()._check()
        if not isinstance(self.bounds, LearnBounds):
            check_bounds("bounds", self.bounds)
        self._plan(1)  # refuses an unusable epsilon in the constructor

    @abstractmethod
    def _plan(self, num_features: int) -> Any:
        """Return the noise plan, which depends on public numbers only."""

    def _public_bounds(self, num_features: int) -> tuple[Floats, Floats] | None:
        """Return the public bounds, or None if they are learned. Errors come before the fit is charged."""
        return None if isinstance(self.bounds, LearnBounds) else feature_bounds("bounds", self.bounds, num_features)


class PrivateStandardScaler(_Scaler):
    """Subtract the mean of each column and divide by its standard deviation; both come from a single noisy release.

    Use it before models that are sensitive to units. Where bounds are known and tight, `PrivateMinMaxScaler` costs
    nothing.

    Args:
        epsilon: Privacy budget of one fit.
        delta: 0 for Laplace noise. Above 0, the smaller of Laplace and Gaussian noise is drawn.
        bounds: Public (lower, upper) of each feature, or one pair for all; or `LearnBounds`, whose learned bounds are
            used at twice their width.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        mean_: Noisy mean of each feature.
        var_: Noisy variance of each feature, never below the level of its noise.
        scale_: Square root of ``var_``.
        bounds_: (lower, upper) to which the values were clamped.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy when one row is added or removed; delta = 0 with Laplace noise.

    Assumes:
        Rows are clamped to the bounds, and rows with a missing value are dropped (checked here). Bounds that you pass
        are public (the caller's duty). Each person has one row (the caller's duty). Transformed rows are treated as
        private data: the guarantee covers the scaler, not its output (the caller's duty).

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
        """Learn the mean and the standard deviation of each feature."""
        self._check()
        rows = self._rows(X)
        bounds, (bounds_plan, plan) = self._public_bounds(self.n_features_in_), self._plan(self.n_features_in_)
        source = self._charge(_event(bounds_plan, self.n_features_in_, plan), spent=(float(self.epsilon), plan.delta))
        if bounds_plan is not None:
            # Tails are lost in the noise, and cutting them off would cost more than wider bounds do.
            low, high = _learned(rows, bounds_plan, source)
            bounds = low - (high - low) / 2, high + (high - low) / 2
        assert bounds is not None
        self.bounds_ = lower, upper = bounds
        moments = noisy_moments(class_totals(rows, None, 1, FixedPoint(lower, upper, len(rows))), plan, source)
        # Moments are in units of the bounds: x = middle + half u, so Var x = half^2 Var u.
        half = (upper - lower) / 2
        self.mean_ = lower + half + moments.means[0] * half
        self.var_ = moments.variances[0] * half**2
        self.scale_ = np.sqrt(self.var_)
        return self

    def _plan(self, num_features: int) -> tuple[CalibratedPlan | None, CalibratedPlan]:
        """Return the noise plan for the bounds, or None if they are public, and the plan for the moments."""
        epsilon, share = float(self.epsilon), self.bounds.share if isinstance(self.bounds, LearnBounds) else 0.0

        def build() -> tuple[CalibratedPlan | None, CalibratedPlan]:
            # Basic composition: it also holds for moments whose bounds come from the first release.
            bounds_plan = _bounds_plan(epsilon * share, num_features) if share else None
            return bounds_plan, moments_plan(num_features, epsilon * (1 - share), float(self.delta))

        return blame_epsilon(epsilon, build)

    @quiet_numpy
    def transform(self, X: Any) -> Floats:
        """Return scaled rows. Missing values stay missing."""
        check_is_fitted(self)
        rows: Floats = (self._rows(X, reset=False, missing=True) - self.mean_) / self.scale_
        return rows

    @quiet_numpy
    def inverse_transform(self, X: Any) -> Floats:
        """Return scaled rows in the data's units."""
        check_is_fitted(self)
        rows: Floats = check_width("X", X, self.n_features_in_) * self.scale_ + self.mean_
        return rows


class PrivateMinMaxScaler(_Scaler):
    """Scale columns so that their bounds become 0 and 1. Values outside the bounds are not clamped.

    Choose it where bounds are known; or where they are not, and the next step needs bounds, which are then (0, 1). For
    features in different units whose spread matters more than their range, choose `PrivateStandardScaler`. With public
    bounds it looks at no row and costs nothing. With `LearnBounds`, all of epsilon is spent on learning: the bounds are
    powers of 2 (the edges of bins) that contain most values.

    Args:
        epsilon: Privacy budget for learning bounds. Public bounds cost nothing.
        bounds: Public (lower, upper) of each feature, or one pair for all; or `LearnBounds`, whose share is ignored
            here.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        data_min_: Lower bound of each feature.
        data_max_: Upper bound of each feature.
        data_range_: ``data_max_`` minus ``data_min_``.
        scale_: One over ``data_range_``.
        min_: Offset, as in scikit-learn: x becomes x * ``scale_`` + ``min_``.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        epsilon-differential privacy when one row is added or removed. With public bounds nothing is released (epsilon =
        0).

    Assumes:
        Bounds that you pass are public (the caller's duty). Each person has one row (the caller's duty). Learned bounds
        come from noisy counts in public bins (checked here).

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
        """Learn the bounds, or take the public ones."""
        self._check()
        rows = self._rows(X)
        bounds, bounds_plan = self._public_bounds(self.n_features_in_), self._plan(self.n_features_in_)
        spent = (float(self.epsilon) if bounds_plan else 0.0, 0.0)
        source = self._charge(_event(bounds_plan, self.n_features_in_), spent=spent)
        if bounds_plan is not None:
            bounds = _learned(rows, bounds_plan, source)
        assert bounds is not None
        self.data_min_, self.data_max_ = bounds
        self.data_range_ = self.data_max_ - self.data_min_
        # Learned bounds are ends of different bins, and public ones are checked, so the range is above 0.
        self.scale_ = 1 / self.data_range_
        self.min_ = -self.data_min_ * self.scale_
        return self

    def _plan(self, num_features: int) -> CalibratedPlan | None:
        if not isinstance(self.bounds, LearnBounds):
            return None
        return blame_epsilon(self.epsilon, lambda: _bounds_plan(float(self.epsilon), num_features))

    @quiet_numpy
    def transform(self, X: Any) -> Floats:
        """Return scaled rows. Missing values stay missing."""
        check_is_fitted(self)
        rows: Floats = self._rows(X, reset=False, missing=True) * self.scale_ + self.min_
        return rows

    @quiet_numpy
    def inverse_transform(self, X: Any) -> Floats:
        """Return scaled rows in the data's units."""
        check_is_fitted(self)
        rows: Floats = (check_width("X", X, self.n_features_in_) - self.min_) / self.scale_
        return rows


def _learned(rows: Floats, plan: NoisePlan, source: RandomSource) -> tuple[Floats, Floats]:
    """Return the learned bounds of each feature; -1 and 1 where they are lost in noise, with a warning."""
    bounds = learned_bounds(rows, plan, source)
    unknown = np.isnan(bounds[:, 0])
    if unknown.any():  # a function of the noisy counts, so the warning reveals no more than the bounds do
        warnings.warn(
            f"the bounds of {unknown.sum()} of {len(unknown)} features are lost in noise, and set to -1 and 1: "
            "declare them, or use a larger epsilon or share",
            stacklevel=3,
        )
    return np.where(unknown, -1.0, bounds[:, 0]), np.where(unknown, 1.0, bounds[:, 1])


def _bounds_plan(epsilon: float, num_features: int) -> CalibratedPlan:
    """Return the noise plan for the bounds of one feature, with an equal part of epsilon for each feature."""
    # A row is in one bin of every feature, so the features share epsilon: basic composition (Dwork & Roth 2014, Theorem
    # 3.16). The last factor keeps rounding from making the sum of the parts exceed the whole.
    return bins_plan(epsilon / num_features * (1 - 1e-12))


def _event(bounds_plan: CalibratedPlan | None, num_features: int, *plans: CalibratedPlan) -> Event:
    """Return the cost of learning the bounds, once per feature, composed with the plans that follow."""
    bounds_events = () if bounds_plan is None else (events.ApproximateDPEvent(bounds_plan.epsilon),) * num_features
    parts: tuple[Event, ...] = (*bounds_events, *(plan.event for plan in plans))
    return parts[0] if len(parts) == 1 and not bounds_events else ComposedEvent(parts)
