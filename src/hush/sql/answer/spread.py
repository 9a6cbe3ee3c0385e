"""Intervals for variances, covariances, correlations and slopes, from noisy totals.

A variance has three: a count, a centred sum and a centred sum of squares. The method is that of
`hush.statistics.noise.variance_ends`: Var x = E (x - c)^2 - (c - m)^2 for any centre c, and for a c close to the mean m
the last term is negligible. This module writes E (x - c)^2 as a ratio of the three totals, and accounts for the
rounding of rows and of noise.

Statistics of two values u and v have four to six totals: a count, the sums of uv, u and v, and sums of squares. With
probability 1 - wrong, all of them are within their reaches at once, each of which fails with probability wrong over
their number. The interval has the least and the greatest value that interval arithmetic finds within these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hush.sql.syntax.releases import QueryStatistic
from hush.statistics.noise import Tail, quotients, reach, variance_ends

Floats = NDArray[np.float64]
Interval = tuple[float, float]


def variance_intervals(
    tail: Tail, noisy: Floats, scales: Floats, statistic: QueryStatistic, means: Floats, wrong: float
) -> tuple[Floats, Floats]:
    """Return the lower and upper ends of a variance's intervals, one for each row of ``noisy``.

    Args:
        tail: The law of the noise.
        noisy: The noisy count, centred sum and centred sum of squares, in steps of their grids.
        scales: The noise scale of each of these, in the same steps.
        statistic: The variance, over n or over n - 1.
        means: Intervals of the means, each of which misses with probability at most ``wrong`` / 4.
        wrong: The probability with which an interval may miss, including that of the mean.
    """
    width = statistic.bounds[1] - statistic.bounds[0]
    if width < 1e-100:  # its square underflows, and rows count as 0
        return np.zeros(len(noisy)), np.zeros(len(noisy))
    # Rescale to s = (x - lower) / width in [0, 1].
    means = np.clip((means - statistic.bounds[0]) / width, 0.0, 1.0)
    moment_wrong = wrong / 2 if statistic.sample else 3 * wrong / 4

    def moment_ends(rows: NDArray[np.int64], centres: Floats) -> tuple[Floats, Floats]:
        """Return intervals for E (s - c)^2, for `variance_ends`."""
        coefficients, slack = _second_moment(statistic, centres)
        return quotients(tail, noisy[rows], scales, coefficients, [1.0, 0.0, 0.0], moment_wrong, slack=slack)

    low, high = variance_ends(means[:, 0], means[:, 1], moment_ends)
    # On [0, 1], a variable of mean m has a variance of at most m (1 - m), which is largest for the m closest to 1/2.
    closest_mean = np.clip(0.5, means[:, 0], means[:, 1])
    high = np.minimum(high, closest_mean * (1 - closest_mean))
    slack = _row_rounding(statistic) / width**2
    low, high = np.clip(low - slack, 0.0, 0.25), np.clip(high + slack, 0.0, 0.25)
    if statistic.sample:  # n / (n - 1) is at least 1, and largest for the smallest possible n
        smallest_count = np.maximum(2.0, noisy[:, 0] - reach(tail, scales[:1], wrong / 4) - 0.5)
        high = high * smallest_count / (smallest_count - 1)
    return low * width**2, high * width**2


def _second_moment(statistic: QueryStatistic, centres: Floats) -> tuple[Floats, float]:
    """Return the coefficients of sum (s - c)^2 in the three totals, and what rounding of the noise adds to it.

    With x = a + offset_1 and x^2 = b + offset_2 for the centred values a and b that the totals add up,
    (x - c)^2 = b - 2 c a + (offset_2 - 2 c offset_1 + c^2), where the last term is a multiple of the count.
    """
    _, centred, squares = statistic.parts
    width = statistic.bounds[1] - statistic.bounds[0]
    c = statistic.bounds[0] + centres * width
    constant = squares.offset - 2 * c * centred.offset + c**2
    coefficients = np.column_stack([constant, -2 * c * centred.grid, np.full(len(c), squares.grid)]) / width**2
    # Noise is rounded by at most half a step. The ratio, at most 1, is the coefficient of the count in the denominator.
    return coefficients, 0.5 * float(1 + np.abs(coefficients).sum(axis=1).max())


def _row_rounding(statistic: QueryStatistic) -> float:
    """Return how much the variance changes when rows are rounded to the grids, by half a step each."""
    _, centred, squares = statistic.parts
    return squares.grid + 2 * max(map(abs, statistic.bounds)) * centred.grid


def paired_interval(statistic: QueryStatistic, totals: Sequence[float], reaches: Sequence[float]) -> Interval | None:
    """Return the interval of a covariance, correlation or slope; None for a slope that could be any number.

    Args:
        statistic: The statistic.
        totals: Its noisy totals, in steps of their grids.
        reaches: How far the noise of each of them reaches, in the same steps.
    """
    count = (max(1.0, totals[0] - reaches[0]), max(1.0, totals[0] + reaches[0]))
    largest = statistic.bounds[1] * (2 if statistic.sample else 1)
    if totals[0] - reaches[0] < 1:  # there may be hardly any rows
        return {"covariance": (-largest, largest), "correlation": (-1.0, 1.0)}.get(statistic.kind)
    means = [_mean_ends(statistic, index, totals, reaches, count) for index in range(1, len(totals))]
    product = _product(means[1], means[2])
    covariance = (means[0][0] - product[1], means[0][1] - product[0])
    if statistic.kind == "covariance":
        low, high = _product(covariance, _sample_factors(count)) if statistic.sample else covariance
        return max(low, -largest), min(high, largest)
    # The squares are those of v for a slope, of u and v for a correlation.
    squared = means[1:3] if statistic.kind == "correlation" else means[2:3]
    spreads = [_variance_ends(mean, square) for mean, square in zip(squared, means[3:], strict=True)]
    if not all(low > 0 for low, _ in spreads):
        return (-1.0, 1.0) if statistic.kind == "correlation" else None
    power = 0.5 if statistic.kind == "correlation" else 1.0
    divisors = [math.prod(end**power for end in ends) for ends in zip(*spreads, strict=True)]
    if not min(divisors) > 0:  # it underflows
        return (-1.0, 1.0) if statistic.kind == "correlation" else None
    ends = [end / divisor for end in covariance for divisor in divisors]
    if statistic.kind == "slope":
        return (min(ends), max(ends)) if all(map(math.isfinite, ends)) else None
    return max(min(ends), -1.0), min(max(ends), 1.0)


def _mean_ends(
    statistic: QueryStatistic, index: int, totals: Sequence[float], reaches: Sequence[float], count: Interval
) -> Interval:
    """Return the ends of a total over the count, with half a step for the rounding of each row."""
    part = statistic.parts[index]
    ends = [(totals[index] + sign * reaches[index]) / number for sign in (-1, 1) for number in count]
    return (min(ends) - 0.5) * part.grid + part.offset, (max(ends) + 0.5) * part.grid + part.offset


def _product(first: Interval, second: Interval) -> Interval:
    """Return the interval of a product."""
    ends = [x * y for x in first for y in second]
    return min(ends), max(ends)


def _sample_factors(count: Interval) -> Interval:
    """Return the ends of n / (n - 1), which is 1 for a single row and 2 for two."""
    smallest, largest = (max(2.0, number) for number in count)
    return (1.0 if count[0] <= 1 else largest / (largest - 1)), smallest / (smallest - 1)


def _variance_ends(mean: Interval, square: Interval) -> Interval:
    """Return the ends of E x^2 - (E x)^2."""
    squares = [end**2 for end in mean]
    return square[0] - max(squares), square[1] - (0.0 if mean[0] <= 0 <= mean[1] else min(squares))
