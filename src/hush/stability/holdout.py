"""A held-out set that can be queried many times without being overfitted (Thresholdout).

query > mean over training rows, mean over holdout rows > AboveThreshold on their difference
> agree: the training mean, for free     > differ: the holdout mean with Laplace noise, from a fixed number
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import ApproximateDPEvent, events
from hush.accounting.budget import Budget, Charge
from hush.accounting.receipts import Receipt, check_budget, receipt_of
from hush.errors import InvalidArgument, check_count, check_fraction, check_positive
from hush.guarantee import Guarantee, Relation, Unit
from hush.mechanisms import AboveThreshold, Laplace
from hush.numerics import number_or_nan, quiet_numpy, round_down, round_up
from hush.randomness import RandomSource, assumptions_of, source_or_default

Query = Callable[..., Any]
Floats = NDArray[np.float64]

_STEPS = float(1 << 30)  # values are multiples of 1 / this: sums of up to 2^23 of them are exact in double precision
_MAX_ROWS = 1 << 23
_COMPARISON_SHARE = 0.5  # the share of epsilon for comparisons; the rest is for releasing values


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

    A held-out set that is reused becomes a second training set: models chosen by it fit it by chance. Here, an answer
    is the mean over the *training* rows, as long as the holdout's mean is within ``tolerance`` of it, up to noise. Only
    if they differ, and at most ``max_overfits`` times, the holdout's mean is released, with noise. So the answers
    reveal little about any row of the holdout, and it stays representative of the population.

    Use it to compare many models, features or thresholds on a few thousand rows. The tolerance must be well above
    ``noise_scale``, which falls with the number of rows.

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
        training: The columns of the training rows, such as (X, y).
        holdout: The same columns of the held-out rows.
        epsilon: The epsilon of all answers together.
        max_overfits: How often the holdout's mean may be released.
        tolerance: How far the two means may differ before the holdout's mean is released.
        budget: A budget to charge with epsilon, once. ``receipt`` then says what is left of it.
        source: The source of noise. Pass a TestSource in tests only.

    Guarantee:
        epsilon-differential privacy of the holdout for all answers together, under replacement of one row. It implies
        accuracy for the population that the rows are drawn from: see `proven_width`.

    Assumes:
        A query's value for a row depends on this row and on released answers only (the caller's duty). Values are
        clamped to [0, 1]; NaN counts as 0, and so does a row on which the query fails (checked here). The held-out rows
        were not used before, are not training rows, and are accessed through this object only (the caller's duty).
        Their number is public.

    References:
        Dwork, Feldman, Hardt, Pitassi, Reingold & Roth 2015, Thresholdout. Variant: the comparisons are those of
        `AboveThreshold`, whose noise is smaller (Lyu, Su & Li 2017), with a single threshold. Jung et al. 2020,
        Theorem 3.5 (from samples to the population).
    """

    def __init__(
        self,
        training: Sequence[Any],
        holdout: Sequence[Any],
        *,
        epsilon: float,
        max_overfits: int,
        tolerance: float,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self._training, self._holdout = tuple(training), tuple(holdout)
        self._sizes = _length("training", self._training), _length("holdout", self._holdout)
        self.epsilon, self.tolerance = check_positive("epsilon", epsilon), check_fraction("tolerance", tolerance)
        count, self._source = check_count("max_overfits", max_overfits), source_or_default(source)
        # One replaced row changes the mean by 1 / n; the margin covers rounding of the exact sum's quotient.
        sensitivity = round_up((1 + 1e-6) / self._sizes[1])
        # Basic composition: comparisons, and at most `count` values, add up to epsilon; both are rounded down.
        comparison_epsilon = round_down(self.epsilon * _COMPARISON_SHARE)
        stated: dict[str, Any] = {"relation": Relation.REPLACE, "unit": Unit.example()}
        self._threshold = AboveThreshold(epsilon=comparison_epsilon, sensitivity=sensitivity, count=count, **stated)
        value_epsilon = round_down((self.epsilon - comparison_epsilon) / count)
        self._value = Laplace(epsilon=value_epsilon, sensitivity=sensitivity, **stated)
        assumptions = ("queries treat each row on its own", *assumptions_of(self._source))
        self.event = events.QualifiedEvent(
            ApproximateDPEvent(self.epsilon), Relation.REPLACE, Unit.example(), assumptions
        )
        self.guarantee = Guarantee(
            epsilon=self.epsilon, delta=0.0, method="reusable holdout", assumptions=assumptions, **stated
        )
        check_budget(budget)
        self.receipt: Receipt | None = None
        if budget is not None:
            reservation = budget.reserve(Charge(event=self.event, purpose="reusable holdout", delta=None))
            reservation.commit()
            self.receipt = receipt_of(reservation, self.guarantee)
        self._session = self._threshold.start(self.tolerance, self._source)

    @property
    def remaining(self) -> int:
        """How many more times the holdout's mean can be released."""
        return self._session.remaining

    @property
    def noise_scale(self) -> float:
        """The scale of the Laplace noise on released values."""
        return self._value.noise_scale

    @quiet_numpy
    def ask(self, query: Query) -> HoldoutAnswer:
        """Return the mean of a query's values over the rows.

        Args:
            query: A function of the columns that returns a number in [0, 1], or a boolean, for each row.

        Returns:
            The answer, and whether it comes from the holdout.

        Raises:
            BudgetExceeded: The holdout's mean has been released ``max_overfits`` times.
        """
        training_mean = _mean(_values(query(*self._training)), self._sizes[0])
        if not self.remaining > 0:
            self._session.ask(0.0)  # raises BudgetExceeded before the query touches the holdout
        holdout_mean = _mean(self._holdout_values(query), self._sizes[1])
        if not self._session.ask(abs(holdout_mean - training_mean)):
            return HoldoutAnswer(training_mean, False)
        value = float(self._value.release(holdout_mean, self._source).value)
        return HoldoutAnswer(min(max(value, 0.0), 1.0), True)

    def _holdout_values(self, query: Query) -> Floats:
        """Return a query's values for the holdout. If it fails, run it row by row, with 0 for rows that fail."""
        try:
            return _values(query(*self._holdout))
        except Exception:  # any error, if it got out, would reveal something about a row
            row_values = [self._row_value(query, row) for row in range(self._sizes[1])]
            return np.array(row_values, dtype=np.float64)

    def _row_value(self, query: Query, row: int) -> float:
        try:
            (value,) = _values(query(*(column[row : row + 1] for column in self._holdout)))
        except Exception:
            return 0.0
        return float(value)

    def proven_width(self, num_queries: int, confidence: float = 0.95) -> float:
        """Return a bound on how far ``num_queries`` answers can be from the population's means.

        It holds however the queries are chosen. The bound is wide: with 10,000 rows it is too loose to serve as a
        measurement. Only from about 100,000 rows on is it dominated by the noise and the tolerance.

        Args:
            num_queries: The number of queries.
            confidence: The confidence that all answers are within the bound.

        Returns:
            The width, at most 1.
        """
        check_count("num_queries", num_queries)
        error = 1 - check_fraction("confidence", confidence)
        # Jung et al. 2020, Theorem 3.5: sample width at error c * error, plus e^epsilon - 1, plus c; minimised over c.
        shift = math.expm1(self.epsilon)
        widths = [self._sample_width(num_queries, c * error) + shift + c for c in np.logspace(-4, -0.5, 50)]
        return min([1.0, *map(float, widths)])

    def _sample_width(self, num_queries: int, error: float) -> float:
        """Return how far all answers are from the holdout's means, except with probability ``error``."""
        comparison_width = self._threshold.accuracy(num_queries, 1 - error / 2)
        value_width = self._value.accuracy(1 - error / (2 * self._threshold.count))
        return max(self.tolerance + comparison_width, value_width)


def _values(answers: Any) -> Floats:
    """Return a query's answers as floats, with NaN for anything that is not a number."""
    values = np.asarray(answers)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    return np.array([number_or_nan(value) for value in values.ravel().tolist()], dtype=np.float64).reshape(values.shape)


def _mean(values: Floats, size: int) -> float:
    """Return the mean of values clamped to [0, 1], exact except for one rounding. NaN counts as 0."""
    if values.shape != (size,):
        raise InvalidArgument("query", "a function", "one number for each row", "The number of rows is public")
    # Integers up to 2^30, added at most 2^23 times, stay below 2^53: the sum is exact, whatever the order.
    steps: Floats = np.trunc(np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0) * _STEPS)
    return float(steps.sum()) / (_STEPS * size)


def _length(name: str, columns: tuple[Any, ...]) -> int:
    sizes = {len(column) for column in columns}
    if len(sizes) != 1 or not 1 <= (size := sizes.pop()) <= _MAX_ROWS:
        raise InvalidArgument(name, "columns", f"columns of equal length, between 1 and {_MAX_ROWS}")
    return size
