r"""Private learning of bounds, values of categories, and classes, all in one Gaussian release.

Every unit takes part with at most one row, and adds one to one count of each histogram. *Bounds* have public bins:
powers of two from 2^-20 to 2^40, of both signs, and zero (`hush.statistics.LogHistogram`). *Values* have no public
support: only values that occur are counted, and those below a threshold are not revealed.

Guarantee, for adding or removing one unit. With J histograms of bounds and K of values, the noise has the standard
deviation ``noise_multiplier * sqrt(2 J)`` on the former and ``noise_multiplier * sqrt(2 K)`` on the latter (without the
2 if there is only one kind). In units of their noise, a unit's counts have the squared norm (J / 2 J + K / 2 K) /
noise_multiplier^2. So the release is `GaussianEvent(noise_multiplier)`, as long as the unit brings no new value. New
values, at most K, have the count 1. Each passes the threshold 1 + t with probability P(noise >= t) = delta / K. Their
noise is independent of all other noise, so the release is a function of two independent parts: the Gaussian mechanism
on the values that occur without the unit, and a part that is "none" without the unit, and something else with
probability at most delta with it. The second part is (0, delta)-private. The event is the composition of both.

Bounds that are powers of two are wide where numbers are far from zero, such as years or blood pressures. So a second
release counts rows in 64 equal parts of each interval. It has a quarter of the precision (1 / noise^2), and the first
release has three quarters. Gaussian mechanisms compose by adding their precisions, even if the second depends on the
output of the first (Dong, Roth & Su 2022, Corollary 2), so both together are `GaussianEvent(noise_multiplier)`.

References: Korolova, Kenthapadi, Mishra & Ntoulas 2009 (thresholds); Wilson et al. 2020 (bounds from a histogram of
powers of two); Dwork & Roth 2014, Theorem 3.16 (composition).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hush.accounting import ApproximateDPEvent, ComposedEvent, Event, GaussianEvent
from hush.errors import InvalidArgument, check_probability
from hush.randomness import Grid, RandomSource, floored_gaussian
from hush.statistics import BinRuns, LogHistogram

UNKNOWN_BOUNDS = (-1.0, 1.0)
BINS = LogHistogram(num_bins=61, zero_bin=True)  # of each sign, they end at 2^-20, 2^-19, ..., 2^40
_FALSE_ALARM = 1e-3  # the probability that noise alone passes for data in some bin of a refined histogram
_SAFE = 1 + 1e-9  # covers the rounding errors of a quantile or a square root


@dataclass(frozen=True, slots=True, kw_only=True)
class Learn:
    """How much noise the learning of a schema gets.

    >>> Learn(noise_multiplier=4.0).event(values=False)
    GaussianEvent(noise_multiplier=4.0)

    Attributes:
        noise_multiplier: The noise, relative to everything that one unit contributes; see `GaussianEvent`.
        delta: The probability with which a value that only one unit has may be revealed. Only values and classes use
            it.
    """

    noise_multiplier: float
    delta: float = 1e-9

    def __post_init__(self) -> None:
        """Check both numbers."""
        GaussianEvent(self.noise_multiplier)
        if not 1e-100 <= check_probability("delta", self.delta) < 0.5:
            raise InvalidArgument("delta", self.delta, "a number in [1e-100, 0.5)")

    def event(self, *, values: bool = True) -> Event:
        """Return what learning costs per unit, under add-or-remove.

        Args:
            values: Whether values or classes are learned. If not, only bounds are, and delta is not used.
        """
        noise = GaussianEvent(self.noise_multiplier)
        return ComposedEvent((noise, ApproximateDPEvent(0.0, self.delta))) if values else noise


@dataclass(frozen=True, slots=True)
class Learned:
    """The output of a release.

    Attributes:
        bounds: The bounds of each histogram of numbers; None if nothing stood out of the noise.
        values: The values of each tally of texts.
    """

    bounds: list[tuple[float, float] | None]
    values: list[tuple[str, ...]]


def log_histogram(values: NDArray[np.float64], rows: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count these rows by sign and power of two. NaN is not counted, and infinity is in the last bin."""
    (counts,) = BINS.counts(values[rows])
    return np.asarray(counts, dtype=np.int64)


def release(
    histograms: Sequence[NDArray[np.int64]], tallies: Sequence[Mapping[str, int]], learn: Learn, source: RandomSource
) -> Learned:
    """Return bounds and values.

    Args:
        histograms: Counts of numbers by bin, one histogram per column. Every unit added at most one to each.
        tallies: Counts of texts, one tally per column. Every unit added at most one to each.
        learn: The noise.
        source: The source of the noise.
    """
    # With both kinds, each gets half of the precision; within a kind, every column gets an equal part.
    sorts = bool(histograms) + bool(tallies)
    bound_noise = learn.noise_multiplier * math.sqrt(sorts * max(len(histograms), 1)) * _SAFE
    value_noise = learn.noise_multiplier * math.sqrt(sorts * max(len(tallies), 1)) * _SAFE
    noisy_counts = [_noisy(counts, bound_noise, source) for counts in histograms]
    bounds = BinRuns(BINS, bound_noise).learn(np.array(noisy_counts).reshape(-1, BINS.size))
    values = []
    for tally in tallies:
        noisy = _noisy(np.array(list(tally.values()), dtype=np.int64), value_noise, source)
        passing = noisy > threshold(value_noise, learn.delta / len(tallies))
        values.append(in_order(value for value, passes in zip(tally, passing, strict=True) if passes))
    return Learned([None if math.isnan(lower) else (lower, upper) for lower, upper in bounds.tolist()], values)


def refine(
    histograms: Sequence[NDArray[np.int64]], noise_multiplier: float, source: RandomSource
) -> list[tuple[int, int] | None]:
    """Return the first and the last bin that stand out of the noise in each histogram; None if none does.

    Every unit adds one to one count of each histogram. With noise of ``noise_multiplier * sqrt(len(histograms))`` on
    every count, this is `GaussianEvent(noise_multiplier)`.

    Args:
        histograms: Counts of numbers by equal parts of an interval, one histogram per column.
        noise_multiplier: The noise of all histograms together.
        source: The source of the noise.
    """
    stddev = noise_multiplier * math.sqrt(len(histograms)) * _SAFE
    ranges: list[tuple[int, int] | None] = []
    for counts in histograms:
        limit = -stddev * float(ndtri(_FALSE_ALARM / len(counts)))  # a union bound over the bins
        occupied = np.flatnonzero(_noisy(counts, stddev, source) > limit)
        ranges.append((int(occupied[0]), int(occupied[-1])) if occupied.size else None)
    return ranges


def threshold(noise_stddev: float, delta: float) -> float:
    """Return a threshold that the noisy count of a value which one unit has exceeds with probability at most delta."""
    return 1 - noise_stddev * float(ndtri(delta)) * _SAFE


def in_order(values: Iterable[str]) -> tuple[str, ...]:
    """Return texts in numerical order if all are numbers, else in alphabetical order.

    Never by frequency: that would reveal more than the values.

    >>> in_order(["10", "9", "2.5"]), in_order(["b", "10", "a"])
    (('2.5', '9', '10'), ('10', 'a', 'b'))
    """
    texts = sorted(values)
    try:
        return tuple(sorted(texts, key=lambda text: (float(text), text)))
    except ValueError:
        return tuple(texts)


def _noisy(counts: NDArray[np.int64], noise_stddev: float, source: RandomSource) -> NDArray[np.float64]:
    """Return counts with Gaussian noise, rounded down on a grid finer than one.

    The counts are on the grid, so rounding the sum is the same as rounding the noise: post-processing.
    """
    grid = Grid.for_scale(noise_stddev)
    noise = floored_gaussian(source, noise_stddev / grid.spacing, len(counts))
    return counts + grid.real(noise)
