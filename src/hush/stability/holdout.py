"""A holdout that survives being asked many times (Thresholdout)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import ApproximateDPEvent, events
from hush.accounting.budget import Budget, Charge
from hush.errors import InvalidArgument, check_count, check_fraction, check_positive
from hush.guarantee import Guarantee, Relation, Unit
from hush.mechanisms import AboveThreshold, Laplace
from hush.numerics import quiet_numpy, round_down, round_up
from hush.randomness import RandomSource, assumptions_of, source_or_default

Query = Callable[..., Any]
Floats = NDArray[np.float64]

_STEPS = float(1 << 30)  # values are counted in these: sums of 2^23 of them are exact in double precision
_MOST_ROWS = 1 << 23
_COMPARING = 0.5  # the part of epsilon that comparisons cost; the rest is for values


@dataclass(frozen=True, slots=True)
class HoldoutAnswer:
    """An answer of a `ReusableHoldout`.

    Attributes:
        value: The mean over the holdout, with noise; or that over the training rows, where the two agree.
        overfitted: Whether they did not agree: the value is then the holdout's.
    """

    value: float
    overfitted: bool


class ReusableHoldout:
    """Rows that are held out, and can be asked about models that were chosen in view of earlier answers.

    A holdout that is looked at again and again is a second training set: what is chosen by it fits it by chance. Here
    an answer is the mean over the *training* rows, as long as the holdout's is within ``tolerance`` of it, up to noise;
    only where they differ, and ``max_overfits`` times at most, is the holdout's own mean told, with noise. So the
    holdout gives away little about any of its rows, and that is why it stays representative of the population.

    Choose it where many models, features or thresholds are compared on a few thousand rows. It needs a tolerance well
    above ``noise_scale``, which falls with the number of rows.

    Guarantee:
        epsilon-differential privacy of the holdout for all answers together, when one row is replaced by another. And
        for the population that its rows are independent draws from: see `proven_width`.

    Assumes:
        A query's value for a row depends on that row alone, and on what was released (the caller's duty; values are
        clamped to [0, 1], NaN is 0, and so is a row on which the query fails: checked here). The holdout's rows were
        not used before, are no training rows, and
        are seen through this object only (the caller's duty). Their number is public.

    References:
        Dwork, Feldman, Hardt, Pitassi, Reingold & Roth 2015, Thresholdout; variant: the comparisons are those of
        `AboveThreshold`, whose noise is smaller (Lyu, Su & Li 2017), for one threshold throughout. Jung et al. 2020,
        Theorem 3.5 (from samples to the population).

    Args:
        training: Columns of rows that may be looked at, such as (X, y).
        holdout: The same of those that may not.
        epsilon: For all that is ever answered.
        max_overfits: How often the holdout's own mean may be told.
        tolerance: How far it may be from the training rows' before it is.
        budget: What is charged with epsilon, once.
        source: Of noise, for tests.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x, y = np.zeros(20_000), np.arange(20_000) % 2
    >>> seen, unseen = (x[:10_000], np.zeros(10_000)), (x[10_000:], y[10_000:])
    >>> holdout = ReusableHoldout(seen, unseen, epsilon=1.0, max_overfits=5, tolerance=0.1, source=TestSource(1))
    >>> answer = holdout.ask(lambda x, y: y == 0)
    >>> answer.overfitted, round(answer.value, 1), holdout.remaining
    (True, 0.5, 4)
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
        reach = round_up((1 + 1e-6) / self._sizes[1])  # a mean of exact sums, rounded once
        comparing = round_down(self.epsilon * _COMPARING)
        stated: dict[str, Any] = {"relation": Relation.REPLACE, "unit": Unit.example()}
        self._threshold = AboveThreshold(epsilon=comparing, sensitivity=reach, count=count, **stated)
        each = round_down((self.epsilon - comparing) / count)
        self._value = Laplace(epsilon=each, sensitivity=reach, **stated)
        assumptions = ("queries treat each row by itself", *assumptions_of(self._source))
        self.event = events.QualifiedEvent(
            ApproximateDPEvent(self.epsilon), Relation.REPLACE.value, str(Unit.example()), assumptions
        )
        self.guarantee = Guarantee(
            epsilon=self.epsilon, delta=0.0, method="reusable holdout", assumptions=assumptions, **stated
        )
        if budget is not None:
            budget.reserve(Charge(event=self.event, purpose="reusable holdout", delta=None)).commit()
        self._session = self._threshold.start(self.tolerance, self._source)

    @property
    def remaining(self) -> int:
        """How often the holdout's own mean can still be told."""
        return self._session.remaining

    @property
    def noise_scale(self) -> float:
        """The scale of the noise on values."""
        return self._value.noise_scale

    @quiet_numpy
    def ask(self, query: Query) -> HoldoutAnswer:
        """Return the mean of a query's values.

        Raises `BudgetExceeded` once the holdout was told ``max_overfits`` times.

        Args:
            query: Takes the columns, and returns a number in [0, 1], or a truth value, for each row.
        """
        seen = _mean(_values(query(*self._training)), self._sizes[0])
        if not self.remaining > 0:
            self._session.ask(0.0)  # it refuses: nothing more is asked of the holdout
        unseen = _mean(self._unseen(query), self._sizes[1])
        if not self._session.ask(abs(unseen - seen)):
            return HoldoutAnswer(seen, False)
        value = float(self._value.release(unseen, self._source).value)
        return HoldoutAnswer(min(max(value, 0.0), 1.0), True)

    def _unseen(self, query: Query) -> Floats:
        """Return a query's values for the holdout; where it fails, row by row: 0 for those of which it does."""
        try:
            return _values(query(*self._holdout))
        except Exception:  # whatever it is: an error would tell something of a row
            each = [self._alone(query, place) for place in range(self._sizes[1])]
            return np.array(each, dtype=np.float64)

    def _alone(self, query: Query, place: int) -> float:
        try:
            (value,) = _values(query(*(column[place : place + 1] for column in self._holdout)))
        except Exception:
            return 0.0
        return float(value)

    def proven_width(self, num_queries: int, confidence: float = 0.95) -> float:
        """Return how far, with this confidence, all of so many answers are from the population's means at most.

        It holds for every way to choose queries, and is wide: at 10,000 rows rather a warning than a measure. What
        noise and tolerance alone do to the holdout's own means is most of it only from some 100,000 rows on.
        """
        check_count("num_queries", num_queries)
        wrong = 1 - check_fraction("confidence", confidence)
        shift = math.expm1(self.epsilon)
        widths = [self._sample_width(num_queries, share * wrong) + shift + share for share in np.logspace(-4, -0.5, 50)]
        return min([1.0, *map(float, widths)])

    def _sample_width(self, num_queries: int, wrong: float) -> float:
        """Return how far all answers are from the holdout's own means, but for a probability of ``wrong``."""
        judged = self._threshold.accuracy(num_queries, 1 - wrong / 2)
        told = self._value.accuracy(1 - wrong / (2 * self._threshold.count))
        return max(self.tolerance + judged, told)


def _values(found: Any) -> Floats:
    """Return values as numbers; what is none is NaN."""
    values = np.asarray(found)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    return np.array([_number(value) for value in values.ravel().tolist()], dtype=np.float64).reshape(values.shape)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _mean(values: Floats, size: int) -> float:
    """Return the mean of values within [0, 1], exact but for one rounding; NaN counts as 0."""
    if values.shape != (size,):
        raise InvalidArgument("query", "a function", "one number for each row", "The number of rows is public")
    steps: Floats = np.trunc(np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0) * _STEPS)
    return float(steps.sum()) / (_STEPS * size)


def _length(name: str, columns: tuple[Any, ...]) -> int:
    sizes = {len(column) for column in columns}
    if len(sizes) != 1 or not 1 <= (size := sizes.pop()) <= _MOST_ROWS:
        raise InvalidArgument(name, "columns", f"one or more of equal length, between 1 and {_MOST_ROWS}")
    return size
