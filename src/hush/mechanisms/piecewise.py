"""The local model for numbers: what each person tells is, on average, their own value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import events
from hush.errors import InvalidArgument, check_count, check_positive
from hush.guarantee import Guarantee, Relation
from hush.mechanisms.local import ONCE, check_replaced, hoeffding
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.mechanisms.noise import check_confidence
from hush.numerics import numbers, silent
from hush.randomness import Interval, RandomSource, exp_interval, flip, source_or_default, uniform_below

_STEPS = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Piecewise(Mechanism):
    r"""Each person tells a number that is, on average, their own: e^epsilon times as likely near it as elsewhere.

    The bounds are put on -n, .., n, and what is told is one of -k, .., k, k = 2^30. Each of the w = 2 (k - n) + 1
    numbers around one's own has e^epsilon times the chance of every other. The average of what is told is then exactly
    proportional to one's own number; `release` divides by the factor, so what is told goes beyond the bounds. With
    w / (2 k + 1) about 1 / (1 + e^(epsilon / 2)) this is the piecewise mechanism, on integers: no rounding of floats
    tells values apart, and both probabilities are exact.

    >>> mechanism = Piecewise(epsilon=1.0, bounds=(0.0, 10.0))
    >>> round(mechanism.standard_error(10_000), 3)  # of a mean over so many people
    0.114

    Guarantee:
        epsilon-differential privacy, delta = 0, for each person against everybody, the collector included.

    Assumes:
        Each person's value is told once (the caller's duty: the same value told twice costs twice). Values are clamped
        to the bounds (checked here: done here), which are public (the caller's duty).

    References:
        Wang et al. 2019, Algorithm 2 (piecewise mechanism), Lemma 1 (its variance); the discrete form is derived here.
    """

    sensitivity_type = SensitivityType.RECORD

    epsilon: float
    bounds: tuple[float, float]
    relation: Relation = Relation.REPLACE
    _reach: int = field(init=False, repr=False, compare=False)  # n above: how far one's own number may be from 0

    def _prepare(self) -> None:
        check_positive("epsilon", self.epsilon)
        check_replaced(self.relation)
        try:
            lower, upper = (float(end) for end in self.bounds)
        except (TypeError, ValueError):
            lower = upper = math.nan
        if not (lower < upper and upper - lower < math.inf):
            raise InvalidArgument("bounds", self.bounds, "(lower, upper), finite, lower < upper", "They are public")
        self._set(bounds=(lower, upper), _reach=_STEPS - int(_STEPS / (1 + math.exp(min(self.epsilon / 2, 700.0)))))

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, 0.0, "piecewise mechanism", ONCE)

    def _describe(self) -> events.Event:
        return events.ApproximateDPEvent(self.epsilon)

    @property
    def _near(self) -> int:
        """How many numbers are near (w above)."""
        return 2 * (_STEPS - self._reach) + 1

    @property
    def _far(self) -> int:
        return 2 * _STEPS + 1 - self._near

    @property
    def near_probability(self) -> float:
        """With what probability a number near one's own is told."""
        return 1 / (1 + self._far / self._near * math.exp(-self.epsilon))

    @silent
    def release(self, records: Any, source: RandomSource | None = None) -> Release[NDArray[np.float64]]:
        """Return what each person tells. NaN counts as the middle of the bounds."""
        chosen = source_or_default(source)
        lower, upper = self.bounds
        units = (np.clip(numbers("records", records).ravel(), lower, upper) - lower) / (upper - lower) * 2 - 1
        own = np.rint(np.nan_to_num(units, nan=0.0) * self._reach).astype(np.int64)
        exponent, ratio = Fraction(self.epsilon), Fraction(self._far, self._near)

        def enclosure(index: int, digits: int) -> Interval:
            low, high = exp_interval((-exponent, -exponent), digits)
            return 1 / (1 + ratio * high), 1 / (1 + ratio * low)

        near = flip(chosen, np.full(own.size, self.near_probability), enclosure)
        first = own - (self._near - 1) // 2
        inside = first + uniform_below(chosen, self._near, own.size)
        outside = uniform_below(chosen, self._far, own.size) - _STEPS
        outside += np.where(outside >= first, self._near, 0)
        told = np.where(near, inside, outside).astype(np.float64)
        return self._released(self._middle + self._half * self._scale * told, chosen)

    @property
    def _middle(self) -> float:
        return self.bounds[0] + self._half

    @property
    def _half(self) -> float:
        return (self.bounds[1] - self.bounds[0]) / 2

    @property
    def _inflation(self) -> float:
        """What the average is divided by, inverted: (w + far e^-epsilon) / (w (1 - e^-epsilon))."""
        return (1 + self._far / self._near * math.exp(-self.epsilon)) / -math.expm1(-self.epsilon)

    @property
    def _scale(self) -> float:
        return self._inflation / self._reach

    @property
    def _spread(self) -> float:
        """The mean square of what is told about the middle, in units of half the bounds' distance."""

        def squares(count: int) -> float:  # of count numbers around 0
            return count * (count**2 - 1) / 12

        rest = math.exp(-self.epsilon)
        total = squares(2 * _STEPS + 1) * rest + squares(self._near) * -math.expm1(-self.epsilon)
        return self._scale**2 * total / (self._near + self._far * rest)

    @silent
    def estimate(self, told: Any) -> float:
        """Return an unbiased estimate of people's mean value, up to 2^-30 of the bounds' distance."""
        return float(np.mean(np.asarray(told, dtype=np.float64)))

    @silent
    def squares(self, told: Any) -> NDArray[np.float64]:
        """Return unbiased estimates of each person's squared value: what noise adds to squares is taken away."""
        units = (np.asarray(told, dtype=np.float64) - self._middle) / self._half
        # The mean of what is told, squared, is inflation u^2 + spread.
        own = (units**2 - self._spread) / self._inflation
        unsquared: NDArray[np.float64] = self._middle**2 + 2 * self._middle * self._half * units + self._half**2 * own
        return unsquared

    def accuracy(self, num_records: int, confidence: float = 0.95) -> float:
        """Return what, with this confidence, the error of an estimated mean does not exceed (Hoeffding)."""
        count = check_count("num_records", num_records)
        reach = 2 * self._half * self._scale * _STEPS
        return reach * hoeffding(count, check_confidence(confidence)) / count

    def standard_error(self, num_records: int) -> float:
        """Return the standard deviation of an estimated mean that noise causes, at most: for values at the bounds."""
        worst = self._inflation - 1 + self._spread
        return self._half * math.sqrt(worst / check_count("num_records", num_records))
