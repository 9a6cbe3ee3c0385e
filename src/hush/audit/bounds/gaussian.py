"""From the parameter of Gaussian differential privacy to epsilon, rounded down."""

from __future__ import annotations

import math

from scipy.special import log_ndtr

from hush.errors import InvalidArgument, check_delta, check_epsilon

_STEPS = 200


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon of mu-Gaussian differential privacy at ``delta``, from below.

    It solves Phi(-e / mu + mu / 2) - e^e Phi(-e / mu - mu / 2) = delta for e.

    >>> [round(gdp_epsilon(mu, 1e-5), 6) for mu in (0.5, 1.0, 2.0)]
    [1.993091, 4.377178, 9.997256]

    Args:
        mu: How far apart two unit Gaussians are that are as hard to tell from each other.
        delta: In (0, 1). At 0 epsilon is infinite.

    Guarantee:
        A lower bound on mu becomes a lower bound on epsilon.

    Assumes:
        A mechanism whose trade-off curve is the Gaussian one (the caller's duty): of another, this says nothing.

    References:
        Dong, Roth & Su 2022, Corollary 2.13; Balle & Wang 2018, Theorem 8.
    """
    mu = check_epsilon("mu", mu)
    if not check_delta("delta", delta) > 0:
        raise InvalidArgument("delta", delta, "a number in (0, 1)", "Gaussian noise has no finite epsilon at delta 0")
    if mu == 0 or not _delta(mu, 0.0) > delta:
        return 0.0
    low, high = 0.0, 1.0
    while _delta(mu, high) > delta:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if _delta(mu, middle) > delta else (low, middle)
    return low


def _delta(mu: float, epsilon: float) -> float:
    first = float(log_ndtr(-epsilon / mu + mu / 2))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    return -math.exp(first) * math.expm1(min(second - first, 0.0))
