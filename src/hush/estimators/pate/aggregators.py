"""Aggregators of teachers' votes: noisy maxima, with and without a private check of consensus.

One unit is in one teacher's part. It changes that teacher's vote at most: one count falls by 1 and another grows by 1
(or only one of both, where a teacher abstains). So the counts move by at most sqrt(2) in L2 and 2 in L1 norm, and the
largest count by at most 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hush.accounting import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    SelfComposedEvent,
    calibrate_count,
    calibrate_noise,
)
from hush.errors import InvalidArgument, check_count, check_positive
from hush.estimators.pate.noise import MOST_TEACHERS, Counts, Labels, check_noise, checked, noisy_argmax, reaches
from hush.randomness import RandomSource

NO_ANSWER = -1
"""The label of a query without a consensus, or one that was not asked."""


@dataclass(frozen=True, slots=True)
class VotePlan:
    """What will be run at most, fixed before any vote is looked at: an event, and how far queries may go."""

    event: Event
    limit: Fraction


@dataclass(frozen=True, slots=True)
class VoteAnswers:
    """What leaves the aggregator: the classes by number (-1 for none), how many queries were asked, what they spent.

    Attributes:
        labels: One class for each query, or -1.
        consulted: For which queries the noisy maximum itself was taken (and charged).
        num_asked: How many of the queries, from the first on, were asked before the budget was used up.
        spent: In units of the plan's limit.
        expected: Votes that a student's predictions stand for, which checks took off first; None for none. Known from
            earlier answers.
    """

    labels: Labels
    consulted: NDArray[np.bool_]
    num_asked: int
    spent: Fraction
    expected: Counts | None = None


@dataclass(frozen=True, kw_only=True)
class VoteAggregator(ABC):
    """Turns counts of votes into classes. Configured with public numbers only."""

    adaptive: ClassVar[bool] = True
    """Whether what is asked, and so what is paid for, depends on earlier outcomes."""

    @abstractmethod
    def plan(self, num_queries: int, *, epsilon: float, delta: float) -> VotePlan:
        """Return the event of as many of the queries as (epsilon, delta) allow."""

    @abstractmethod
    def answer(
        self,
        counts: Counts,
        source: RandomSource,
        *,
        limit: Fraction,
        predictions: NDArray[np.float64] | None = None,
        num_teachers: int | None = None,
    ) -> VoteAnswers:
        """Answer queries in their order, each one's counts in a row, until the next might exceed the limit."""

    @property
    def num_rounds(self) -> int:
        """Into how many parts queries are cut, after each of which a student learns from the answers."""
        return 1


@dataclass(frozen=True, kw_only=True)
class LNMax(VoteAggregator):
    """The most common vote after Laplace noise of scale ``scale`` on every count.

    Choose it for comparison with older work, or for a pure epsilon: many queries cost more than with `GNMax`.

    >>> answers = LNMax(scale=20.0).plan(100, epsilon=5.0, delta=0.0).limit
    >>> int(answers)  # of 2 / 20 each
    50

    Args:
        scale: Of the noise, in votes; public.

    Guarantee:
        2 / ``scale`` for one answer, delta = 0, for one teacher's changed vote; answers compose.

    Assumes:
        A unit changes the vote of one teacher (the caller's duty; `PATEClassifier` splits so).

    References:
        Papernot et al. 2017, Section 3.1 (their gamma is 1 / ``scale``). Accounted as two Laplace releases of
        sensitivity 1, as two counts move by 1 each, which is never above a single one of sensitivity 2.
    """

    adaptive: ClassVar[bool] = False
    scale: float

    def __post_init__(self) -> None:
        """Check the scale."""
        check_noise("scale", self.scale)

    def plan(self, num_queries: int, *, epsilon: float, delta: float) -> VotePlan:
        """Return as many answers as (epsilon, delta) allow."""
        check_count("num_queries", num_queries)

        def template(count: int) -> Event:
            return SelfComposedEvent(LaplaceEvent(self.scale), 2 * count)

        most = calibrate_count(epsilon=epsilon, delta=delta, template=template, maximum=num_queries)
        if not most >= 1:
            raise _too_little(epsilon)
        return VotePlan(template(most), Fraction(most))

    def answer(
        self,
        counts: Counts,
        source: RandomSource,
        *,
        limit: Fraction,
        predictions: NDArray[np.float64] | None = None,
        num_teachers: int | None = None,
    ) -> VoteAnswers:
        """Answer each query by the noisy maximum; each costs 1 of the limit."""
        votes = checked(counts)
        asked = min(len(votes), int(limit))
        labels = np.full(len(votes), NO_ANSWER, dtype=np.int64)
        labels[:asked] = noisy_argmax(votes[:asked], self.scale, source, gaussian=False)
        return VoteAnswers(labels, np.arange(len(votes)) < asked, asked, Fraction(asked))


@dataclass(frozen=True, kw_only=True)
class _Filtered(VoteAggregator):
    """Aggregators with Gaussian noise alone: their costs are squares of mu, and these add up, whatever is chosen."""

    sigma: float

    def __post_init__(self) -> None:
        """Check the noise."""
        check_noise("sigma", self.sigma)

    @property
    def check_cost(self) -> Fraction:
        """Squared mu of a check for consensus."""
        return Fraction(0)

    @property
    def answer_cost(self) -> Fraction:
        """Squared mu of a noisy maximum: two counts move by 1."""
        return 2 / Fraction(self.sigma) ** 2

    def query_event(self) -> Event:
        """Return the event of one query, at most."""
        return GaussianEvent(self.sigma / math.sqrt(2) * (1 - 1e-15))

    def plan(self, num_queries: int, *, epsilon: float, delta: float) -> VotePlan:
        """Return all queries if (epsilon, delta) allow them, else a filter that stops them on the way."""
        check_count("num_queries", num_queries)
        multiplier = _least_noise(float(epsilon), float(delta))
        allowed = Fraction(1) / Fraction(multiplier) ** 2
        each = self.check_cost + self.answer_cost
        if num_queries * each <= allowed:
            return VotePlan(SelfComposedEvent(self.query_event(), num_queries), num_queries * each)
        if not each <= allowed:
            raise _too_little(epsilon)
        return VotePlan(GaussianEvent(multiplier), allowed)

    def answer(
        self,
        counts: Counts,
        source: RandomSource,
        *,
        limit: Fraction,
        predictions: NDArray[np.float64] | None = None,
        num_teachers: int | None = None,
    ) -> VoteAnswers:
        """Check each query and take its noisy maximum, until the next might exceed the limit of squared mu."""
        votes = checked(counts)
        expected = self._expected(predictions, num_teachers)
        passed = self._passed(votes if expected is None else votes - expected, source)
        asked, spent = self._asked(passed, limit)
        consulted = passed & (np.arange(len(votes)) < asked)
        labels = np.full(len(votes), NO_ANSWER, dtype=np.int64)
        labels[consulted] = noisy_argmax(votes[consulted], self.sigma, source, gaussian=True)
        return VoteAnswers(self._completed(labels, consulted, asked, predictions), consulted, asked, spent, expected)

    def _asked(self, passed: NDArray[np.bool_], limit: Fraction) -> tuple[int, Fraction]:
        """Return how many queries fit, and what they cost: a query is asked only if its whole cost would fit."""
        answers = np.concatenate([[0], np.cumsum(passed)])
        asked = _largest_fitting(answers, self.check_cost, self.answer_cost, limit)
        return asked, asked * self.check_cost + int(answers[asked]) * self.answer_cost

    def _expected(self, predictions: NDArray[np.float64] | None, num_teachers: int | None) -> Counts | None:
        return None

    def _passed(self, excess: Counts, source: RandomSource) -> NDArray[np.bool_]:
        return np.ones(len(excess), dtype=np.bool_)

    def _completed(
        self, labels: Labels, consulted: NDArray[np.bool_], asked: int, predictions: NDArray[np.float64] | None
    ) -> Labels:
        return labels


@dataclass(frozen=True, kw_only=True)
class GNMax(_Filtered):
    """The most common vote after Gaussian noise of standard deviation ``sigma`` on every count.

    Choose it for many queries that most teachers agree on. Where they do not, `ConfidentGNMax` is better.

    >>> aggregator = GNMax(sigma=40.0)
    >>> plan = aggregator.plan(100, epsilon=2.0, delta=1e-5)
    >>> int(plan.limit / aggregator.answer_cost)  # queries at most
    100

    Args:
        sigma: Standard deviation of the noise on every count, in votes; public.

    Guarantee:
        Renyi divergence alpha / ``sigma``^2 at every order alpha for one answer (sqrt(2) / ``sigma``-GDP); answers
        compose.

    Assumes:
        A unit changes the vote of one teacher (the caller's duty; `PATEClassifier` splits so).

    References:
        Papernot et al. 2018, Section 4.1 and Proposition 8.
    """

    adaptive: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class ConfidentGNMax(_Filtered):
    """`GNMax` for queries whose largest count, with noise ``sigma_threshold``, reaches ``threshold``; else no answer.

    The usual choice: wrong answers and costly ones are both where teachers disagree. A check costs little, as its
    noise can be large. Choose `GNMax` where nearly all queries have a consensus, and `InteractiveGNMax` where a student
    soon answers most of them by itself.

    >>> aggregator = ConfidentGNMax(threshold=150.0, sigma_threshold=120.0, sigma=40.0)
    >>> aggregator.check_cost < aggregator.answer_cost / 10
    True

    Args:
        sigma: Standard deviation of the noise on every count, in votes; public.
        threshold: What the largest count must reach, in votes; public. It should be above half of the teachers' number.
        sigma_threshold: Standard deviation of the noise of that check; public. It may be several times ``sigma``.

    Guarantee:
        Each check is 1 / ``sigma_threshold``-GDP (Renyi divergence alpha / (2 ``sigma_threshold``^2)), each answer
        sqrt(2) / ``sigma``-GDP. Which queries are answered depends on the checks: the squares are added up on the way,
        and no query is asked that might exceed what was planned.

    Assumes:
        A unit changes the vote of one teacher (the caller's duty; `PATEClassifier` splits so).

    References:
        Papernot et al. 2018, Algorithm 1; Smith & Thakurta 2022, Theorem 1 (adding squares of mu on the way is exact).
    """

    threshold: float
    sigma_threshold: float

    def __post_init__(self) -> None:
        """Check the noise and the threshold."""
        super().__post_init__()
        check_positive("threshold", self.threshold, maximum=MOST_TEACHERS)
        check_noise("sigma_threshold", self.sigma_threshold)

    @property
    def check_cost(self) -> Fraction:
        """Squared mu of a check: the largest count moves by 1."""
        return 1 / Fraction(self.sigma_threshold) ** 2

    def query_event(self) -> Event:
        """Return the event of one query, at most."""
        return ComposedEvent((GaussianEvent(self.sigma_threshold), super().query_event()))

    def _passed(self, excess: Counts, source: RandomSource) -> NDArray[np.bool_]:
        return reaches(excess.max(axis=1), self.threshold, self.sigma_threshold, source)


@lru_cache(maxsize=64)
def _least_noise(epsilon: float, delta: float) -> float:
    return calibrate_noise(epsilon=epsilon, delta=delta)


def _too_little(epsilon: float) -> InvalidArgument:
    return InvalidArgument("epsilon", epsilon, "enough for one query", "Use more noise, with more teachers")


def _largest_fitting(answers: Counts, check: Fraction, answer: Fraction, limit: Fraction) -> int:
    """Return the largest number of queries of which each was asked with room for a check and an answer.

    ``answers[k]`` is how many of the first k passed the check. Costs only grow, so the last query decides.
    """
    low, high = 0, len(answers) - 1
    while low < high:
        middle = (low + high + 1) // 2
        before = (middle - 1) * check + int(answers[middle - 1]) * answer
        if before + check + answer <= limit:
            low = middle
        else:
            high = middle - 1
    return low
