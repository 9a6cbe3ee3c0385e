"""Noise in proportion to a smooth bound on the local sensitivity: little where the data are calm.

The local sensitivity itself is no licence for little noise: it can change from one dataset to the next, and the scale
would tell. A bound S that changes by at most the factor e^beta between neighbours may be used (Nissim, Raskhodnikova &
Smith 2007). It is private all the same: it is never released, and the grid of the result does not depend on it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import events
from hush.errors import InvalidArgument, check_positive, check_probability
from hush.guarantee import Guarantee, Relation
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.mechanisms.noise import check_confidence
from hush.numerics import numbers, silent, up
from hush.randomness import MAX_SCALE, Grid, RandomSource, floored_cauchy, floored_laplace, source_or_default

_A_LITTLE_LESS = 1 - 1e-9  # room for the rounding of a smooth bound, which need not be smooth itself


def check_bounds(bounds: Any) -> tuple[float, float]:
    """Return public bounds as (lower, upper), two finite numbers in this order."""
    try:
        lower, upper = (float(bound) for bound in bounds)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument("bounds", bounds, "a pair of numbers (lower, upper)") from None
    if not -1e200 < lower < upper < 1e200:
        raise InvalidArgument("bounds", bounds, "finite numbers, the lower one first")
    return lower, upper


def jumps(values: NDArray[np.float64], bounds: tuple[float, float], distance: int) -> float:
    """Return the largest local sensitivity of the median at ``distance`` replacements from sorted values.

    max over t = 0, .., distance + 1 of x[m + t] - x[m + t - distance - 1], with the bounds in place of records beyond
    the ends (Nissim, Raskhodnikova & Smith 2007, Proposition 3.4).
    """
    middle = (len(values) - 1) // 2
    upper = _padded(values, bounds, middle, middle + distance + 2)
    lower = _padded(values, bounds, middle - distance - 1, middle + 1)
    return float(np.max(upper - lower))


def _padded(values: NDArray[np.float64], bounds: tuple[float, float], first: int, last: int) -> NDArray[np.float64]:
    """Return x[first], .., x[last - 1], where records beyond the ends have the bounds' values."""
    inside = values[max(first, 0) : max(min(last, len(values)), 0)]
    before, after = max(min(-first, last - first), 0), max(last - max(len(values), first), 0)
    return np.concatenate([np.full(before, bounds[0]), inside, np.full(after, bounds[1])])


def clamped_and_sorted(records: Any, bounds: tuple[float, float]) -> NDArray[np.float64]:
    """Return records within bounds, in order; NaN counts as the lower bound."""
    array = numbers("records", records).ravel()
    return np.sort(np.clip(np.nan_to_num(array, nan=bounds[0], posinf=np.inf, neginf=-np.inf), *bounds))


@dataclass(frozen=True, kw_only=True)
class _Smooth(Mechanism):
    """Release of a value within public ``bounds`` with noise in proportion to a smooth bound."""

    sensitivity_type = SensitivityType.SMOOTH

    epsilon: float
    bounds: tuple[float, float]
    _grid: Grid = field(init=False, repr=False, compare=False)

    def _prepare(self) -> None:
        check_positive("epsilon", self.epsilon)
        lower, upper = check_bounds(self.bounds)
        events.LaplaceEvent(1 / self.epsilon)
        self._set(bounds=(lower, upper), _grid=Grid.for_scale(upper - lower))

    @property
    @abstractmethod
    def beta(self) -> float:
        """How smooth the bound must be: it grows by at most the factor e^beta from neighbour to neighbour."""

    @property
    @abstractmethod
    def factor(self) -> float:
        """The noise's scale over the smooth bound."""

    @abstractmethod
    def _noise(self, scale: Fraction, source: RandomSource) -> int:
        """Return floored noise of a scale in units of the grid."""

    @silent
    def release(self, value: float, smooth_bound: float, source: RandomSource | None = None) -> Release[float]:
        """Return a value with noise in proportion to a ``beta``-smooth bound on its local sensitivity.

        The value is clamped to the bounds, before and after; the smooth bound to their distance, which any value
        within them has at most. A smooth bound that is no number, or negative, counts as that distance, too.
        """
        chosen = source_or_default(source)
        lower, upper = self.bounds
        given = float(numbers("smooth_bound", smooth_bound, ()))
        smooth = min(given, upper - lower) if given >= 0 else upper - lower
        exact = np.clip(np.nan_to_num(numbers("value", value, ()), nan=lower), lower, upper)
        # Rounding moves the value by half the spacing at most: a constant more keeps a smooth bound smooth.
        scale = Fraction(up(self.factor)) * (Fraction(smooth) / Fraction(self._grid.spacing) + 1)
        noisy = float(self._grid.integers(exact)) + self._noise(scale, chosen)
        return self._released(min(max(noisy * self._grid.spacing, lower), upper), chosen)

    @silent
    def median(self, records: Any, source: RandomSource | None = None) -> Release[float]:
        """Return the median of records (the lower one of two), clamped to the bounds, NaN as the lower bound.

        Assumes the replace relation: the number of records is public.
        """
        if self.relation is not Relation.REPLACE:
            raise InvalidArgument(
                "relation", self.relation.value, "replace", "Smooth bounds on a median are proven for a fixed number"
            )
        values = clamped_and_sorted(records, self.bounds)
        if values.size == 0:
            raise InvalidArgument("records.shape", values.shape, "at least one record", "Their number is public")
        return self.release(float(values[(len(values) - 1) // 2]), self.smooth_bound_of_median(values), source)

    def smooth_bound_of_median(self, values: NDArray[np.float64]) -> float:
        """Return max over k of e^(-beta k) times the largest jump k replacements away, for sorted values.

        At least the grid's spacing: terms that even the widest jump would leave below it are not computed. How many
        are depends on public numbers only.
        """
        width = self.bounds[1] - self.bounds[0]
        last = min(math.ceil(math.log(width / self._grid.spacing) / self.beta), len(values) + 1)
        terms = (math.exp(-self.beta * k) * jumps(values, self.bounds, k) for k in range(last + 1))
        return up(max(*terms, self._grid.spacing))

    def accuracy(self, smooth_bound: float, confidence: float = 0.95) -> float:
        """Return what, with this confidence, the error does not exceed, if the smooth bound is ``smooth_bound``.

        The smooth bound of real data is private: this is for planning.
        """
        wrong = check_confidence(confidence)
        scale = self.factor * (min(smooth_bound, self.bounds[1] - self.bounds[0]) + self._grid.spacing)
        return self._quantile(wrong) * scale + 2 * self._grid.spacing

    @abstractmethod
    def _quantile(self, wrong: float) -> float:
        """Return what noise of scale 1 exceeds with this probability, in size."""


@dataclass(frozen=True, kw_only=True)
class SmoothCauchy(_Smooth):
    """Cauchy noise of scale 6 S / epsilon, for an epsilon / 6 - smooth bound S: pure, with heavy tails.

    >>> mechanism = SmoothCauchy(epsilon=1.0, bounds=(0, 100), relation=Relation.REPLACE)
    >>> 0 <= mechanism.median([20, 21, 22, 23, 24] * 200).value <= 100
    True

    Guarantee:
        epsilon-differential privacy, delta = 0.

    Assumes:
        ``smooth_bound`` is at least the local sensitivity of the value, and grows by at most e^beta between neighbours
        (the caller's duty in `release`; `median` computes it).

    References:
        Nissim, Raskhodnikova & Smith 2007, Lemmas 2.5 and 2.7 with Cauchy noise (their gamma = 2); median:
        Proposition 3.4.
    """

    @property
    def beta(self) -> float:
        """How smooth the bound must be."""
        return self.epsilon / 6 * _A_LITTLE_LESS

    @property
    def factor(self) -> float:
        """The noise's scale over the smooth bound."""
        return 6 / self.epsilon

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, 0.0, "smooth sensitivity with Cauchy noise", "the smooth bound is one")

    def _describe(self) -> events.Event:
        return events.ApproximateDPEvent(self.epsilon)

    def _noise(self, scale: Fraction, source: RandomSource) -> int:
        return floored_cauchy(source, scale)

    def _quantile(self, wrong: float) -> float:
        return math.tan(math.pi / 2 * (1 - wrong))


@dataclass(frozen=True, kw_only=True)
class SmoothLaplace(_Smooth):
    """Laplace noise of scale 2 S / epsilon, for an epsilon / (2 ln(2 / delta)) - smooth bound S.

    Guarantee:
        (epsilon, delta)-differential privacy.

    Assumes:
        ``smooth_bound`` is at least the local sensitivity of the value, and grows by at most e^beta between neighbours
        (the caller's duty in `release`; `median` computes it).

    References:
        Nissim, Raskhodnikova & Smith 2007, Lemmas 2.5 and 2.9 (for epsilon < 1; `beta` says what replaces them above);
        median: Proposition 3.4.
    """

    delta: float

    def _prepare(self) -> None:
        if not check_probability("delta", self.delta) < 1:
            raise InvalidArgument("delta", self.delta, "a number in (0, 1)")
        super()._prepare()
        if not 2 / self.epsilon * 2.0**42 <= MAX_SCALE:
            raise InvalidArgument("epsilon", self.epsilon, "at least 0.0079", "Below, noise exceeds any bounds")

    @property
    def beta(self) -> float:
        """How smooth the bound must be: epsilon / (2 ln(2 / delta)), or less where epsilon is large.

        A scale that is e^beta times larger makes |z| count e^beta - 1 more: a density ratio above e^(epsilon / 2) is
        left to |z| > (epsilon / 2 + beta) / (e^beta - 1), which must have probability delta at most. The lemma's beta
        is small enough for that if epsilon is below 1; for larger ones it may not be.
        """
        largest = min(self.epsilon / (2 * math.log(2 / self.delta)), self.epsilon / 2)
        low, high = 0.0, largest
        if not self._smooth_enough(largest):
            while high - low > 1e-12 * largest:
                middle = 0.5 * (low + high)
                low, high = (middle, high) if self._smooth_enough(middle) else (low, middle)
            largest = low
        return largest * _A_LITTLE_LESS

    def _smooth_enough(self, beta: float) -> bool:
        return (self.epsilon / 2 + beta) / math.expm1(beta) >= -math.log(self.delta)

    @property
    def factor(self) -> float:
        """The noise's scale over the smooth bound."""
        return 2 / self.epsilon

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, self.delta, "smooth sensitivity with Laplace noise", "the smooth bound is one")

    def _describe(self) -> events.Event:
        return events.ApproximateDPEvent(self.epsilon, self.delta)

    def _noise(self, scale: Fraction, source: RandomSource) -> int:
        return int(floored_laplace(source, up(float(scale)), 1)[0])

    def _quantile(self, wrong: float) -> float:
        return -math.log(wrong)
