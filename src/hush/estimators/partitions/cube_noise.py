r"""Noise for vectors of which one row changes every coordinate by a step's worth: uniform in a random cube.

P(z) proportional to exp(-|z|_inf / scale) over vectors z of d integers: the K-norm mechanism of the cube (Hardt &
Talwar 2010, Definition 3.1). Where a row changes each of d sums by 1 at most, epsilon-differential privacy takes
scale = 1 / epsilon, and the variance of a coordinate is (d + 1)(d + 2) / 3 scale^2, about. Laplace noise, for the L1
norm of the same change, has 2 d^2 scale^2: six times as much.

Exact sampling: exp(-m / s) is a sum over all j >= m of (1 - q) q^j with q = exp(-1 / s). So z is uniform in the cube of
half side j, and j has weights q^j (2 j + 1)^d. The sum of d + 1 geometric variables has weights q^j (j + 1) ... (j + d)
instead: it is accepted with the product of (2 j + 1) / (2 j + 2 i) over i = 1 ... d, which coins decide one by one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument
from hush.randomness import RandomSource, geometric, uniform_below

_LARGEST = 2.0**34


def cube_noise(source: RandomSource, scale: float, dimension: int, size: int) -> NDArray[np.int64]:
    """Return ``size`` independent vectors of so many dimensions."""
    if not 0 < scale <= _LARGEST:
        raise InvalidArgument("epsilon", "too small", "less noise than 2^18 times a row", "Take a larger epsilon")
    noise = np.empty((size, dimension), dtype=np.int64)
    for place in range(size):
        half = _half_side(source, scale, dimension)
        noise[place] = uniform_below(source, 2 * half + 1, dimension) - half
    return noise


def _half_side(source: RandomSource, scale: float, dimension: int) -> int:
    while True:
        half = int(geometric(source, scale, dimension + 1).sum())
        bounds = np.uint64(2 * half) + 2 * np.arange(1, dimension + 1, dtype=np.uint64)
        if (_uniform(source, bounds) <= 2 * half).all():
            return half


def _uniform(source: RandomSource, bounds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return an integer below each bound, uniform: as `uniform_below`, which has one bound for all."""
    surplus = (np.uint64(0) - bounds) % bounds  # 2^64 modulo the bound: words below it would favour small remainders
    words = source.words(len(bounds))
    while (rejected := np.flatnonzero(words < surplus)).size:
        words[rejected] = source.words(rejected.size)
    return words % bounds


def cube_deviation(scale: float, dimension: int) -> float:
    """Return the standard deviation of a coordinate, for a large scale."""
    return scale * math.sqrt((dimension + 1) * (dimension + 2) / 3)
