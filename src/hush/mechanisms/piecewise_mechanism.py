"""The piecewise mechanism: the local model for numbers. A report is, on average, the person's own value.

    value    clamped to public bounds and put on the integers -n, ..., n
    report   one of -k, ..., k with k = 2^30: each of the w integers around the value is e^epsilon times as likely
             as every other
    output   scaled so that its average is the value, which takes it beyond the bounds

On integers both probabilities are exact, and no rounding of floats distinguishes two values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import events
from hush.errors import InvalidArgument, check_confidence, check_count, check_positive
from hush.guarantee import Guarantee, Relation
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.mechanisms.randomized_response import ONCE, check_replaced, hoeffding
from hush.numerics import as_floats, quiet_numpy
from hush.randomness import ExactInterval, RandomSource, exp_interval, flip, source_or_default, uniform_below

_STEPS = 1 << 30  # k above


@dataclass(frozen=True, kw_only=True)
class Piecewise(Mechanism):
    r"""Each person reports a random number that is likely to be near their value and equals it on average.

    The bounds are mapped to the integers -n, ..., n, and a report is one of -k, ..., k with k = 2^30. Each of the
    w = 2 (k - n) + 1 integers around the person's own is e^epsilon times as likely as every other. The average report
    is then exactly proportional to the value; `release` divides by the factor, which takes reports beyond the bounds.
    With w / (2 k + 1) close to 1 / (1 + e^(epsilon / 2)) this is the piecewise mechanism on integers.

    >>> from hush.randomness import TestSource
    >>> mechanism = Piecewise(epsilon=1.0, bounds=(0.0, 10.0))
    >>> round(mechanism.standard_error(10_000), 3)  # of the mean of 10,000 reports
    0.114
    >>> reports = mechanism.release([2.0] * 5000 + [6.0] * 5000, TestSource(1)).value
    >>> abs(mechanism.estimate(reports) - 4.0) < 0.5
    True

    Guarantee:
        epsilon-differential privacy, delta = 0, for each person against everyone, including the collector.

    Assumes:
        Each person's value is reported once (the caller's duty: reporting it twice costs twice). Values are within the
        bounds (checked here: they are clamped). The bounds are public (the caller's duty).

    References:
        Wang et al. 2019, Algorithm 2 (piecewise mechanism), Lemma 1 (its variance); the discrete form is derived here.
    """

    sensitivity_type = SensitivityType.RECORD

    epsilon: float
    bounds: tuple[float, float]
    relation: Relation = Relation.REPLACE
    _reach: int = field(init=False, repr=False, compare=False)  # n above

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
        """The number of integers near a value: w above."""
        return 2 * (_STEPS - self._reach) + 1

    @property
    def _far(self) -> int:
        """The number of all other integers."""
        return 2 * _STEPS + 1 - self._near

    @property
    def near_probability(self) -> float:
        """The probability that a report is near the person's own value."""
        return 1 / (1 + self._far / self._near * math.exp(-self.epsilon))

    @quiet_numpy
    def release(self, records: Any, source: RandomSource | None = None) -> Release[NDArray[np.float64]]:
        """Return each person's report.

        Args:
            records: The true values, which are clamped to the bounds. NaN counts as the middle of the bounds.
            source: The random bits; by default the process's own source.
        """
        random_source = source_or_default(source)
        lower, upper = self.bounds
        # From the bounds to [-1, 1], then to the nearest of -n, ..., n.
        units = (np.clip(as_floats("records", records).ravel(), lower, upper) - lower) / (upper - lower) * 2 - 1
        centres = np.rint(np.nan_to_num(units, nan=0.0) * self._reach).astype(np.int64)
        exponent, ratio = Fraction(self.epsilon), Fraction(self._far, self._near)

        def enclosure(index: int, digits: int) -> ExactInterval:
            # w e^epsilon / (w e^epsilon + far) = 1 / (1 + (far / w) e^-epsilon), between two fractions.
            low, high = exp_interval((-exponent, -exponent), digits)
            return 1 / (1 + ratio * high), 1 / (1 + ratio * low)

        is_near = flip(random_source, np.full(centres.size, self.near_probability), enclosure)
        first_near = centres - (self._near - 1) // 2
        near = first_near + uniform_below(random_source, self._near, centres.size)
        distant = uniform_below(random_source, self._far, centres.size) - _STEPS
        distant += np.where(distant >= first_near, self._near, 0)  # skips the integers near the value
        reports = np.where(is_near, near, distant).astype(np.float64)
        return self._released(self._middle + self._half * self._scale * reports, random_source)

    @property
    def _middle(self) -> float:
        return self.bounds[0] + self._half

    @property
    def _half(self) -> float:
        return (self.bounds[1] - self.bounds[0]) / 2

    @property
    def _inflation(self) -> float:
        """The factor that makes reports unbiased: (w + far e^-epsilon) / (w (1 - e^-epsilon))."""
        return (1 + self._far / self._near * math.exp(-self.epsilon)) / -math.expm1(-self.epsilon)

    @property
    def _scale(self) -> float:
        return self._inflation / self._reach

    @property
    def _spread(self) -> float:
        """The mean square of a report for the middle value, in units of half the distance of the bounds."""

        def sum_of_squares(count: int) -> float:  # of ``count`` consecutive integers around 0
            return count * (count**2 - 1) / 12

        far_weight = math.exp(-self.epsilon)
        total = sum_of_squares(2 * _STEPS + 1) * far_weight + sum_of_squares(self._near) * -math.expm1(-self.epsilon)
        # Every integer has weight e^-epsilon, and those near 0 a further 1 - e^-epsilon.
        return self._scale**2 * total / (self._near + self._far * far_weight)

    @quiet_numpy
    def estimate(self, reports: Any) -> float:
        """Return an unbiased estimate of the mean value, up to 2^-30 of the distance of the bounds."""
        return float(np.mean(np.asarray(reports, dtype=np.float64)))

    @quiet_numpy
    def squares(self, reports: Any) -> NDArray[np.float64]:
        """Return unbiased estimates of each person's squared value, with the noise's contribution removed."""
        units = (np.asarray(reports, dtype=np.float64) - self._middle) / self._half
        # For a value u, in these units, the mean square of a report is inflation u^2 + spread.
        unit_squares = (units**2 - self._spread) / self._inflation
        linear = self._middle**2 + 2 * self._middle * self._half * units
        value_squares: NDArray[np.float64] = linear + self._half**2 * unit_squares
        return value_squares

    def accuracy(self, num_records: int, confidence: float = 0.95) -> float:
        """Return a bound that, with this confidence, an estimated mean's error does not exceed (Hoeffding)."""
        count = check_count("num_records", num_records)
        width = 2 * self._half * self._scale * _STEPS  # the distance of the largest and the smallest report
        # Hoeffding's inequality for reports within an interval of this width.
        return width * hoeffding(count, 1 - check_confidence("confidence", confidence)) / count

    def standard_error(self, num_records: int) -> float:
        """Return an upper bound on the noise's standard deviation in an estimated mean, reached at the bounds."""
        # The variance for a value u is (inflation - 1) u^2 + spread, largest at u = 1 (Wang et al. 2019, Lemma 1).
        worst = self._inflation - 1 + self._spread
        return self._half * math.sqrt(worst / check_count("num_records", num_records))
