"""Subsample and aggregate: blocks are disjoint, failures are silent, aggregates find the common result."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hush.errors import InvalidArgument
from hush.mechanisms import SubsampleAggregate
from hush.mechanisms.subsample import MostCommonResult
from hush.randomness import TestSource


@pytest.mark.parametrize("bounds", [(1, 0), (0, 0), (0, math.inf), (math.nan, 1), 5, (1, 2, 3), ("a", "b"), None])
def test_bounds_are_two_public_numbers(bounds: Any) -> None:
    with pytest.raises(InvalidArgument, match="^bounds="):
        SubsampleAggregate.mean(max, num_blocks=3, epsilon=1.0, bounds=bounds)


def test_each_record_is_in_one_block() -> None:
    seen: list[int] = []

    def remember(block: list[int]) -> float:
        seen.extend(block)
        return 0.0

    SubsampleAggregate.median(remember, num_blocks=7, epsilon=1.0, bounds=(0, 1)).release(list(range(500)))
    assert sorted(seen) == list(range(500))


def test_blocks_that_fail_reveal_nothing() -> None:
    """A function that raises on some blocks and warns on others: there is an answer, and no warning."""

    def moody(block: Any) -> float:
        if len(block) % 2:
            raise RuntimeError(f"record {block[0]}")
        return float(np.log(np.array([-1.0]))[0])

    mechanism = SubsampleAggregate.mean(moody, num_blocks=9, epsilon=1.0, bounds=(0.0, 10.0))
    assert math.isfinite(mechanism.release(list(range(100))).value)


def test_aggregators_find_the_common_result() -> None:
    # The result of every block is 30: block means have the standard deviation 0.4, and 25 to 35 are rounded to 30. So
    # chance decides about the noise only: Laplace of scale 0.25 for the mean, P(> 5) = e^-20; Cauchy of scale 1e-10
    # for the median; 200 votes to none for the most common result, e^-200.
    data = np.random.default_rng(1).normal(30, 4, 20_000)

    def tens(block: Any) -> int:
        return 10 * round(float(np.mean(block)) / 10)

    common: dict[str, Any] = {"num_blocks": 200, "epsilon": 2.0}
    mechanisms = (
        SubsampleAggregate.mean(tens, **common, bounds=(0, 100)),
        SubsampleAggregate.median(tens, **common, bounds=(0, 100)),
        SubsampleAggregate.most_common(tens, **common, values=range(0, 101, 10)),
    )
    releases = [mechanism.release(data, TestSource(1)) for mechanism in mechanisms]
    assert releases[0].value == pytest.approx(30, abs=5)
    assert releases[1].value == pytest.approx(30, abs=1e-3)
    assert releases[2].value == 30


def test_bounds_cannot_be_changed_afterwards() -> None:
    bounds: Any = [0.0, 1.0]
    values = ["a"]
    mean = SubsampleAggregate.mean(max, num_blocks=1, epsilon=1.0, bounds=bounds)
    common = MostCommonResult(epsilon=1.0, values=values)
    bounds[1] = 1e6
    values.append("b")
    assert mean.release([1e6]).value < 1000  # 1 with Laplace noise of scale 1: false alarms exp(-999) / 2
    assert common.values == ("a",)


def test_functions_cannot_end_the_process() -> None:
    def leave(block: Any) -> float:
        raise SystemExit("secret")

    SubsampleAggregate.mean(leave, num_blocks=2, epsilon=1.0, bounds=(0, 1)).release([1, 2])


def test_results_outside_the_list_are_not_counted() -> None:
    aggregator = MostCommonResult(epsilon=50.0, values=("a", "b"))
    assert [aggregator.clean(result) for result in ("a", "b", "c", None)] == [0, 1, -1, -1]
    mechanism = SubsampleAggregate.most_common(max, num_blocks=20, epsilon=50.0, values=("a", "b"))
    assert mechanism.release(["b", "a"] * 50 + ["c"], TestSource(1)).value == "b"
    with pytest.raises(InvalidArgument, match="^values="):
        SubsampleAggregate.most_common(max, num_blocks=3, epsilon=1.0, values=())


@pytest.mark.parametrize("records", [5, {1, 2}, np.array(3.0), None])
def test_records_are_a_sequence(records: Any) -> None:
    mechanism = SubsampleAggregate.mean(np.mean, num_blocks=2, epsilon=1.0, bounds=(0, 1))
    with pytest.raises(InvalidArgument, match="^records="):
        mechanism.release(records)


def test_the_function_and_the_aggregator_are_checked() -> None:
    with pytest.raises(InvalidArgument, match="^function="):
        SubsampleAggregate.mean(3, num_blocks=2, epsilon=1.0, bounds=(0, 1))
    with pytest.raises(InvalidArgument, match="^aggregator="):
        SubsampleAggregate(function=max, num_blocks=2, aggregator=np.mean)
