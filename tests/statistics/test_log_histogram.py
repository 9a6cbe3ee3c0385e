"""Bins by order of magnitude, and the threshold that empty ones stay below."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.errors import InvalidArgument
from hush.randomness import TestSource
from hush.statistics import ExtremeBins, GaussianNoise, LaplaceNoise, LogHistogram, OccupiedBins, plan_noise
from hush.statistics.log_histogram import bounds_threshold

KINDS = [
    LogHistogram(),
    LogHistogram(num_bins=61, zero_bin=True),
    LogHistogram(scale=0.3, base=1.7, num_bins=20),
    LogHistogram(scale=1.0, base=10.0, num_bins=5, zero_bin=True),
]
ODD = [0.0, -0.0, math.inf, -math.inf, 1e-320, -1e-320, 1e308, 2.0**-20, 2.0**41]


@pytest.mark.parametrize("histogram", KINDS, ids=str)
@given(st.sampled_from(ODD) | st.floats(allow_nan=False))
def test_a_number_is_in_its_bin(histogram: LogHistogram, value: float) -> None:
    (index,) = histogram.bins(np.array([value])).tolist()
    lower, upper = histogram.edges[index], histogram.edges[index + 1]
    largest = histogram.ends[-1]
    assert 0 <= index < histogram.size
    assert lower <= min(max(value, -largest), largest) <= upper
    if histogram.zero_bin:
        assert (value == 0) == (index == histogram.num_bins)


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**-1005, 0.75])
def test_powers_of_two_are_binned_by_their_exponent_as_others_by_search(scale: float) -> None:
    histogram = LogHistogram(scale=scale, num_bins=40)
    powers = scale * 2.0 ** np.arange(-5, 50)
    sizes = np.concatenate([powers, np.nextafter(powers, 0), np.nextafter(powers, np.inf), [0.0, np.inf]])
    expected = np.searchsorted(histogram.ends[:-1], sizes)
    assert histogram.bins(sizes).tolist() == (expected + 40).tolist()
    assert histogram.bins(-sizes[sizes > 0]).tolist() == (39 - expected[sizes > 0]).tolist()


def test_counts_of_a_matrix_are_those_of_its_columns() -> None:
    rows = np.random.default_rng(1).normal(size=(70_000, 3)) * [1e-3, 1.0, 1e6]  # more than one chunk
    rows[::7, 1] = math.nan
    for histogram in KINDS:
        counts = histogram.counts(rows)
        assert counts.shape == (3, histogram.size)
        assert counts.sum(axis=1).tolist() == [70_000, 60_000, 70_000]
        for column, column_counts in zip(rows.T, counts, strict=True):
            assert histogram.counts(column)[0].tolist() == column_counts.tolist()
    assert LogHistogram().counts(np.zeros((0, 2))).sum() == 0


def test_the_threshold() -> None:
    # B = 4 bins of each sign, c = 0.9, epsilon = 1: 3.51, not 3.5.
    assert bounds_threshold(1.0, 4, 0.9) == pytest.approx(3.51, abs=5e-3)
    above = 1 - 0.9 ** (1 / 7)
    assert bounds_threshold(1.0, 4, 0.9) == pytest.approx(-math.log(2 * above))


@pytest.mark.parametrize(
    ("noise", "draws"),
    [
        (LaplaceNoise(), lambda rng: rng.laplace(size=(60_000, 7))),
        (GaussianNoise(), lambda rng: rng.normal(size=(60_000, 7))),
    ],
)
def test_empty_bins_stay_below_it_as_often_as_stated(noise: Any, draws: Any) -> None:
    largest = draws(np.random.default_rng(1)).max(axis=1)
    share = float((largest <= bounds_threshold(1.0, 4, 0.9, noise=noise)).mean())
    # False alarms: the standard error is 0.0012; beyond six of them, 2e-9. The control is eight bins instead of seven.
    assert share == pytest.approx(0.9, abs=0.0075)
    assert pytest.approx(0.9, abs=0.0075) != 0.9 ** (8 / 7)


def test_bounds_are_those_of_the_outermost_bins_above_a_threshold() -> None:
    histogram = LogHistogram(scale=1.0, num_bins=3)  # edges -4, -2, -1, 0, 1, 2, 4
    rule = OccupiedBins(histogram, (10.0, 5.0))
    noisy = np.array([[0, 20, 0, 0, 0, 11], [0, 0, 0, 0, 0, 6], [6, 0, 0, 11, 0, 0], [5, 0, 0, 0, 0, 0]])
    # The first passes at the strict level, the second at the loose one; what the third has at the loose level only is
    # not looked at any more; and the last does not exceed 5.
    assert rule.learn(noisy)[:3].tolist() == [[-2.0, 4.0], [2.0, 4.0], [0.0, 1.0]]
    assert np.isnan(rule.learn(noisy)[3]).all()
    assert rule.learn(noisy[:0]).shape == (0, 2)


def test_a_rule_for_noise_has_falling_thresholds() -> None:
    histogram = LogHistogram()
    plan = plan_noise((histogram.block(),), groups_per_unit=1, epsilon=1.0)
    thresholds = OccupiedBins.for_noise(histogram, plan).thresholds
    assert list(thresholds) == sorted(thresholds, reverse=True)
    # On whole counts, a little above or below the threshold for real-valued noise.
    assert abs(thresholds[0] - bounds_threshold(plan.block_scales[0], 62, 1 - 1e-9)) < 1
    noisy = plan.release(histogram.counts(np.full(1_000, 3.0)), TestSource(1))
    assert OccupiedBins.for_noise(histogram, plan).learn(noisy).tolist() == [[2.0, 4.0]]


@pytest.mark.parametrize(
    "settings",
    [
        *({"scale": 0.0}, {"scale": math.nan}, {"base": 1.0}, {"base": math.inf}, {"num_bins": 0}, {"num_bins": 5001}),
        {"base": 1e10, "num_bins": 40},  # beyond the largest float
    ],
)
def test_bins_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        LogHistogram(**settings)


@pytest.mark.parametrize("success", [0.0, 1.0, math.nan, 2.0])
def test_thresholds_need_a_probability(success: float) -> None:
    with pytest.raises(InvalidArgument, match="^success="):
        bounds_threshold(1.0, 4, success)


def test_extremes_keep_the_magnitude_of_one_end_if_only_one_stands_out() -> None:
    """The greatest values are in one bin, the least ones in none that stands out."""
    bins = LogHistogram(scale=1.0, num_bins=8)
    greatest, nothing = np.zeros(bins.size, dtype=np.int64), np.zeros(bins.size, dtype=np.int64)
    greatest[bins.bins(np.array([100.0]))] = 900
    rule = ExtremeBins(bins, scale=10.0)
    assert rule.learn(np.stack([[nothing, greatest]])).tolist() == [[-128.0, 128.0]]
    assert np.isnan(rule.learn(np.stack([[nothing, nothing]]))).all()


@pytest.mark.parametrize("factor", [1, -1])
def test_extremes_mirror_with_the_sign(factor: int) -> None:
    bins = LogHistogram(scale=1.0, num_bins=12)
    small, large = np.full((900, 1), 30.0 * factor), np.full((900, 1), 900.0 * factor)
    least, greatest = (small, large) if factor > 0 else (large, small)
    counts = np.stack([bins.counts(least), bins.counts(greatest)], axis=1)
    low, high = ExtremeBins(bins, scale=10.0).learn(counts)[0]
    assert sorted([low * factor, high * factor]) == [0.0, 1024.0]
