"""Noise vectors for learning, each within a known distance of a real-valued one of the exact law."""

from __future__ import annotations

import math

import numpy as np

from hush.estimators.base.estimator import Floats
from hush.mechanisms import Laplace
from hush.randomness import RandomSource, floored_gaussian, floored_laplace

_UNIT = 2.0**44
_FINE = 2.0**50


def gaussian_vector(source: RandomSource, stddev: float, size: int) -> tuple[Floats, float]:
    """Return a vector of normals, and how far from a real-valued one it may be: integers know that they are floors."""
    steps = floored_gaussian(source, _UNIT, size).astype(np.float64) + 0.5
    return steps * (stddev / _UNIT), stddev * math.sqrt(size) / _UNIT


def spherical_vector(source: RandomSource, scale: float, size: int) -> tuple[Floats, float]:
    """Return a vector of density ~ e^(-|b| / scale), |b| its L2 norm; and how far from a real-valued one it may be.

    Its norm is a sum of ``size`` exponential variables, its direction that of normals. Norms beyond (2 size + 200)
    scales, of probability below e^-100, are cut off; short vectors of normals, whose direction rounding would move,
    are drawn again: within 2^-50 of the law in total variation, besides the distance that is returned.
    """
    most = 2.0 * size + 200.0
    parts = np.abs(floored_laplace(source, _UNIT, size).astype(np.float64) + 0.5)
    norm = min(float(parts.sum()) / _UNIT, most)
    direction = np.zeros(size)
    shortest = 0.0 if size == 1 else math.sqrt(size) * _UNIT  # of a single one the sign is exact
    while not np.linalg.norm(direction) > shortest:
        direction = floored_gaussian(source, _FINE, size).astype(np.float64) + 0.5
    unit = direction / np.linalg.norm(direction)
    return unit * (norm * scale), scale * (most * 2.0**-42 + size / _UNIT)


def settle(weights: Floats, *, distance: float, epsilon: float, source: RandomSource) -> Floats:
    """Release weights that are within ``distance`` of a private result, whatever the data say about the rest.

    Given the private result, those of two neighbours are within twice the distance of each other.
    """
    reach = 2 * distance * math.sqrt(weights.size)
    mechanism = Laplace(epsilon=epsilon, sensitivity=reach, size=weights.size)
    return np.asarray(mechanism.release(weights.ravel(), source).value).reshape(weights.shape)
