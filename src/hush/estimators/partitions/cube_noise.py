"""Noise for sums in which one row changes every coordinate by at most 1: uniform in a random cube.

The density is P(z) ~ exp(-|z|_inf / scale) over vectors z of d integers: the K-norm mechanism of the cube (Hardt &
Talwar 2010, Definition 3.1). Where a row changes each of d sums by at most 1, scale = 1 / epsilon gives
epsilon-differential privacy, and a coordinate has variance of about (d + 1)(d + 2) / 3 scale^2. Laplace noise,
calibrated to the L1 norm of the same change, has variance 2 d^2 scale^2: six times as much.

Exact sampling: with q = exp(-1 / s), exp(-m / s) is the sum over all j >= m of (1 - q) q^j. So z is uniform in the cube
of half side j, where j has weights q^j (2 j + 1)^d. The sum of d + 1 geometric variables has weights
q^j (j + 1) ... (j + d) instead. It is therefore accepted with probability prod_i (2 j + 1) / (2 j + 2 i), i = 1 ... d,
decided by one coin per factor.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument
from hush.randomness import RandomSource, geometric, uniform_below

_MAX_SCALE = 2.0**34


def cube_noise(source: RandomSource, scale: float, dimension: int, size: int) -> NDArray[np.int64]:
    """Return ``size`` independent noise vectors with ``dimension`` coordinates each."""
    if not 0 < scale <= _MAX_SCALE:
        advice = "Larger noise would not fit into 64 bits", "Use a larger epsilon"
        raise InvalidArgument("scale", scale, "a number > 0 of at most 2^34", *advice)
    noise = np.empty((size, dimension), dtype=np.int64)
    for index in range(size):
        half_side = _half_side(source, scale, dimension)
        # Uniform over the (2 j + 1)^d integer points of the cube of half side j.
        noise[index] = uniform_below(source, 2 * half_side + 1, dimension) - half_side
    return noise


def _half_side(source: RandomSource, scale: float, dimension: int) -> int:
    """Return the half side j of the random cube."""
    while True:
        # The sum of d + 1 geometric variables: weights q^j (j + d choose d), the proposal for q^j (2 j + 1)^d.
        half_side = int(geometric(source, scale, dimension + 1).sum())
        # Coin i shows a uniform integer below 2 j + 2 i; it must be at most 2 j.
        bounds = np.uint64(2 * half_side) + 2 * np.arange(1, dimension + 1, dtype=np.uint64)
        if (_uniform_below_each(source, bounds) <= 2 * half_side).all():
            return half_side


def _uniform_below_each(source: RandomSource, bounds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a uniform integer below each bound. `uniform_below` takes a single bound for all."""
    surplus = (np.uint64(0) - bounds) % bounds  # 2^64 modulo the bound: smaller words would bias the remainder
    words = source.words(len(bounds))
    while (rejected := np.flatnonzero(words < surplus)).size:
        words[rejected] = source.words(rejected.size)
    return words % bounds


def cube_deviation(scale: float, dimension: int) -> float:
    """Return the standard deviation of a coordinate, for a large scale."""
    # For a large scale, j is Gamma(d + 1, scale): E j^2 = (d + 1)(d + 2) scale^2. A uniform number in [-j, j] has the
    # variance j^2 / 3.
    return scale * math.sqrt((dimension + 1) * (dimension + 2) / 3)
