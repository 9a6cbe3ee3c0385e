"""Notices bounds that leave data out, from a noisy histogram of what lies around an interval.

The bins on either side of an interval of width w end at distances of w, 3 w, 7 w, ...: each is twice as wide as the one
before. A unit counts in at most one bin: in none, if its number is inside. So the histogram costs what any other does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

NUM_BINS = 16  # on either side: up to 65,535 widths
_FALSE_ALARM = 5e-3  # the probability with which noise alone widens one side, most often by one width
_LEFT_OUT = 0.02  # the share of units that may be left out: outliers, which would make everything else look the same


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterBins:
    """What lies around an interval.

    >>> around = OuterBins(lower=0.0, upper=1.0)
    >>> counts = around.counts(np.array([0.5] * 60 + [2.5] * 40 + [np.nan]))
    >>> around.wider_bounds(counts, noise_stddev=1.0, num_units=100)
    (0.0, 4.0)

    Attributes:
        lower: The lower end of the interval.
        upper: The upper end of the interval.
    """

    lower: float
    upper: float

    def counts(self, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count numbers below the interval, from near to far, and then those above it. NaN is not counted."""
        middle, half = self.lower / 2 + self.upper / 2, self.upper / 2 - self.lower / 2
        known = numbers[~np.isnan(numbers)]
        with np.errstate(all="ignore"):  # infinite numbers are in the last bins, and warnings would depend on the data
            widths = (np.abs(known / 2 - middle / 2) - half / 2) / half
            bins = np.floor(np.log2(np.maximum(widths, 0.0) + 1.0))
        places = np.nan_to_num(bins, nan=0.0, posinf=NUM_BINS - 1).clip(0, NUM_BINS - 1).astype(np.int64)
        is_below, is_above = known < self.lower, known > self.upper
        sides = [np.bincount(places[side], minlength=NUM_BINS) for side in (is_below, is_above)]
        return np.concatenate(sides).astype(np.int64)

    def wider_bounds(self, noisy: NDArray[np.float64], noise_stddev: float, num_units: int) -> tuple[float, float]:
        """Return bounds that leave out few units, as far as the noise tells; the interval, if it is wide enough.

        Args:
            noisy: The counts with Gaussian noise.
            noise_stddev: Its standard deviation.
            num_units: How many units there are, which is public.
        """
        below, above = (self._reach(side, noise_stddev, num_units) for side in (noisy[:NUM_BINS], noisy[NUM_BINS:]))
        width = self.upper - self.lower
        lower, upper = self.lower - width * below, self.upper + width * above
        return (lower, upper) if math.isfinite(upper - lower) else (self.lower, self.upper)

    def _reach(self, counts: NDArray[np.float64], noise_stddev: float, num_units: int) -> float:
        """Return by how many widths to widen one side: up to the furthest run of bins whose sum rises above the noise.

        The nearest bins come first, and each run begins beyond the last one that was seen. So data that are spread over
        several bins show, and the noise of empty ones beyond them does not hide them.
        """
        num_reached = 0
        for last in range(NUM_BINS):
            sums = np.cumsum(counts[num_reached : last + 1][::-1])  # of the runs that end here
            noise = noise_stddev * np.sqrt(np.arange(1, len(sums) + 1))
            if (sums > np.maximum(_threshold(last) * noise, _LEFT_OUT * num_units)).any():
                num_reached = last + 1
        return 2.0**num_reached - 1


@lru_cache(maxsize=NUM_BINS)
def _threshold(last: int) -> float:
    """Return how many standard deviations of noise the sum of a run must exceed that ends with this bin.

    The further the bin, the wider a false alarm makes the interval, and the smaller its probability has to be: it
    halves with each bin, and is divided among the runs that end there (a union bound).
    """
    return -float(ndtri(_FALSE_ALARM / 2.0 ** (last + 1) / (last + 1)))
