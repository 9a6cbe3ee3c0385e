"""Closer bounds within an interval, from a noisy histogram of its equal parts.

Bounds that are powers of two (`LogHistogram`) are wide where numbers are far from zero, such as years or blood
pressures. A second release counts the numbers in equal parts of the interval, and shortens it to where the data are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.statistics.columns import Floats
from hush.statistics.log_histogram import gaussian_bin_threshold, occupied_range

_FALSE_ALARM = 1e-3  # the probability with which noise alone exceeds the threshold in some part
_LEFT_OUT = 0.02  # the share of the numbers that may be outside
_MOST_LEFT_OUT = 0.2  # the share that noise must not hide
_CERTAINTY = 1.6  # standard deviations of the noise: what is outside is below that with probability .945


@dataclass(frozen=True, slots=True, kw_only=True)
class EvenBins:
    """Equal parts of an interval.

    >>> bins = EvenBins(lower=1024.0, upper=2048.0)
    >>> counts = bins.counts(np.linspace(1940, 1999, 6000))
    >>> bins.closer_bounds(counts, noise_stddev=10.0)
    (1904.0, 2032.0)

    Attributes:
        lower: The lower end of the interval.
        upper: The upper end of the interval.
        num_bins: The number of parts.
    """

    lower: float
    upper: float
    num_bins: int = 64

    def counts(self, numbers: Floats) -> NDArray[np.int64]:
        """Count numbers by parts. Those beyond the interval are in the outer parts, and NaN is in none."""
        lower, upper = self.lower, self.upper
        inside = np.clip(numbers[~np.isnan(numbers)], lower, upper)
        # Halves first: the difference of two finite ends may be infinite.
        parts = ((inside / 2 - lower / 2) / (upper / 2 - lower / 2) * self.num_bins).astype(np.int64)
        return np.bincount(np.clip(parts, 0, self.num_bins - 1), minlength=self.num_bins).astype(np.int64)

    def closer_bounds(
        self, noisy: NDArray[np.float64], noise_stddev: float, *, num_units: int | None = None
    ) -> tuple[float, float] | None:
        """Return bounds that are closer to the numbers. None if the noise does not tell where these are.

        One part above the noise shows where some numbers are. It does not show that the others are there, too: numbers
        that are spread over many parts hide in the noise of each. So the interval from the first part above the
        threshold to the last one is extended by half its width on either side, for the tails, and then further, until
        nearly all numbers are in it.

        Args:
            noisy: The counts with Gaussian noise.
            noise_stddev: Its standard deviation.
            num_units: At most how many numbers there are, if that is public: a sum of few counts, which has little
                noise, then shows that few numbers are elsewhere.
        """
        occupied = occupied_range(noisy, gaussian_bin_threshold(_FALSE_ALARM, self.num_bins) * noise_stddev)
        if occupied is None:
            return None
        first, last = occupied
        margin = 1 + (last - first) // 2
        while first - margin > 0 or last + margin + 1 < self.num_bins:
            start, stop = max(first - margin, 0), min(last + 1 + margin, self.num_bins)
            if _holds_nearly_all(noisy, slice(start, stop), noise_stddev, num_units):
                return self._between(start, stop)
            margin *= 2  # few attempts: the best of many would owe more to the noise
        return self.lower, self.upper

    def _between(self, start: int, stop: int) -> tuple[float, float] | None:
        """Return the ends of neighbouring parts. Rounding may leave nothing of a very narrow interval."""
        width = self.upper / self.num_bins - self.lower / self.num_bins  # divided first: the difference may overflow
        lower, upper = self.lower + start * width, self.lower + stop * width
        return (lower, upper) if self.lower <= lower < upper <= self.upper else None


def _holds_nearly_all(noisy: NDArray[np.float64], parts: slice, noise_stddev: float, num_units: int | None) -> bool:
    """Return whether few numbers are outside these parts, as far as the noise tells: by either of two estimates."""
    total, inside, num_inside = float(noisy.sum()), float(noisy[parts].sum()), parts.stop - parts.start
    estimates = [(total, len(noisy) - num_inside)]
    if num_units is not None:
        estimates.append((float(num_units), num_inside))  # of fewer parts, but it takes missing numbers for outside
    for whole, num_noisy in estimates:
        outside, noise = whole - inside, noise_stddev * math.sqrt(num_noisy)
        if outside <= _LEFT_OUT * whole + noise and outside + _CERTAINTY * noise <= _MOST_LEFT_OUT * whole:
            return True
    return False
