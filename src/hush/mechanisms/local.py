"""The local model: every record is randomised by itself, before anybody collects it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import events
from hush.errors import InvalidArgument, check_count, check_positive
from hush.guarantee import Guarantee, Relation
from hush.mechanisms._mechanism import Mechanism, Release, SensitivityType, numbers, silent
from hush.mechanisms.noise import check_confidence
from hush.randomness import Interval, Source, exp_interval, flip, source_or_default, uniform_below


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(Mechanism):
    """Each person tells their own value, one of ``num_values``, or with some probability another one, at random.

    The true one is told with probability e^epsilon / (e^epsilon + num_values - 1), sampled exactly. `estimate` removes
    the bias from the counts of what was told.

    >>> mechanism = RandomizedResponse(epsilon=1.0)
    >>> round(mechanism.truth_probability, 4)
    0.7311

    Guarantee:
        epsilon-differential privacy, delta = 0, for each person against everybody, the collector included.

    Assumes:
        Each person's value is randomised once (the caller's duty: the same value told twice costs twice).

    References:
        Warner 1965; Kairouz, Oh & Viswanath 2016, Section 3 (k-ary).
    """

    sensitivity_type = SensitivityType.RECORD

    epsilon: float
    num_values: int = 2
    relation: Relation = Relation.REPLACE

    def _prepare(self) -> None:
        check_positive("epsilon", self.epsilon)
        if not check_count("num_values", self.num_values, minimum=2) <= 1 << 31:
            raise InvalidArgument("num_values", self.num_values, "at most 2^31")
        if self.relation is not Relation.REPLACE:
            raise InvalidArgument(
                "relation", self.relation.value, "replace", "Whether somebody answered is seen; what they said is not"
            )

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, 0.0, "randomised response", "each value is randomised once")

    def _describe(self) -> events.Event:
        return events.RandomizedResponse(self.epsilon, self.num_values)

    @property
    def truth_probability(self) -> float:
        """With what probability the true value is told."""
        return 1 / (1 + (self.num_values - 1) * math.exp(-self.epsilon))

    @silent
    def release(self, records: Any, source: Source | None = None) -> Release[NDArray[np.int64]]:
        """Return what each person tells, for records that are values 0, .., num_values - 1.

        A record outside that range counts as the nearest value in it, NaN as 0.
        """
        chosen = source_or_default(source)
        numbered = np.nan_to_num(numbers("records", records).ravel(), nan=0.0)
        values = np.rint(np.clip(numbered, 0, self.num_values - 1)).astype(np.int64)
        others = self.num_values - 1
        exponent = Fraction(self.epsilon)

        def enclosure(index: int, digits: int) -> Interval:
            low, high = exp_interval((-exponent, -exponent), digits)
            return 1 / (1 + others * high), 1 / (1 + others * low)

        truthful = flip(chosen, np.full(values.size, self.truth_probability), enclosure)
        shift = np.where(truthful, 0, 1 + uniform_below(chosen, others, values.size))
        return self._released((values + shift) % self.num_values, chosen)

    @silent
    def estimate(self, told: Any) -> NDArray[np.float64]:
        """Return unbiased estimates of how many people have each value, from what was told."""
        counts = np.bincount(np.asarray(told, dtype=np.int64), minlength=self.num_values).astype(np.float64)
        lie = (1 - self.truth_probability) / (self.num_values - 1)
        estimated: NDArray[np.float64] = (counts - counts.sum() * lie) / (self.truth_probability - lie)
        return estimated

    def accuracy(self, num_records: int, confidence: float = 0.95) -> float:
        """Return what, with this confidence, the error of no estimated count exceeds (by Hoeffding's inequality)."""
        wrong = check_confidence(confidence) / self.num_values
        lie = (1 - self.truth_probability) / (self.num_values - 1)
        hoeffding = math.sqrt(check_count("num_records", num_records) * math.log(2 / wrong) / 2)
        return hoeffding / (self.truth_probability - lie)

    def standard_error(self, num_records: int) -> float:
        """Return about how much an estimated count varies: an upper bound on its standard deviation."""
        truth = self.truth_probability
        lie = (1 - truth) / (self.num_values - 1)
        worst = max(p * (1 - p) for p in (truth, lie))
        return math.sqrt(check_count("num_records", num_records) * worst) / (truth - lie)
