r"""Confidence intervals: tails of weighted sums of independent noise, and intervals for ratios of noisy totals.

`reach` bounds the error of a linear function of the totals, such as a count or a sum. `quotients` gives an interval for
a ratio of two linear functions, such as a mean. `variance_ends` combines such intervals into one for a variance.

A ratio r = a.T / b.T of exact totals T is tested through a.T' - r b.T', where T' are the noisy totals. At the true r
this is noise alone, with the known coefficients a - r b. The interval is the set of all r that the test accepts
(Fieller 1954). The quantile of |sum_i c_i X_i| is a norm of c for Laplace and Gaussian X (Bobkov 2010: symmetric
log-concave laws), so it is convex in r, with a slope of at most that of b. If b.T' exceeds its own quantile, the set is
therefore an interval around the estimate, and bisection finds its ends. If it does not, the denominator could be
anything, and the interval is the full range.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfc, ndtri

Floats = NDArray[np.float64]
Tail = Callable[[Floats, Floats], Floats]

_APART = 1.002  # the smallest ratio of two Laplace scales; closer, the partial fractions cancel and lose digits
_BISECTIONS = 44  # halves an interval to 2^-44 of its width
_TINY = 1e-300  # a positive number in place of zero, in denominators
_FREQUENCIES, _FREQUENCY_STEP = 64, 0.25  # of the characteristic function of a sum of deviation 1
_CENTRES, _MAX_CENTRES = 256, 16  # grid of candidate means, and how many steps of it a mean's interval may span


def gaussian_tail(coefficients: Floats, size: Floats) -> Floats:
    """Return P(|sum c_i X_i| > size) for independent standard normal X_i.

    Args:
        coefficients: The c_i, along the last axis.
        size: The threshold, one for each set of coefficients.
    """
    spread = np.maximum(np.sqrt(np.square(coefficients).sum(axis=-1)), _TINY)
    return np.asarray(erfc(size / spread / math.sqrt(2)))


def laplace_tail(coefficients: Floats, size: Floats) -> Floats:
    """Return an upper bound, tight to about 1 %, on P(|sum c_i X_i| > size) for independent Laplace X_i of scale 1.

    By partial fractions of the characteristic function, prod 1 / (1 + c_i^2 u^2): the tail is sum w_i e^(-size / c_i)
    with w_i = prod_j c_i^2 / (c_i^2 - c_j^2). Scales that are too close are moved apart, upwards, which enlarges the
    tail.

    Args:
        coefficients: The c_i, along the last axis.
        size: The threshold, one for each set of coefficients.
    """
    scales = np.sort(np.abs(coefficients), axis=-1)
    largest = np.maximum(scales[..., -1:], _TINY)
    # Raised to a thousandth of the largest scale: the tail grows by little, and no weight underflows.
    scales = np.maximum(scales, 1e-3 * largest)
    for index in range(1, scales.shape[-1]):
        scales[..., index] = np.maximum(scales[..., index], _APART * scales[..., index - 1])
    squares = np.square(scales)
    differences = squares[..., :, None] - squares[..., None, :]
    diagonal = np.arange(scales.shape[-1])
    differences[..., diagonal, diagonal] = squares  # a factor of 1
    weights = np.prod(squares[..., :, None] / differences, axis=-1)
    total = (weights * np.exp(-np.asarray(size)[..., None] / scales)).sum(axis=-1)
    clipped: Floats = np.clip(total, 0.0, 1.0)
    return clipped


def laplace_sum_tail(scales: Floats, numbers: Floats, size: Floats) -> Floats:
    r"""Return an upper bound, tight to 1e-4 if many terms matter, on P(sum > size) for independent Laplace variables.

    The characteristic function phi(u) = prod (1 + c^2 u^2)^-n is real and positive. With deviation 1,
    P(S > t) = 1/2 - sum_k phi(u_k) sin(t u_k) / (pi (k + 1/2)) + A, for u_k = (k + 1/2) h (Davies 1973). Aliases A are
    at most P(S > 2 pi / h - t). What the frequencies beyond the last one, U, would add is at most the integral of
    phi / (pi u), and with c the largest scale, phi(u) <= phi(U) (1 + c^2 U^2) / (1 + c^2 u^2).

    For t > 10, and for the aliases, Chernoff's bound e^(-u t) prod (1 - c^2 u^2)^-n is largest for a single term (the
    factor's logarithm is convex in c^2), and is then 6.5 e^(-1.3 t) at u = 1.3.

    Args:
        scales: The scales c of groups of terms, along the last axis.
        numbers: How many terms have each scale.
        size: The threshold, at least 0, one for each row.
    """
    deviation = np.maximum(np.sqrt(2 * (numbers * scales**2).sum(axis=-1)), _TINY)
    relative, t = scales / deviation[:, None], size / deviation
    steps = np.arange(_FREQUENCIES) + 0.5
    logs = np.zeros((len(t), _FREQUENCIES))
    for index in range(scales.shape[-1]):
        logs -= numbers[:, index, None] * np.log1p((relative[:, index, None] * steps * _FREQUENCY_STEP) ** 2)
    phi = np.exp(logs)
    tail = 0.5 - (phi * np.sin(t[:, None] * steps * _FREQUENCY_STEP) / (math.pi * steps)).sum(axis=-1)
    last = np.square(np.where(numbers > 0, relative, 0.0).max(axis=-1) * steps[-1] * _FREQUENCY_STEP)
    truncated = phi[:, -1] * (1 + 1 / np.maximum(last, _TINY)) / (2 * math.pi)
    far = 6.5 * math.exp(-1.3 * (2 * math.pi / _FREQUENCY_STEP - 10))
    bound = np.clip(tail, 0.0, 1.0) + truncated + far
    # Beyond 10, aliases would count.
    return np.asarray(np.minimum(np.where(t > 10, 1.0, bound), 6.5 * np.exp(-1.3 * t)))


def reach(tail: Tail, coefficients: ArrayLike, wrong: float) -> float:
    """Return a bound that |sum c_i X_i| exceeds with probability at most ``wrong``.

    Args:
        tail: The law of the X_i.
        coefficients: The c_i.
        wrong: The probability of exceeding the bound.
    """
    weights = np.asarray(coefficients, dtype=np.float64)
    if tail is gaussian_tail:  # in closed form
        return -float(ndtri(wrong / 2)) * float(np.sqrt(np.square(weights).sum()))
    return _reach_by_bisection(tail, tuple(weights.tolist()), wrong)


@lru_cache(maxsize=256)
def _reach_by_bisection(tail: Tail, coefficients: tuple[float, ...], wrong: float) -> float:
    """Return the same for Laplace variables, whose tail has no inverse in closed form."""
    weights = np.array(coefficients)
    # A sum of Laplace variables exceeds sum |c_i| (ln(1 / wrong) + 40) with a probability far below ``wrong``.
    low, high = 0.0, float(np.abs(weights).sum()) * (math.log(1 / wrong) + 40)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if float(tail(weights, np.array(middle))) <= wrong else (middle, high)
    return high  # the side on which the probability is small enough


def quotients(
    tail: Tail,
    noisy: Floats,
    scales: Floats,
    top: ArrayLike,
    bottom: ArrayLike,
    wrong: float,
    limits: tuple[float, float] = (0.0, 1.0),
    slack: float = 0.0,
) -> tuple[Floats, Floats]:
    """Return an interval for (top . T) / max(1, bottom . T), for each row of noisy totals T' = T + scales * X.

    Args:
        tail: The law of the noise X.
        noisy: The noisy totals T', one row per group.
        scales: The noise scale of each column.
        top: Coefficients of the numerator: one set for all rows, or one row per group.
        bottom: Coefficients of the denominator, which is an integer, and at least 1 where the ratio matters.
        wrong: The probability with which an interval may miss.
        limits: The range that the ratio is known to be in.
        slack: What rounding may add to |top . T' - r bottom . T'|.

    Returns:
        The lower and the upper ends, one per row.
    """
    above, below = np.broadcast_to(np.asarray(top, dtype=np.float64), noisy.shape), np.asarray(bottom, dtype=np.float64)
    numerator, denominator = (noisy * above).sum(axis=1), noisy @ below
    denominator_reach = reach(tail, below * scales, wrong) + slack
    certain = denominator > np.maximum(denominator_reach, _TINY)
    estimate = np.clip(numerator / np.where(certain, denominator, 1.0), *limits)

    def accepted(ratio: Floats) -> NDArray[np.bool_]:
        size = np.maximum(np.abs(numerator - ratio * denominator) - slack, 0.0)
        return tail((above - ratio[:, None] * below) * scales, size) >= wrong

    ends = []
    for limit in limits:
        inside, outside = estimate.copy(), np.full(len(estimate), float(limit))
        for _ in range(_BISECTIONS):
            middle = 0.5 * (inside + outside)
            is_inside = accepted(middle)
            inside, outside = np.where(is_inside, middle, inside), np.where(is_inside, outside, middle)
        # If even the limit is accepted, bisection has moved all the way to it.
        ends.append(np.where(certain, outside, float(limit)))
    return ends[0], ends[1]


def variance_ends(
    mean_low: Floats, mean_high: Floats, moment_ends: Callable[[NDArray[np.int64], Floats], tuple[Floats, Floats]]
) -> tuple[Floats, Floats]:
    """Return intervals for the variance of s, which is in [0, 1], from intervals for its mean m.

    For any centre c, Var s = E (s - c)^2 - (c - m)^2. Of the centres on a grid with steps of 1 / 256, one is within
    1 / 512 of m. At that centre, E (s - c)^2 is a ratio of totals with an interval of its own, and the last term is at
    most 1 / 512^2. The closest centre is not known, so the result covers the intervals at all centres that are
    possible: up to 17 of them. If there are more, the interval is the full range [0, 1/4].

    Args:
        mean_low: The lower ends of the means' intervals, one per group.
        mean_high: The upper ends.
        moment_ends: Returns intervals for E (s - c)^2, given indices of groups and a centre c for each.
    """
    low, high = np.full(len(mean_low), np.inf), np.full(len(mean_low), -np.inf)
    start, stop = np.floor(mean_low * _CENTRES), np.ceil(mean_high * _CENTRES)
    too_wide = stop - start > _MAX_CENTRES
    for step in range(_MAX_CENTRES + 1):
        rows = np.flatnonzero(~too_wide & (start + step <= stop))
        if not rows.size:
            break
        moment_low, moment_high = moment_ends(rows, ((start + step) / _CENTRES)[rows])
        low[rows] = np.minimum(low[rows], moment_low - (0.5 / _CENTRES) ** 2)
        high[rows] = np.maximum(high[rows], moment_high)
    return np.where(too_wide, 0.0, low), np.where(too_wide, 0.25, high)
