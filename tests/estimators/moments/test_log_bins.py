"""Learned bounds of all columns: counts in bins, and agreement with hush.statistics."""

from __future__ import annotations

import math

import numpy as np

from hush.estimators.moments.log_bins import BINS, bins_plan, learned_bounds
from hush.randomness import TestSource
from hush.statistics import EachRow, LaplaceNoise, approximate_bounds


def test_counts_in_bins():
    powers = 2.0 ** np.arange(-40, 60)
    odd = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-320, 1e308]
    values = np.concatenate([powers, -powers, np.nextafter(powers, 0), np.nextafter(powers, math.inf), odd])
    ends = 2.0 ** np.arange(-20, 42)
    for column, counts in zip(np.stack([values, -values]), BINS.counts(np.stack([values, -values], 1)), strict=True):
        known = column[~np.isnan(column)]
        bins = np.searchsorted(ends[:-1], np.abs(known))
        assert counts.tolist() == np.bincount(np.where(known < 0, 61 - bins, 62 + bins), minlength=124).tolist()


def test_bounds_are_those_of_statistics():
    rows = np.random.default_rng(0).normal(size=(4000, 3)) * [1e-3, 1.0, 1e6] + [0, 5, 0]
    lower, upper = learned_bounds(rows, bins_plan(5.0), TestSource(1))
    for column, low, high in zip(rows.T, lower, upper, strict=True):
        alone = approximate_bounds(column, units=EachRow(), epsilon=5.0, noise=LaplaceNoise(), source=TestSource(2))
        assert alone.noise_scale == bins_plan(5.0).block_scales[0]
        assert alone.bounds[1] == high or abs(math.log2(alone.bounds[1] / high)) == 1
        assert np.sign(alone.bounds[0]) == np.sign(low)
