"""Subsample and aggregate: make any computation private by running it on disjoint blocks of the data.

    records   each put into one of ``num_blocks`` blocks at random, independently of all others
    results   of your function on each block, cleaned: one record changes at most one of them
    release   a private aggregate of the results: their mean, median or most common value

The function is a black box: it may fail on some blocks, and needs no privacy proof.
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
from hush.guarantee import Guarantee, Relation, Unit
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.mechanisms.noise import Laplace
from hush.mechanisms.selection import ReportNoisyMax
from hush.mechanisms.smooth_sensitivity import SmoothCauchy, SmoothLaplace
from hush.numerics import check_bounds, quiet_numpy, round_up
from hush.randomness import RandomSource, source_or_default, uniform_below


class Aggregator(Protocol):
    """Turns the results of ``num_blocks`` blocks into a private result. One record can change one of them."""

    def mechanism(self, num_blocks: int) -> Mechanism:
        """Return the mechanism that protects one of the results."""

    def clean(self, result: Any) -> float:
        """Return a block's result as a number that the aggregator accepts, or a fixed number if it is unusable."""

    def aggregate(self, mechanism: Any, results: NDArray[np.float64], source: RandomSource) -> Any:
        """Return the private aggregate."""


@dataclass(frozen=True, kw_only=True)
class MeanOfResults:
    """The mean of results within public bounds, with Laplace noise. Use it if results are close to Gaussian.

    >>> from hush.randomness import TestSource
    >>> mechanism = SubsampleAggregate.mean(np.median, num_blocks=50, epsilon=2.0, bounds=(0, 100))
    >>> abs(mechanism.release(np.linspace(20, 40, 5000), TestSource(1)).value - 30) < 10
    True
    """

    epsilon: float
    bounds: tuple[float, float]

    def __post_init__(self) -> None:
        """Check the bounds and copy them, so that they cannot be changed afterwards."""
        object.__setattr__(self, "bounds", check_bounds(self.bounds))

    def mechanism(self, num_blocks: int) -> Mechanism:
        """Return Laplace noise for a mean of which one term can change."""
        lower, upper = self.bounds
        # Each result and their sum are rounded, by a few units in the last place of the largest.
        slack = 4 * 2.0**-52 * (abs(lower) + abs(upper))
        # A record changes one of the m results, and so their mean by at most width / m. The number of blocks is public,
        # so the relation is replacement whatever the data's own is.
        return Laplace(
            epsilon=self.epsilon, sensitivity=round_up((upper - lower) / num_blocks + slack), relation=Relation.REPLACE
        )

    def clean(self, result: Any) -> float:
        """Return the result clamped to the bounds, or their middle for NaN."""
        return _number_within(result, self.bounds)

    def aggregate(self, mechanism: Any, results: NDArray[np.float64], source: RandomSource) -> Any:
        """Return the noisy mean."""
        # fsum rounds once, which keeps the error within the slack of `mechanism`, in any order of the blocks.
        return mechanism.release(math.fsum(results) / len(results), source).value


@dataclass(frozen=True, kw_only=True)
class MedianOfResults:
    """The median of results within public bounds, by smooth sensitivity. It is robust against blocks that fail.

    With ``delta`` = 0 the noise is `SmoothCauchy`'s, otherwise `SmoothLaplace`'s.

    >>> MedianOfResults(epsilon=2.0, bounds=(0, 100)).mechanism(num_blocks=50).guarantee().delta
    0.0
    """

    epsilon: float
    bounds: tuple[float, float]
    delta: float = 0.0

    def __post_init__(self) -> None:
        """Check the bounds and copy them, so that they cannot be changed afterwards."""
        object.__setattr__(self, "bounds", check_bounds(self.bounds))

    def mechanism(self, num_blocks: int) -> Mechanism:
        """Return the smooth sensitivity mechanism."""
        # Cauchy noise has a pure guarantee and heavy tails; Laplace noise has light tails and needs a delta.
        if self.delta == 0:
            return SmoothCauchy(epsilon=self.epsilon, bounds=self.bounds, relation=Relation.REPLACE)
        return SmoothLaplace(epsilon=self.epsilon, delta=self.delta, bounds=self.bounds, relation=Relation.REPLACE)

    def clean(self, result: Any) -> float:
        """Return the result clamped to the bounds, or their middle for NaN."""
        return _number_within(result, self.bounds)

    def aggregate(self, mechanism: Any, results: NDArray[np.float64], source: RandomSource) -> Any:
        """Return the noisy median."""
        return mechanism.median(results, source).value


@dataclass(frozen=True, kw_only=True)
class MostCommonResult:
    """The most common result, from a public list of possible results, by report-noisy-max.

    >>> from hush.randomness import TestSource
    >>> mechanism = SubsampleAggregate.most_common(max, num_blocks=50, epsilon=2.0, values=("cat", "dog"))
    >>> mechanism.release(["cat"] * 500 + ["dog"] * 500, TestSource(1)).value
    'dog'
    """

    epsilon: float
    values: Sequence[Any]

    def __post_init__(self) -> None:
        """Copy the values, so that they cannot be changed afterwards."""
        object.__setattr__(self, "values", tuple(self.values))

    def mechanism(self, num_blocks: int) -> Mechanism:
        """Return report-noisy-max over the counts; one count can fall by 1 while another grows by 1."""
        if not len(self.values) >= 1:
            raise InvalidArgument("values", self.values, "at least one possible result")
        return ReportNoisyMax(epsilon=self.epsilon, sensitivity=1.0, relation=Relation.REPLACE)

    def clean(self, result: Any) -> float:
        """Return the position of the result in the list, or -1 if it is not there."""
        for position, value in enumerate(self.values):
            if bool(np.all(value == result)):
                return position
        return -1

    def aggregate(self, mechanism: Any, results: NDArray[np.float64], source: RandomSource) -> Any:
        """Return the chosen value."""
        # A changed result leaves one count and enters another, or none if it is not in the list.
        counts = np.bincount(results[results >= 0].astype(np.int64), minlength=len(self.values))
        return self.values[mechanism.release(counts, source).value]


def _number_within(result: Any, bounds: tuple[float, float]) -> float:
    """Return the result clamped to the bounds, or their middle for NaN."""
    # A fixed number for blocks that fail, which depends on public bounds only.
    middle = bounds[0] + (bounds[1] - bounds[0]) / 2
    number = float(result)
    return min(max(number, bounds[0]), bounds[1]) if number == number else middle


@dataclass(frozen=True, kw_only=True)
class SubsampleAggregate(Mechanism):
    """Run ``function`` on ``num_blocks`` disjoint random blocks of the records and aggregate its results privately.

    The function takes a block of records and returns a number (or, for `most_common`, any value). If it raises or
    returns something unusable, the block counts with a fixed value. Its running time is not hidden. The class methods
    `mean`, `median` and `most_common` choose how the results are aggregated.

    >>> from hush.randomness import TestSource
    >>> mechanism = SubsampleAggregate.median(np.mean, num_blocks=50, epsilon=2.0, bounds=(0, 100))
    >>> round(mechanism.release(np.linspace(20, 40, 5000), TestSource(1)).value)
    30

    Guarantee:
        The aggregator's guarantee for one changed result. Each record is assigned to a block independently of all
        others, so adding, removing or replacing a record changes one block.

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

    @classmethod
    def mean(
        cls,
        function: Callable[[Any], Any],
        *,
        num_blocks: int,
        epsilon: float,
        bounds: tuple[float, float],
        relation: Relation = Relation.ADD_OR_REMOVE,
        unit: Unit = Unit.example(),
    ) -> SubsampleAggregate:
        """Aggregate by the mean, with Laplace noise. Use it if results are close to Gaussian.

        Args:
            function: Takes a block of records and returns a number.
            num_blocks: The number of blocks.
            epsilon: The epsilon of the aggregate.
            bounds: Public bounds, to which results are clamped.
            relation: How neighbouring datasets differ.
            unit: The privacy unit.
        """
        rule = MeanOfResults(epsilon=epsilon, bounds=bounds)
        return cls(function=function, num_blocks=num_blocks, aggregator=rule, relation=relation, unit=unit)

    @classmethod
    def median(
        cls,
        function: Callable[[Any], Any],
        *,
        num_blocks: int,
        epsilon: float,
        bounds: tuple[float, float],
        delta: float = 0.0,
        relation: Relation = Relation.ADD_OR_REMOVE,
        unit: Unit = Unit.example(),
    ) -> SubsampleAggregate:
        """Aggregate by the median, by smooth sensitivity: with a delta, the noise has light tails.

        Args:
            function: Takes a block of records and returns a number. The median tolerates blocks on which it fails.
            num_blocks: The number of blocks.
            epsilon: The epsilon of the aggregate.
            bounds: Public bounds, to which results are clamped.
            delta: The delta of the aggregate: 0 for the noise of `SmoothCauchy`, more for that of `SmoothLaplace`.
            relation: How neighbouring datasets differ.
            unit: The privacy unit.
        """
        rule = MedianOfResults(epsilon=epsilon, bounds=bounds, delta=delta)
        return cls(function=function, num_blocks=num_blocks, aggregator=rule, relation=relation, unit=unit)

    @classmethod
    def most_common(
        cls,
        function: Callable[[Any], Any],
        *,
        num_blocks: int,
        epsilon: float,
        values: Sequence[Any],
        relation: Relation = Relation.ADD_OR_REMOVE,
        unit: Unit = Unit.example(),
    ) -> SubsampleAggregate:
        """Aggregate by the most common result, from a public list, by `ReportNoisyMax`.

        Args:
            function: Takes a block of records and returns one of the values.
            num_blocks: The number of blocks.
            epsilon: The epsilon of the aggregate.
            values: The possible results. Others are not counted.
            relation: How neighbouring datasets differ.
            unit: The privacy unit.
        """
        rule = MostCommonResult(epsilon=epsilon, values=values)
        return cls(function=function, num_blocks=num_blocks, aggregator=rule, relation=relation, unit=unit)

    def _prepare(self) -> None:
        check_count("num_blocks", self.num_blocks)
        if not callable(self.function):
            raise InvalidArgument("function", self.function, "a function of a list of records")
        rules = (MeanOfResults, MedianOfResults, MostCommonResult)
        check_instance("aggregator", self.aggregator, rules, "Use SubsampleAggregate.mean, median or most_common")
        self._set(_inner=self.aggregator.mechanism(self.num_blocks))

    def _promise(self) -> Guarantee:
        # Given the assignment, neighbours differ in one result; averaging over assignments keeps the guarantee (Nissim,
        # Raskhodnikova & Smith 2007, Section 4).
        inner: Guarantee = self._inner.guarantee()
        return self._claim(
            inner.epsilon,
            inner.delta,
            f"subsample and aggregate, {inner.method}",
            "the function keeps no state and has no side effects",
        )

    def _describe(self) -> events.Event:
        inner: Guarantee = self._inner.guarantee()
        return events.ApproximateDPEvent(inner.epsilon, inner.delta)

    @quiet_numpy
    def release(self, records: Any, source: RandomSource | None = None) -> Release[Any]:
        """Return the private aggregate of the function's results on the blocks.

        Args:
            records: A list or an array of records. An array is passed on to the function as an array.
            source: The random bits; by default the process's own source.
        """
        random_source = source_or_default(source)
        if not isinstance(records, (Sequence, np.ndarray)) or (isinstance(records, np.ndarray) and records.ndim == 0):
            raise InvalidArgument("records", type(records).__name__, "a list or an array of records")
        # Blocks are drawn for each record independently. With blocks of equal size, adding a record would shift others.
        blocks = uniform_below(random_source, self.num_blocks, len(records))
        # Records sorted by block, and split where the block changes. Blocks may be empty.
        order = np.argsort(blocks, kind="stable")
        edges = np.searchsorted(blocks[order], np.arange(1, self.num_blocks))
        results = np.array([self._result(records, part) for part in np.split(order, edges)])
        return self._released(self.aggregator.aggregate(self._inner, results, random_source), random_source)

    def accuracy(self, *args: Any, **settings: Any) -> float:
        """Return a bound on the distance from the exact aggregate of the blocks' results.

        The arguments are those of the aggregator's mechanism: `Laplace.accuracy` for `mean`,
        `SmoothCauchy.accuracy` for `median`, and `ReportNoisyMax.accuracy`, in numbers of blocks, for `most_common`.
        """
        return float(self._inner.accuracy(*args, **settings))

    def _result(self, records: Any, indices: NDArray[np.int64]) -> float:
        """Return the cleaned result of the function on one block."""
        block = records[indices] if isinstance(records, np.ndarray) else [records[i] for i in indices.tolist()]
        try:
            # What a block returns, raises or warns about is private. It must not decide whether there is an answer.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.aggregator.clean(self.function(block))
        except (Exception, SystemExit):
            return self.aggregator.clean(math.nan)
