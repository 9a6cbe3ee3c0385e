"""Limits on contributions, chosen privately from counts of units by powers of two.

How many rows may one unit add to an answer? A limit far below what units hold leaves most of the data out; a limit far
above makes the answer too noisy. Both errors are about equal where roughly 1/epsilon units hold more than the limit
(Amin, Kulesza, Muñoz Medina & Vassilvitskii 2019, section 3). To find that place, units are counted by *level*: a unit
that holds x is in level ceil(log2 x), so level j has the units with 2^(j-1) < x <= 2^j. A unit is in one level only.
The counts of all levels together are therefore one histogram of sensitivity 1, and a small epsilon pays for it.

`choose_limit` reads the noisy histogram. Everything it returns is post-processing. `highest_level` is its search, which
bounds of columns use as well (`hush.statistics.log_histogram.ExtremeBins`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hush.statistics.noise.tails import laplace_tail, reach

NUM_LEVELS = 25  # the last level has everything above 2^23
_FALSE_ALARM = 1e-3  # the chance that noise alone makes some empty level look occupied
_WIDTHS = (1, 2, 4, 8)  # of neighbouring levels that are looked at together: units may be spread over several
_WINDOW = 2  # two levels that look empty, a factor of 4, end the search
_DEVIATIONS = 1.5  # how many standard deviations of noise a window must reach for the search to go on
# The limit is doubled once more if the next level probably holds more units than this, in noise scales. With a tenth of
# epsilon for the counts, that is 3 / epsilon: a unit there lacks a third of the limit on average, so three of them bias
# a count as much as doubling its noise would add.
_WORTH_A_STEP = 0.3
# Where no level stands out, each one higher must hold more units by so many noise scales, and up to three neighbours
# are looked at together. Too high a limit is far worse than one that is too low: noise grows with it without an end.
_DOUBT, _GUESSED_WIDTHS = 0.4, (1, 2, 3)
_NUMBERS = 200  # of units, for which a level is tried
# In standard deviations, what 95 % of the draws of one Laplace variable are within. Of sums, it is less: down to 1.96.
_WITHIN = math.log(20) / math.sqrt(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenLimit:
    """A limit that was chosen privately.

    Attributes:
        limit: The limit, a power of two.
        beyond: An estimate of how many units hold more than the limit. It is noisy, and at least 0.
        beyond_error: With 95 % confidence, the true number is within this much of the estimate.
        excess: An estimate of how much units with at most four times the limit hold beyond it, likewise at least 0.
        excess_error: With 95 % confidence, what noise adds to that estimate is at most this much.
        expected: The excess to expect, given the noisy counts and that levels thin out towards the top. Unlike
            ``excess``, it is small where the counts say little. Intervals allow for it.
    """

    limit: int
    beyond: float
    beyond_error: float
    excess: float = 0.0
    excess_error: float = 0.0
    expected: float = 0.0


def choose_limit(noisy_counts: NDArray[np.int64], scale: float, largest: int | None = None) -> ChosenLimit:
    """Return the limit that leaves few units beyond, from noisy counts of units by level.

    >>> counts = np.zeros(NUM_LEVELS, dtype=np.int64)
    >>> counts[[5, 6, 7]] = [900, 2000, 700]
    >>> choose_limit(counts, scale=10.0).limit
    128

    Args:
        noisy_counts: The number of units in each level, with Laplace noise.
        scale: The scale of the noise.
        largest: No limit is larger than this; None if any may be chosen.
    """
    level = highest_level(noisy_counts, scale)
    level = _guessed_level(noisy_counts, scale) if level is None else level
    level = level if largest is None else min(level, largest.bit_length() - 1)
    above, limit = noisy_counts[level + 1 :], 2**level
    # A unit in level j holds 0.75 * 2^j on average, if numbers spread evenly over the level.
    middles = 0.75 * 2.0 ** (level + 1 + np.arange(len(above[:_WINDOW])))
    excess, excess_error = weighted_sum(above[:_WINDOW], scale, middles - limit)
    beyond, beyond_error = weighted_sum(above, scale, np.ones(len(above)))
    most = max(float(noisy_counts[level]), scale)
    expected = sum(
        _expected_units(float(count), np.geomspace(1.0, most, _NUMBERS), scale) * (middle - limit)
        for count, middle in zip(above[:_WINDOW], middles, strict=True)
    )
    return ChosenLimit(
        limit=limit,
        beyond=beyond,
        beyond_error=beyond_error,
        excess=excess,
        excess_error=excess_error,
        expected=expected,
    )


def highest_level(noisy_counts: NDArray[np.int64], scale: float, false_alarm: float = _FALSE_ALARM) -> int | None:
    """Return the level that has few units above it; None if no level stands above the noise.

    The search starts at the highest level that noise alone would hardly explain, by itself or with its neighbours, and
    goes up while the next two levels together look occupied. It ends one level higher if that level probably holds
    units that noise hides. An error then costs a factor of two to eight, not a limit in the millions.

    Args:
        noisy_counts: As for `choose_limit`.
        scale: As for `choose_limit`.
        false_alarm: The chance that noise alone makes some empty level stand above it.
    """
    tops = []
    for width in _WIDTHS:
        sums = np.convolve(noisy_counts, np.ones(width), "valid")
        occupied = np.flatnonzero(sums > scale * _threshold(width, len(sums), false_alarm / len(_WIDTHS)))
        tops += [_fullest(noisy_counts, int(occupied[-1]), width)] if len(occupied) else []
    return _extended(noisy_counts, scale, max(tops)) if tops else None


@lru_cache(maxsize=64)
def _threshold(width: int, num_sums: int, false_alarm: float) -> float:
    """Return what none of several sums of Laplace variables of scale 1 exceeds, but with this probability at most.

    It is a union bound. One variable exceeds t with probability exp(-t) / 2.
    """
    if width == 1:
        return math.log(num_sums / (2 * false_alarm))
    return reach(laplace_tail, np.ones(width), 2 * false_alarm / num_sums)


def _fullest(noisy_counts: NDArray[np.int64], first: int, width: int) -> int:
    """Return the fullest of some neighbouring levels."""
    return first + int(np.argmax(noisy_counts[first : first + width]))


def _guessed_level(noisy_counts: NDArray[np.int64], scale: float) -> int:
    """Return the level where units of a small table probably are, in which no level stands above the noise."""
    guesses = []
    for width in _GUESSED_WIDTHS:
        sums = np.convolve(noisy_counts, np.ones(width), "valid") / math.sqrt(width)
        scores = sums - _DOUBT * scale * np.arange(len(sums))
        first = int(np.argmax(scores))
        guesses.append((float(scores[first]), _fullest(noisy_counts, first, width)))
    return _extended(noisy_counts, scale, max(guesses)[1])


def _extended(noisy_counts: NDArray[np.int64], scale: float, level: int) -> int:
    """Return the level at which the search from a level ends."""
    while level + 1 < len(noisy_counts):
        window = noisy_counts[level + 1 : level + 1 + _WINDOW]
        if window.sum() <= _DEVIATIONS * _deviation(scale, np.ones(len(window))):
            break
        level += 1
    if level + 1 < len(noisy_counts):
        most = max(float(noisy_counts[level]), scale)  # tails thin out: the next level holds no more than this one
        level += (
            _expected_units(float(noisy_counts[level + 1]), np.linspace(1.0, most, _NUMBERS), scale)
            > _WORTH_A_STEP * scale
        )
    return level


def weighted_sum(noisy_counts: NDArray[np.int64], scale: float, weights: NDArray[np.float64]) -> tuple[float, float]:
    """Return a weighted sum of noisy counts, at least 0, and a bound on its noise with 95 % confidence."""
    return max(0.0, float(noisy_counts @ weights)), _WITHIN * _deviation(scale, weights)


def _expected_units(noisy_count: float, numbers: NDArray[np.float64], scale: float) -> float:
    """Return the posterior mean of the number of units in a level, given its noisy count.

    The prior is even odds that the level is empty or holds one of these numbers of units, each equally likely. The
    likelihood is that of the noise, exp(-|noisy count - n| / scale).
    """
    occupied = np.exp(-np.abs(noisy_count - numbers) / scale) / len(numbers)
    empty = math.exp(-abs(noisy_count) / scale)
    return float((occupied * numbers).sum() / (occupied.sum() + empty))


def _deviation(scale: float, weights: NDArray[np.float64]) -> float:
    """Return the standard deviation of a weighted sum of Laplace variables, each of variance 2 scale^2."""
    return scale * math.sqrt(2 * float(weights @ weights))
