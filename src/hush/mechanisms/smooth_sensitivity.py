"""Noise proportional to a smooth bound on the local sensitivity, which is small for most data.

    local sensitivity   how far the value moves from *this* dataset to a neighbour; often far below the worst case
    smooth bound        S >= local sensitivity, which grows by at most the factor e^beta between neighbours
    noise               of scale factor * S, on a grid that depends on the public bounds alone
    release             the noisy value, clamped to the public bounds; S itself stays private

Scaling the noise to the local sensitivity itself is not private: it can change from one dataset to the next, and the
scale of the noise would reveal the change. A smooth bound avoids this (Nissim, Raskhodnikova & Smith 2007).
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
from hush.errors import InvalidArgument, check_confidence, check_positive, check_probability
from hush.guarantee import Guarantee, Relation
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.numerics import as_floats, check_bounds, quiet_numpy, round_up
from hush.randomness import MAX_SCALE, Grid, RandomSource, floored_cauchy, floored_laplace, source_or_default

_ROUNDING = 1 - 1e-9  # the floating-point errors in a smooth bound are not smooth; this leaves room for them


def jumps(values: NDArray[np.float64], bounds: tuple[float, float], distance: int) -> float:
    """Return the largest local sensitivity of the median within ``distance`` replacements of the sorted values.

    With m the position of the median, it is the maximum of x[m + t] - x[m + t - distance - 1] over
    t = 0, ..., distance + 1, where the bounds stand in for records beyond the ends (Nissim, Raskhodnikova & Smith 2007,
    Proposition 3.4).
    """
    # The lower median is x[m]. k + 1 replacements can move it to any position from m - k - 1 to m + k + 1.
    middle = (len(values) - 1) // 2
    upper = _padded(values, bounds, middle, middle + distance + 2)
    lower = _padded(values, bounds, middle - distance - 1, middle + 1)
    return float(np.max(upper - lower))


def _padded(values: NDArray[np.float64], bounds: tuple[float, float], first: int, last: int) -> NDArray[np.float64]:
    """Return x[first], ..., x[last - 1], with the bounds for positions beyond the ends."""
    inside = values[max(first, 0) : max(min(last, len(values)), 0)]
    before, after = max(min(-first, last - first), 0), max(last - max(len(values), first), 0)
    return np.concatenate([np.full(before, bounds[0]), inside, np.full(after, bounds[1])])


def clamped_and_sorted(records: Any, bounds: tuple[float, float]) -> NDArray[np.float64]:
    """Return the records, clamped to the bounds and sorted. NaN becomes the lower bound."""
    array = as_floats("records", records).ravel()
    # Clamping changes each record independently, so neighbours stay neighbours.
    return np.sort(np.clip(np.nan_to_num(array, nan=bounds[0], posinf=np.inf, neginf=-np.inf), *bounds))


@dataclass(frozen=True, kw_only=True)
class _Smooth(Mechanism):
    """Base of the mechanisms that add noise proportional to a smooth bound to a value within public ``bounds``."""

    sensitivity_type = SensitivityType.SMOOTH

    epsilon: float
    bounds: tuple[float, float]
    _grid: Grid = field(init=False, repr=False, compare=False)

    def _prepare(self) -> None:
        check_positive("epsilon", self.epsilon)
        lower, upper = check_bounds(self.bounds)
        events.LaplaceEvent(1 / self.epsilon)
        # A grid that followed the private smooth bound would reveal it through the last bits of the answer.
        self._set(bounds=(lower, upper), _grid=Grid.for_scale(upper - lower))

    @property
    @abstractmethod
    def beta(self) -> float:
        """The required smoothness: the bound grows by at most the factor e^beta between neighbours."""

    @property
    @abstractmethod
    def factor(self) -> float:
        """The noise scale divided by the smooth bound."""

    @abstractmethod
    def _noise(self, scale: Fraction, source: RandomSource) -> int:
        """Return floored noise of this scale, in steps of the grid."""

    @quiet_numpy
    def release(self, value: float, smooth_bound: float, source: RandomSource | None = None) -> Release[float]:
        """Return the value with noise proportional to a ``beta``-smooth bound on its local sensitivity.

        Args:
            value: The exact value. It is clamped to the bounds, before and after noise is added.
            smooth_bound: The smooth bound. It is clamped to the distance of the bounds, which no sensitivity exceeds;
                NaN and negative numbers count as that distance, too.
            source: The random bits; by default the process's own source.
        """
        random_source = source_or_default(source)
        lower, upper = self.bounds
        stated_bound = float(as_floats("smooth_bound", smooth_bound, ()))
        # The minimum of a smooth bound and a constant is smooth. No local sensitivity exceeds the width.
        smooth = min(stated_bound, upper - lower) if stated_bound >= 0 else upper - lower
        exact = np.clip(np.nan_to_num(as_floats("value", value, ()), nan=lower), lower, upper)
        # Rounding moves the value by at most half the spacing. Adding a constant keeps a smooth bound smooth.
        scale = Fraction(round_up(self.factor)) * (Fraction(smooth) / Fraction(self._grid.spacing) + 1)
        noisy = float(self._grid.integers(exact)) + self._noise(scale, random_source)
        # Clamping what is released is post-processing.
        return self._released(min(max(noisy * self._grid.spacing, lower), upper), random_source)

    @quiet_numpy
    def median(self, records: Any, source: RandomSource | None = None) -> Release[float]:
        """Return the private median of the records (the lower of the two, if their number is even).

        It needs the replace relation: the number of records is public. Records are clamped to the bounds, and NaN
        becomes the lower bound.
        """
        if self.relation is not Relation.REPLACE:
            raise InvalidArgument(
                "relation",
                self.relation.value,
                "replace",
                "The smooth bound of a median is proven for a public number of records",
            )
        values = clamped_and_sorted(records, self.bounds)
        if values.size == 0:
            raise InvalidArgument("records.shape", values.shape, "at least one record", "Their number is public")
        return self.release(float(values[(len(values) - 1) // 2]), self.smooth_bound_of_median(values), source)

    def smooth_bound_of_median(self, values: NDArray[np.float64]) -> float:
        """Return the maximum over k of e^(-beta k) times the largest local sensitivity k replacements away.

        It is at least the grid's spacing. So terms that even the widest jump would leave below it are skipped, and the
        number of terms depends on public numbers only.

        Args:
            values: The records, clamped and sorted.
        """
        width = self.bounds[1] - self.bounds[0]
        # e^(-beta k) width is below the spacing from this k on.
        last = min(math.ceil(math.log(width / self._grid.spacing) / self.beta), len(values) + 1)
        terms = (math.exp(-self.beta * k) * jumps(values, self.bounds, k) for k in range(last + 1))
        # S(x) = max_k e^(-beta k) A_k(x): a replacement shifts k by at most 1, so S grows by at most e^beta (Nissim,
        # Raskhodnikova & Smith 2007, Definition 3.1). A constant floor keeps that.
        return round_up(max(*terms, self._grid.spacing))

    def accuracy(self, smooth_bound: float, confidence: float = 0.95) -> float:
        """Return a bound that, with this confidence, the error does not exceed if the smooth bound is this.

        Use it for planning with an assumed smooth bound: that of your data is private.
        """
        error_rate = 1 - check_confidence("confidence", confidence)
        scale = self.factor * (min(smooth_bound, self.bounds[1] - self.bounds[0]) + self._grid.spacing)
        # Rounding the value and flooring the noise move the result by at most two steps.
        return self._quantile(error_rate) * scale + 2 * self._grid.spacing

    @abstractmethod
    def _quantile(self, error_rate: float) -> float:
        """Return the number that the absolute value of noise of scale 1 exceeds with this probability."""


@dataclass(frozen=True, kw_only=True)
class SmoothCauchy(_Smooth):
    """Cauchy noise of at most 1.2 S / epsilon, for an (epsilon / 2)-smooth bound S.

    The guarantee is pure, at the price of heavy tails. The exact numbers are `factor` and `beta`.

    >>> from hush.randomness import TestSource
    >>> mechanism = SmoothCauchy(epsilon=1.0, bounds=(0, 100), relation=Relation.REPLACE)
    >>> round(mechanism.median([20, 21, 22, 23, 24] * 200, TestSource(1)).value, 3)
    22.0

    Guarantee:
        epsilon-differential privacy, delta = 0.

    Assumes:
        ``smooth_bound`` is at least the local sensitivity of the value, and grows by at most the factor e^beta between
        neighbours (the caller's duty in `release`; `median` computes it).

    References:
        Nissim, Raskhodnikova & Smith 2007 (smooth sensitivity; their Lemma 2.7 asks for 6 S / epsilon and epsilon / 6);
        Nielsen & Okamura 2022 (the invariant of two Cauchy distributions); median: Nissim et al., Proposition 3.4.
    """

    # The densities of two Cauchy distributions, with centres m apart and scales s and t, differ by at most the factor
    # e^d, where cosh d = (m^2 + s^2 + t^2) / (2 s t): for that factor rho, t ((z - m)^2 + s^2) - rho s (z^2 + t^2) has
    # a double root in z. Here m is at most the smaller of two smooth bounds, the smaller scale is `factor` times that
    # bound, and the larger one r times as large, with r <= e^beta. Then cosh d is (1 / factor^2 + 1 + r^2) / (2 r),
    # which is convex in r. So it is epsilon or less everywhere if it is at both ends:
    #     r = 1          1 + 1 / (2 factor^2) <= cosh(epsilon), or factor >= 1 / (2 sinh(epsilon / 2))
    #     r = e^beta     cosh(beta) + e^-beta / (2 factor^2) <= cosh(epsilon)
    # At the factor of the first, the second is an equality for e^beta = 2 cosh(epsilon) - 1. For a small epsilon that
    # is not smooth enough to be of use: beta is epsilon / 2 there, and the second determines the factor.

    @property
    def beta(self) -> float:
        """The required smoothness: the bound grows by at most the factor e^beta between neighbours."""
        return max(self._size / 2, self._free_smoothness()) * _ROUNDING

    @property
    def factor(self) -> float:
        """The noise scale divided by the smooth bound."""
        size = self._size
        if self._free_smoothness() >= size / 2:
            least = math.exp(-size / 2) / -math.expm1(-size)  # 1 / (2 sinh(epsilon / 2))
        else:
            # cosh(epsilon) - cosh(epsilon / 2) is 2 sinh(3 epsilon / 4) sinh(epsilon / 4), without cancellation.
            least = math.sqrt(math.exp(-size / 2) / (4 * math.sinh(0.75 * size) * math.sinh(0.25 * size)))
        return least * (1 + 1e-12)  # for rounding

    @property
    def _size(self) -> float:
        """The epsilon that is used. Beyond 100 there is next to no noise, and the scale underflows."""
        return min(self.epsilon, 100.0)

    def _free_smoothness(self) -> float:
        """Return log(2 cosh(epsilon) - 1)."""
        # 2 cosh(epsilon) - 1 = 1 + 4 sinh(epsilon / 2)^2
        return math.log1p(4 * math.sinh(self._size / 2) ** 2)

    def _promise(self) -> Guarantee:
        return self._claim(
            self.epsilon,
            0.0,
            "smooth sensitivity with Cauchy noise",
            "the smooth bound is smooth and at least the local sensitivity",
        )

    def _describe(self) -> events.Event:
        return events.ApproximateDPEvent(self.epsilon)

    def _noise(self, scale: Fraction, source: RandomSource) -> int:
        return floored_cauchy(source, scale)

    def _quantile(self, error_rate: float) -> float:
        # P(|X| <= t) = (2 / pi) atan(t).
        return math.tan(math.pi / 2 * (1 - error_rate))


@dataclass(frozen=True, kw_only=True)
class SmoothLaplace(_Smooth):
    """Laplace noise of scale 2 S / epsilon, for an (epsilon / (2 ln(2 / delta)))-smooth bound S.

    >>> from hush.randomness import TestSource
    >>> mechanism = SmoothLaplace(epsilon=1.0, delta=1e-6, bounds=(0, 100), relation=Relation.REPLACE)
    >>> round(mechanism.median([20, 21, 22, 23, 24] * 200, TestSource(1)).value, 1)
    22.0

    Guarantee:
        (epsilon, delta)-differential privacy.

    Assumes:
        ``smooth_bound`` is at least the local sensitivity of the value, and grows by at most the factor e^beta between
        neighbours (the caller's duty in `release`; `median` computes it).

    References:
        Nissim, Raskhodnikova & Smith 2007, Lemmas 2.5 and 2.9 (for epsilon < 1; `beta` explains what replaces them
        above); median: Proposition 3.4.
    """

    delta: float

    def _prepare(self) -> None:
        if not check_probability("delta", self.delta) < 1:
            raise InvalidArgument("delta", self.delta, "a number in (0, 1)")
        super()._prepare()
        # The noise scale is at most 2 / epsilon times the width of the bounds, which has up to 2^41 steps.
        if not 2 / self.epsilon * 2.0**42 <= MAX_SCALE:
            raise InvalidArgument("epsilon", self.epsilon, "at least 0.0079", "Below it, the noise exceeds any bounds")

    @property
    def beta(self) -> float:
        """The required smoothness: epsilon / (2 ln(2 / delta)), or less if epsilon is large.

        Where the scale grows by e^beta, the log-density ratio at noise z is (e^beta - 1) |z| - beta. It exceeds
        epsilon / 2 only for |z| > (epsilon / 2 + beta) / (e^beta - 1), which must have probability at most delta. The
        lemma's beta is small enough for that if epsilon < 1, but not always for a larger epsilon.
        """
        largest = min(self.epsilon / (2 * math.log(2 / self.delta)), self.epsilon / 2)
        low, high = 0.0, largest
        if not self._smooth_enough(largest):
            while high - low > 1e-12 * largest:
                middle = 0.5 * (low + high)
                low, high = (middle, high) if self._smooth_enough(middle) else (low, middle)
            largest = low
        return largest * _ROUNDING

    def _smooth_enough(self, beta: float) -> bool:
        """Return whether e^(-|z|) is at most delta at the |z| of `beta`."""
        # P(|Z| > z) = e^-z for Laplace noise of scale 1.
        return (self.epsilon / 2 + beta) / math.expm1(beta) >= -math.log(self.delta)

    @property
    def factor(self) -> float:
        """The noise scale divided by the smooth bound."""
        # alpha = epsilon / 2: half of epsilon pays for shifting the noise by S, half for stretching it by e^beta.
        return 2 / self.epsilon

    def _promise(self) -> Guarantee:
        return self._claim(
            self.epsilon,
            self.delta,
            "smooth sensitivity with Laplace noise",
            "the smooth bound is smooth and at least the local sensitivity",
        )

    def _describe(self) -> events.Event:
        return events.ApproximateDPEvent(self.epsilon, self.delta)

    def _noise(self, scale: Fraction, source: RandomSource) -> int:
        # Rounded up: more noise than needed is private, less is not.
        return int(floored_laplace(source, round_up(float(scale)), 1)[0])

    def _quantile(self, error_rate: float) -> float:
        # P(|X| > t) = e^-t.
        return -math.log(error_rate)
