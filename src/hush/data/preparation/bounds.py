"""Bounds from a noisy histogram of powers of two. Post-processing: whatever is tried here costs nothing.

Bins that each stand out of the noise are found one by one (as in Wilson et al. 2020). Data that are spread over many
bins, none of which stands out, are found by a scan: the run of neighbouring bins with the largest sum of counts, less
one standard deviation of the noise for each bin. Positive and negative numbers are scanned apart, and folded onto each
other, as symmetric data show best there. Thresholds keep the probability that noise alone passes below 1e-6 for a
column, or, if nothing does, below 1e-5, and so on up to 1e-3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

LOWEST, HIGHEST = -20, 40
MAGNITUDES = HIGHEST - LOWEST + 1
NUM_BINS = 2 * MAGNITUDES + 1
_FALSE_ALARMS = (1e-6, 1e-5, 1e-4, 1e-3)
_SCANS = 3  # negative, positive, folded
_PENALTY = 1.0  # of each bin of a run, in standard deviations
_STRONG = 20.0  # a run of so many standard deviations would show what lies between it and zero, too


def bins(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the bin of each number: the middle one is zero, k bins further is (2^(e-1), 2^e], e = LOWEST + k - 1."""
    magnitude = np.minimum(np.abs(numbers), 2.0**HIGHEST)
    fraction, exponent = np.frexp(magnitude)
    exponent = exponent - (fraction == 0.5)  # a power of two is the upper end of its bin
    steps = np.clip(exponent - LOWEST + 1, 1, MAGNITUDES)
    return (MAGNITUDES + np.sign(numbers) * np.where(magnitude > 0, steps, 0)).astype(np.int64)


def edges(place: int) -> tuple[float, float]:
    """Return the ends of a bin."""
    step = abs(place - MAGNITUDES)
    if step == 0:
        return 0.0, 0.0
    near, far = _ends(step - 1)
    return (near, far) if place > MAGNITUDES else (-far, -near)


def bounds_from(noisy: NDArray[np.float64], noise_stddev: float) -> tuple[float, float] | None:
    """Return an interval that most numbers seem to be in; None if nothing stands out of the noise."""
    counts = noisy / noise_stddev
    for false_alarm in _FALSE_ALARMS:
        found = _interval(counts, false_alarm)
        if found is not None:
            return found if found[0] < found[1] else None
    return None


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring magnitudes, from ``first`` to ``last``, their sum less the penalty, and their sum."""

    first: int
    last: int
    score: float
    total: float


def _interval(counts: NDArray[np.float64], false_alarm: float) -> tuple[float, float] | None:
    single = -float(ndtri(false_alarm / 2 / NUM_BINS))
    ends = [edge for place in np.flatnonzero(counts > single) for edge in edges(int(place))]
    negative, positive = counts[:MAGNITUDES][::-1], counts[MAGNITUDES + 1 :]
    sides = (negative, positive, (negative + positive) / math.sqrt(2))
    runs = [_trimmed(side, _best_run(side)) for side in sides]
    passing = [run.score > _scan_threshold(false_alarm / 2) for run in runs]
    if passing[2] and runs[2].score >= max(run.score for run in runs):
        far = _ends(runs[2].last)[1]
        ends += [-far, far]
    for run, passes, sign in zip(runs[:2], passing[:2], (-1, 1), strict=True):
        if passes:
            near, far = _ends(run.first)[0], _ends(run.last)[1]
            ends += [sign * (near if run.total >= _STRONG else 0.0), sign * far]
    return (min(ends), max(ends)) if ends else None


def _best_run(counts: NDArray[np.float64], penalty: float = _PENALTY) -> _Run:
    """Return the run with the largest score, by one pass over partial sums."""
    sums = np.concatenate([[0.0], np.cumsum(counts - penalty)])
    lowest = np.minimum.accumulate(sums)[:-1]
    last = int(np.argmax(sums[1:] - lowest))
    first = int(np.argmin(sums[: last + 1]))
    return _Run(first, last, float(sums[last + 1] - sums[first]), float(counts[first : last + 1].sum()))


def _trimmed(counts: NDArray[np.float64], run: _Run) -> _Run:
    """Return the part of a run that a higher penalty leaves: noise at its ends would double the bounds each time."""
    mean = run.total / (run.last - run.first + 1)
    part = _best_run(counts[run.first : run.last + 1], min(max(0.75 * mean, _PENALTY), 3 * _PENALTY))
    return _Run(run.first + part.first, run.first + part.last, run.score, run.total)


@lru_cache(maxsize=16)
def _scan_threshold(false_alarm: float) -> float:
    """Return a score that noise alone exceeds with at most this probability: a union bound over all runs."""
    lengths = np.arange(1, MAGNITUDES + 1)

    def alarms(score: float) -> float:
        tails = ndtr(-(score + _PENALTY * lengths) / np.sqrt(lengths))
        return float(_SCANS * ((MAGNITUDES + 1 - lengths) * tails).sum())

    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if alarms(middle) > false_alarm else (low, middle)
    return high


def _ends(magnitude: int) -> tuple[float, float]:
    far = math.ldexp(1.0, LOWEST + magnitude)
    return (0.0 if magnitude == 0 else far / 2), far
