"""Smooth bounds, distances and thresholds, against what the definitions say on every small dataset."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from hush.errors import InvalidArgument
from hush.guarantee import Relation
from hush.mechanisms import (
    MeanOfResults,
    MedianOfResults,
    MostCommonResult,
    NoisyLocalSensitivity,
    ProposeTestRelease,
    SmoothCauchy,
    SmoothLaplace,
    StableValue,
    SubsampleAggregate,
    median_distance,
)
from hush.randomness import TestSource

VALUES = (0.0, 1.0, 3.0, 4.0)
BOUNDS = (0.0, 4.0)
REPLACE = Relation.REPLACE


def median(records: tuple[float, ...]) -> float:
    return sorted(records)[(len(records) - 1) // 2]


def neighbours(records: tuple[float, ...]) -> set[tuple[float, ...]]:
    """All multisets that differ in one record, as sorted tuples."""
    return {tuple(sorted((*records[:i], value, *records[i + 1 :]))) for i in range(len(records)) for value in VALUES}


@cache
def local_sensitivity(records: tuple[float, ...]) -> float:
    return max(abs(median(other) - median(records)) for other in neighbours(records))


def datasets(size: int) -> list[tuple[float, ...]]:
    return list(itertools.combinations_with_replacement(VALUES, size))


def distance(one: tuple[float, ...], other: tuple[float, ...]) -> int:
    return len(one) - sum(min(one.count(v), other.count(v)) for v in VALUES)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "mechanism",
    [
        SmoothCauchy(epsilon=3.0, bounds=BOUNDS, relation=REPLACE),
        SmoothLaplace(epsilon=3.0, delta=1e-3, bounds=BOUNDS, relation=REPLACE),
        SmoothCauchy(epsilon=0.1, bounds=BOUNDS, relation=REPLACE),
    ],
)
def test_the_bound_is_smooth_and_bounds(size: int, mechanism: SmoothCauchy | SmoothLaplace) -> None:
    bound = {records: mechanism.smooth_bound_of_median(np.array(records)) for records in datasets(size)}
    for records in bound:
        assert bound[records] >= local_sensitivity(records)
        for other in neighbours(records):
            assert bound[records] <= math.exp(mechanism.beta) * bound[other] * (1 + 1e-12)
        exact = max(math.exp(-mechanism.beta * distance(records, other)) * local_sensitivity(other) for other in bound)
        assert bound[records] == pytest.approx(exact, rel=1e-9), "the smallest smooth bound there is"


def test_local_sensitivity_is_not_smooth() -> None:
    """The twin: with the local sensitivity in its place the law above fails."""
    violated = [
        (one, other)
        for one in datasets(5)
        for other in neighbours(one)
        if local_sensitivity(one) > math.exp(0.5) * local_sensitivity(other)
    ]
    assert violated


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("proposed", [0.0, 0.5, 1.0, 2.0, 3.0, 4.0])
def test_the_distance_of_a_median(size: int, proposed: float) -> None:
    for records in datasets(size):
        found = median_distance(records, BOUNDS, proposed)
        exact = [distance(records, other) for other in datasets(size) if local_sensitivity(other) > proposed]
        assert found == (min(exact) if exact else size + 1)


def passing(threshold: int, scale: float) -> float:
    """P(k >= threshold) for discrete Laplace noise."""
    return math.exp(-threshold / scale) / (1 + math.exp(-1 / scale))


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01, 0.4])
def test_tests_pass_by_luck_no_more_often_than_delta(epsilon: float, delta: float) -> None:
    for mechanism in (
        ProposeTestRelease(epsilon=epsilon, delta=delta, proposed_bound=1.0),
        StableValue(epsilon=epsilon, delta=delta),
    ):
        assert passing(mechanism._threshold, mechanism._scale) <= delta
        if mechanism._threshold > 1:
            assert passing(mechanism._threshold - 1, mechanism._scale) > delta, "no later than needed"


def test_values_next_to_another_one_are_not_released() -> None:
    """At distance 1 a neighbour has another value: released as often as delta allows, not as e^epsilon delta."""
    mechanism = StableValue(epsilon=2.0, delta=0.05)
    source = TestSource(21)
    released = sum(mechanism.release("x", 1, source).value is not None for _ in range(10_000))
    assert released <= binom.isf(1e-7, 10_000, 0.05)  # false alarms: 1e-7 at most
    assert mechanism.release("x", 1000, source).value == "x"


def test_what_is_far_from_trouble_is_released() -> None:
    for mechanism in (
        ProposeTestRelease(epsilon=1.0, delta=1e-6, proposed_bound=1.0),
        StableValue(epsilon=1.0, delta=1e-6),
    ):
        source = TestSource(22)
        needed = mechanism.distance_needed(0.9)
        results = [mechanism.release(3.0, needed, source).value for _ in range(2000)]
        assert sum(result is not None for result in results) >= binom.ppf(1e-7, 2000, 0.9)  # false alarms: 1e-7


def test_the_noisy_bound_is_rarely_too_small() -> None:
    mechanism = NoisyLocalSensitivity(epsilon=1.0, delta=0.02, bound_sensitivity=0.5)
    source = TestSource(23)
    bounds = np.array([mechanism.release(7.0, 3.0, source).value[1] for _ in range(10_000)])
    assert (bounds < 3.0).sum() <= binom.isf(1e-7, 10_000, 0.02)  # false alarms: 1e-7
    # Half a unit is e^0.5 times as probable, 0.033: P(Binomial(10000, 0.033) <= 200) = 4e-15.
    assert (bounds < 3.0 + 0.5).mean() > 0.02, "and not larger than needed"


def test_medians_need_a_public_number_of_records() -> None:
    with pytest.raises(InvalidArgument, match="^relation="):
        SmoothCauchy(epsilon=1.0, bounds=(0, 1)).median([0.5])
    with pytest.raises(InvalidArgument, match="^records.shape="):
        SmoothCauchy(epsilon=1.0, bounds=(0, 1), relation=REPLACE).median([])
    with pytest.raises(InvalidArgument, match="^records.shape="):
        median_distance([], (0, 1), 0.5)


@pytest.mark.parametrize("bounds", [(1, 0), (0, 0), (0, math.inf), (math.nan, 1), 5, (1, 2, 3), ("a", "b"), None])
def test_bounds_are_two_public_numbers(bounds: Any) -> None:
    with pytest.raises(InvalidArgument, match="^bounds="):
        SmoothCauchy(epsilon=1.0, bounds=bounds)
    with pytest.raises(InvalidArgument, match="^bounds="):
        SubsampleAggregate(function=max, num_blocks=3, aggregator=MeanOfResults(epsilon=1.0, bounds=bounds))


def test_each_record_is_in_one_block() -> None:
    seen: list[int] = []

    def remember(block: list[int]) -> float:
        seen.extend(block)
        return 0.0

    aggregator = MedianOfResults(epsilon=1.0, bounds=(0, 1))
    SubsampleAggregate(function=remember, num_blocks=7, aggregator=aggregator).release(list(range(500)))
    assert sorted(seen) == list(range(500))


def test_blocks_that_fail_say_nothing() -> None:
    """A function that raises on some blocks, prints warnings on others: an answer all the same, and silence."""

    def moody(block: Any) -> float:
        if len(block) % 2:
            raise RuntimeError(f"record {block[0]}")
        return float(np.log(np.array([-1.0]))[0])

    mechanism = SubsampleAggregate(
        function=moody, num_blocks=9, aggregator=MeanOfResults(epsilon=1.0, bounds=(0.0, 10.0))
    )
    assert math.isfinite(mechanism.release(list(range(100))).value)


def test_aggregators_find_what_most_blocks_say() -> None:
    # All blocks say 30: their means have the standard deviation 0.4, and 25 to 35 are rounded to it. Then noise is all
    # that chance decides: Laplace of scale 0.25 for the mean, P(> 5) = e^-20; Cauchy of scale 1e-10 for the median;
    # 200 votes to none for the most common result, e^-200.
    data = np.random.default_rng(1).normal(30, 4, 20_000)
    found = [
        SubsampleAggregate(
            function=lambda block: 10 * round(float(np.mean(block)) / 10), num_blocks=200, aggregator=aggregator
        ).release(data, TestSource(1))
        for aggregator in (
            MeanOfResults(epsilon=2.0, bounds=(0, 100)),
            MedianOfResults(epsilon=2.0, bounds=(0, 100)),
            MostCommonResult(epsilon=2.0, values=range(0, 101, 10)),
        )
    ]
    assert found[0].value == pytest.approx(30, abs=5)
    assert found[1].value == pytest.approx(30, abs=1e-3)
    assert found[2].value == 30
