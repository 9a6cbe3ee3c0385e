"""How far an input may move before the smoothed prediction can change."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from hush.accounting.losses.noise_profiles import GaussianProfile
from hush.errors import InvalidArgument, check_positive

_EPSILONS = np.linspace(0.0, 12.0, 481)
_HALVINGS = 60


def gaussian_radius(lower: float, upper: float, noise_stddev: float) -> float:
    """Return the L2 radius within which the best class stays the best, 0 if there is none.

    The largest that these two numbers can prove: among all classifiers with them, one turns just beyond it. It is the
    trade-off function of Gaussian differential privacy at work: an input that moves by r is a neighbour with mu = r /
    ``noise_stddev``.

    Args:
        lower: What the probability of the best class under noise is at least.
        upper: What that of every other class is at most.
        noise_stddev: Of the noise on the input.

    References:
        Cohen, Rosenfeld & Kolter 2019, Theorem 1; Dong, Roth & Su 2022 (the trade-off function).

    >>> round(gaussian_radius(0.9, 0.1, 1.0), 3)
    1.282
    """
    _check(lower, upper, noise_stddev)
    if not lower > upper:
        return 0.0
    return float(noise_stddev / 2 * (ndtri(lower) - ndtri(upper)))


def pixeldp_radius(lower: float, upper: float, noise_stddev: float) -> float:
    """Return the L2 radius that a single (epsilon, delta) proves, 0 if there is none; the older, smaller bound.

    Noise that makes a prediction (epsilon, delta)-differentially private in the input's pixels leaves the best class
    the best if lower > e^(2 epsilon) upper + (1 + e^epsilon) delta. Variant: delta is that of the Gaussian mechanism to
    the last digit, and the best epsilon on a grid is taken, where the paper has the classic calibration at one.

    Args:
        lower: As for `gaussian_radius`; also of an expected score in [0, 1].
        upper: The same.
        noise_stddev: Of the noise on the input.

    References:
        Lecuyer, Atlidakis, Geambasu, Hsu & Jana 2019 (PixelDP), Proposition 1; Balle & Wang 2018, Theorem 8.

    >>> 0.5 < pixeldp_radius(0.9, 0.1, 1.0) < gaussian_radius(0.9, 0.1, 1.0)
    True
    """
    _check(lower, upper, noise_stddev)
    low, high = 0.0, max(gaussian_radius(lower, upper, noise_stddev), 0.0)
    if math.isinf(high):  # probabilities of 1 and 0: no epsilon proves more than this
        high = 40.0 * noise_stddev
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _holds(lower, upper, middle / noise_stddev) else (low, middle)
    return low


def _holds(lower: float, upper: float, shift: float) -> bool:
    if not shift > 0:
        return lower > upper
    deltas = GaussianProfile(shift).delta(_EPSILONS)
    growth = np.exp(_EPSILONS)
    return bool((lower > growth**2 * upper + (1 + growth) * deltas).any())


def _check(lower: float, upper: float, noise_stddev: float) -> None:
    check_positive("noise_stddev", noise_stddev)
    if not (0 <= lower <= 1 and 0 <= upper <= 1):
        raise InvalidArgument("lower", (lower, upper), "two probabilities")
