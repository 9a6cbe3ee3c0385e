"""Votes with noise: whole counts on a grid that is far finer than the noise, so that sums are exact."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument, check_positive
from hush.randomness import RandomSource, floored_gaussian, floored_laplace

Counts = NDArray[np.int64]
Labels = NDArray[np.int64]

MOST_TEACHERS = 1 << 20
_RESOLUTION = 25  # the grid is 2^25 times finer than the noise: even the finest one holds all counts in 64 bits


def checked(counts: Any) -> Counts:
    """Return counts as whole numbers; messages tell their shape only."""
    array = np.asarray(counts)
    if array.ndim != 2 or array.shape[1] < 2 or array.dtype.kind not in "iu":
        raise InvalidArgument("counts", (array.shape, str(array.dtype)), "integers, one row of two or more per query")
    votes: Counts = np.clip(array, 0, MOST_TEACHERS).astype(np.int64)
    return votes


def check_noise(name: str, value: float) -> None:
    """Refuse noise of no use, or too fine for the grid."""
    if not 1e-3 <= check_positive(name, value) <= 1e6:
        raise InvalidArgument(name, value, "between 0.001 and 1e+06", "It is in votes")


def _noise(shape: tuple[int, ...], scale: float, source: RandomSource, *, gaussian: bool) -> tuple[Counts, int]:
    """Return noise in units of a grid of which 1 is a multiple, and that multiple: counts are on it exactly."""
    unit = 1 << max(_RESOLUTION + 1 - math.frexp(scale)[1], 0)
    draw = floored_gaussian if gaussian else floored_laplace
    return draw(source, scale * unit, math.prod(shape)).reshape(shape), unit


def noisy_argmax(votes: Counts, scale: float, source: RandomSource, *, gaussian: bool) -> Labels:
    """Return the largest of each row with noise; equal ones, about one in 2^25, go to the first class."""
    noise, unit = _noise(votes.shape, scale, source, gaussian=gaussian)
    return np.asarray((votes * unit + noise).argmax(axis=1))


def reaches(values: Counts, threshold: float, sigma: float, source: RandomSource) -> NDArray[np.bool_]:
    """Return which values reach the threshold, with Gaussian noise on each."""
    noise, unit = _noise(values.shape, sigma, source, gaussian=True)
    return np.asarray(noise >= math.ceil(Fraction(threshold) * unit) - values * unit)
