"""Noise on votes: integer counts on a grid far finer than the noise, so that sums are exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument, check_positive
from hush.randomness import RandomSource, floored_gaussian

Counts = NDArray[np.int64]
Labels = NDArray[np.int64]
Sampler = Callable[[RandomSource, float, int], Counts]  # such as `floored_laplace`

MAX_TEACHERS = 1 << 20
_RESOLUTION = 25  # the grid is 2^25 times finer than the noise; counts still fit into 64 bits on the finest one


def check_counts(counts: Any) -> Counts:
    """Return counts as integers. Messages quote their shape and type only."""
    array = np.asarray(counts)
    if array.ndim != 2 or array.shape[1] < 2 or array.dtype.kind not in "iu":
        raise InvalidArgument(
            "counts", (array.shape, str(array.dtype)), "integers, one row per query with two or more classes"
        )
    # Clipping cannot change honest counts, and keeps hostile ones within 64 bits.
    votes: Counts = np.clip(array, 0, MAX_TEACHERS).astype(np.int64)
    return votes


def check_noise(name: str, value: float) -> None:
    """Check a noise scale in votes: large enough for the grid, and small enough to be useful."""
    if not 1e-3 <= check_positive(name, value) <= 1e6:
        raise InvalidArgument(name, value, "a number between 0.001 and 1e+06", "The noise is measured in votes")


def _noise(shape: tuple[int, ...], draw: Sampler, scale: float, source: RandomSource) -> tuple[Counts, int]:
    """Return noise in grid units, and the number of units in one vote: counts lie on the grid exactly."""
    # A power of two, so that scale * units_per_vote is exact, and in [2^25, 2^26) unless the noise is larger.
    units_per_vote = 1 << max(_RESOLUTION + 1 - math.frexp(scale)[1], 0)
    return draw(source, scale * units_per_vote, math.prod(shape)).reshape(shape), units_per_vote


def noisy_argmax(votes: Counts, draw: Sampler, scale: float, source: RandomSource) -> Labels:
    """Return the class with the largest noisy count of each row. Ties, about one in 2^25, go to the first class."""
    noise, units_per_vote = _noise(votes.shape, draw, scale, source)
    return np.asarray((votes * units_per_vote + noise).argmax(axis=1))


def passes_threshold(values: Counts, threshold: float, sigma: float, source: RandomSource) -> NDArray[np.bool_]:
    """Return which values reach the threshold after Gaussian noise is added to each."""
    noise, units_per_vote = _noise(values.shape, floored_gaussian, sigma, source)
    # values + noise >= threshold, compared exactly on the grid.
    return np.asarray(noise >= math.ceil(Fraction(threshold) * units_per_vote) - values * units_per_vote)
