"""A held-out set that can be queried many times without being overfitted (Thresholdout).

query > mean over training rows, mean over holdout rows > AboveThreshold on their difference
> agree: the training mean, for free     > differ: the holdout mean with noise, a fixed number of times
"""

from __future__ import annotations

import os
import textwrap
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from hush.accounting import events
from hush.accounting.budget import Budget, Charge
from hush.accounting.receipts import Receipt, check_budget, receipt_of
from hush.errors import BudgetExceeded, Unsupported, check_confidence, check_count, check_probability
from hush.guarantee import Guarantee, Relation, Unit
from hush.numerics import quiet_numpy
from hush.randomness import RandomSource, assumptions_of, source_or_default
from hush.stability.holdout_noise import HoldoutNoise, most_overfits
from hush.stability.row_queries import (
    Query,
    check_separate,
    checked_length,
    copied,
    mean_of,
    row_values,
    safe_row_values,
    unchangeable,
)
from hush.stability.split_holdout import split_width

_ROWS_ALONE = "queries treat each row on its own"
_MOST_QUERIES = 10**15


@dataclass(frozen=True, slots=True)
class HoldoutAnswer:
    """An answer of a `ReusableHoldout`.

    >>> answer = HoldoutAnswer(value=0.5, overfitted=True)
    >>> answer.overfitted
    True

    Attributes:
        value: The mean over the training rows if the holdout agrees, otherwise the noisy mean over the holdout.
        overfitted: Whether the two disagreed, i.e. the value comes from the holdout.
    """

    value: float
    overfitted: bool


class ReusableHoldout:
    """A held-out set that you can keep querying, even about models that were chosen by looking at earlier answers.

    A held-out set that is reused becomes a second training set: models chosen by it fit it by chance, and adaptive data
    analysis turns into p-hacking. Here, an answer is the mean over the *training* rows, as long as the holdout's mean
    is within ``tolerance`` of it, up to noise. Only if they differ, and at most ``max_overfits`` times, is the
    holdout's mean released, with noise. So the answers reveal little about any row of the holdout, and it stays
    representative of the population.

    Use it to compare many models, features or thresholds on some thousand rows. With ``delta`` > 0, twice as many rows
    pay for four times as many overfits (`most_overfits`); with delta = 0, for twice as many. `explain` says what is
    proven, and whether splitting the rows would be better.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x, y = np.zeros(20_000), np.arange(20_000) % 2
    >>> training, holdout = (x[:10_000], np.zeros(10_000)), (x[10_000:], y[10_000:])
    >>> settings = {"epsilon": 1.0, "max_overfits": 5, "tolerance": 0.1, "source": TestSource(1)}
    >>> reusable = ReusableHoldout(training, holdout, **settings)
    >>> answer = reusable.ask(lambda x, y: y == 0)
    >>> answer.overfitted, round(answer.value, 1), reusable.remaining
    (True, 0.5, 4)

    Args:
        training: The columns of the training rows, such as (X, y). Columns are copied.
        holdout: The same columns of the held-out rows.
        epsilon: The epsilon of all answers together.
        delta: The delta of all answers together. With 0, epsilons add up; otherwise the answers are composed by zCDP.
        max_overfits: How often the holdout's mean may be released.
        tolerance: How far the two means may differ before the holdout's mean is released. A tolerance below the noise
            is refused.
        budget: A budget to charge, once. ``receipt`` then says what is left of it.
        source: The source of noise. Pass a TestSource in tests only.

    Guarantee:
        (epsilon, delta)-differential privacy of the holdout for all answers together, under replacement of one row. It
        implies accuracy for the population that the rows are drawn from: see `proven_width`.

    Assumes:
        A query's value for a row depends on this row and on released answers only (the caller's duty). Values are
        clamped to [0, 1]; NaN counts as 0, and so does a row for which the query fails or gives no single number, and
        no query changes the rows (checked here). The held-out rows were not used before, are not training rows (checked
        here only as far as columns share memory), and are accessed through this object only (the caller's duty: a
        further holdout on the same rows is opened by `reopen`). Their number is public.

    References:
        Dwork, Feldman, Hardt, Pitassi, Reingold & Roth 2015, Thresholdout. Variant: the comparisons are those of
        `AboveThreshold`, whose noise is smaller (Lyu, Su & Li 2017), with a single threshold for delta = 0; Bun &
        Steinke 2016, Lemma 1.7 and Proposition 1.4, for delta > 0. Jung et al. 2020, Theorem 3.5 (from samples to the
        population).
    """

    def __init__(
        self,
        training: Sequence[Any],
        holdout: Sequence[Any],
        *,
        epsilon: float,
        delta: float = 0.0,
        max_overfits: int,
        tolerance: float,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self._sizes = checked_length("training", tuple(training)), checked_length("holdout", tuple(holdout))
        check_separate(training, holdout)
        self._training, self._holdout = copied(training), copied(holdout)
        self._noise = HoldoutNoise(
            num_rows=self._sizes[1], epsilon=epsilon, delta=delta, max_overfits=max_overfits, tolerance=tolerance
        )
        self._noise.check_tolerance()
        check_budget(budget)
        self._budget, self._source, self._lock = budget, source_or_default(source), threading.RLock()
        assumptions = (_ROWS_ALONE, *assumptions_of(self._source))
        self.event = events.QualifiedEvent(self._noise.event, Relation.REPLACE, Unit.example(), assumptions)
        self._times, self._process = 0, os.getpid()
        self.reopen()

    def reopen(self) -> None:
        """Start again with ``max_overfits`` overfits, on the same rows. It costs as much as the first time.

        The budget is charged again, and refuses if too little is left. ``guarantee`` is then that of all answers so
        far and of those to come. What `proven_width` proves gets weaker accordingly.
        """
        if self._process != os.getpid():
            raise Unsupported(
                "a holdout that belongs to another process: each would answer separately",
                "Share answers, not the holdout",
            )
        with self._lock:
            receipt = self._charge()
            self._times, self.receipt, self._num_released = self._times + 1, receipt, 0
            self.guarantee: Guarantee = self._noise.guarantee(self._times, self.event.assumptions)
            self._session = self._noise.threshold.start(self.tolerance, self._source)

    def _charge(self) -> Receipt | None:
        if self._budget is None:
            return None
        charge = Charge(event=self.event, purpose="reusable holdout", delta=self._noise.delta or None)
        reservation = self._budget.reserve(charge)
        reservation.commit()
        return receipt_of(reservation, self._noise.guarantee(1, self.event.assumptions))

    @classmethod
    def most_overfits(cls, num_rows: int, *, epsilon: float, tolerance: float, delta: float = 0.0) -> int:
        """Return the largest ``max_overfits`` that the tolerance allows; 0 if even one overfit has too much noise.

        >>> settings = {"epsilon": 1.0, "tolerance": 0.05}
        >>> [ReusableHoldout.most_overfits(rows, **settings) for rows in (100_000, 200_000)]
        [333, 667]
        >>> [ReusableHoldout.most_overfits(rows, delta=1e-6, **settings) for rows in (100_000, 200_000)]
        [1483, 5935]

        Args:
            num_rows: The number of held-out rows.
            epsilon: As for the holdout.
            tolerance: As for the holdout.
            delta: As for the holdout.
        """
        check_probability("tolerance", tolerance)
        return most_overfits(num_rows, epsilon=epsilon, delta=delta, tolerance=tolerance)

    @property
    def tolerance(self) -> float:
        """How far the two means may differ."""
        return self._noise.tolerance

    @property
    def remaining(self) -> int:
        """How many more times the holdout's mean can be released."""
        return self._noise.max_overfits - self._num_released

    @property
    def noise_scale(self) -> float:
        """The scale of the noise on released values: of Laplace noise, or the standard deviation for delta > 0."""
        return self._noise.value.noise_scale

    @quiet_numpy
    def ask(self, query: Query) -> HoldoutAnswer:
        """Return the mean of a query's values over the rows.

        Args:
            query: A function of the columns that returns a number in [0, 1], or a boolean, for each row. Arrays that
                it gets are read-only: write `x = x - 3`, not `x -= 3`.

        Returns:
            The answer, and whether it comes from the holdout.

        Raises:
            BudgetExceeded: The holdout's mean has been released ``max_overfits`` times.
        """
        training_mean = mean_of(row_values(query, unchangeable(self._training)), self._sizes[0])
        with self._lock:  # no other thread may ask between the check and the count
            if not self.remaining > 0:  # before the query touches the holdout
                raise BudgetExceeded(
                    f"max_overfits={self._noise.max_overfits}: the holdout's mean has been released that often",
                    "reopen() continues with the same rows and costs epsilon again; new rows cost nothing",
                )
            holdout_mean = mean_of(safe_row_values(query, self._holdout, self._sizes[1]), self._sizes[1])
            return self._compare(training_mean, holdout_mean)

    def _compare(self, training_mean: float, holdout_mean: float) -> HoldoutAnswer:
        """Return the training mean if the holdout agrees, otherwise the holdout's with noise; the lock is held."""
        if not self._session.ask(abs(holdout_mean - training_mean)):
            return HoldoutAnswer(training_mean, False)
        self._num_released += 1
        if self.remaining and not self._session.remaining:
            self._session = self._noise.threshold.start(self.tolerance, self._source)
        value = float(self._noise.value.release(holdout_mean, self._source).value)
        return HoldoutAnswer(min(max(value, 0.0), 1.0), True)

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied."""
        raise Unsupported("a reusable holdout cannot be copied or pickled: a copy would answer twice")

    def proven_width(self, num_queries: int, confidence: float = 0.95) -> float:
        """Return a bound on how far ``num_queries`` answers can be from the population's means.

        It holds however the queries are chosen. It is 1 if it is vacuous, i.e. if nothing is proven: `explain` says so.

        Args:
            num_queries: The number of queries.
            confidence: The confidence that all answers are within the bound.

        Returns:
            The width, at most 1.

        References:
            Jung et al. 2020, Theorem 3.5, with the constant of `Guarantee.generalization`.
        """
        return self._noise.proven_width(
            self._times, check_count("num_queries", num_queries), check_confidence("confidence", confidence)
        )

    def affordable_queries(self, width: float, confidence: float = 0.95) -> int:
        """Return how many adaptive queries have a `proven_width` of at most ``width``; at most 10^15, and 0 if none.

        Of these, at most ``max_overfits`` may find that the two means differ.
        """
        check_probability("width", width)
        low, high = 0, 1  # low is affordable, high is not once the first loop is done
        while high <= _MOST_QUERIES and self.proven_width(high, confidence) <= width:
            low, high = high, 2 * high
        high = min(high, _MOST_QUERIES + 1)
        while high - low > max(low // 1000, 1):  # three digits are enough
            middle = (low + high) // 2
            low, high = (middle, high) if self.proven_width(middle, confidence) <= width else (low, middle)
        return low

    def explain(self, num_queries: int, confidence: float = 0.95) -> str:
        """Return what is proven about that many adaptive queries, in plain English, beside the split-data baseline."""
        proven = self.proven_width(num_queries, confidence)
        split = split_width(self._sizes[1], num_queries, confidence)
        claim = f"With confidence {confidence:g}, {num_queries:,} adaptive answers"
        text = f"{claim} are within {proven:.3g} of the population."
        if not proven < 1:
            text = f"{claim} have no proven distance to the population: the bound is vacuous."
        baseline = f"Splitting the rows, one part for each question, proves {split:.3g}."
        if not split < 1:
            baseline = "Splitting the rows, one part for each question, proves nothing either."
        if not proven < 1 or proven >= split:
            baseline += " Use a smaller epsilon, more rows or fewer queries" + (
                ", or split the rows (SplitHoldout)." if split < 1 else "."
            )
        return textwrap.fill(f"{text} {baseline}", 100)
