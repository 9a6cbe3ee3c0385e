"""From mu of Gaussian differential privacy to epsilon, rounded down.

`rates.GaussianDP` and `one_run.OneRunFDP` first bound mu and then convert it here. The accountant rounds such
conversions up, because it states an upper bound; an audit states a lower bound, so this one rounds down.
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr

from hush.errors import InvalidArgument, check_delta, check_epsilon

_MAX_BISECTIONS = 200


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon of mu-Gaussian differential privacy at ``delta``, rounded down.

    It solves Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2) = delta for epsilon, where Phi is the
    standard normal distribution function.

    >>> [round(gdp_epsilon(mu, 1e-5), 6) for mu in (0.5, 1.0, 2.0)]
    [1.993091, 4.377178, 9.997256]

    Args:
        mu: The distance between two unit Gaussians that are as hard to tell apart as the mechanism's outputs.
        delta: A number in (0, 1). At delta = 0, epsilon is infinite.

    Returns:
        Epsilon, never above the solution.

    Guarantee:
        A lower bound on mu becomes a lower bound on epsilon.

    Assumes:
        The mechanism's trade-off curve is Gaussian (the caller's duty). For other mechanisms the number means nothing.

    References:
        Dong, Roth & Su 2022, Corollary 2.13; Balle & Wang 2018, Theorem 8.
    """
    mu = check_epsilon("mu", mu)
    if not check_delta("delta", delta) > 0:
        raise InvalidArgument("delta", delta, "a number in (0, 1)", "Gaussian noise has no finite epsilon at delta = 0")
    if mu == 0 or not _delta(mu, 0.0) > delta:
        return 0.0
    low, high = 0.0, 1.0
    # delta(epsilon) falls in epsilon, so doubling finds an upper end.
    while _delta(mu, high) > delta:
        low, high = high, 2 * high
    # Invariant: delta(low) > delta, so the solution lies above low, which is returned.
    for _ in range(_MAX_BISECTIONS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if _delta(mu, middle) > delta else (low, middle)
    return low


def _delta(mu: float, epsilon: float) -> float:
    """Return the delta of mu-GDP at ``epsilon``, in logarithms: the difference of the two terms cancels otherwise."""
    # a - b = -a (e^(ln b - ln a) - 1). The two terms agree in their leading digits if epsilon is small against mu.
    log_first = float(log_ndtr(-epsilon / mu + mu / 2))
    log_second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    return -math.exp(log_first) * math.expm1(min(log_second - log_first, 0.0))
