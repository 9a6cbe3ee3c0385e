"""How far an input may move before a smoothed prediction can change.

Both functions take bounds on the class probabilities under noise, and return an L2 radius. `smoothing.py` estimates the
bounds by voting.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from hush.accounting import gaussian_delta
from hush.errors import InvalidArgument, check_positive

_EPSILONS = np.linspace(0.0, 12.0, 481)
_BISECTIONS = 60
_MAX_SHIFT = 40.0  # in standard deviations: no epsilon of the grid proves a larger shift


def gaussian_radius(lower: float, upper: float, noise_stddev: float) -> float:
    """Return the L2 radius within which the most likely class stays the most likely; 0 if there is none.

    The radius is noise_stddev / 2 (Phi^-1(lower) - Phi^-1(upper)). It is the largest that the two probabilities can
    prove: for some classifier with these probabilities, the prediction flips just beyond it. In terms of Gaussian
    differential privacy, an input moved by r is a neighbour with mu = r / noise_stddev.

    >>> round(gaussian_radius(0.9, 0.1, 1.0), 3)
    1.282

    Args:
        lower: A lower bound on the probability of the most likely class under noise.
        upper: An upper bound on the probability of every other class.
        noise_stddev: The standard deviation of the noise on each number of the input.

    Returns:
        The radius; infinite if lower is 1 and upper is 0.

    References:
        Cohen, Rosenfeld & Kolter 2019, Theorem 1; Dong, Roth & Su 2022 (the trade-off function).
    """
    _check(lower, upper, noise_stddev)
    if not lower > upper:
        return 0.0
    return float(noise_stddev / 2 * (ndtri(lower) - ndtri(upper)))


def pixeldp_radius(lower: float, upper: float, noise_stddev: float) -> float:
    """Return the L2 radius that a single (epsilon, delta) proves; 0 if there is none. An older, smaller bound.

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
    _check(lower, upper, noise_stddev)
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


def _check(lower: float, upper: float, noise_stddev: float) -> None:
    check_positive("noise_stddev", noise_stddev)
    if not (0 <= lower <= 1 and 0 <= upper <= 1):
        raise InvalidArgument("lower", (lower, upper), "two probabilities")
