"""Closer bounds within an interval: around the data, and not around noise."""

from __future__ import annotations

import numpy as np
import pytest

from hush.statistics import EvenBins

BINS = EvenBins(lower=0.0, upper=64.0)


def test_each_number_counts_in_one_part() -> None:
    counts = BINS.counts(np.array([0.0, 0.5, 1.0, 63.9, 64.0, -5.0, 1e300, np.inf, -np.inf, np.nan]))
    assert counts.sum() == 9  # NaN is in no part
    assert (counts[0], counts[1], counts[-1]) == (4, 1, 4)
    wide = EvenBins(lower=-1.7e308, upper=1.7e308)  # the difference of the ends is infinite
    assert np.flatnonzero(wide.counts(np.array([-1.7e308, 0.0, 1.7e308]))).tolist() == [0, 32, 63]


def test_bounds_are_close_to_the_data() -> None:
    counts = np.zeros(64)
    counts[20:30] = 1000.0
    assert BINS.closer_bounds(counts, 10.0) == (15.0, 35.0)  # ten parts, and five on either side
    counts[0] = 1000.0
    assert BINS.closer_bounds(counts, 10.0) == (0.0, 45.0)  # never beyond the interval
    assert BINS.closer_bounds(np.zeros(64), 10.0) is None


def test_noise_alone_is_not_taken_for_data() -> None:
    noise = np.random.default_rng(1).normal(size=(3000, 64)) * 50
    # False alarms: expected 3 at most, P(Poisson(3) >= 20) = 2e-10. The control has 300 and more.
    assert sum(BINS.closer_bounds(row, 50.0) is not None for row in noise) < 20
    assert sum(BINS.closer_bounds(row, 40.0) is not None for row in noise) >= 20  # larger noise than it says


@pytest.mark.parametrize("lower", [1.0, 2.0**53])
def test_an_interval_without_room_stays_as_it_is(lower: float) -> None:
    narrow = EvenBins(lower=lower, upper=float(np.nextafter(lower, np.inf)))
    closer = narrow.closer_bounds(np.array([1000.0] + [0.0] * 63), 1.0)
    assert closer is None or closer == (narrow.lower, narrow.upper)
