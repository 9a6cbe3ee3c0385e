"""Gaussian noise in single precision, by the million, for training.

Floating-point noise from one Box-Muller draw can be inverted: the few values that a sampler reaches give away which
exact value was perturbed (Mironov 2012; Jin et al. 2022). Here every value is a sum of four independent draws, scaled
back, so that an attacker would have to search their product space (Holohan & Braghin 2021, Section 4). Four draws make
four values, by four sums with signs that are orthogonal to each other (a Hadamard matrix): an orthogonal transform of
independent Gaussians gives independent Gaussians, and no draw is used up for a sum. Whoever knows all four sums could
solve for the draws, up to the rounding of the sums, which is coarser than the steps of the draws' radii and angles.
Released statistics do not use this but the exact samplers; in training, gradients are themselves rounded sums in single
precision.

A radius comes from 32 bits, and from 64 where the first ones are nearly all 0: beyond what 32 reach, 6.7 standard
deviations, there is a probability that millions of values would add up.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hush.errors import check_count
from hush.randomness.source import RandomSource

MIXED = 4
_CHUNK = 1 << 14
_FEW_BITS = 1 << 10
_TURN = np.float32(2 * math.pi * 2.0**-32)
_UNIT = np.float32(2.0**-32)
# -2 ln u, and its scale: a sum of n has n times the variance.
_SQUARE = np.float32(-2 / MIXED)


def standard_normal(source: RandomSource, size: int) -> NDArray[np.float32]:
    """Return ``size`` Gaussian values of mean 0 and variance 1 in single precision."""
    check_count("size", size, minimum=0)
    columns = -(-size // (2 * MIXED))
    result = np.empty(2 * MIXED * columns, dtype=np.float32)
    for start in range(0, columns, _CHUNK):
        count = min(_CHUNK, columns - start)
        place = 2 * MIXED * start
        _fill(source, result[place : place + 2 * MIXED * count].reshape(2, MIXED, count))
    return result[:size]


def _fill(source: RandomSource, out: NDArray[np.float32]) -> None:
    """Write mixed coordinates of independent Gaussian pairs: [2, 4, count]."""
    count = out.shape[2]
    halves = source.words(MIXED * count).view(np.uint32).reshape(2, MIXED, count)
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
    for coordinate, values in enumerate((np.cos(angles), np.sin(angles))):
        a, b, c, d = values * radii
        e, f, g, h = a + b, a - b, c + d, c - d
        for place, (one, other) in enumerate(((e, g), (f, h))):
            np.add(one, other, out=out[coordinate, place])
            np.subtract(one, other, out=out[coordinate, place + 2])
