"""Approximate bounds of a column: they hold most values, and no empty bins."""

from __future__ import annotations

import math

import numpy as np
import pytest

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
