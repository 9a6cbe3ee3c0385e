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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import Composed, Event, Gaussian, Laplace, SelfComposed, calibrate_count, calibrate_noise
from hush.errors import InvalidArgument, check_count, check_fraction, check_positive
from hush.randomness import Source, floored_gaussian, floored_laplace

Counts = NDArray[np.int64]
Labels = NDArray[np.int64]

NO_ANSWER = -1
"""The label of a query without a consensus, or one that was not asked."""

MOST_TEACHERS = 1 << 20
_RESOLUTION = 25  # the grid is 2^25 times finer than the noise: even the finest one holds all counts in 64 bits


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be run at most, fixed before any vote is looked at: an event, and how far queries may go."""

    event: Event
    limit: Fraction


@dataclass(frozen=True, slots=True)
class Answers:
    """What leaves the aggregator: the classes by number (-1 for none), how many queries were asked, what they spent.

    Attributes:
        labels: One class for each query, or -1.
        consulted: For which queries the noisy maximum itself was taken (and charged).
        num_asked: How many of the queries, from the first on, were asked before the budget was used up.
        spent: In units of the plan's limit.
    """

    labels: Labels
    consulted: NDArray[np.bool_]
    num_asked: int
    spent: Fraction


@dataclass(frozen=True, kw_only=True)
class Aggregator(ABC):
    """Turns counts of votes into classes. Configured with public numbers only."""

    @abstractmethod
    def plan(self, num_queries: int, *, epsilon: float, delta: float) -> Plan:
        """Return the event of as many of the queries as (epsilon, delta) allow."""

    @abstractmethod
    def answer(
        self,
        counts: Counts,
        source: Source,
        *,
        limit: Fraction,
        predictions: NDArray[np.float64] | None = None,
        num_teachers: int | None = None,
    ) -> Answers:
        """Answer queries in their order, each one's counts in a row, until the next might exceed the limit."""

    @property
    def num_rounds(self) -> int:
        """Into how many parts queries are cut, after each of which a student learns from the answers."""
        return 1


@dataclass(frozen=True, kw_only=True)
class LNMax(Aggregator):
    """The most common vote after Laplace noise of scale ``scale`` on every count.

    Choose it for comparison with older work, or for a pure epsilon: many queries cost more than with `GNMax`.

    Guarantee:
        2 / ``scale`` for one answer, delta = 0, for one teacher's changed vote; answers compose.

    Assumes:
        A unit changes the vote of one teacher (the caller's duty; `PATEClassifier` splits so).

    References:
        Papernot et al. 2017, Section 3.1 (their gamma is 1 / ``scale``). Accounted as two Laplace releases of
        sensitivity 1, as two counts move by 1 each, which is never above a single one of sensitivity 2.
    """

    scale: float

    def __post_init__(self) -> None:
        """Check the scale."""
        _check_noise("scale", self.scale)

    def plan(self, num_queries: int, *, epsilon: float, delta: float) -> Plan:
        """Return as many answers as (epsilon, delta) allow."""
        check_count("num_queries", num_queries)

        def template(count: int) -> Event:
            return SelfComposed(Laplace(self.scale), 2 * count)

        most = calibrate_count(epsilon=epsilon, delta=delta, template=template, maximum=num_queries)
        if not most >= 1:
            raise _too_little(epsilon)
        return Plan(template(most), Fraction(most))

    def answer(
        self,
        counts: Counts,
        source: Source,
        *,
        limit: Fraction,
        predictions: NDArray[np.float64] | None = None,
        num_teachers: int | None = None,
    ) -> Answers:
        """Answer each query by the noisy maximum; each costs 1 of the limit."""
        votes = _checked(counts)
        asked = min(len(votes), int(limit))
        labels = np.full(len(votes), NO_ANSWER, dtype=np.int64)
        labels[:asked] = _noisy_argmax(votes[:asked], self.scale, source, gaussian=False)
        return Answers(labels, np.arange(len(votes)) < asked, asked, Fraction(asked))


@dataclass(frozen=True, kw_only=True)
class _Filtered(Aggregator):
    """Aggregators with Gaussian noise alone: their costs are squares of mu, and these add up, whatever is chosen."""

    sigma: float

    def __post_init__(self) -> None:
        """Check the noise."""
        _check_noise("sigma", self.sigma)

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
        return Gaussian(self.sigma / math.sqrt(2) * (1 - 1e-15))

    def plan(self, num_queries: int, *, epsilon: float, delta: float) -> Plan:
        """Return all queries if (epsilon, delta) allow them, else a filter that stops them on the way."""
        check_count("num_queries", num_queries)
        multiplier = _least_noise(float(epsilon), float(delta))
        allowed = Fraction(1) / Fraction(multiplier) ** 2
        each = self.check_cost + self.answer_cost
        if num_queries * each <= allowed:
            return Plan(SelfComposed(self.query_event(), num_queries), num_queries * each)
        if not each <= allowed:
            raise _too_little(epsilon)
        return Plan(Gaussian(multiplier), allowed)

    def answer(
        self,
        counts: Counts,
        source: Source,
        *,
        limit: Fraction,
        predictions: NDArray[np.float64] | None = None,
        num_teachers: int | None = None,
    ) -> Answers:
        """Check each query and take its noisy maximum, until the next might exceed the limit of squared mu."""
        votes = _checked(counts)
        passed = self._passed(votes, source, predictions, num_teachers)
        asked, spent = self._asked(passed, limit)
        consulted = passed & (np.arange(len(votes)) < asked)
        labels = np.full(len(votes), NO_ANSWER, dtype=np.int64)
        labels[consulted] = _noisy_argmax(votes[consulted], self.sigma, source, gaussian=True)
        return Answers(self._completed(labels, consulted, asked, predictions), consulted, asked, spent)

    def _asked(self, passed: NDArray[np.bool_], limit: Fraction) -> tuple[int, Fraction]:
        """Return how many queries fit, and what they cost: a query is asked only if its whole cost would fit."""
        answers = np.concatenate([[0], np.cumsum(passed)])
        asked = _largest_fitting(answers, self.check_cost, self.answer_cost, limit)
        return asked, asked * self.check_cost + int(answers[asked]) * self.answer_cost

    def _passed(
        self, votes: Counts, source: Source, predictions: NDArray[np.float64] | None, num_teachers: int | None
    ) -> NDArray[np.bool_]:
        return np.ones(len(votes), dtype=np.bool_)

    def _completed(
        self, labels: Labels, consulted: NDArray[np.bool_], asked: int, predictions: NDArray[np.float64] | None
    ) -> Labels:
        return labels


@dataclass(frozen=True, kw_only=True)
class GNMax(_Filtered):
    """The most common vote after Gaussian noise of standard deviation ``sigma`` on every count.

    Choose it for many queries that most teachers agree on. Where they do not, `ConfidentGNMax` is better.

    Guarantee:
        Renyi divergence alpha / ``sigma``^2 at every order alpha for one answer (sqrt(2) / ``sigma``-GDP); answers
        compose.

    Assumes:
        A unit changes the vote of one teacher (the caller's duty; `PATEClassifier` splits so).

    References:
        Papernot et al. 2018, Section 4.1 and Proposition 8.
    """


@dataclass(frozen=True, kw_only=True)
class ConfidentGNMax(_Filtered):
    """`GNMax` for queries whose largest count, with noise ``sigma_threshold``, reaches ``threshold``; else no answer.

    The usual choice: wrong answers and costly ones are both where teachers disagree. A check costs little, as its
    noise can be large.

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
        _check_noise("sigma_threshold", self.sigma_threshold)

    @property
    def check_cost(self) -> Fraction:
        """Squared mu of a check: the largest count moves by 1."""
        return 1 / Fraction(self.sigma_threshold) ** 2

    def query_event(self) -> Event:
        """Return the event of one query, at most."""
        return Composed((Gaussian(self.sigma_threshold), super().query_event()))

    def _passed(
        self, votes: Counts, source: Source, predictions: NDArray[np.float64] | None, num_teachers: int | None
    ) -> NDArray[np.bool_]:
        return _reaches(votes.max(axis=1), self.threshold, self.sigma_threshold, source)


@dataclass(frozen=True, kw_only=True)
class InteractiveGNMax(ConfidentGNMax):
    """`ConfidentGNMax` that asks only where the teachers contradict the student.

    Queries are cut into ``rounds`` parts. After each, the student learns from the answers so far and predicts the next
    part. A query is checked by how far the votes exceed the prediction: the largest n_j - (number of teachers) p_j. If
    that is below the threshold, the student's own class is taken as the answer where its probability is at least
    ``reinforce``, which costs nothing more. The first part is as in `ConfidentGNMax`.

    Guarantee:
        As `ConfidentGNMax`: predictions are made from earlier answers.

    Assumes:
        As `ConfidentGNMax`. The student has ``predict_proba`` (checked here), and sees public data and answers only
        (the caller's duty; `PATEClassifier` does so).

    References:
        Papernot et al. 2018, Algorithm 2. Variant: expected votes of the student are rounded to whole ones.
    """

    rounds: int = 4
    reinforce: float = 0.95

    def __post_init__(self) -> None:
        """Check the arguments."""
        super().__post_init__()
        check_count("rounds", self.rounds, minimum=2)
        check_fraction("reinforce", self.reinforce)

    @property
    def num_rounds(self) -> int:
        """Into how many parts queries are cut."""
        return self.rounds

    def _passed(
        self, votes: Counts, source: Source, predictions: NDArray[np.float64] | None, num_teachers: int | None
    ) -> NDArray[np.bool_]:
        if predictions is None:
            return super()._passed(votes, source, None, num_teachers)
        expected = np.rint(np.nan_to_num(predictions) * check_count("num_teachers", num_teachers)).astype(np.int64)
        return _reaches((votes - expected).max(axis=1), self.threshold, self.sigma_threshold, source)

    def _completed(
        self, labels: Labels, consulted: NDArray[np.bool_], asked: int, predictions: NDArray[np.float64] | None
    ) -> Labels:
        if predictions is None:
            return labels
        sure = ~consulted & (predictions.max(axis=1) >= self.reinforce) & (np.arange(len(labels)) < asked)
        return np.where(sure, predictions.argmax(axis=1), labels)


def _checked(counts: Any) -> Counts:
    """Return counts as whole numbers; messages tell their shape only."""
    array = np.asarray(counts)
    if array.ndim != 2 or array.shape[1] < 2 or array.dtype.kind not in "iu":
        raise InvalidArgument("counts", (array.shape, str(array.dtype)), "integers, one row of two or more per query")
    votes: Counts = np.clip(array, 0, MOST_TEACHERS).astype(np.int64)
    return votes


def _check_noise(name: str, value: float) -> None:
    if not 1e-3 <= check_positive(name, value) <= 1e6:
        raise InvalidArgument(name, value, "between 0.001 and 1e+06", "It is in votes")


@lru_cache(maxsize=64)
def _least_noise(epsilon: float, delta: float) -> float:
    return calibrate_noise(epsilon=epsilon, delta=delta)


def _too_little(epsilon: float) -> InvalidArgument:
    return InvalidArgument("epsilon", epsilon, "enough for one query", "Use more noise, with more teachers")


def _noise(shape: tuple[int, ...], scale: float, source: Source, *, gaussian: bool) -> tuple[Counts, int]:
    """Return noise in units of a grid of which 1 is a multiple, and that multiple: counts are on it exactly."""
    unit = 1 << max(_RESOLUTION + 1 - math.frexp(scale)[1], 0)
    draw = floored_gaussian if gaussian else floored_laplace
    return draw(source, scale * unit, math.prod(shape)).reshape(shape), unit


def _noisy_argmax(votes: Counts, scale: float, source: Source, *, gaussian: bool) -> Labels:
    """Return the largest of each row with noise; equal ones, about one in 2^25, go to the first class."""
    noise, unit = _noise(votes.shape, scale, source, gaussian=gaussian)
    return np.asarray((votes * unit + noise).argmax(axis=1))


def _reaches(values: Counts, threshold: float, sigma: float, source: Source) -> NDArray[np.bool_]:
    noise, unit = _noise(values.shape, sigma, source, gaussian=True)
    return np.asarray(noise >= math.ceil(Fraction(threshold) * unit) - values * unit)


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
