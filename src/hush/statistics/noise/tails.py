r"""Confidence: tails of weighted sums of independent noise, and intervals for quotients of noisy totals.

A quotient r = a.T / b.T of exact totals T is tested through a.T' - r b.T', which is noise alone at the true r: its
coefficients a - r b are known. The interval is the set of r that the test accepts (Fieller 1954). The quantile of
|sum_i c_i X_i| is a norm of c for Laplace and Gaussian X (Bobkov 2010: symmetric log-concave laws), so it is convex in
r with slope at most that of b: if b.T' exceeds its own quantile the set is an interval around the estimate, and its
ends are found by bisection. If it does not, the denominator may be anything, and the whole range is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfc, ndtri

Floats = NDArray[np.float64]
Tail = Callable[[Floats, Floats], Floats]

_APART = 1.002  # neighbouring Laplace scales; closer, partial fractions lose their digits
_STEPS = 44


def gaussian_tail(coefficients: Floats, size: Floats) -> Floats:
    """Return P(|sum c_i X_i| > size) for standard normal X; coefficients are along the last axis."""
    spread = np.maximum(np.sqrt(np.square(coefficients).sum(axis=-1)), 1e-300)
    return np.asarray(erfc(size / spread / math.sqrt(2)))


def laplace_tail(coefficients: Floats, size: Floats) -> Floats:
    """Return an upper bound, to a part in a hundred, on P(|sum c_i X_i| > size) for Laplace X of scale 1.

    By partial fractions of the characteristic function, prod 1 / (1 + c_i^2 u^2): the tail is sum w_i e^(-size / c_i),
    w_i = prod_j c_i^2 / (c_i^2 - c_j^2). Scales that are too close are moved apart, upwards: larger tails.
    """
    scales = np.sort(np.abs(coefficients), axis=-1)
    largest = np.maximum(scales[..., -1:], 1e-300)
    scales = np.maximum(scales, 1e-3 * largest)
    for place in range(1, scales.shape[-1]):
        scales[..., place] = np.maximum(scales[..., place], _APART * scales[..., place - 1])
    squares = np.square(scales)
    total = np.zeros(np.broadcast_shapes(scales.shape[:-1], np.shape(size)))
    for place in range(scales.shape[-1]):
        others = np.delete(squares, place, axis=-1)
        weights = np.prod(squares[..., place : place + 1] / (squares[..., place : place + 1] - others), axis=-1)
        total = total + weights * np.exp(-size / scales[..., place])
    return np.clip(total, 0.0, 1.0)


def reach(tail: Tail, coefficients: ArrayLike, wrong: float) -> float:
    """Return what |sum c_i X_i| exceeds with probability at most ``wrong``."""
    weights = np.asarray(coefficients, dtype=np.float64)
    if tail is gaussian_tail:
        return -float(ndtri(wrong / 2)) * float(np.sqrt(np.square(weights).sum()))
    low, high = 0.0, float(np.abs(weights).sum()) * (math.log(1 / wrong) + 40)
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if float(tail(weights, np.array(middle))) <= wrong else (middle, high)
    return high


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
    """Return an interval for (top . T) / max(1, bottom . T) from T' = T + scales * X, for each row of ``noisy``.

    Args:
        tail: The law of the noise X.
        noisy: T', one row for each group.
        scales: Of the noise, one for each column.
        top: Coefficients of the numerator: the same for all rows, or a row for each.
        bottom: Coefficients of the denominator, a whole number that is 1 at least where it matters.
        wrong: With which probability the interval may miss.
        limits: Between which the quotient is known to be.
        slack: What rounding may add to |top . T' - r bottom . T'|.
    """
    above, below = np.broadcast_to(np.asarray(top, dtype=np.float64), noisy.shape), np.asarray(bottom, dtype=np.float64)
    numerator, denominator = (noisy * above).sum(axis=1), noisy @ below
    least = reach(tail, below * scales, wrong) + slack
    certain = denominator > np.maximum(least, 1e-300)
    estimate = np.clip(numerator / np.where(certain, denominator, 1.0), *limits)

    def accepted(ratio: Floats) -> NDArray[np.bool_]:
        size = np.maximum(np.abs(numerator - ratio * denominator) - slack, 0.0)
        return tail((above - ratio[:, None] * below) * scales, size) >= wrong

    ends = []
    for limit in limits:
        inside, outside = estimate.copy(), np.full(len(estimate), float(limit))
        for _ in range(_STEPS):
            middle = 0.5 * (inside + outside)
            good = accepted(middle)
            inside, outside = np.where(good, middle, inside), np.where(good, outside, middle)
        # Where even the limit is accepted, bisection has gone all the way to it.
        ends.append(np.where(certain, outside, float(limit)))
    return ends[0], ends[1]
