"""Subsample and aggregate: make any computation private by running it on disjoint blocks of the data.

One record is in one block only, so it changes one of the blocks' results, whatever the computation does; a private
aggregator of these results protects it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hush.accounting import events
from hush.errors import InvalidArgument, check_count, check_instance
from hush.guarantee import Guarantee, Relation
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.mechanisms.noise import Laplace
from hush.mechanisms.selection import ReportNoisyMax
from hush.mechanisms.smooth import SmoothCauchy, SmoothLaplace, check_bounds
from hush.numerics import silent, up
from hush.randomness import RandomSource, source_or_default, uniform_below


class Aggregator(Protocol):
    """Turns the results of ``num_blocks`` blocks, one of which a record may change, into a private one."""

    def mechanism(self, num_blocks: int) -> Mechanism:
        """Return the mechanism that protects one of the results."""

    def clean(self, result: Any) -> float:
        """Return a block's result as a number that the aggregator can take; anything else as a fixed one."""

    def aggregate(self, mechanism: Any, results: NDArray[np.float64], source: RandomSource) -> Any:
        """Return the private aggregate."""


@dataclass(frozen=True, kw_only=True)
class MeanOfResults:
    """The mean of results within public bounds, with Laplace noise. Good where results are close to Gaussian."""

    epsilon: float
    bounds: tuple[float, float]

    def __post_init__(self) -> None:
        """Check the bounds, and keep them as they are now."""
        object.__setattr__(self, "bounds", check_bounds(self.bounds))

    def mechanism(self, num_blocks: int) -> Mechanism:
        """Return Laplace noise for a mean of which one term may change."""
        lower, upper = self.bounds
        # Each result is rounded, and so is their sum: a few units in the last place of the widest.
        slack = 4 * 2.0**-52 * (abs(lower) + abs(upper))
        return Laplace(
            epsilon=self.epsilon, sensitivity=up((upper - lower) / num_blocks + slack), relation=Relation.REPLACE
        )

    def clean(self, result: Any) -> float:
        """Clamp to the bounds; the middle for what is no number."""
        return _number_within(result, self.bounds)

    def aggregate(self, mechanism: Any, results: NDArray[np.float64], source: RandomSource) -> Any:
        """Return the noisy mean."""
        return mechanism.release(math.fsum(results) / len(results), source).value


@dataclass(frozen=True, kw_only=True)
class MedianOfResults:
    """The median of results within public bounds, by smooth sensitivity. Robust against blocks that fail.

    With ``delta`` 0 the noise is Cauchy's, else Laplace's.
    """

    epsilon: float
    bounds: tuple[float, float]
    delta: float = 0.0

    def __post_init__(self) -> None:
        """Check the bounds, and keep them as they are now."""
        object.__setattr__(self, "bounds", check_bounds(self.bounds))

    def mechanism(self, num_blocks: int) -> Mechanism:
        """Return the smooth sensitivity mechanism."""
        if self.delta == 0:
            return SmoothCauchy(epsilon=self.epsilon, bounds=self.bounds, relation=Relation.REPLACE)
        return SmoothLaplace(epsilon=self.epsilon, delta=self.delta, bounds=self.bounds, relation=Relation.REPLACE)

    def clean(self, result: Any) -> float:
        """Clamp to the bounds; the middle for what is no number."""
        return _number_within(result, self.bounds)

    def aggregate(self, mechanism: Any, results: NDArray[np.float64], source: RandomSource) -> Any:
        """Return the noisy median."""
        return mechanism.median(results, source).value


@dataclass(frozen=True, kw_only=True)
class MostCommonResult:
    """The most common result, of a public list of possible ones, by report noisy max."""

    epsilon: float
    values: Sequence[Any]

    def __post_init__(self) -> None:
        """Keep the values as they are now."""
        object.__setattr__(self, "values", tuple(self.values))

    def mechanism(self, num_blocks: int) -> Mechanism:
        """Return report noisy max over the counts, of which one falls by 1 and another one grows by 1."""
        if not len(self.values) >= 1:
            raise InvalidArgument("values", self.values, "at least one possible result")
        return ReportNoisyMax(epsilon=self.epsilon, sensitivity=1.0, relation=Relation.REPLACE)

    def clean(self, result: Any) -> float:
        """Return the position of the result in the list; -1 for others."""
        for position, value in enumerate(self.values):
            if bool(np.all(value == result)):
                return position
        return -1

    def aggregate(self, mechanism: Any, results: NDArray[np.float64], source: RandomSource) -> Any:
        """Return the chosen value."""
        counts = np.bincount(results[results >= 0].astype(np.int64), minlength=len(self.values))
        return self.values[mechanism.release(counts, source).value]


def _number_within(result: Any, bounds: tuple[float, float]) -> float:
    middle = bounds[0] + (bounds[1] - bounds[0]) / 2
    number = float(result)
    return min(max(number, bounds[0]), bounds[1]) if number == number else middle


@dataclass(frozen=True, kw_only=True)
class SubsampleAggregate(Mechanism):
    """Run ``function`` on ``num_blocks`` disjoint random blocks of the records, and aggregate its results privately.

    The function gets a list of records and returns a number (or, for `MostCommonResult`, any value). It may raise, or
    return nonsense, on some blocks: those count as the aggregator's fixed value. It must not pass on anything in any
    other way, and how long it takes is not hidden.

    >>> median = SubsampleAggregate(
    ...     function=np.mean, num_blocks=50, aggregator=MedianOfResults(epsilon=2.0, bounds=(0, 100))
    ... )
    >>> 0 <= median.release(np.linspace(20, 40, 5000)).value <= 100
    True

    Guarantee:
        That of the aggregator for one changed result: each record is put into a block by itself, at random, so adding,
        removing or replacing it changes one block.

    Assumes:
        The function keeps no state between blocks and has no side effects (the caller's duty).

    References:
        Nissim, Raskhodnikova & Smith 2007, Section 4; Smith 2011 (means and medians of block estimates).
    """

    sensitivity_type = SensitivityType.RECORD

    function: Callable[[Any], Any]
    num_blocks: int
    aggregator: Aggregator
    _inner: Any = field(init=False, repr=False, compare=False)

    def _prepare(self) -> None:
        check_count("num_blocks", self.num_blocks)
        if not callable(self.function):
            raise InvalidArgument("function", self.function, "something that can be called with a list of records")
        check_instance("aggregator", self.aggregator, (MeanOfResults, MedianOfResults, MostCommonResult))
        self._set(_inner=self.aggregator.mechanism(self.num_blocks))

    def _promise(self) -> Guarantee:
        inner: Guarantee = self._inner.guarantee()
        return self._claim(
            inner.epsilon,
            inner.delta,
            f"subsample and aggregate, {inner.method}",
            "the function keeps no state and has no side effects",
        )

    def _describe(self) -> events.Event:
        return events.ApproximateDPEvent(self._guarantee_of_inner().epsilon, self._guarantee_of_inner().delta)

    def _guarantee_of_inner(self) -> Guarantee:
        guarantee: Guarantee = self._inner.guarantee()
        return guarantee

    @silent
    def release(self, records: Any, source: RandomSource | None = None) -> Release[Any]:
        """Return the private aggregate of the function's results on the blocks; ``records`` is any sequence."""
        chosen = source_or_default(source)
        if not isinstance(records, (Sequence, np.ndarray)) or (isinstance(records, np.ndarray) and records.ndim == 0):
            raise InvalidArgument("records", type(records).__name__, "a list or an array of records")
        blocks = uniform_below(chosen, self.num_blocks, len(records))
        order = np.argsort(blocks, kind="stable")
        edges = np.searchsorted(blocks[order], np.arange(1, self.num_blocks))
        results = np.array([self._result(records, part) for part in np.split(order, edges)])
        return self._released(self.aggregator.aggregate(self._inner, results, chosen), chosen)

    def accuracy(self, *args: Any, **settings: Any) -> float:
        """Return how far off the exact aggregate of the blocks' results the release is, as its mechanism says.

        For `MeanOfResults` as `Laplace.accuracy`, for `MedianOfResults` as `SmoothCauchy.accuracy`, for
        `MostCommonResult` (in blocks) as `ReportNoisyMax.accuracy`.
        """
        return float(self._inner.accuracy(*args, **settings))

    def _result(self, records: Any, indices: NDArray[np.int64]) -> float:
        block = records[indices] if isinstance(records, np.ndarray) else [records[i] for i in indices.tolist()]
        try:
            # What a block raises or returns is private: it must not decide whether there is an answer.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.aggregator.clean(self.function(block))
        except (Exception, SystemExit):
            return self.aggregator.clean(math.nan)
