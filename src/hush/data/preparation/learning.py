r"""Private learning of bounds, values of categories, and classes, all in one Gaussian release.

Every unit contributes at most one row, which adds one to one count in each histogram. *Bounds* have public bins:
powers of two from 2^-20 to 2^40, of both signs, and zero (`LogHistogram`). *Values* have no public support: only values
that occur are counted, and those below a threshold are not revealed. Noise and thresholds are those of
`hush.statistics.noise`, where a column is a group: a unit is in one histogram of each of J columns of numbers, and in
one value of each of K text columns.

Guarantee, for adding or removing one unit. With J histograms of bounds and K of values, the noise has the standard
deviation ``noise_multiplier * sqrt(2 J)`` on the former and ``noise_multiplier * sqrt(2 K)`` on the latter (without the
2 if there is only one kind). In units of their noise, a unit's counts have the squared norm (J / 2 J + K / 2 K) /
noise_multiplier^2. So the release is `GaussianEvent(noise_multiplier)`, as long as the unit brings no new value. New
values, at most K, are revealed with probability at most delta, all of them together (`plan_threshold` has the proof).
The event is the composition of both.

A second release counts rows in 64 equal parts of each interval, for closer bounds (`EvenBins`). A third one counts rows
around the interval, and notices bounds that leave many out (`hush.data.preparation.widening`). They have a quarter and
a tenth of the precision (1 / noise^2), and the first release has the rest. Gaussian mechanisms compose by adding their
precisions, even if a later one depends on the output of an earlier one (Dong, Roth & Su 2022, Corollary 2), so all
together are `GaussianEvent(noise_multiplier)`.

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
from hush.data.preparation.widening import NUM_BINS, OuterBins
from hush.errors import InvalidArgument, check_probability
from hush.randomness import RandomSource
from hush.statistics import BinRuns, Block, EvenBins, LogHistogram
from hush.statistics.noise import NoisePlan, plan_gaussian, plan_threshold

UNKNOWN_BOUNDS = (-1.0, 1.0)
BINS = LogHistogram(num_bins=61, zero_bin=True)  # of each sign, they end at 2^-20, 2^-19, ..., 2^40
# The noise of the three releases of bounds, relative to that of all together. Their precisions, one over the square,
# are .65, .25 and .1 of it. The factors are rounded up.
FIRST, SECOND, THIRD = 1.2403474, 2.0000001, 3.1622777
_STEPS = 1 << 10  # of one row, to which noise is rounded: fine enough for noise far below one row
_SAFE = 1 + 1e-9  # covers the rounding errors of a square root

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learn:
    """The noise for learning a schema.

    >>> learn = Learn(noise_multiplier=4.0)
    >>> learn.bounds_event()
    GaussianEvent(noise_multiplier=4.0)
    >>> learn.event().events[1]
    ApproximateDPEvent(epsilon=0.0, delta=1e-09)

    Attributes:
        noise_multiplier: The noise, relative to everything that one unit contributes; see `GaussianEvent`.
        delta: The probability with which a value that only one unit has may be revealed. Only learning values and
            classes uses it.
    """

    noise_multiplier: float
    delta: float = 1e-9

    def __post_init__(self) -> None:
        """Check both numbers."""
        GaussianEvent(self.noise_multiplier)
        if not 1e-100 <= check_probability("delta", self.delta) < 0.5:
            raise InvalidArgument("delta", self.delta, "a number in [1e-100, 0.5)")

    def event(self) -> Event:
        """Return the cost of learning per unit, under add-or-remove."""
        return ComposedEvent((self.bounds_event(), ApproximateDPEvent(0.0, self.delta)))

    def bounds_event(self) -> Event:
        """Return the cost of learning if all values and classes are declared, so that only bounds are learned."""
        return GaussianEvent(self.noise_multiplier)


def fewest_units(learn: Learn, num_numbers: int, num_texts: int) -> float:
    """Return how many units a value needs to be found, most of the time.

    It is two standard deviations of the noise above the threshold: a forecast from public numbers, not a promise.

    >>> round(fewest_units(Learn(noise_multiplier=4.0), 0, 1)), round(fewest_units(Learn(noise_multiplier=4.0), 5, 4))
    (33, 116)

    Args:
        learn: The noise.
        num_numbers: Of how many columns the bounds are learned.
        num_texts: Of how many columns, with the target, the values are learned.
    """
    if not num_texts:
        return 0.0
    kinds = math.sqrt(2) * FIRST if num_numbers else 1.0
    stddev = learn.noise_multiplier * kinds * math.sqrt(num_texts)
    return 1 + stddev * (2 - float(ndtri(learn.delta / num_texts)))


@dataclass(frozen=True, slots=True)
class Learned:
    """The output of a release.

    Attributes:
        bounds: The bounds of each histogram of numbers; None if no count rises above the noise.
        values: The values of each tally.
    """

    bounds: list[Bounds | None]
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
        tallies: Counts of values, one tally per text column. Every unit added at most one to each.
        learn: The noise.
        source: The source of the noise.
    """
    # With both kinds, each gets half of the precision; within a kind, every column gets an equal part.
    num_kinds = bool(histograms) + bool(tallies)
    noise_multiplier = learn.noise_multiplier * math.sqrt(num_kinds) * _SAFE
    bounds = _coarse_bounds(histograms, noise_multiplier, source) if histograms else []
    return Learned(bounds, _frequent_values(tallies, noise_multiplier, learn.delta, source) if tallies else [])


def _coarse_bounds(
    histograms: Sequence[NDArray[np.int64]], noise_multiplier: float, source: RandomSource
) -> list[Bounds | None]:
    """Return bounds that are powers of two. This is `GaussianEvent(noise_multiplier)`."""
    plan, noise_stddev = _noise(noise_multiplier, len(histograms), BINS.size)
    noisy = np.array([_noisy(counts, plan, source) for counts in histograms])
    bounds = BinRuns(BINS, noise_stddev).learn(noisy).tolist()
    return [None if math.isnan(lower) else (lower, upper) for lower, upper in bounds]


def _frequent_values(
    tallies: Sequence[Mapping[str, int]], noise_multiplier: float, delta: float, source: RandomSource
) -> list[tuple[str, ...]]:
    """Return the values above the threshold. This is `GaussianEvent(noise_multiplier)`, and (0, delta)."""
    selection = plan_threshold(
        noise_multiplier=noise_multiplier, groups_per_unit=len(tallies), delta=delta, steps=_STEPS
    )
    values = []
    for tally in tallies:
        is_revealed = selection.choose(np.array(list(tally.values()), dtype=np.int64), source)
        values.append(in_order(value for value, passes in zip(tally, is_revealed, strict=True) if passes))
    return values


def intervals(bounds: Sequence[Bounds | None]) -> list[EvenBins]:
    """Return the equal parts of each interval that a second release counts; of [-1, 1] where nothing is known."""
    return [EvenBins(lower=lower, upper=upper) for lower, upper in (pair or UNKNOWN_BOUNDS for pair in bounds)]


def refine(
    bins: Sequence[EvenBins],
    histograms: Sequence[NDArray[np.int64]],
    noise_multiplier: float,
    source: RandomSource,
    *,
    num_units: int,
) -> list[Bounds | None]:
    """Return closer bounds; None for a column whose counts do not show that nearly all numbers are within closer ones.

    This is `GaussianEvent(noise_multiplier)`.

    Args:
        bins: The equal parts of each column's interval, all of the same number.
        histograms: Counts of numbers by these parts, one histogram per column. Every unit added at most one to each.
        noise_multiplier: The noise of all histograms together.
        source: The source of the noise.
        num_units: How many units there are, which is public.
    """
    plan, noise_stddev = _noise(noise_multiplier, len(histograms), bins[0].num_bins)
    return [
        parts.closer_bounds(_noisy(counts, plan, source), noise_stddev, num_units=num_units)
        for parts, counts in zip(bins, histograms, strict=True)
    ]


def widen(
    bounds: Sequence[Bounds],
    histograms: Sequence[NDArray[np.int64]],
    noise_multiplier: float,
    source: RandomSource,
    *,
    num_units: int,
) -> list[Bounds]:
    """Return bounds that leave few units out.

    This is `GaussianEvent(noise_multiplier)`.

    Args:
        bounds: The bounds of each column.
        histograms: Counts of what is around them (`OuterBins`). Every unit added at most one to each.
        noise_multiplier: The noise of all histograms together.
        source: The source of the noise.
        num_units: How many units there are, which is public.
    """
    plan, noise_stddev = _noise(noise_multiplier, len(histograms), 2 * NUM_BINS)
    return [
        OuterBins(lower=lower, upper=upper).wider_bounds(_noisy(counts, plan, source), noise_stddev, num_units)
        for (lower, upper), counts in zip(bounds, histograms, strict=True)
    ]


def _noise(noise_multiplier: float, num_histograms: int, num_bins: int) -> tuple[NoisePlan, float]:
    """Return the noise of histograms to each of which a unit adds one, and its standard deviation in rows."""
    plan = plan_gaussian(
        (Block.disjoint(_STEPS, columns=num_bins),), groups_per_unit=num_histograms, noise_multiplier=noise_multiplier
    )
    return plan, plan.block_scales[0] / _STEPS


def _noisy(counts: NDArray[np.int64], plan: NoisePlan, source: RandomSource) -> NDArray[np.float64]:
    """Return the counts of one histogram with noise."""
    noisy: NDArray[np.float64] = plan.release(counts[None, :] * _STEPS, source)[0] / _STEPS
    return noisy


def in_order(values: Iterable[str]) -> tuple[str, ...]:
    """Return values in numerical order if all are numbers, else in alphabetical order.

    Never by frequency: that would reveal more than the values.

    >>> in_order(["10", "9", "2.5"]), in_order(["b", "10", "a"])
    (('2.5', '9', '10'), ('10', 'a', 'b'))
    """
    texts = sorted(values)
    try:
        return tuple(sorted(texts, key=lambda text: (float(text), text)))
    except ValueError:
        return tuple(texts)
