"""Approximate lower bounds on the ratio of two probabilities, as statistics packages print them.

They hold in the limit of many counts and promise nothing for few, so no audit of hush uses them. They are here to
be compared with: others report them. In all of them the ratio is (x / m) / (y / n), ``x`` of ``m`` members and ``y`` of
``n`` non-members accused, and the bound is one-sided with probability ``significance`` of missing.
"""

from __future__ import annotations

import math

from scipy.special import ndtri

from hush.errors import InvalidArgument, check_count


def katz(x: int, m: int, y: int, n: int, *, significance: float) -> float:
    """Return the log-normal bound (Katz et al. 1978)."""
    _check(x, m, y, n, significance)
    return math.exp(math.log((x / m) / (y / n)) + float(ndtri(significance)) * _spread(x, m, y, n))


def adjusted_log(x: int, m: int, y: int, n: int, *, significance: float) -> float:
    """Return Katz's bound with a half added to every count (Walter 1975; Pettigrew et al. 1986)."""
    _check(x, m, y, n, significance)
    if x == m and y == n:
        # Both rates are one: only this much of the data is left to speak.
        x_, y_ = m - 0.5, n - 0.5
        return math.exp(float(ndtri(significance)) * _spread(x_, m, y_, n))
    ratio = ((x + 0.5) / (m + 0.5)) / ((y + 0.5) / (n + 0.5))
    return ratio * math.exp(float(ndtri(significance)) * _spread(x + 0.5, m + 0.5, y + 0.5, n + 0.5))


def bailey(x: int, m: int, y: int, n: int, *, significance: float) -> float:
    """Return the bound from cube roots (Bailey 1987)."""
    _check(x, m, y, n, significance)
    z = -float(ndtri(significance))
    spread = (1 - x / m) / x + (1 - y / n) / y
    cross = z * z * (1 - x / m) * (1 - y / n) / (9 * x * y)
    lower = (1 - z * math.sqrt(max(spread - cross, 0.0)) / 3) / (1 - z * z * (1 - y / n) / (9 * y))
    return (x / m) / (y / n) * max(lower, 0.0) ** 3


def inverse_sinh(x: int, m: int, y: int, n: int, *, significance: float) -> float:
    """Return the bound from the inverse hyperbolic sine (Newcombe 2001)."""
    _check(x, m, y, n, significance)
    half = -float(ndtri(significance)) / 2 * _spread(x, m, y, n)
    return (x / m) / (y / n) * math.exp(-2 * math.asinh(half))


def _spread(x: float, m: float, y: float, n: float) -> float:
    return math.sqrt(1 / x - 1 / m + 1 / y - 1 / n)


def _check(x: int, m: int, y: int, n: int, significance: float) -> None:
    for name, count, total in (("x", x, m), ("y", y, n)):
        check_count(name, count)
        if not count <= check_count("total", total):
            raise InvalidArgument(name, count, "at most as many as there are trials")
    if not 0 < significance < 0.5:
        raise InvalidArgument("significance", significance, "a number in (0, 0.5)")
