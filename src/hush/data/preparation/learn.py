r"""What is learned privately: bounds of numbers, values of categories, classes. All of it in one Gaussian release.

Every unit takes part with one row at most, and adds one to one count of each histogram. *Bounds* have public bins:
powers of two from 2^-20 to 2^40, of both signs, and zero. *Values* have no public support: only those that occur are
counted, and what stays below a threshold is not told.

Guarantee, for one unit more or less. With J histograms of bounds and K of values, noise has the standard deviation
``noise_multiplier * sqrt(2 J)`` on the former and ``noise_multiplier * sqrt(2 K)`` on the latter (without the 2 if
there is only one sort). In units of their noise, a unit's counts have the squared norm (J / 2 J + K / 2 K) /
noise_multiplier^2: the release is `GaussianEvent(noise_multiplier)`, as long as the unit brings no new value. New values, at
most K, have count 1; each passes the threshold 1 + t with probability P(noise >= t) = delta / K. Their noise is
independent of all other, so the release is a function of a product: of the Gaussian mechanism on the values that occur
without the unit, and of what tells "none" without it and something else with probability at most delta with it. The
latter is (0, delta)-private. Their composition is the event that is accounted for.

Bounds that are powers of two are wide where numbers are far from zero: years, blood pressures. So a second release asks
which of 64 equal parts of each interval hold something. It has a quarter of the precision (1 / noise^2), the first one
three quarters; Gaussian mechanisms add up by their precisions, also where the second one depends on what the first one
told (Dong, Roth & Su 2022, Corollary 2), so that both together are `GaussianEvent(noise_multiplier)`.

References: Korolova, Kenthapadi, Mishra & Ntoulas 2009 (thresholds); Wilson et al. 2020 (bounds from a
histogram of powers of two); Dwork & Roth 2014, Theorem 3.16 (composition).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
_FALSE_ALARM = 1e-3  # how often noise alone may pass for data in some bin of a refined histogram
_SAFE = 1 + 1e-9  # what rounding may take from a quantile or a square root


@dataclass(frozen=True, slots=True, kw_only=True)
class Learn:
    """How much noise learning gets.

    Attributes:
        noise_multiplier: As in `hush.accounting.Gaussian`: relative to all that one unit contributes.
        delta: The probability with which a value that only one unit has may be told; used for values and classes only.
    """

    noise_multiplier: float
    delta: float = 1e-9

    def __post_init__(self) -> None:
        """Check both numbers."""
        GaussianEvent(self.noise_multiplier)
        if not 1e-100 <= check_probability("delta", self.delta) < 0.5:
            raise InvalidArgument("delta", self.delta, "a number in [1e-100, 0.5)")

    def event(self, *, values: bool = True) -> Event:
        """Return what learning costs: under add-or-remove, per unit; ``values`` tells whether values are learned."""
        noise = GaussianEvent(self.noise_multiplier)
        return ComposedEvent((noise, ApproximateDPEvent(0.0, self.delta))) if values else noise


@dataclass(frozen=True, slots=True)
class Learned:
    """Bounds for each histogram of numbers (None: nothing stood out), and values for each of texts."""

    bounds: list[tuple[float, float] | None]
    values: list[tuple[str, ...]]


def log_histogram(values: NDArray[np.float64], chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the chosen rows by sign and power of two; NaN is not counted, infinity in the last bin."""
    return BINS.counts(values[chosen])[0]


def release(
    histograms: Sequence[NDArray[np.int64]], tallies: Sequence[Mapping[str, int]], learn: Learn, source: RandomSource
) -> Learned:
    """Return bounds and values from counts to which every unit added at most one in each histogram."""
    sorts = bool(histograms) + bool(tallies)
    bound_noise = learn.noise_multiplier * math.sqrt(sorts * max(len(histograms), 1)) * _SAFE
    value_noise = learn.noise_multiplier * math.sqrt(sorts * max(len(tallies), 1)) * _SAFE
    noisy_counts = [_noisy(counts, bound_noise, source) for counts in histograms]
    learned = BinRuns(BINS, bound_noise).learn(np.array(noisy_counts).reshape(-1, BINS.size))
    bounds = [None if math.isnan(lower) else (lower, upper) for lower, upper in learned.tolist()]
    values = []
    for tally in tallies:
        noisy = _noisy(np.array(list(tally.values()), dtype=np.int64), value_noise, source)
        passing = noisy > threshold(value_noise, learn.delta / len(tallies))
        values.append(in_order(value for value, kept in zip(tally, passing, strict=True) if kept))
    return Learned(bounds, values)


def refine(
    histograms: Sequence[NDArray[np.int64]], noise_multiplier: float, source: RandomSource
) -> list[tuple[int, int] | None]:
    """Return the first and the last bin that stand out of the noise in each histogram; None where none does.

    Every unit adds one to one count of each: with noise of ``noise_multiplier * sqrt(len(histograms))`` on every count
    this is `GaussianEvent(noise_multiplier)`.
    """
    stddev = noise_multiplier * math.sqrt(len(histograms)) * _SAFE
    found: list[tuple[int, int] | None] = []
    for counts in histograms:
        limit = -stddev * float(ndtri(_FALSE_ALARM / len(counts)))
        clear = np.flatnonzero(_noisy(counts, stddev, source) > limit)
        found.append((int(clear[0]), int(clear[-1])) if clear.size else None)
    return found


def threshold(noise_stddev: float, delta: float) -> float:
    """Return what the noisy count of a value that one unit has exceeds with probability at most delta."""
    return 1 - noise_stddev * float(ndtri(delta)) * _SAFE


def in_order(values: object) -> tuple[str, ...]:
    """Return texts by number if all of them are one, else by the alphabet; never by how frequent they are."""
    texts = sorted(values)  # type: ignore[call-overload]
    try:
        return tuple(sorted(texts, key=lambda text: (float(text), text)))
    except ValueError:
        return tuple(texts)


def _noisy(counts: NDArray[np.int64], noise_stddev: float, source: RandomSource) -> NDArray[np.float64]:
    """Add the floor of Gaussian noise on a grid finer than one: counts are on it, so that nothing is rounded before."""
    grid = Grid.for_scale(noise_stddev)
    noise = floored_gaussian(source, noise_stddev / grid.spacing, len(counts))
    return counts + grid.real(noise)
