"""Gaussian noise in single precision for smoothed predictions, millions of values at a time. Not for privacy.

    words    64 random bits: 32 for a radius, 32 for an angle
    draws    Box-Muller: two coordinates for each radius and angle
    values   four sums of four draws each, with orthogonal signs, divided by 2

*Why sums.* Floating-point noise from a single Box-Muller draw can be inverted: a sampler reaches few values, and the
gaps reveal which exact value was perturbed (Mironov 2012; Jin et al. 2022). With sums of four independent draws, an
attacker would have to search their product space (Holohan & Braghin 2021, Section 4). The signs form a Hadamard matrix,
and an orthogonal transform of independent Gaussians gives independent Gaussians, so four draws make four values. An
attacker who knows all four could solve for the draws only up to the rounding of the sums, which is coarser than the
steps of the radii and angles. But small values still lie on a lattice: a sum with this noise shows its low bits.

*Where it is used.* For certified predictions (`hush.stability`), whose noise hides nothing. Whatever protects people
uses the exact samplers; training has one of its own (`hush.training.noise`).

*Tails.* A radius from 32 bits ends at 6.7 standard deviations, which millions of values would notice. If the first 32
bits are nearly all 0, it gets 64 more.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hush.errors import check_count
from hush.randomness.source import RandomSource

MIXED = 4  # draws in a sum
_CHUNK = 1 << 14  # fits into the processor's cache
_SMALL_HALF = 1 << 10  # a 32-bit half below it gets more bits
_TURN = np.float32(2 * math.pi * 2.0**-32)
_UNIT = np.float32(2.0**-32)
# The squared radius is -2 ln u. A sum of n draws has n times the variance, so each is scaled by 1 / n.
_SQUARE = np.float32(-2 / MIXED)


def standard_normal(source: RandomSource, size: int) -> NDArray[np.float32]:
    """Return ``size`` Gaussian values of mean 0 and variance 1 in single precision.

    >>> from hush.randomness import TestSource
    >>> noise = standard_normal(TestSource(seed=1), 100_000)
    >>> noise.dtype, bool(abs(noise.mean()) < 0.02), bool(abs(noise.var() - 1) < 0.02)
    (dtype('float32'), True, True)
    """
    check_count("size", size, minimum=0)
    columns = -(-size // (2 * MIXED))
    result = np.empty(2 * MIXED * columns, dtype=np.float32)
    for start in range(0, columns, _CHUNK):
        count = min(_CHUNK, columns - start)
        offset = 2 * MIXED * start
        _fill(source, result[offset : offset + 2 * MIXED * count].reshape(2, MIXED, count))
    return result[:size]


def _fill(source: RandomSource, out: NDArray[np.float32]) -> None:
    """Write mixed coordinates of independent Gaussian pairs to an array of shape [2, 4, count]."""
    count = out.shape[2]
    halves = source.words(MIXED * count).view(np.uint32).reshape(2, MIXED, count)
    radii, angles = halves.astype(np.float32)
    radii += np.float32(0.5)
    small = np.flatnonzero(halves[0].ravel() < _SMALL_HALF)
    if small.size:
        further_bits = source.words(small.size).astype(np.float64) * 2.0**-64
        radii.ravel()[small] = halves[0].ravel()[small] + further_bits
    radii *= _UNIT
    np.log(radii, out=radii)
    radii *= _SQUARE
    np.sqrt(np.maximum(radii, 0, out=radii), out=radii)
    angles *= _TURN
    for coordinate, values in enumerate((np.cos(angles), np.sin(angles))):
        a, b, c, d = values * radii
        # Two stages of the Hadamard transform.
        for row, (left, right) in enumerate(((a + b, c + d), (a - b, c - d))):
            np.add(left, right, out=out[coordinate, row])
            np.subtract(left, right, out=out[coordinate, row + 2])
