"""Closer bounds within an interval, from a noisy histogram of its equal parts.

Bounds that are powers of two (`LogHistogram`) are wide where numbers are far from zero, such as years or blood
pressures. A second release counts the numbers in equal parts of the interval, and shortens it to where the data are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.statistics.columns import Floats
from hush.statistics.log_histogram import gaussian_bin_threshold, occupied_range

_FALSE_ALARM = 1e-3  # the probability with which noise alone exceeds the threshold in some part


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

    def closer_bounds(self, noisy: NDArray[np.float64], noise_stddev: float) -> tuple[float, float] | None:
        """Return bounds that are closer to the numbers. None if no count rises above the noise.

        The tails of the data have counts that noise hides. So the interval from the first part above the threshold to
        the last one is extended by half its width on either side.

        Args:
            noisy: The counts with Gaussian noise.
            noise_stddev: Its standard deviation.
        """
        occupied = occupied_range(noisy, gaussian_bin_threshold(_FALSE_ALARM, self.num_bins) * noise_stddev)
        if occupied is None:
            return None
        first, last = occupied
        width = self.upper / self.num_bins - self.lower / self.num_bins  # divided first: the difference may overflow
        margin = 1 + (last - first) // 2
        lower = self.lower + max(first - margin, 0) * width
        upper = self.lower + min(last + 1 + margin, self.num_bins) * width
        # Rounding may leave nothing of a very narrow interval.
        return (lower, upper) if self.lower <= lower < upper <= self.upper else None
