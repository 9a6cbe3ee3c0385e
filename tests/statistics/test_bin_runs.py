"""Bounds from runs of bins: found where no single bin stands out, and not found in noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.statistics import BinRuns, LogHistogram

BINS = LogHistogram(num_bins=61, zero_bin=True)


def learned(noisy: np.ndarray, noise_stddev: float) -> list[tuple[float, float] | None]:
    bounds = BinRuns(BINS, noise_stddev).learn(noisy)
    return [None if math.isnan(lower) else (lower, upper) for lower, upper in bounds.tolist()]


def test_noise_alone_is_not_taken_for_data() -> None:
    rng = np.random.default_rng(3)
    bounds = learned(rng.normal(size=(1500, BINS.size)) * 50, 50.0)
    # False alarms: expected 1.5 at most, P(Poisson(1.5) >= 16) = 2e-11. The control has 90 +- 9.
    assert sum(pair is not None for pair in bounds) < 16
    bounds = learned(rng.normal(size=(1500, BINS.size)) * 65, 50.0)
    assert sum(pair is not None for pair in bounds) >= 16  # the control: noise that is larger than it says


@pytest.mark.parametrize(
    ("sign", "expected"), [(0, {(-2, 2), (-4, 4)}), (1, {(0, 2), (0, 4)}), (-1, {(-2, 0), (-4, 0)})]
)
def test_data_of_which_no_bin_stands_out_are_found(sign: int, expected: set[tuple[float, float]]) -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=20_000)
    values = sign * np.abs(values) if sign else values
    counts = BINS.counts(values)
    noise = counts.max() / 4.0  # below the threshold of single bins, which is above 5
    bounds = learned(counts + rng.normal(size=(200, BINS.size)) * noise, noise)
    near = [pair for pair in bounds if pair is not None and 0.5 <= max(np.abs(pair)) <= 8]
    assert len(near) > 150  # over 8 seeds 178 +- 4; P(Binomial(200, 0.89) <= 150) = 5e-8
    assert max(set(bounds), key=bounds.count) in expected


def test_a_strong_run_shows_where_it_begins_and_a_weak_one_does_not() -> None:
    far_from_zero = BINS.counts(np.geomspace(70.0, 900.0, 4_000))
    assert learned(far_from_zero, 20.0) == [(64.0, 1024.0)]  # four bins of 1,000: each stands out
    weak = far_from_zero / 250.0  # four bins of 4 standard deviations: the run stands out, and no bin
    assert learned(weak, 1.0) == [(0.0, 1024.0)]


def test_zero_alone_is_no_interval() -> None:
    assert learned(BINS.counts(np.zeros(1_000)), 10.0) == [None]
    assert learned(BINS.counts(np.array([0.0] * 1_000 + [3.0] * 500)), 10.0) == [(0.0, 4.0)]


def test_bins_without_a_zero_bin_have_the_same_runs() -> None:
    values = np.random.default_rng(1).normal(size=5_000)
    plain = LogHistogram(num_bins=61)
    bounds = BinRuns(plain, 30.0).learn(plain.counts(values)).tolist()
    assert bounds == BinRuns(BINS, 30.0).learn(BINS.counts(values)).tolist()
