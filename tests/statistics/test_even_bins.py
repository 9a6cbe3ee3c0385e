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


def test_one_part_above_the_noise_is_not_all_the_data() -> None:
    """Numbers that are spread over all parts hide in the noise of each, except for one. Fixed key.

    A rule that goes by single parts would cut nearly all of the interval, and with it nearly all numbers.
    """
    rng = np.random.default_rng(5)
    counts = np.full(64, 56.0)
    counts[3] = 1500.0
    for num_units in (None, int(counts.sum())):
        closer = [BINS.closer_bounds(row, 170.0, num_units=num_units) for row in counts + rng.normal(0, 170, (200, 64))]
        outside = [1 - counts[int(pair[0]) : int(pair[1])].sum() / counts.sum() for pair in closer if pair is not None]
        assert len(outside) > 190  # the one part is seen
        assert np.mean(np.array(outside) > 0.2) < 0.1
        assert np.mean(outside) < 0.05


def test_data_in_few_parts_show_in_spite_of_the_noise_of_all_others() -> None:
    """The sum of the few parts has little noise, and the number of units is public. Fixed key."""
    rng = np.random.default_rng(6)
    counts = np.zeros(64)
    counts[40] = 3600.0
    noisy = counts + rng.normal(0, 170, (200, 64))
    widths = [
        upper - lower for lower, upper in filter(None, (BINS.closer_bounds(n, 170.0, num_units=3600) for n in noisy))
    ]
    assert np.mean(np.array(widths) < 20) > 0.9
    # Half of the numbers may be missing: the count of units then shows nothing, and the interval may stay as it is.
    closer = [BINS.closer_bounds(row, 170.0, num_units=7200) for row in noisy]
    assert all(pair is None or pair[0] <= 40 < 41 <= pair[1] for pair in closer)


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
