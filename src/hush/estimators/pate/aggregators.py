"""Aggregators of teachers' votes: noisy maxima, with and without a private check of consensus.

A privacy unit is in one teacher's part of the data, so it changes the vote of one teacher at most: one count falls by 1
and another grows by 1 (or only one of these, if the teacher abstains in one case). The counts therefore move by at most
sqrt(2) in L2 norm and 2 in L1 norm, and the largest count by at most 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
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
    gaussian_multiplier,
)
from hush.errors import InvalidArgument, check_count, check_positive
from hush.estimators.pate.noise import (
    MAX_TEACHERS,
    Counts,
    Labels,
    check_counts,
    check_noise,
    noisy_argmax,
    passes_threshold,
)
from hush.randomness import RandomSource, floored_gaussian, floored_laplace

NO_ANSWER = -1
"""The label of a query without a consensus, or of one that was not asked."""


@dataclass(frozen=True, slots=True)
class VotePlan:
    """The most that will be run, fixed before any vote is read.

    Attributes:
        event: The cost, for accountants.
        limit: The budget of all queries together, in the aggregator's own unit.
    """

    event: Event
    limit: Fraction


@dataclass(frozen=True, slots=True)
class VoteAnswers:
    """The output of an aggregator.

    Attributes:
        labels: The class of each query by number, or -1 for none.
        consulted: Which queries took a noisy maximum, and were charged for it.
        num_asked: Number of queries that were asked before the budget was used up: the first ones.
        spent: Budget that was used, in the unit of the plan's limit.
        expected: Votes that the student's predictions stand for, which the check subtracts first; None for none. They
            follow from earlier answers.

    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from hush.randomness import TestSource
    >>> answers = GNMax(sigma=5.0).answer(np.array([[90, 10], [20, 80]]), TestSource(1), limit=Fraction(1))
    >>> answers.labels.tolist(), answers.num_asked
    ([0, 1], 2)
    """

    labels: Labels
    consulted: NDArray[np.bool_]
    num_asked: int
    spent: Fraction
    expected: Counts | None = None


@dataclass(frozen=True, kw_only=True)
class VoteAggregator(ABC):
    """Turns counts of votes into classes. It is configured with public numbers only.

    Attributes:
        adaptive: Whether earlier outcomes decide what is asked, and paid for, next.

    >>> GNMax.adaptive, ConfidentGNMax.adaptive
    (False, True)
    """

    adaptive: ClassVar[bool] = True

    @abstractmethod
    def plan(self, num_queries: int, *, epsilon: float, delta: float) -> VotePlan:
        """Return the event of as many queries as (epsilon, delta) allow."""

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
        """Answer queries in order, until the next one might exceed the limit.

        Args:
            counts: Votes for each class, one row per query: private.
            source: Random source.
            limit: Remaining budget, in the unit of the plan's limit.
            predictions: Probabilities of the student for each query, if it has been trained already.
            num_teachers: Number of teachers, where predictions are given.
        """

    @property
    def num_rounds(self) -> int:
        """Number of parts that queries are divided into. The student is trained on the answers after each."""
        return 1


@dataclass(frozen=True, kw_only=True)
class LNMax(VoteAggregator):
    """The most common vote after Laplace noise of scale ``scale`` on every count.

    Choose it to compare with older work, or where delta must be 0. Many queries cost more than with `GNMax`.

    Args:
        scale: Scale of the noise, in votes; public.

    Guarantee:
        2 / ``scale`` for one answer, with delta = 0, when the vote of one teacher changes; answers compose.

    Assumes:
        A privacy unit changes the vote of one teacher (the caller's duty; `PATEClassifier` splits by unit).

    References:
        Papernot et al. 2017, Section 3.1 (their gamma is 1 / ``scale``). It is accounted as two Laplace releases of
        sensitivity 1, since two counts move by 1 each. That is never more than one release of sensitivity 2.

    >>> answers = LNMax(scale=20.0).plan(100, epsilon=5.0, delta=0.0).limit
    >>> int(answers)  # each costs 2 / 20
    50
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
            # Two counts move by 1 each: two Laplace releases of sensitivity 1 per answer.
            return SelfComposedEvent(LaplaceEvent(self.scale), 2 * count)

        # The largest number of answers within (epsilon, delta). All of them are asked, so no filter is needed.
        affordable = calibrate_count(epsilon=epsilon, delta=delta, template=template, maximum=num_queries)
        if not affordable >= 1:
            raise _budget_too_small(epsilon)
        return VotePlan(template(affordable), Fraction(affordable))

    def answer(
        self,
        counts: Counts,
        source: RandomSource,
        *,
        limit: Fraction,
        predictions: NDArray[np.float64] | None = None,
        num_teachers: int | None = None,
    ) -> VoteAnswers:
        """Answer each query by the noisy maximum. Each costs 1 of the limit."""
        votes = check_counts(counts)
        num_asked = min(len(votes), int(limit))
        labels = np.full(len(votes), NO_ANSWER, dtype=np.int64)
        # Only the maximum leaves, which is post-processing of the noisy counts.
        labels[:num_asked] = noisy_argmax(votes[:num_asked], floored_laplace, self.scale, source)
        return VoteAnswers(labels, np.arange(len(votes)) < num_asked, num_asked, Fraction(num_asked))


@dataclass(frozen=True, kw_only=True)
class _GaussianAggregator(VoteAggregator):
    """Aggregators with Gaussian noise only. Their costs are squares of mu, which add up even under adaptive choices."""

    sigma: float

    def __post_init__(self) -> None:
        """Check the noise."""
        check_noise("sigma", self.sigma)

    @property
    def check_cost(self) -> Fraction:
        """Squared mu of a check of consensus."""
        return Fraction(0)

    @property
    def answer_cost(self) -> Fraction:
        """Squared mu of a noisy maximum, in which two counts move by 1."""
        # mu = L2 sensitivity / sigma = sqrt(2) / sigma (Dong, Roth & Su 2022). Fractions add up exactly.
        return 2 / Fraction(self.sigma) ** 2

    def query_event(self) -> Event:
        """Return the largest cost of one query, as an event."""
        # Counts move by sqrt(2) in L2 norm; the factor keeps rounding on the safe side.
        return GaussianEvent(self.sigma / math.sqrt(2) * (1 - 1e-15))

    def plan(self, num_queries: int, *, epsilon: float, delta: float) -> VotePlan:
        """Plan all queries if (epsilon, delta) allow them, otherwise a filter that stops them on the way."""
        check_count("num_queries", num_queries)
        # n Gaussian mechanisms of mu_1 ... mu_n are one of sqrt(sum mu_i^2) (Dong, Roth & Su 2022, Corollary 2).
        multiplier = gaussian_multiplier(float(epsilon), float(delta))
        # In exact fractions: mu^2 of (epsilon, delta), and of the queries.
        allowed = Fraction(1) / Fraction(multiplier) ** 2
        query_cost = self.check_cost + self.answer_cost
        if num_queries * query_cost <= allowed:
            return VotePlan(SelfComposedEvent(self.query_event(), num_queries), num_queries * query_cost)
        if not query_cost <= allowed:
            raise _budget_too_small(epsilon)
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
        """Check each query and take its noisy maximum, until the next one might exceed the limit of squared mu."""
        votes = check_counts(counts)
        expected = self._expected_votes(predictions, num_teachers)
        # All checks are drawn at once. Those of queries that are not asked in the end are discarded unseen.
        passed = self._passes_check(votes if expected is None else votes - expected, source)
        # Stopping before the limit keeps the sum of mu^2 below it for any outcomes (Smith & Thakurta 2022, Theorem 1).
        num_asked, spent = self._affordable(passed, limit)
        consulted = passed & (np.arange(len(votes)) < num_asked)
        labels = np.full(len(votes), NO_ANSWER, dtype=np.int64)
        labels[consulted] = noisy_argmax(votes[consulted], floored_gaussian, self.sigma, source)
        return VoteAnswers(
            self._with_predictions(labels, consulted, num_asked, predictions), consulted, num_asked, spent, expected
        )

    def _affordable(self, passed: NDArray[np.bool_], limit: Fraction) -> tuple[int, Fraction]:
        """Return how many queries fit the limit, and their cost. A query is asked only if its full cost would fit."""
        answered = np.concatenate([[0], np.cumsum(passed)])
        num_asked = _largest_fitting(answered, self.check_cost, self.answer_cost, limit)
        return num_asked, num_asked * self.check_cost + int(answered[num_asked]) * self.answer_cost

    def _expected_votes(self, predictions: NDArray[np.float64] | None, num_teachers: int | None) -> Counts | None:
        """Return the votes that the student predicts, or None."""
        return None

    def _passes_check(self, excess: Counts, source: RandomSource) -> NDArray[np.bool_]:
        """Return which queries have a consensus."""
        return np.ones(len(excess), dtype=np.bool_)

    def _with_predictions(
        self, labels: Labels, consulted: NDArray[np.bool_], num_asked: int, predictions: NDArray[np.float64] | None
    ) -> Labels:
        """Return the labels, completed by the student's own predictions where the aggregator allows it."""
        return labels


@dataclass(frozen=True, kw_only=True)
class GNMax(_GaussianAggregator):
    """The most common vote after Gaussian noise of standard deviation ``sigma`` on every count.

    Choose it for many queries on which most teachers agree. Where they disagree, `ConfidentGNMax` is better.

    Args:
        sigma: Standard deviation of the noise on every count, in votes; public.

    Guarantee:
        Renyi divergence alpha / ``sigma``^2 at every order alpha for one answer (sqrt(2) / ``sigma``-GDP); answers
        compose.

    Assumes:
        A privacy unit changes the vote of one teacher (the caller's duty; `PATEClassifier` splits by unit).

    References:
        Papernot et al. 2018, Section 4.1 and Proposition 8.

    >>> aggregator = GNMax(sigma=40.0)
    >>> plan = aggregator.plan(100, epsilon=2.0, delta=1e-5)
    >>> int(plan.limit / aggregator.answer_cost)  # number of queries, at most
    100
    """

    adaptive: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class ConfidentGNMax(_GaussianAggregator):
    """`GNMax` for queries whose noisy largest count reaches a threshold; other queries get no answer.

    This is the usual choice: wrong answers and expensive answers both occur where teachers disagree. A check
    costs little, since its noise can be large. Choose `GNMax` where nearly all queries have a consensus, and
    `InteractiveGNMax` where a student soon answers most of them itself.

    Args:
        sigma: Standard deviation of the noise on every count, in votes; public.
        threshold: Number of votes that the largest count must reach; public. Choose more than half the number of
            teachers.
        sigma_threshold: Standard deviation of the noise of that check; public. It may be several times ``sigma``.

    Guarantee:
        Each check is 1 / ``sigma_threshold``-GDP (Renyi divergence alpha / (2 ``sigma_threshold``^2)), each answer
        sqrt(2) / ``sigma``-GDP. Which queries are answered depends on the checks. Squares of mu are added up on the
        way, and no query is asked that might exceed the plan.

    Assumes:
        A privacy unit changes the vote of one teacher (the caller's duty; `PATEClassifier` splits by unit).

    References:
        Papernot et al. 2018, Algorithm 1; Smith & Thakurta 2022, Theorem 1 (a filter on squares of mu is exact).

    >>> aggregator = ConfidentGNMax(threshold=150.0, sigma_threshold=120.0, sigma=40.0)
    >>> aggregator.check_cost < aggregator.answer_cost / 10
    True
    """

    threshold: float
    sigma_threshold: float

    def __post_init__(self) -> None:
        """Check the noise and the threshold."""
        super().__post_init__()
        check_positive("threshold", self.threshold, maximum=MAX_TEACHERS)
        check_noise("sigma_threshold", self.sigma_threshold)

    @property
    def check_cost(self) -> Fraction:
        """Squared mu of a check, in which the largest count moves by 1."""
        # One changed vote moves the largest count, or the largest excess, by at most 1.
        return 1 / Fraction(self.sigma_threshold) ** 2

    def query_event(self) -> Event:
        """Return the largest cost of one query, as an event."""
        return ComposedEvent((GaussianEvent(self.sigma_threshold), super().query_event()))

    def _passes_check(self, excess: Counts, source: RandomSource) -> NDArray[np.bool_]:
        # Papernot et al. 2018, Algorithm 1, line 1.
        return passes_threshold(excess.max(axis=1), self.threshold, self.sigma_threshold, source)


def _budget_too_small(epsilon: float) -> InvalidArgument:
    return InvalidArgument(
        "epsilon", epsilon, "enough for one query", "Use more noise, and more teachers to outvote it"
    )


def _largest_fitting(answered: Counts, check: Fraction, answer: Fraction, limit: Fraction) -> int:
    """Return the largest number of queries that fit the limit, each asked with room for a check and an answer.

    Costs only grow, so the last query decides, and bisection finds it.

    Args:
        answered: ``answered[k]`` is how many of the first k queries passed the check.
        check: Cost of a check.
        answer: Cost of an answer.
        limit: Budget.
    """
    low, high = 0, len(answered) - 1
    while low < high:
        middle = (low + high + 1) // 2
        # What the first middle - 1 queries cost, and the most that the next one can cost.
        before = (middle - 1) * check + int(answered[middle - 1]) * answer
        if before + check + answer <= limit:
            low = middle
        else:
            high = middle - 1
    return low
