"""Noise vectors for linear models, each with a bound on its distance from real-valued noise.

The theorems are about real-valued noise; a computer draws a nearby grid point. Each sampler therefore returns a vector
and a distance: some real-valued vector of the exact distribution lies within it. `mask_error` then adds a little
Laplace noise, which hides differences of that size, and those between an approximate and an exact minimum.
"""

from __future__ import annotations

import math

import numpy as np

from hush.estimators.base.estimator import Floats
from hush.mechanisms import Laplace
from hush.randomness import RandomSource, floored_gaussian, floored_laplace

_UNIT = 2.0**44  # grid steps in one standard deviation, or in one scale
_FINE = 2.0**50  # the same for directions


def gaussian_vector(source: RandomSource, stddev: float, size: int) -> tuple[Floats, float]:
    """Return a Gaussian vector, and its distance from a real-valued one.

    The sampler returns floors of real-valued draws in steps of 1 / _UNIT, so adding half a step leaves an error of at
    most half a step per coordinate.
    """
    steps = floored_gaussian(source, _UNIT, size).astype(np.float64) + 0.5
    return steps * (stddev / _UNIT), stddev * math.sqrt(size) / _UNIT


def spherical_vector(source: RandomSource, scale: float, size: int) -> tuple[Floats, float]:
    """Return a vector b with density ~ e^(-|b| / scale) in its L2 norm |b|, and its distance from a real-valued one.

    The norm is a sum of ``size`` exponential variables, and the direction is that of a Gaussian vector. Norms beyond (2
    size + 200) scales, which have probability below e^-100, are cut off. Gaussian vectors so short that rounding would
    change their direction are drawn again. Both change the distribution by less than 2^-50 in total variation.
    """
    max_norm = 2.0 * size + 200.0
    # The absolute value of a Laplace variable is exponential.
    exponentials = np.abs(floored_laplace(source, _UNIT, size).astype(np.float64) + 0.5)
    norm = min(float(exponentials.sum()) / _UNIT, max_norm)
    direction = np.zeros(size)
    # In one dimension the direction is a sign, which is exact.
    min_length = 0.0 if size == 1 else math.sqrt(size) * _UNIT
    while not np.linalg.norm(direction) > min_length:
        direction = floored_gaussian(source, _FINE, size).astype(np.float64) + 0.5
    unit = direction / np.linalg.norm(direction)
    return unit * (norm * scale), scale * (max_norm * 2.0**-42 + size / _UNIT)


def mask_error(weights: Floats, *, distance: float, epsilon: float, source: RandomSource) -> Floats:
    """Release weights that lie within ``distance`` of a private result, and hide the difference.

    Given the private result, the weights on two neighbouring datasets are within twice the distance of each other.
    Laplace noise of that sensitivity makes them ``epsilon``-private.
    """
    # An L2 distance of 2 * distance is an L1 distance of at most sqrt(n) times as much.
    sensitivity = 2 * distance * math.sqrt(weights.size)
    mechanism = Laplace(epsilon=epsilon, sensitivity=sensitivity, size=weights.size)
    return np.asarray(mechanism.release(weights.ravel(), source).value).reshape(weights.shape)
