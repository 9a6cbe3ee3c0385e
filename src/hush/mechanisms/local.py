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
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.mechanisms.noise import check_confidence
from hush.numerics import numbers, silent
from hush.randomness import Interval, RandomSource, exp_interval, flip, source_or_default, uniform_below

ONCE = "each value is randomised once"


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
        _check_num_values(self.num_values, 1 << 31)
        check_replaced(self.relation)

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, 0.0, "randomised response", ONCE)

    def _describe(self) -> events.Event:
        return events.RandomizedResponseEvent(self.epsilon, self.num_values)

    @property
    def truth_probability(self) -> float:
        """With what probability the true value is told."""
        return 1 / (1 + (self.num_values - 1) * math.exp(-self.epsilon))

    @property
    def lie_probability(self) -> float:
        """With what probability each other value is told."""
        return (1 - self.truth_probability) / (self.num_values - 1)

    @silent
    def release(self, records: Any, source: RandomSource | None = None) -> Release[NDArray[np.int64]]:
        """Return what each person tells, for records that are values 0, .., num_values - 1.

        A record outside that range counts as the nearest value in it, NaN as 0.
        """
        chosen = source_or_default(source)
        values = _values(records, self.num_values)
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
        return unbiased(counts, counts.sum(), self.truth_probability, self.lie_probability)

    def accuracy(self, num_records: int, confidence: float = 0.95) -> float:
        """Return what, with this confidence, the error of no estimated count exceeds (by Hoeffding's inequality)."""
        wrong = check_confidence(confidence) / self.num_values
        return hoeffding(num_records, wrong) / (self.truth_probability - self.lie_probability)

    def standard_error(self, num_records: int) -> float:
        """Return about how much an estimated count varies: an upper bound on its standard deviation."""
        return _binomial_error(num_records, self.truth_probability, self.lie_probability)


@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(Mechanism):
    """Each person tells one bit for each of ``num_values`` values: their own as a fair coin, others rarely as 1.

    The bit of one's own value is 1 with probability 1/2, every other one with 1 / (e^epsilon + 1): optimised unary
    encoding, the choice of least variance. For many values: with ``num_values < 3 e^epsilon + 2`` randomised response
    has less, and one number instead of bits.

    >>> mechanism = UnaryEncoding(epsilon=1.0, num_values=50)
    >>> round(mechanism.lie_probability, 4)
    0.2689

    Guarantee:
        epsilon-differential privacy, delta = 0, for each person against everybody, the collector included.

    Assumes:
        Each person's value is randomised once (the caller's duty: the same value told twice costs twice).

    References:
        Wang, Blocki, Li & Jha 2017 (OUE, and which protocol to use); basic RAPPOR: Erlingsson, Pihur & Korolova 2014.
    """

    sensitivity_type = SensitivityType.RECORD

    epsilon: float
    num_values: int
    relation: Relation = Relation.REPLACE

    truth_probability = 0.5

    def _prepare(self) -> None:
        check_positive("epsilon", self.epsilon)
        _check_num_values(self.num_values, 1 << 20)
        check_replaced(self.relation)

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, 0.0, "optimised unary encoding", ONCE)

    def _describe(self) -> events.Event:
        # Two bits differ, and the loss is 0 where they are told alike: less than this, which is a safe description.
        return events.ApproximateDPEvent(self.epsilon)

    @property
    def lie_probability(self) -> float:
        """With what probability the bit of another value is 1."""
        return math.exp(-self.epsilon) / (1 + math.exp(-self.epsilon))

    @silent
    def release(self, records: Any, source: RandomSource | None = None) -> Release[NDArray[np.bool_]]:
        """Return a row of bits for each person, for records that are values 0, .., num_values - 1.

        A record outside that range counts as the nearest value in it, NaN as 0.
        """
        chosen = source_or_default(source)
        values = _values(records, self.num_values)
        exponent = Fraction(self.epsilon)

        def enclosure(index: int, digits: int) -> Interval:
            low, high = exp_interval((-exponent, -exponent), digits)
            return low / (1 + low), high / (1 + high)

        bits = flip(chosen, np.full(values.size * self.num_values, self.lie_probability), enclosure)
        bits = bits.reshape(values.size, self.num_values)
        bits[np.arange(values.size), values] = uniform_below(chosen, 2, values.size) == 1
        return self._released(bits, chosen)

    @silent
    def estimate(self, told: Any) -> NDArray[np.float64]:
        """Return unbiased estimates of how many people have each value, from the rows of bits."""
        bits = np.asarray(told, dtype=np.float64).reshape(-1, self.num_values)
        return unbiased(bits.sum(axis=0), len(bits), self.truth_probability, self.lie_probability)

    def accuracy(self, num_records: int, confidence: float = 0.95) -> float:
        """Return what, with this confidence, the error of no estimated count exceeds (by Hoeffding's inequality)."""
        wrong = check_confidence(confidence) / self.num_values
        return hoeffding(num_records, wrong) / (self.truth_probability - self.lie_probability)

    def standard_error(self, num_records: int) -> float:
        """Return about how much an estimated count varies: an upper bound on its standard deviation."""
        return _binomial_error(num_records, self.truth_probability, self.lie_probability)


def unbiased(counts: Any, total: float, truth: float, lie: float) -> NDArray[np.float64]:
    """Return how many people have each value, from how often each was told."""
    estimated: NDArray[np.float64] = (np.asarray(counts, dtype=np.float64) - total * lie) / (truth - lie)
    return estimated


def _values(records: Any, num_values: int) -> NDArray[np.int64]:
    numbered = np.nan_to_num(numbers("records", records).ravel(), nan=0.0)
    return np.rint(np.clip(numbered, 0, num_values - 1)).astype(np.int64)


def _check_num_values(num_values: int, most: int) -> None:
    if not check_count("num_values", num_values, minimum=2) <= most:
        raise InvalidArgument("num_values", num_values, f"at most {most}")


def check_replaced(relation: Relation) -> None:
    """Refuse another relation than that of the local model."""
    if relation is not Relation.REPLACE:
        raise InvalidArgument(
            "relation", relation.value, "replace", "Whether somebody answered is seen; what they said is not"
        )


def hoeffding(num_records: int, wrong: float) -> float:
    """Return what a sum of numbers between 0 and 1 is off by with probability ``wrong`` at most."""
    return math.sqrt(check_count("num_records", num_records) * math.log(2 / wrong) / 2)


def _binomial_error(num_records: int, truth: float, lie: float) -> float:
    worst = max(p * (1 - p) for p in (truth, lie))
    return math.sqrt(check_count("num_records", num_records) * worst) / (truth - lie)
