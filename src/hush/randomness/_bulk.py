"""Gaussian noise in single precision, by the million, for training.

Floating-point noise from one Box-Muller draw can be inverted: the few values that a sampler reaches give away which
exact value was perturbed (Mironov 2012; Jin et al. 2022). Here every value is a sum of independent draws, scaled back:
an attacker would have to search their product space (Holohan & Braghin 2021, Section 4, with two draws as in their own
implementation). Released statistics do not use this but the exact samplers; in training, gradients are themselves
rounded sums in single precision.

A radius comes from 32 bits, and from 64 where the first ones are nearly all 0: beyond what 32 reach, 6.7 standard
deviations, there is a probability that millions of values would add up.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hush.errors import check_count
from hush.randomness._source import Source

DRAWS = 2
_CHUNK = 1 << 14
_FEW_BITS = 1 << 10
_TURN = np.float32(2 * math.pi * 2.0**-32)
_UNIT = np.float32(2.0**-32)
# -2 ln u, and its scale: a sum of n has n times the variance.
_SQUARE = np.float32(-2 / DRAWS)


def standard_normal(source: Source, size: int) -> NDArray[np.float32]:
    """Return ``size`` Gaussian values of mean 0 and variance 1 in single precision."""
    check_count("size", size, minimum=0)
    result = np.empty(size + size % 2, dtype=np.float32)
    half = len(result) // 2
    for start in range(0, half, _CHUNK):
        stop = min(start + _CHUNK, half)
        _fill(source, result[start:stop], result[half + start : half + stop])
    return result[:size]


def _fill(source: Source, cosines: NDArray[np.float32], sines: NDArray[np.float32]) -> None:
    """Write the sums of the first and of the second coordinates of independent Gaussian pairs."""
    count = len(cosines)
    halves = source.words(DRAWS * count).view(np.uint32).reshape(2, DRAWS, count)
    radii, angles = halves.astype(np.float32)
    radii += np.float32(0.5)
    few = np.flatnonzero(halves[0].ravel() < _FEW_BITS)
    if few.size:
        more = source.words(few.size).astype(np.float64) * 2.0**-64
        radii.ravel()[few] = halves[0].ravel()[few] + more
    radii *= _UNIT
    np.log(radii, out=radii)
    radii *= _SQUARE
    np.sqrt(np.maximum(radii, 0, out=radii), out=radii)
    angles *= _TURN
    second = np.sin(angles)
    np.cos(angles, out=angles)
    angles *= radii
    second *= radii
    np.add.reduce(angles, axis=0, out=cosines)
    np.add.reduce(second, axis=0, out=sines)
