"""The noise of a reusable holdout: it follows from public numbers alone, and so does how accurate the answers are.

delta = 0   one session of AboveThreshold for all overfits, and Laplace noise; epsilons add up
delta > 0   a new session for each overfit, and Gaussian noise; composed by zCDP, so that twice as many rows pay
            for four times as many overfits
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from hush.accounting import (
    ApproximateDPEvent,
    BasicAccountant,
    ComposedEvent,
    Event,
    SelfComposedEvent,
    ZcdpAccountant,
    ZcdpFilter,
    events,
)
from hush.errors import InvalidArgument, check_count, check_delta, check_fraction, check_positive
from hush.guarantee import Guarantee, Relation, Unit, transfer_width
from hush.mechanisms import AboveThreshold, Gaussian, Laplace
from hush.numerics import round_down, round_up

_COMPARISON_SHARE = 0.8  # of epsilon, or of rho: comparisons have more noise than values
_CONFIDENCE = 0.95  # with which a single answer must be within the tolerance
_MOST_OVERFITS = 10**9
_DELTAS = tuple(10.0**-power for power in range(2, 13))  # at which `proven_width` tries the guarantee
_ROUNDING = 2.0**-29  # of a mean: its values are rounded down to multiples of 2^-30
_STATED: dict[str, Any] = {"relation": Relation.REPLACE, "unit": Unit.example()}


@dataclass(frozen=True, kw_only=True)
class HoldoutNoise:
    """The noise of all answers of a reusable holdout, their event, and bounds on their errors.

    Attributes:
        num_rows: The number of held-out rows.
        epsilon: The epsilon of all answers together, under replacement of one row.
        delta: The delta of all answers together.
        max_overfits: How often the holdout's mean may be released.
        tolerance: How far two means may differ.
        threshold: Compares, in one of ``num_sessions`` sessions.
        value: Adds noise to the holdout's mean.
    """

    num_rows: int
    epsilon: float
    delta: float
    max_overfits: int
    tolerance: float
    threshold: AboveThreshold = field(init=False, repr=False, compare=False)
    value: Laplace | Gaussian = field(init=False, repr=False, compare=False)
    num_sessions: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        check_delta("delta", self.delta)
        check_count("max_overfits", self.max_overfits)
        check_fraction("tolerance", self.tolerance)
        # One replaced row changes the mean by 1 / n; the margin covers rounding of the exact sum's quotient.
        sensitivity = round_up((1 + 1e-6) / check_count("num_rows", self.num_rows))
        build = self._by_zcdp if self.delta else self._by_basic_composition
        for name, value in build(sensitivity).items():
            object.__setattr__(self, name, value)

    def _by_basic_composition(self, sensitivity: float) -> dict[str, Any]:
        """Return noise for which epsilons add up: comparisons, and at most ``max_overfits`` values."""
        comparisons = round_down(self.epsilon * _COMPARISON_SHARE)
        each_value = round_down((self.epsilon - comparisons) / self.max_overfits)
        return {
            "num_sessions": 1,
            "threshold": AboveThreshold(
                epsilon=comparisons, sensitivity=sensitivity, count=self.max_overfits, **_STATED
            ),
            "value": Laplace(epsilon=each_value, sensitivity=sensitivity, **_STATED),
        }

    def _by_zcdp(self, sensitivity: float) -> dict[str, Any]:
        """Return noise for which rhos add up (Bun & Steinke 2016, Lemma 1.7), at parameters fixed in advance."""
        rho = _rho(float(self.epsilon), float(self.delta))
        # An epsilon-private session is epsilon^2 / 2-zCDP, a Gaussian value 1 / (2 multiplier^2).
        each_session = round_down(math.sqrt(2 * _COMPARISON_SHARE * rho / self.max_overfits))
        multiplier = round_up(math.sqrt(self.max_overfits / (2 * (1 - _COMPARISON_SHARE) * rho)))
        return {
            "num_sessions": self.max_overfits,
            "threshold": AboveThreshold(epsilon=each_session, sensitivity=sensitivity, count=1, **_STATED),
            "value": Gaussian(
                epsilon=self.epsilon,
                delta=self.delta,
                sensitivity=sensitivity,
                noise_multiplier=multiplier,
                **_STATED,
            ),
        }

    @property
    def event(self) -> Event:
        """Everything that is released, for an accountant of this relation."""
        if not self.delta:
            return ApproximateDPEvent(self.epsilon)
        session = ApproximateDPEvent(self.threshold.epsilon)
        parts = (session, events.plain_event(self.value.event, Relation.REPLACE, Unit.example())[0])
        return ComposedEvent(tuple(SelfComposedEvent(part, self.max_overfits) for part in parts))

    def guarantee(self, times: int, assumptions: tuple[str, ...]) -> Guarantee:
        """Return the guarantee of ``times`` holdouts on the same rows."""
        if times == 1:
            method = "reusable holdout, composed by zCDP" if self.delta else "reusable holdout"
            return Guarantee(epsilon=self.epsilon, delta=self.delta, method=method, assumptions=assumptions, **_STATED)
        kind = ZcdpAccountant if self.delta else BasicAccountant
        qualified = events.QualifiedEvent(self.event, Relation.REPLACE, Unit.example(), assumptions)
        return kind(relation=Relation.REPLACE).compose(qualified, times).guarantee(self.delta)

    @property
    def margin(self) -> float:
        """The error that a single comparison, and a single value, do not exceed with a confidence of 0.95."""
        return max(self.threshold.accuracy(1, _CONFIDENCE), self.value.accuracy(_CONFIDENCE))

    def check_tolerance(self) -> None:
        """Refuse a tolerance below the noise: most answers would then be wrong about which side they are on."""
        if self.tolerance >= self.margin:
            return
        arguments = {"epsilon": self.epsilon, "delta": self.delta, "tolerance": self.tolerance}
        most = most_overfits(self.num_rows, **arguments)
        raise InvalidArgument(
            "tolerance",
            self.tolerance,
            f"at least {self.margin:.3g}",
            "That is the noise of a comparison: below it, a holdout is overfitted like any other",
            f"With this tolerance, max_overfits may be {most}" if most else "Use more rows or a larger epsilon",
        )

    def sample_width(self, num_queries: int, error: float) -> float:
        """Return how far all answers are from the holdout's means, except with probability ``error``."""
        num_values, num_sessions = min(self.max_overfits, num_queries), min(self.num_sessions, num_queries)
        # Each session has a threshold with noise of its own: one more draw for each of them.
        comparisons = self.threshold.accuracy(num_queries + num_sessions - 1, 1 - error / 2)
        return max(self.tolerance + comparisons, self.value.accuracy(1 - error / (2 * num_values))) + _ROUNDING

    def proven_width(self, times: int, num_queries: int, confidence: float) -> float:
        """Return a bound on the distance of ``num_queries`` answers of ``times`` holdouts to the population."""
        failure = 1 - confidence

        def width(epsilon: float, delta: float) -> float:
            return transfer_width(epsilon, delta, failure, lambda error: self.sample_width(num_queries, error / times))

        if not self.delta:
            return width(self.guarantee(times, ()).epsilon, 0.0)
        accountant = ZcdpAccountant(relation=Relation.REPLACE).compose(self.event, times)
        return min(width(accountant.epsilon(delta), delta) for delta in _DELTAS)


@lru_cache(maxsize=256)
def _rho(epsilon: float, delta: float) -> float:
    """Return the largest rho whose zCDP is (epsilon, delta)-DP."""
    return ZcdpFilter(epsilon=epsilon, delta=delta, relation=Relation.REPLACE).limit


def most_overfits(num_rows: int, *, epsilon: float, delta: float, tolerance: float) -> int:
    """Return the largest ``max_overfits`` whose noise is within the tolerance; 0 if there is none."""

    def fits(count: int) -> bool:
        noise = HoldoutNoise(num_rows=num_rows, epsilon=epsilon, delta=delta, max_overfits=count, tolerance=tolerance)
        return noise.margin <= tolerance

    low, high = 0, 1  # low fits, high does not once the first loop is done
    while high <= _MOST_OVERFITS and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
