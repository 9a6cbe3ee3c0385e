"""The distance that an input may move before a smoothed prediction can change, by the first proof (PixelDP).

`hush.stability.gaussian_radius` is the largest radius that the same probabilities prove. This one is for comparison.
"""

from __future__ import annotations

import math

import numpy as np

from hush.accounting import gaussian_delta
from hush.stability import check_probabilities, gaussian_radius

__all__ = ["pixeldp_radius"]

_EPSILONS = np.linspace(0.0, 12.0, 481)
_BISECTIONS = 60
_MAX_SHIFT = 40.0  # in standard deviations: no epsilon of the grid proves a larger shift


def pixeldp_radius(lower: float, upper: float, noise_stddev: float) -> float:
    """Return the L2 radius that follows from a single (epsilon, delta); 0 if there is none. An older, smaller bound.

    If the noise makes a prediction (epsilon, delta)-differentially private in the input's pixels, the most likely class
    stays the most likely if lower > e^(2 epsilon) upper + (1 + e^epsilon) delta. Variant: delta is the exact one of the
    Gaussian mechanism, and the best epsilon on a grid is used. The paper has the classic calibration at one epsilon.

    >>> 0.5 < pixeldp_radius(0.9, 0.1, 1.0) < gaussian_radius(0.9, 0.1, 1.0)
    True

    Args:
        lower: A lower bound on the probability, or expected score in [0, 1], of the most likely class.
        upper: An upper bound on that of every other class.
        noise_stddev: The standard deviation of the noise on each number of the input.

    Returns:
        The radius, always finite.

    References:
        Lecuyer, Atlidakis, Geambasu, Hsu & Jana 2019 (PixelDP), Proposition 1; Balle & Wang 2018, Theorem 8.
    """
    check_probabilities(lower, upper, noise_stddev)
    low, high = 0.0, max(gaussian_radius(lower, upper, noise_stddev), 0.0)
    if math.isinf(high):  # probabilities 1 and 0
        high = _MAX_SHIFT * noise_stddev
    # Invariant: low is proven. The exact radius is at most that of gaussian_radius.
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _is_proven(lower, upper, middle / noise_stddev) else (low, middle)
    return low


def _is_proven(lower: float, upper: float, shift: float) -> bool:
    """Whether some epsilon proves that a shift, in standard deviations, cannot flip the prediction."""
    if not shift > 0:
        return lower > upper
    deltas = gaussian_delta(_EPSILONS, shift)
    exp_epsilons = np.exp(_EPSILONS)
    return bool((lower > exp_epsilons**2 * upper + (1 + exp_epsilons) * deltas).any())
