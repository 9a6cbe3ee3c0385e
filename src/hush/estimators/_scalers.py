"""Scalers with public or privately learned bounds, and one-hot columns of public categories."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting import Composed, Event, events
from hush.accounting.budget import Budget
from hush.estimators._bounds import LearnBounds, check_bounds, fitted_bounds, scaled
from hush.estimators._moments import class_totals, moments_plan, noisy_moments
from hush.estimators._private import Floats, PrivateEstimator
from hush.randomness import Source
from hush.statistics import EachRow, Laplace, approximate_bounds

_BINS: dict[str, Any] = {"scale": 2.0**-20, "base": 2.0, "num_bins": 62}


class _Scaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator, ABC):  # type: ignore[misc]
    def _check(self) -> None:
        super()._check()
        if not isinstance(self.bounds, LearnBounds):
            check_bounds("bounds", self.bounds)

    def transform(self, X: Any) -> Floats:
        """Return scaled rows."""
        check_is_fitted(self)
        rows: Floats = (self._rows(X, reset=False) - self._shift()) / self.scale_
        return rows

    def inverse_transform(self, X: Any) -> Floats:
        """Return rows in their own units."""
        check_is_fitted(self)
        rows: Floats = np.asarray(X, dtype=np.float64) * self.scale_ + self._shift()
        return rows

    @abstractmethod
    def _shift(self) -> Floats: ...


class PrivateStandardScaler(_Scaler):
    """Columns less their mean, over their standard deviation; both from one noisy release.

    Before models that are sensitive to units. Where bounds are known and tight, `PrivateMinMaxScaler` costs nothing.

    Args:
        epsilon: For everything that fit releases.
        delta: 0 for Laplace noise; above it, whichever of Laplace and Gaussian noise is smaller.
        bounds: (lower, upper) of each feature, or of all, public; or `LearnBounds`.
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        mean_: Of each feature.
        var_: Of each feature; not below what noise alone would suggest.
        scale_: Its root.
        bounds_: What values were clamped to.
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
        source: Source | None = None,
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
        learning, share = _learning(self.bounds, self.n_features_in_, float(self.epsilon))
        plan = moments_plan(self.n_features_in_, float(self.epsilon) * (1 - share), float(self.delta))
        event: Event = Composed((*learning, plan.event)) if learning else plan.event
        source = self._start(event, spent=(float(self.epsilon), plan.delta))
        self.bounds_ = _ends(self.bounds, rows, float(self.epsilon), source)
        lower, upper = self.bounds_
        units, complete = scaled(rows, lower, upper)
        found = noisy_moments(class_totals(units, np.where(complete, 0, -1), 1), plan, source)
        half = (upper - lower) / 2
        self.mean_ = lower + half + found.means[0] * half
        self.var_ = found.variances[0] * half**2
        self.scale_ = np.sqrt(self.var_)
        return self

    def _shift(self) -> Floats:
        shift: Floats = self.mean_
        return shift


class PrivateMinMaxScaler(_Scaler):
    """Columns scaled so that their bounds become 0 and 1; values beyond are not clamped.

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
        scale_: Their difference: what columns are divided by.
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
        self, *, epsilon: float, bounds: Any, budget: Budget | None = None, source: Source | None = None
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
        whole = LearnBounds(share=math.nextafter(1.0, 0.0)) if isinstance(self.bounds, LearnBounds) else self.bounds
        learning, _ = _learning(whole, self.n_features_in_, float(self.epsilon))
        spent = (float(self.epsilon), 0.0) if learning else (0.0, 0.0)
        source = self._start(Composed(learning), spent=spent)
        self.data_min_, self.data_max_ = _ends(whole, rows, float(self.epsilon), source)
        self.scale_ = self.data_max_ - self.data_min_
        return self

    def _shift(self) -> Floats:
        shift: Floats = self.data_min_
        return shift


def _learning(bounds: Any, num_features: int, epsilon: float) -> tuple[tuple[Event, ...], float]:
    """Return the events of learning bounds, one for each feature, and their share of epsilon."""
    if not isinstance(bounds, LearnBounds):
        return (), 0.0
    each = epsilon * bounds.share / num_features * (1 - 1e-12)
    return (events.ApproximateDP(each),) * num_features, bounds.share


def _ends(bounds: Any, rows: Floats, epsilon: float, source: Source) -> tuple[Floats, Floats]:
    """Return bounds that are given, or learned; a feature of which nothing is learned has -1 and 1."""
    if not isinstance(bounds, LearnBounds):
        return fitted_bounds("bounds", bounds, rows.shape[1])
    each = epsilon * bounds.share / rows.shape[1] * (1 - 1e-12)
    found = [
        approximate_bounds(column, users=EachRow(), epsilon=each, noise=Laplace(), source=source, **_BINS).bounds
        for column in rows.T
    ]
    lower, upper = (np.array([(-1.0, 1.0)[end] if ends is None else ends[end] for ends in found]) for end in (0, 1))
    return lower, upper
