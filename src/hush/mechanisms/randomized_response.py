"""The local model: each person randomises their own record before anyone collects it.

No trusted party ever holds the raw records, so the guarantee holds against the collector, too. The relation is
replacement: whether a person takes part is visible, but not what they answered. `estimate` turns the collected reports
into unbiased counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import events
from hush.errors import InvalidArgument, check_confidence, check_count, check_positive
from hush.guarantee import Guarantee, Relation
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.numerics import as_floats, quiet_numpy
from hush.randomness import ExactInterval, RandomSource, exp_interval, flip, source_or_default, uniform_below

ONCE = "each value is randomised once"


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(Mechanism):
    """Each person reports their value, one of ``num_values``, or with some probability a different one at random.

    The true value is reported with probability e^epsilon / (e^epsilon + num_values - 1), sampled exactly. `estimate`
    removes the bias from the counts of the reports.

    >>> from hush.randomness import TestSource
    >>> mechanism = RandomizedResponse(epsilon=1.0)
    >>> round(mechanism.truth_probability, 4)
    0.7311
    >>> reports = mechanism.release([0] * 7000 + [1] * 3000, TestSource(1)).value
    >>> mechanism.estimate(reports).round(-3).tolist()
    [7000.0, 3000.0]

    Guarantee:
        epsilon-differential privacy, delta = 0, for each person against everyone, including the collector.

    Assumes:
        Each person's value is randomised once (the caller's duty: reporting the same value twice costs twice).

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
        """The probability of reporting the true value."""
        # p / q = e^epsilon and p + (k - 1) q = 1 give p = 1 / (1 + (k - 1) e^-epsilon).
        return 1 / (1 + (self.num_values - 1) * math.exp(-self.epsilon))

    @property
    def lie_probability(self) -> float:
        """The probability of reporting any particular other value."""
        return (1 - self.truth_probability) / (self.num_values - 1)

    @quiet_numpy
    def release(self, records: Any, source: RandomSource | None = None) -> Release[NDArray[np.int64]]:
        """Return each person's report.

        Args:
            records: The true values, from 0 to num_values - 1. Others count as the nearest of these, NaN as 0.
            source: The random bits; by default the process's own source.
        """
        random_source = source_or_default(source)
        values = _values(records, self.num_values)
        others = self.num_values - 1
        exponent = Fraction(self.epsilon)

        def enclosure(index: int, digits: int) -> ExactInterval:
            # 1 / (1 + (k - 1) e^-epsilon), between two fractions.
            low, high = exp_interval((-exponent, -exponent), digits)
            return 1 / (1 + others * high), 1 / (1 + others * low)

        # Exact coins: a truth probability that was rounded up would exceed e^epsilon times the others'.
        truthful = flip(random_source, np.full(values.size, self.truth_probability), enclosure)
        shift = np.where(
            truthful, 0, 1 + uniform_below(random_source, others, values.size)
        )  # to another value, modulo all
        return self._released((values + shift) % self.num_values, random_source)

    @quiet_numpy
    def estimate(self, reports: Any) -> NDArray[np.float64]:
        """Return unbiased estimates of how many people have each value, from their reports."""
        counts = np.bincount(np.asarray(reports, dtype=np.int64), minlength=self.num_values).astype(np.float64)
        return unbiased(counts, counts.sum(), self.truth_probability, self.lie_probability)

    def accuracy(self, num_records: int, confidence: float = 0.95) -> float:
        """Return a bound that, with this confidence, no estimated count's error exceeds (Hoeffding's inequality)."""
        error_rate = (1 - check_confidence("confidence", confidence)) / self.num_values  # a union bound
        return hoeffding(num_records, error_rate) / (self.truth_probability - self.lie_probability)

    def standard_error(self, num_records: int) -> float:
        """Return an upper bound on the standard deviation of an estimated count."""
        return _binomial_error(num_records, self.truth_probability, self.lie_probability)


@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(Mechanism):
    """Each person reports one bit for each of ``num_values`` values.

    The bit of the person's own value is 1 with probability 1/2, every other bit with probability 1 / (e^epsilon + 1).
    This is optimised unary encoding, the choice with the smallest variance. Use it for many values: if
    ``num_values < 3 e^epsilon + 2``, `RandomizedResponse` has a smaller variance and shorter reports.

    >>> from hush.randomness import TestSource
    >>> mechanism = UnaryEncoding(epsilon=1.0, num_values=50)
    >>> round(mechanism.lie_probability, 4)
    0.2689
    >>> mechanism.release([0, 7, 49], TestSource(1)).value.shape
    (3, 50)

    Guarantee:
        epsilon-differential privacy, delta = 0, for each person against everyone, including the collector.

    Assumes:
        Each person's value is randomised once (the caller's duty: reporting the same value twice costs twice).

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
        # Two bits have different distributions, and the loss is 0 where they agree. So this event is an upper bound.
        return events.ApproximateDPEvent(self.epsilon)

    @property
    def lie_probability(self) -> float:
        """The probability that the bit of another value is 1."""
        return math.exp(-self.epsilon) / (1 + math.exp(-self.epsilon))

    @quiet_numpy
    def release(self, records: Any, source: RandomSource | None = None) -> Release[NDArray[np.bool_]]:
        """Return a row of bits for each person.

        Args:
            records: The true values, from 0 to num_values - 1. Others count as the nearest of these, NaN as 0.
            source: The random bits; by default the process's own source.
        """
        random_source = source_or_default(source)
        values = _values(records, self.num_values)
        exponent = Fraction(self.epsilon)

        def enclosure(index: int, digits: int) -> ExactInterval:
            # e^-epsilon / (1 + e^-epsilon), between two fractions.
            low, high = exp_interval((-exponent, -exponent), digits)
            return low / (1 + low), high / (1 + high)

        bits = flip(random_source, np.full(values.size * self.num_values, self.lie_probability), enclosure)
        bits = bits.reshape(values.size, self.num_values)
        # Two people's rows differ in two bits: (p / q) ((1 - q) / (1 - p)) = e^epsilon for p = 1/2, q = 1 / (e^epsilon
        # + 1).
        bits[np.arange(values.size), values] = uniform_below(random_source, 2, values.size) == 1
        return self._released(bits, random_source)

    @quiet_numpy
    def estimate(self, reports: Any) -> NDArray[np.float64]:
        """Return unbiased estimates of how many people have each value, from the rows of bits."""
        bits = np.asarray(reports, dtype=np.float64).reshape(-1, self.num_values)
        return unbiased(bits.sum(axis=0), len(bits), self.truth_probability, self.lie_probability)

    def accuracy(self, num_records: int, confidence: float = 0.95) -> float:
        """Return a bound that, with this confidence, no estimated count's error exceeds (Hoeffding's inequality)."""
        error_rate = (1 - check_confidence("confidence", confidence)) / self.num_values  # a union bound
        return hoeffding(num_records, error_rate) / (self.truth_probability - self.lie_probability)

    def standard_error(self, num_records: int) -> float:
        """Return an upper bound on the standard deviation of an estimated count."""
        return _binomial_error(num_records, self.truth_probability, self.lie_probability)


def unbiased(counts: Any, total: float, truth: float, lie: float) -> NDArray[np.float64]:
    """Return unbiased estimates of how many people have each value.

    Solves E[count] = truth * n + lie * (total - n) for n.

    Args:
        counts: How often each value was reported.
        total: The number of reports.
        truth: The probability of reporting one's own value.
        lie: The probability of reporting any particular other value.
    """
    estimated: NDArray[np.float64] = (np.asarray(counts, dtype=np.float64) - total * lie) / (truth - lie)
    return estimated


def _values(records: Any, num_values: int) -> NDArray[np.int64]:
    """Return the records as integers from 0 to num_values - 1."""
    numbered = np.nan_to_num(as_floats("records", records).ravel(), nan=0.0)
    # Values out of range are moved, not refused: an exception would tell that there was one.
    return np.rint(np.clip(numbered, 0, num_values - 1)).astype(np.int64)


def _check_num_values(num_values: int, maximum: int) -> None:
    if not check_count("num_values", num_values, minimum=2) <= maximum:
        raise InvalidArgument("num_values", num_values, f"at most {maximum}")


def check_replaced(relation: Relation) -> None:
    """Refuse any relation except replacement, because this is the local model."""
    if relation is not Relation.REPLACE:
        raise InvalidArgument(
            "relation", relation.value, "replace", "The collector sees who takes part, but not what they answered"
        )


def hoeffding(num_records: int, error_rate: float) -> float:
    """Return a bound that the error of a sum of numbers in [0, 1] exceeds with probability at most ``error_rate``."""
    # Hoeffding 1963: P(|S - E S| >= t) <= 2 e^(-2 t^2 / n).
    return math.sqrt(check_count("num_records", num_records) * math.log(2 / error_rate) / 2)


def _binomial_error(num_records: int, truth: float, lie: float) -> float:
    """Return an upper bound on the standard deviation of an unbiased estimate."""
    # Each report is a coin of probability truth or lie; the variance of n coins is at most n times the larger one.
    worst = max(p * (1 - p) for p in (truth, lie))
    return math.sqrt(check_count("num_records", num_records) * worst) / (truth - lie)
