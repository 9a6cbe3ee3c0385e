"""Approximate bounds of a column: they hold most values, and no empty bins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

import hush.statistics as hs
from hush.errors import InvalidArgument
from hush.randomness import TestSource


def test_they_hold_most_values_and_no_empty_bins() -> None:
    values = np.concatenate([np.random.default_rng(1).uniform(1, 900, 4_700), np.full(300, -2.5)])
    result = hs.approximate_bounds(
        values, units=range(5_000), epsilon=1.0, scale=1.0, num_bins=16, source=TestSource(1)
    )
    assert result.bounds == (-4, 1024)
    few = hs.approximate_bounds(values[:5], units=range(5), epsilon=1.0, source=TestSource(1))
    assert few.bounds is None


def test_empty_bins_pass_as_rarely_as_stated() -> None:
    runs = [
        hs.approximate_bounds([], units=[], epsilon=1.0, scale=1.0, num_bins=4, success=0.9, source=TestSource(seed))
        for seed in range(800)
    ]
    wrong = sum(run.bounds is not None for run in runs)
    # 8 empty bins here; the threshold is for 7. False alarms: P(Binomial(800, 0.1135) > 151) = 2e-10.
    assert wrong <= 151


def test_a_unit_with_many_rows_counts_as_one() -> None:
    units = [0] * 5_000 + list(range(1, 201))
    values = [1e9] * 5_000 + [3.0] * 200
    result = hs.approximate_bounds(values, units=units, epsilon=1.0, source=TestSource(1))
    # A bin of one unit passes the loosest threshold, 18, with probability e^-17 / 2 = 2e-8.
    assert result.bounds == (2.0, 4.0)
    assert result.noise_scale == pytest.approx(1.0)
    twice = hs.approximate_bounds(values, units=units, epsilon=1.0, rows_per_unit=2, source=TestSource(1))
    assert twice.noise_scale == pytest.approx(2.0)


@pytest.mark.parametrize("wrong", [{"scale": 0.0}, {"base": 1.0}, {"num_bins": 5001}, {"success": 0.0}])
def test_bins_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument):
        hs.approximate_bounds([1.0], units=[1], epsilon=1.0, **wrong)  # type: ignore[arg-type]


def test_infinity_is_in_the_last_bin_and_nan_in_none() -> None:
    values = [math.inf] * 300 + [math.nan] * 300
    result = hs.approximate_bounds(values, units=range(600), epsilon=1.0, scale=1.0, num_bins=4, source=TestSource(1))
    assert result.bounds == (4.0, 8.0)


def test_worked_example_of_the_notes() -> None:
    # Five values up to 1, four in (4, 8], and the threshold 3.51 on whole counts. The chance of (0, 8) is that 5 + X
    # and 4 + Y are at least 4, and 4 empty bins are not: .901 * .731 * .987^4 = .624. With real-valued noise it is .58.
    values = [0.0] * 4 + [1.0] + [7.0] + [8.0] * 3
    runs = [
        hs.approximate_bounds(
            values, units=range(9), epsilon=1.0, scale=1.0, num_bins=4, success=0.9, source=TestSource(seed)
        ).bounds
        for seed in range(1500)
    ]
    # False alarms: |share - p| > 5 sqrt(p (1 - p) / 1500) has probability below 1e-6, and the keys are fixed.
    assert abs(np.mean([run == (0, 8) for run in runs]) - 0.624) < 0.063
    assert abs(np.mean([run is None for run in runs]) - 0.026) < 0.021


def test_thresholds_are_the_least_whole_counts_that_keep_the_promise() -> None:
    for noise, chance_above in (
        (hs.LaplaceNoise(), lambda k, b: math.exp(-(k + 1) / b) / (1 + math.exp(-1 / b))),
        (hs.GaussianNoise(), lambda k, b: ndtr(-(k + 0.5) / b)),
    ):
        for epsilon in (0.05, 0.3, 1.0, 4.0):
            bins = hs.LogHistogram(scale=1.0, num_bins=4)
            plan = hs.plan_noise((bins.block(),), groups_per_unit=1, epsilon=epsilon, delta=1e-6, noise=noise)
            for success in (0.9, 1 - 1e-9):
                (threshold,) = hs.OccupiedBins.for_noise(bins, plan, (success,)).thresholds
                allowed = -math.expm1(math.log(success) / 7)
                assert chance_above(threshold, plan.block_scales[0]) <= allowed * (1 + 1e-9)
                assert chance_above(threshold - 1, plan.block_scales[0]) > allowed
