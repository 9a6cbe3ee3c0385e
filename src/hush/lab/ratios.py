"""Approximate lower bounds on the ratio of two probabilities, as statistics packages print them.

An audit compares how often members and non-members of a training set are classified as members: a ratio of two rates.
The bounds below hold asymptotically and guarantee nothing for few trials, so no audit of hush uses them (see
`hush.audit`, whose bounds hold for any number). They are here because other tools report them.

All four take counts: ``x`` of ``m`` members and ``y`` of ``n`` non-members were classified as members. They return a
one-sided lower bound on the ratio of the two probabilities, which is too high with probability ``significance``
(asymptotically).

>>> counts = 90, 100, 30, 100
>>> for bound in (katz, adjusted_log, bailey, inverse_sinh):
...     print(f"{bound.__name__:12} {bound(*counts, significance=0.05):.4f}")
katz         2.3197
adjusted_log 2.3005
bailey       2.3418
inverse_sinh 2.3213
"""

from __future__ import annotations

import math

from scipy.special import ndtri

from hush.errors import InvalidArgument, check_count

__all__ = ["adjusted_log", "bailey", "inverse_sinh", "katz"]


def katz(x: int, m: int, y: int, n: int, *, significance: float) -> float:
    """Return the log-normal bound (Katz et al. 1978).

    exp(log((x / m) / (y / n)) - z s), with s^2 = 1/x - 1/m + 1/y - 1/n and the normal quantile z.
    """
    _check(x, m, y, n, significance)
    return math.exp(math.log((x / m) / (y / n)) + float(ndtri(significance)) * _log_ratio_stddev(x, m, y, n))


def adjusted_log(x: int, m: int, y: int, n: int, *, significance: float) -> float:
    """Return Katz's bound with a half added to every count (Walter 1975; Pettigrew et al. 1986)."""
    _check(x, m, y, n, significance)
    if x == m and y == n:
        # Both rates are 1: the estimated variance would be 0, so a half is taken off the successes instead.
        return math.exp(float(ndtri(significance)) * _log_ratio_stddev(m - 0.5, m, n - 0.5, n))
    ratio = ((x + 0.5) / (m + 0.5)) / ((y + 0.5) / (n + 0.5))
    return ratio * math.exp(float(ndtri(significance)) * _log_ratio_stddev(x + 0.5, m + 0.5, y + 0.5, n + 0.5))


def bailey(x: int, m: int, y: int, n: int, *, significance: float) -> float:
    """Return the bound from cube roots of the rates, which are nearly normal (Bailey 1987)."""
    _check(x, m, y, n, significance)
    z = -float(ndtri(significance))
    variance = (1 - x / m) / x + (1 - y / n) / y
    cross = z * z * (1 - x / m) * (1 - y / n) / (9 * x * y)
    lower = (1 - z * math.sqrt(max(variance - cross, 0.0)) / 3) / (1 - z * z * (1 - y / n) / (9 * y))
    return (x / m) / (y / n) * max(lower, 0.0) ** 3


def inverse_sinh(x: int, m: int, y: int, n: int, *, significance: float) -> float:
    """Return the bound from the inverse hyperbolic sine (Newcombe 2001)."""
    _check(x, m, y, n, significance)
    half_width = -float(ndtri(significance)) / 2 * _log_ratio_stddev(x, m, y, n)
    return (x / m) / (y / n) * math.exp(-2 * math.asinh(half_width))


def _log_ratio_stddev(x: float, m: float, y: float, n: float) -> float:
    """Return the standard deviation of log((x / m) / (y / n)), by the delta method."""
    return math.sqrt(1 / x - 1 / m + 1 / y - 1 / n)


def _check(x: int, m: int, y: int, n: int, significance: float) -> None:
    for name, count, total in (("x", x, m), ("y", y, n)):
        check_count(name, count)
        if not count <= check_count("total", total):
            raise InvalidArgument(name, count, "at most the number of trials")
    if not 0 < significance < 0.5:
        raise InvalidArgument("significance", significance, "a number in (0, 0.5)")
