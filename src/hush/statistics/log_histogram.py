r"""Private bounds from a logarithmic histogram: the range that contains most numbers of a column.

The flow, wherever bounds are learned:

`LogHistogram.counts`  exact counts by sign and order of magnitude; a row counts in one bin
noise on every bin     the caller's part, and what the bounds cost
a `BoundsRule`         decides from the noisy counts which bins hold data; this is post-processing, and free

`approximate_bounds` uses it for one column with the budget of a release, the scalers of `hush.estimators` for all
columns at once, and `hush.data` when it learns a schema. They differ in the bins, the noise and the rule:

- `OccupiedBins` (here): single bins that rise above the noise, for Laplace and Gaussian noise. `WidenedBins`
  (`hush.statistics.approximate_bounds`) then looks closer at the bins around them.
- `BinRuns` (`hush.statistics.bin_runs`): also data that are spread over many bins, for Gaussian noise.
- `ExtremeBins` (here): from the units' least and greatest values, such that few units lie beyond. `hush.sql` uses it.

`EvenBins` (`hush.statistics.even_bins`) then narrows the interval, by a second release.

References: Wilson et al. 2020, which has a threshold for independent bins; ours is for all bins but one being empty.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hush.errors import InvalidArgument, check_count, check_positive, check_probability
from hush.statistics.columns import Codes, Floats
from hush.statistics.noise.levels import highest_level
from hush.statistics.noise.release import Block, LaplaceNoise, NoiseKind, NoisePlan

SUCCESSES = (1 - 1e-9, 1 - 1e-8, 1 - 1e-7, 1 - 1e-6)
_MAX_BINS = 5000
_MANTISSA_BITS, _EXPONENT_BIAS = 52, 1023  # of a double
_FALSE_ALARMS = (1e-3, 1e-2)
_NEAR_ZERO = 16  # an end that is this much smaller than the other is 0
_LAST_BINS = 8  # from the larger bound down to 1/256 of it
_WIDER = 0.05  # the chance that noise alone makes bounds twice as wide
_CHUNK = 1 << 16  # numbers that are binned at once: few enough for the cache


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHistogram:
    """Bins by sign and order of magnitude. They are public: nothing about them depends on data.

    The bins of each sign are [0, scale], (scale, scale * base], (scale * base, scale * base^2], and so on. The last
    one also takes everything beyond it, infinity included. Negative bins come first, from the largest magnitude.

    >>> bins = LogHistogram(scale=1.0, num_bins=3)
    >>> bins.edges.tolist()
    [-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0]
    >>> bins.counts(np.array([-1.5, 0.5, 0.7, 99.0])).tolist()
    [[0, 1, 0, 2, 0, 1]]

    Attributes:
        scale: The smallest magnitude that is distinguished from 0.
        base: The ratio of the ends of neighbouring bins.
        num_bins: The number of bins of each sign.
        zero_bin: Whether 0 has a bin of its own, in the middle. If not, it is in the first positive bin.
    """

    scale: float = 2.0**-20
    base: float = 2.0
    num_bins: int = 62
    zero_bin: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_positive("scale", self.scale)
        if not check_positive("base", self.base) > 1:
            raise InvalidArgument("base", self.base, "more than 1")
        if not check_count("num_bins", self.num_bins) <= _MAX_BINS:
            raise InvalidArgument("num_bins", self.num_bins, f"at most {_MAX_BINS}")
        if not bool(np.isfinite(self.ends).all()):
            raise InvalidArgument("num_bins", self.num_bins, "bin ends within the range of floats", "Use fewer bins")

    @property
    def size(self) -> int:
        """The number of bins of both signs, and the bin of zero."""
        return 2 * self.num_bins + self.zero_bin

    @property
    def ends(self) -> Floats:
        """The upper ends of the positive bins."""
        ends: Floats = _bin_ends(self.scale, self.base, self.num_bins)
        return ends

    @property
    def edges(self) -> Floats:
        """The edges of all bins: bin i lies between edges i and i + 1."""
        zeros = [0.0, 0.0] if self.zero_bin else [0.0]
        return np.concatenate([-self.ends[::-1], zeros, self.ends])

    def block(self, rows_per_unit: int = 1) -> Block:
        """Return the sensitivity of the counts, if a unit has at most ``rows_per_unit`` rows."""
        return Block.disjoint(rows_per_unit, columns=self.size, whole=True)

    def bins(self, numbers: Floats) -> Codes:
        """Return the bin of each number. NaN gets any bin: leave it out before or after."""
        bins = self._magnitudes(np.abs(numbers))
        # Magnitude m is bin num_bins - 1 - m if negative, and num_bins + m (+ 1 with a bin of zero) if positive.
        np.copyto(bins, -1 - self.zero_bin - bins, where=numbers < 0)
        bins += self.num_bins + self.zero_bin
        if self.zero_bin:
            bins[numbers == 0] = self.num_bins
        return bins

    def counts(self, rows: Floats) -> NDArray[np.int64]:
        """Return how many numbers each bin has, with one row per column of the data. NaN is not counted.

        Args:
            rows: One column, or a matrix with one column per feature.
        """
        matrix = rows if rows.ndim == 2 else rows[:, None]
        width = matrix.shape[1]
        counts = np.zeros(width * self.size, dtype=np.int64)
        first_bins = np.arange(width) * self.size
        step = max(_CHUNK // max(width, 1), 1)
        for start in range(0, len(matrix), step):
            numbers = matrix[start : start + step]
            bins = self.bins(numbers)
            bins += first_bins
            counts += np.bincount(bins[~np.isnan(numbers)], minlength=counts.size)
        return counts.reshape(width, self.size)

    def _magnitudes(self, sizes: Floats) -> Codes:
        """Return the bin of each non-negative number among those of one sign, from 0. A bin includes its upper end.

        The numbers are overwritten.
        """
        exponent = _exact_exponent(self.scale)
        if self.base != 2.0 or exponent is None:
            return np.searchsorted(self.ends[:-1], sizes)
        # The leading bits of a double are its exponent. The number before a power of two has that of the bin below.
        magnitudes = sizes.view(np.int64)
        magnitudes -= 1
        magnitudes >>= _MANTISSA_BITS
        magnitudes -= _EXPONENT_BIAS + exponent - 1
        return np.clip(magnitudes, 0, self.num_bins - 1, out=magnitudes)


@lru_cache(maxsize=16)
def _bin_ends(scale: float, base: float, num_bins: int) -> Any:
    with np.errstate(over="ignore"):
        ends = scale * base ** np.arange(num_bins, dtype=np.float64)
    ends.flags.writeable = False  # the cache shares it
    return ends


def _exact_exponent(scale: float) -> int | None:
    """Return log2 of a scale that is a power of two, and far from the smallest floats; else None."""
    fraction, exponent = math.frexp(scale)
    return exponent - 1 if fraction == 0.5 and exponent > -1000 else None


class BoundsRule(ABC):
    """Decides which bins hold data, from noisy counts. Rules only post-process a release, so they cost nothing.

    A rule has levels, from the strictest to the loosest. Each column gets the bounds of the first level at which any
    count rises above the noise: the same counts are used again.
    """

    def learn(self, noisy: NDArray[Any]) -> Floats:
        """Return lower and upper bounds, one row per column of the data; NaN where no count rises above the noise.

        Args:
            noisy: Noisy counts of shape (columns of the data, bins).
        """
        bounds = np.full((len(noisy), 2), np.nan)
        for level in self._levels():
            unknown = np.flatnonzero(np.isnan(bounds[:, 0]))
            if unknown.size:
                bounds[unknown] = self._bounds(noisy[unknown], level)
        return bounds

    @abstractmethod
    def _levels(self) -> Sequence[float]:
        """Return the levels, from the strictest to the loosest."""

    @abstractmethod
    def _bounds(self, noisy: NDArray[Any], level: float) -> Floats:
        """Return the bounds at one level; NaN where no count rises above the noise."""


@dataclass(frozen=True, slots=True)
class OccupiedBins(BoundsRule):
    """Bounds from the lower end of the first bin above a threshold to the upper end of the last one.

    >>> from hush.randomness import TestSource
    >>> from hush.statistics import plan_noise
    >>> bins = LogHistogram(scale=1.0, num_bins=8)
    >>> plan = plan_noise((bins.block(),), groups_per_unit=1, epsilon=1.0)
    >>> noisy = plan.release(bins.counts(np.full((500, 1), 5.0)), TestSource(1))
    >>> OccupiedBins.for_noise(bins, plan).learn(noisy).tolist()
    [[4.0, 8.0]]

    Attributes:
        histogram: The bins.
        thresholds: The noisy count that an occupied bin exceeds, from the strictest to the loosest.
    """

    histogram: LogHistogram
    thresholds: tuple[float, ...]

    @classmethod
    def for_noise(
        cls, histogram: LogHistogram, plan: NoisePlan, successes: Sequence[float] = SUCCESSES
    ) -> OccupiedBins:
        """Return the rule for counts with this noise.

        Args:
            histogram: The bins.
            plan: The noise on their counts.
            successes: The probability with which no empty bin passes, for each level.
        """
        scale, num_empty, noise = plan.block_scales[0], histogram.size - 1, plan.noise
        return cls(histogram, tuple(_whole_threshold(scale, num_empty, success, noise) for success in successes))

    def _levels(self) -> Sequence[float]:
        return self.thresholds

    def _bounds(self, noisy: NDArray[Any], level: float) -> Floats:
        edges = self.histogram.edges
        ranges = [occupied_range(counts, level) for counts in noisy]
        return np.array([(edges[ends[0]], edges[ends[1] + 1]) if ends else (np.nan, np.nan) for ends in ranges])


@dataclass(frozen=True, slots=True)
class ExtremeBins(BoundsRule):
    """Bounds beyond which few units have values, from two histograms of units: by smallest and by largest value.

    The upper bound is the end of the bin at which the search of `hush.statistics.noise.levels` stops among the greatest
    values, and the lower bound that among the least ones, going down. Then the search goes on up to the magnitude of
    the larger bound, for fewer units: at worst, the bounds become twice as wide, such as -100 to 100 in place of 0 to
    100. An end is 0 if that makes the bounds little wider.

    >>> bins = LogHistogram(scale=1.0, num_bins=8)
    >>> least, greatest = bins.counts(np.full((900, 1), 5.0)), bins.counts(np.full((900, 1), 100.0))
    >>> ExtremeBins(bins, scale=10.0).learn(np.stack([least, greatest], axis=1)).tolist()
    [[0.0, 128.0]]

    Attributes:
        histogram: The bins.
        scale: The scale of the Laplace noise on each count.
    """

    histogram: LogHistogram
    scale: float

    def _levels(self) -> Sequence[float]:
        """Return the chances that noise alone gives bounds."""
        return _FALSE_ALARMS

    def _bounds(self, noisy: NDArray[Any], level: float) -> Floats:
        """Return the bounds of counts of shape (columns of the data, 2, bins); the least values come first."""
        return np.array([self._ends(least, greatest, level) for least, greatest in noisy])

    def _ends(self, least: NDArray[np.int64], greatest: NDArray[np.int64], level: float) -> tuple[float, float]:
        top, from_top = (highest_level(counts, self.scale, level) for counts in (greatest, least[::-1]))
        last_bin = len(least) - 1
        if level == _FALSE_ALARMS[-1] and (top is None) != (from_top is None):
            known = next(end for end in (top, from_top) if end is not None)
            # One end stands out. The other is at most of the same magnitude, as far as the counts show.
            top, from_top = (max(known, last_bin - known) if end is None else end for end in (top, from_top))
        if top is None or from_top is None:
            return math.nan, math.nan
        # Bins i and size - 1 - i are of equal magnitude.
        largest = max(top, from_top, last_bin - top, last_bin - from_top)
        top = self._within(greatest, top, largest)
        bottom = last_bin - self._within(least[::-1], from_top, largest)
        first, last = sorted((bottom, top))  # noise could have crossed them
        return zero_if_near(float(self.histogram.edges[first]), float(self.histogram.edges[last + 1]))

    def _within(self, noisy: NDArray[np.int64], level: int, largest: int) -> int:
        """Return the highest bin up to ``largest`` that looks occupied, or the one of the strict search.

        Units are seen if one bin stands out, or if the last bins together do, among which they may be spread.
        """
        candidates = noisy[level + 1 : largest + 1]
        threshold = self.scale * math.log(max(len(candidates), 1) / (2 * _WIDER))
        occupied = np.flatnonzero(candidates > threshold)
        together = candidates[-_LAST_BINS:]
        if len(occupied) == 0 and together.sum() > 2 * self.scale * math.sqrt(2 * len(together)):
            occupied = np.flatnonzero(candidates > self.scale)
        return level + 1 + int(occupied[-1]) if len(occupied) else level


def zero_if_near(low: float, high: float) -> tuple[float, float]:
    """Return bounds with 0 in place of an end that is much smaller than the other: they get little wider.

    >>> zero_if_near(2.0, 64.0), zero_if_near(16.0, 64.0)
    ((0.0, 64.0), (16.0, 64.0))
    """
    return (0.0 if 0 < low <= high / _NEAR_ZERO else low), (0.0 if low / _NEAR_ZERO <= high < 0 else high)


def occupied_range(noisy: NDArray[Any], threshold: float) -> tuple[int, int] | None:
    """Return the first and the last bin whose noisy count exceeds a threshold; None if no count does.

    >>> occupied_range(np.array([1, 9, 2, 8, 0]), 5.0)
    (1, 3)
    """
    occupied = np.flatnonzero(noisy > threshold)
    return (int(occupied[0]), int(occupied[-1])) if occupied.size else None


def gaussian_bin_threshold(false_alarm: float, num_bins: int) -> float:
    """Return a threshold that Gaussian noise of standard deviation 1 exceeds in any bin with at most this probability.

    It is a union bound over the bins, which may have any counts.
    """
    return -float(ndtri(false_alarm / num_bins))


def bounds_threshold(noise_scale: float, num_bins: int, success: float, *, noise: NoiseKind | None = None) -> float:
    """Return a threshold that the noise of all but one of 2 ``num_bins`` bins stays below.

    For Laplace noise of scale b, it is t = -b ln(2 - 2 c^(1 / (2 B - 1))), with c for ``success`` and B for
    ``num_bins``.

    >>> round(bounds_threshold(1.0, 4, 0.9), 2)
    3.51

    Args:
        noise_scale: The Laplace scale, or the standard deviation of Gaussian noise.
        num_bins: The number of bins of each sign.
        success: The probability with which all of these bins stay below the threshold.
        noise: The kind of noise; Laplace if None.
    """
    return _threshold(noise_scale, 2 * check_count("num_bins", num_bins) - 1, success, noise)


def _whole_threshold(noise_scale: float, num_empty: int, success: float, noise: NoiseKind) -> float:
    """Return the smallest integer that the integer noise of all empty bins stays at or below, with this probability."""
    if isinstance(noise, LaplaceNoise):
        # P(discrete Laplace > k) = e^(-(k + 1) / b) / (1 + e^(-1 / b)); that of Laplace noise > t is e^(-t / b) / 2.
        threshold = _threshold(noise_scale, num_empty, success, noise)
        return math.ceil(threshold + noise_scale * math.log(2 / (1 + math.exp(-1 / noise_scale))) - 1)
    # Noise rounded to the nearest integer exceeds k if it exceeds k + 1/2.
    return math.ceil(_threshold(noise_scale, num_empty, success, noise) - 0.5)


def _threshold(noise_scale: float, num_empty: int, success: float, noise: NoiseKind | None) -> float:
    below = check_probability("success", success) ** (1 / num_empty)  # of a single bin
    if not 0 < below < 1:
        raise InvalidArgument("success", success, "a number in (0, 1)")
    # All empty bins stay below t with probability P(noise <= t)^num_empty = success; noise is independent between bins.
    above = -math.expm1(math.log(success) / num_empty)  # 1 - below, without cancellation
    if noise is None or isinstance(noise, LaplaceNoise):
        # P(Laplace > t) = e^(-t / b) / 2 for t >= 0.
        return -noise_scale * math.log(2 * above)
    return -noise_scale * float(ndtri(above))
