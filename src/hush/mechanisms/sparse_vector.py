"""The sparse vector technique: find the queries in a stream whose value is above a threshold, and pay only for those.

    start   draw the threshold's noise, once for the whole session
    ask     add fresh noise to the query's value and compare with the noisy threshold
    above   count a positive answer; `NumericSparseVector` also returns the value, with noise drawn for it alone
    end     after ``count`` positive answers the session refuses further queries

This is the correct algorithm, where each of the three noises has its share of epsilon. Published variants that are not
private (Lyu, Su & Li 2017, Algorithms 3 to 6) do not scale the queries' noise, add none, or release the noisy value
that was compared. The tests show an attack on each of them.
"""

from __future__ import annotations

import math
import os
import threading
from dataclasses import dataclass, field
from typing import Any, NoReturn

from hush.accounting import events
from hush.errors import BudgetExceeded, InvalidArgument, Unsupported, check_confidence, check_count, check_positive
from hush.guarantee import Guarantee
from hush.mechanisms.integer_noise import check_integer_scale
from hush.mechanisms.mechanism import Mechanism, SensitivityType
from hush.mechanisms.sensitivity import Monotone, score_assumption, score_moves
from hush.numerics import as_floats, quiet_numpy, round_up
from hush.randomness import Grid, RandomSource, discrete_laplace, source_or_default


@dataclass(frozen=True, kw_only=True)
class AboveThreshold(Mechanism):
    """Say for each query whether its value is above a threshold, until ``count`` queries have been above.

    `start` opens a session. The session as a whole costs epsilon, however many queries you ask. Queries may depend on
    earlier answers. Known as the sparse vector technique (SVT).

    >>> from hush.randomness import TestSource
    >>> session = AboveThreshold(epsilon=100.0, count=2).start(threshold=10.0, source=TestSource(1))
    >>> session.ask(3.0), session.ask(25.0), session.remaining
    (False, True, 1)

    Guarantee:
        epsilon-differential privacy, delta = 0, for the whole session.

    Assumes:
        Every query's value moves by at most ``sensitivity`` between neighbours. If it is `Monotone`, all values move
        in the same direction (the caller's duty). Thresholds are public (the caller's duty). At most ``count`` answers
        are positive (checked here: the session ends).

    References:
        Dwork & Roth 2014, Algorithm 2; Lyu, Su & Li 2017, Algorithm 7 and Theorem 4 (monotone: 5), with the
        allocation of their Section 4.2, on the integers of a grid with discrete Laplace noise.
    """

    sensitivity_type = SensitivityType.LINF

    epsilon: float
    sensitivity: float | Monotone = 1.0
    count: int = 1
    _grid: Grid = field(init=False, repr=False, compare=False)
    _scales: tuple[float, float, float] = field(init=False, repr=False, compare=False)

    def _prepare(self) -> None:
        check_positive("epsilon", self.epsilon)
        largest_change, directions = score_moves(self.sensitivity, self.relation)
        check_count("count", self.count)
        events.LaplaceEvent(1 / self.epsilon)
        # Lyu, Su & Li 2017, Theorem 4: epsilon = D / t_1 + 2 c D / t_2 + c D / t_3 for the threshold, the queries and
        # the released values (Theorem 5: without the 2 for monotone queries).
        factor = directions * self.count
        for_comparisons = self.epsilon * (1 - self._numeric_share())
        for_threshold = for_comparisons / (1 + factor ** (2 / 3))  # minimises the variance of a comparison
        for_queries = for_comparisons - for_threshold
        grid = Grid.for_scale(factor * largest_change / for_queries)
        step = math.ceil(largest_change / grid.spacing) + 1  # rounding a query adds one step
        numeric = self.count * step / (self.epsilon * self._numeric_share()) if self._numeric_share() else 0.0
        scales = (round_up(step / for_threshold), round_up(factor * step / for_queries), round_up(numeric))
        check_integer_scale(max(scales))
        self._set(_grid=grid, _scales=scales)

    def _numeric_share(self) -> float:
        return 0.0

    def _promise(self) -> Guarantee:
        return self._claim(
            self.epsilon,
            0.0,
            "sparse vector technique",
            score_assumption("query's value", self.sensitivity),
        )

    def _describe(self) -> events.Event:
        return events.ApproximateDPEvent(self.epsilon)

    def start(self, threshold: float, source: RandomSource | None = None) -> ThresholdSession:
        """Open a session. The threshold's noise is drawn here, once.

        Args:
            threshold: A public number.
            source: The random bits; by default the process's own source.
        """
        return ThresholdSession(self, threshold, source_or_default(source))

    def accuracy(self, num_queries: int, confidence: float = 0.95) -> float:
        """Return a margin: with this confidence, every value further from the threshold is answered correctly."""
        share = (1 - check_confidence("confidence", confidence)) / (check_count("num_queries", num_queries) + 1)
        # P(|k| >= m) <= 2 / (1 + e^(-1/t)) e^(-m / t) <= 2 e^(-m / t) for each of the noises.
        threshold, query, _ = self._scales
        return (math.log(2 / share) * (threshold + query) + 3) * self._grid.spacing


class ThresholdSession:
    """A running `AboveThreshold`: it holds the noisy threshold and counts positive answers.

    It belongs to one process and cannot be copied, since two copies would give twice as many positive answers.

    Attributes:
        mechanism: The mechanism that started it.
        remaining: How many positive answers are left.
        guarantee: The guarantee of the whole session.
    """

    def __init__(self, mechanism: AboveThreshold, threshold: float, source: RandomSource) -> None:
        """Draw the threshold's noise. Call `AboveThreshold.start` to get a session."""
        self.mechanism = mechanism
        self.remaining = mechanism.count
        self.guarantee = mechanism.guarantee(source)
        self._source, self._process, self._lock = source, os.getpid(), threading.Lock()
        self._threshold = self._public(threshold)
        self._noise = int(discrete_laplace(source, mechanism._scales[0], 1)[0])

    @quiet_numpy
    def ask(self, value: Any, threshold: float | None = None) -> Any:
        """Return whether the noisy value is at least the noisy threshold.

        Args:
            value: The query's value. NaN counts as 0.
            threshold: A public threshold for this query, if it differs from the session's.

        Raises:
            BudgetExceeded: If ``count`` answers were positive already.
        """
        if self._process != os.getpid():
            raise Unsupported("a session of another process: it would answer twice", "Start a session in each process")
        with self._lock:  # no other thread may ask between the check and the count
            return self._answer(value, threshold)

    def _answer(self, value: Any, threshold: float | None) -> Any:
        """Answer one query; the caller holds the lock."""
        if not self.remaining > 0:
            raise BudgetExceeded(
                f"count={self.mechanism.count} positive answers were given: the session is over",
                "A new session costs epsilon again",
            )
        grid, scales = self.mechanism._grid, self.mechanism._scales
        limit = self._threshold if threshold is None else self._public(threshold)
        exact = float(grid.integers(as_floats("value", value, ())))
        noise = int(discrete_laplace(self._source, scales[1], 1)[0])
        if not int(exact) + noise >= int(limit) + self._noise:  # Python's integers are exact
            return self._negative()
        # Only positive answers are paid for: negative ones share the threshold's noise (Lyu, Su & Li 2017, Theorem 4).
        self.remaining -= 1
        return self._positive(int(exact))

    def _public(self, threshold: float) -> float:
        """Return a public threshold, in steps of the grid."""
        value = as_floats("threshold", threshold, ())
        if not abs(float(value)) < math.inf:
            raise InvalidArgument("threshold", float(value), "a finite number")
        return float(self.mechanism._grid.integers(value))

    def _negative(self) -> Any:
        return False

    def _positive(self, exact: int) -> Any:
        return True

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied."""
        raise Unsupported("a sparse vector session cannot be copied or pickled: a copy would answer twice")


@dataclass(frozen=True, kw_only=True)
class NumericSparseVector(AboveThreshold):
    """`AboveThreshold` that also returns the values, with fresh noise, of the ``count`` queries above the threshold.

    The fraction ``numeric_share`` of epsilon pays for these values.

    >>> from hush.randomness import TestSource
    >>> session = NumericSparseVector(epsilon=100.0).start(threshold=10.0, source=TestSource(1))
    >>> session.ask(3.0), round(session.ask(25.0))
    (None, 25)

    Guarantee:
        epsilon-differential privacy, delta = 0, for all answers and values of the session.

    Assumes:
        As for `AboveThreshold` (the caller's duty; the number of answers is checked here).

    References:
        Dwork & Roth 2014, Algorithm 3 (NumericSparse); Lyu, Su & Li 2017, Algorithm 7 with epsilon_3.
    """

    numeric_share: float = 0.5

    def _numeric_share(self) -> float:
        if not 0 < check_positive("numeric_share", self.numeric_share) < 1:
            raise InvalidArgument("numeric_share", self.numeric_share, "a number in (0, 1)")
        return self.numeric_share

    def start(self, threshold: float, source: RandomSource | None = None) -> NumericSession:
        """Open a session. The threshold's noise is drawn here, once."""
        return NumericSession(self, threshold, source_or_default(source))

    def value_accuracy(self, confidence: float = 0.95) -> float:
        """Return a bound that, with this confidence, the error of one released value does not exceed."""
        error_rate = 1 - check_confidence("confidence", confidence)
        # P(|k| > m) <= e^(-m / t); rounding the value adds a step.
        return (math.log(1 / error_rate) * self._scales[2] + 1) * self._grid.spacing


class NumericSession(ThresholdSession):
    """A running `NumericSparseVector`: `ask` returns a noisy value, or None for a query below the threshold."""

    def _negative(self) -> Any:
        return None

    def _positive(self, exact: int) -> Any:
        # Fresh noise: to release the noisy value that was compared would void the proof (Lyu, Su & Li 2017, Algorithm
        # 3).
        noise = int(discrete_laplace(self._source, self.mechanism._scales[2], 1)[0])
        return float(exact + noise) * self.mechanism._grid.spacing  # rounded once, after the sum
