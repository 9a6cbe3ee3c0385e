"""The distance that an input may move before a smoothed prediction can change.

It follows from bounds on the class probabilities under noise. `smoothing.py` estimates the bounds by voting.
`hush.lab.radius` has an older, smaller radius.
"""

from __future__ import annotations

from enum import Enum

from scipy.special import ndtri

from hush.errors import InvalidArgument, check_positive


class InputNorm(Enum):
    """The norm in which an attacker's change of an input is measured.

    >>> InputNorm.LINF.value
    'Linf'
    """

    L1 = "L1"
    L2 = "L2"
    LINF = "Linf"


def gaussian_radius(lower: float, upper: float, noise_stddev: float) -> float:
    """Return the L2 radius within which the most likely class stays the most likely; 0 if there is none.

    The radius is noise_stddev / 2 (Phi^-1(lower) - Phi^-1(upper)), for bounds on probabilities or on expected scores in
    [0, 1]. It is the largest radius that follows from the two bounds: for some classifier with these probabilities, the
    prediction flips just beyond it. In terms of Gaussian differential privacy, an input moved by r is a neighbour with
    mu = r / noise_stddev.

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
    check_probabilities(lower, upper, noise_stddev)
    if not lower > upper:
        return 0.0
    return float(noise_stddev / 2 * (ndtri(lower) - ndtri(upper)))


def check_probabilities(lower: float, upper: float, noise_stddev: float) -> None:
    """Refuse invalid probabilities and noise."""
    check_positive("noise_stddev", noise_stddev)
    if not (0 <= lower <= 1 and 0 <= upper <= 1):
        raise InvalidArgument("lower", (lower, upper), "two probabilities")
