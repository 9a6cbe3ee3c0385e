"""Tails of sums of noise, and intervals for ratios and variances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hush.statistics.noise import quotients, reach, variance_ends
from hush.statistics.noise.tails import gaussian_tail, laplace_sum_tail, laplace_tail

RNG = np.random.default_rng(20_26)


def test_tails_are_those_of_sums() -> None:
    draws = RNG.laplace(size=(400_000, 3))
    for weights in ([1.0, 1.0, 1.0], [1.0, 0.5, 0.0], [2.0, 1.999, 0.1], [1.0, 0.0, 0.0]):
        size = np.abs(draws @ weights)
        for wrong in (0.3, 0.05, 0.01):
            share = float((size > reach(laplace_tail, weights, wrong)).mean())
            # False alarms: beyond six standard errors, 2e-9 each of 12 times.
            assert abs(share - wrong) <= 0.03 * wrong + 6 * np.sqrt(wrong / len(draws))
    assert abs(float(gaussian_tail(np.array([3.0, 4.0]), np.array(9.8))) - 0.05) < 1e-3


@pytest.mark.parametrize("tail", [laplace_tail, gaussian_tail])
def test_intervals_of_quotients_agree_with_a_search_of_all_ratios(tail: Any) -> None:
    scales = np.array([1.0, 1.0])
    for noisy in ([[3.0, 9.0]], [[0.5, 30.0]], [[20.0, 0.1]], [[2.0, 1.0]]):
        rows = np.array(noisy)
        low, high = quotients(tail, rows, scales, [0.0, 1.0], [1.0, 1.0], 0.1)
        ratios = np.linspace(0, 1, 20_001)
        size = np.abs(rows[0, 1] - ratios * rows.sum())
        accepted = ratios[tail((np.array([0.0, 1.0]) - ratios[:, None]) * scales, size) >= 0.1]
        assert low[0] <= accepted.min() + 1e-4
        assert high[0] >= accepted.max() - 1e-4


@pytest.mark.parametrize("tail", [laplace_tail, gaussian_tail])
def test_reach_grows_with_confidence_and_scale(tail: Any) -> None:
    assert reach(tail, [1.0, 2.0], 0.01) > reach(tail, [1.0, 2.0], 0.1)
    assert reach(tail, [2.0, 4.0], 0.05) == pytest.approx(2 * reach(tail, [1.0, 2.0], 0.05), rel=1e-9)
    assert reach(tail, [1.0], 0.05) == pytest.approx({laplace_tail: 2.9957, gaussian_tail: 1.9600}[tail], rel=1e-4)


def test_a_denominator_that_may_be_zero_gives_the_full_range() -> None:
    low, high = quotients(laplace_tail, np.array([[5.0, 1.0]]), np.ones(2), [1.0, 0.0], [0.0, 1.0], 0.05, (-2.0, 3.0))
    assert (low[0], high[0]) == (-2.0, 3.0)


def test_variances_are_covered_by_the_intervals_around_their_centres() -> None:
    values = np.array([0.1, 0.3, 0.3, 0.9])
    mean, variance = values.mean(), values.var()

    def exact(rows: Any, centres: Any) -> Any:
        moments = np.square(values[None, :] - centres[:, None]).mean(axis=1)
        return moments, moments

    # The mean is known exactly in the first row, to one part in 20 in the second, and hardly at all in the third.
    low, high = variance_ends(np.array([mean, mean - 0.02, 0.1]), np.array([mean, mean + 0.02, 0.9]), exact)
    assert (low <= variance).all()
    assert (high >= variance).all()
    assert high[0] - low[0] < 1e-4
    assert high[1] - low[1] < 2e-3
    assert (low[2], high[2]) == (0.0, 0.25)


@pytest.mark.parametrize(
    ("scales", "numbers"), [([1.0], [1]), ([1.0, 0.2], [16, 16]), ([3.0, 1.0, 0.4], [1, 8, 30]), ([0.0, 2.0], [4, 3])]
)
def test_tails_of_many_laplace_variables(scales: list[float], numbers: list[int]) -> None:
    rng = np.random.default_rng(5)
    draws = sum(
        scale * rng.laplace(size=(100_000, number)).sum(axis=1) for scale, number in zip(scales, numbers, strict=True)
    )
    deviation = math.sqrt(2 * sum(number * scale**2 for scale, number in zip(scales, numbers, strict=True)))
    sizes = deviation * np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    groups, counts = (np.tile(np.array(column, dtype=np.float64), (5, 1)) for column in (scales, numbers))
    bounds = laplace_sum_tail(groups, counts, sizes)
    for size, bound in zip(sizes, bounds.tolist(), strict=True):
        share = float((draws > size).mean())
        # fixed key: six standard errors. The bound for one term alone is up to 0.003 too large.
        assert share <= bound + 6 * math.sqrt(bound / len(draws))
        assert share >= bound - 0.003 - 6 * math.sqrt(bound / len(draws))


def test_far_tails_of_laplace_variables_are_bounds() -> None:
    one = np.ones((40, 1))
    sizes = np.linspace(0.1, 60.0, 40)
    bounds = laplace_sum_tail(one, one, sizes)
    assert (bounds >= 0.5 * np.exp(-sizes)).all()
    assert (bounds <= 0.5 * np.exp(-sizes) + 0.003).all()
