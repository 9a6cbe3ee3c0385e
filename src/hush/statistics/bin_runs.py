"""A rule for private bounds that also detects data spread over many bins.

Bins that rise above the noise are found one by one, as in Wilson et al. 2020. Data that are spread over many bins, none
of which does so, are found by a scan: the run of neighbouring bins with the largest sum of counts, minus
one standard deviation of the noise for each bin. Negative and positive numbers are scanned apart, and folded onto each
other, because symmetric data show best there. Thresholds keep the probability that noise alone passes below 1e-6 for a
column; if nothing passes, below 1e-5, and so on up to 1e-3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from hush.statistics.columns import Floats
from hush.statistics.log_histogram import BoundsRule, LogHistogram, gaussian_bin_threshold

_FALSE_ALARMS = (1e-6, 1e-5, 1e-4, 1e-3)
_SCANS = 3  # negative, positive, folded
# Per bin of a run, in standard deviations. Without it, the longest runs of noise would have the largest sums.
_PENALTY = 1.0
_STRONG = 20.0  # a run with a sum of so many standard deviations would also show data between itself and zero


@dataclass(frozen=True, slots=True)
class BinRuns(BoundsRule):
    """Single bins and runs of bins that rise above Gaussian noise.

    Bounds that contain only zero do not count: such columns are NaN in the result.

    >>> bins = LogHistogram(scale=1.0, num_bins=8, zero_bin=True)
    >>> counts = bins.counts(np.linspace(-100, 100, 1000)[:, None])
    >>> BinRuns(bins, noise_stddev=20.0).learn(counts).tolist()
    [[-128.0, 128.0]]

    Attributes:
        histogram: The bins.
        noise_stddev: The standard deviation of the Gaussian noise on each count.
    """

    histogram: LogHistogram
    noise_stddev: float

    def learn(self, noisy: NDArray[Any]) -> Floats:
        bounds = super(BinRuns, self).learn(noisy)
        return np.where(bounds[:, :1] < bounds[:, 1:], bounds, np.nan)

    def _levels(self) -> Sequence[float]:
        return _FALSE_ALARMS

    def _bounds(self, noisy: NDArray[Any], level: float) -> Floats:
        return np.array([self._column_bounds(counts / self.noise_stddev, level) for counts in noisy])

    def _column_bounds(self, counts: Floats, false_alarm: float) -> tuple[float, float]:
        """Return the bounds of one column, from counts in units of the noise.

        Half of the false alarms are allowed for single bins, by a union bound over all bins, and half for runs.
        """
        num_bins, edges = self.histogram.num_bins, self.histogram.edges
        occupied = np.flatnonzero(counts > gaussian_bin_threshold(false_alarm / 2, self.histogram.size))
        ends = [*edges[occupied], *edges[occupied + 1]]
        negative, positive = counts[:num_bins][::-1], counts[-num_bins:]
        # The sum of two counts has sqrt(2) times the noise of one; dividing by it keeps the scale.
        sides = (negative, positive, (negative + positive) / math.sqrt(2))
        runs = [_trimmed(side, _best_run(side)) for side in sides]
        passing = [run.score > _run_threshold(false_alarm / 2, num_bins) for run in runs]
        if passing[2] and runs[2].score >= max(run.score for run in runs):
            # A folded run cannot tell the signs apart, so the bounds are symmetric.
            outer_end = self._magnitude_ends(runs[2])[1]
            ends += [-outer_end, outer_end]
        for run, passes, sign in zip(runs[:2], passing[:2], (-1, 1), strict=True):
            if passes:
                inner_end, outer_end = self._magnitude_ends(run)
                ends += [sign * (inner_end if run.total >= _STRONG else 0.0), sign * outer_end]
        return (float(min(ends)), float(max(ends))) if ends else (math.nan, math.nan)

    def _magnitude_ends(self, run: _BinRun) -> tuple[float, float]:
        """Return the inner and the outer end of a run of magnitudes."""
        ends = self.histogram.ends
        return 0.0 if run.first == 0 else float(ends[run.first - 1]), float(ends[run.last])


@dataclass(frozen=True, slots=True)
class _BinRun:
    """Neighbouring magnitudes.

    Attributes:
        first: The first magnitude.
        last: The last magnitude.
        score: The sum of their counts, minus the penalty for each of them.
        total: The sum of their counts.
    """

    first: int
    last: int
    score: float
    total: float


def _best_run(counts: Floats, penalty: float = _PENALTY) -> _BinRun:
    """Return the run with the largest score, by one pass over partial sums (Kadane's algorithm)."""
    # The run from i to j has the score sums[j + 1] - sums[i]: the best start for an end is the lowest sum before it.
    sums = np.concatenate([[0.0], np.cumsum(counts - penalty)])
    lowest = np.minimum.accumulate(sums)[:-1]
    last = int(np.argmax(sums[1:] - lowest))
    first = int(np.argmin(sums[: last + 1]))
    return _BinRun(first, last, float(sums[last + 1] - sums[first]), float(counts[first : last + 1].sum()))


def _trimmed(counts: Floats, run: _BinRun) -> _BinRun:
    """Return the part of a run that survives a higher penalty.

    Noise at the ends of a run would double the bounds with each bin.
    """
    mean = run.total / (run.last - run.first + 1)
    core = _best_run(counts[run.first : run.last + 1], min(max(0.75 * mean, _PENALTY), 3 * _PENALTY))
    return _BinRun(run.first + core.first, run.first + core.last, run.score, run.total)


@lru_cache(maxsize=16)
def _run_threshold(false_alarm: float, num_bins: int) -> float:
    """Return a score that noise alone exceeds with at most this probability, by a union bound over all runs."""
    lengths = np.arange(1, num_bins + 1)

    def alarms(score: float) -> float:
        # A run of L bins has a noise of variance L, and a penalty of L: P(sqrt(L) Z - L > score).
        tails = ndtr(-(score + _PENALTY * lengths) / np.sqrt(lengths))
        return float(_SCANS * ((num_bins + 1 - lengths) * tails).sum())

    # Bisection; the upper end keeps the promise.
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if alarms(middle) > false_alarm else (low, middle)
    return high
