"""Intervals for variances in SQL, from three totals with noise of their own: count, centred sum, centred squares.

As for arrays (`hush.statistics.variance`): Var x = E (x - c)^2 - (c - m)^2 for any c. Of fixed points, 1 / 256 of the
bounds' width apart, one is within half of that of the mean m; there E (x - c)^2 is a quotient with an interval of its
own (Fieller 1954), and the rest is at most 1 / 512^2. The result holds the intervals of all points that may be the one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hush.sql.syntax.releases import QueryStatistic
from hush.statistics.noise.tails import Tail, quotients, reach

Floats = NDArray[np.float64]
_POINTS, _MOST_POINTS = 256, 16


def variance_ends(
    tail: Tail, noisy: Floats, scales: Floats, about: QueryStatistic, means: Floats, wrong: float
) -> tuple[Floats, Floats]:
    """Return ends of a variance's intervals, one for each row of ``noisy``.

    Args:
        tail: The law of the noise.
        noisy: Count, centred sum and centred sum of squares, in steps of their grids.
        scales: Of the noise on each, in the same steps.
        about: The variance; over n - 1, if it says so.
        means: Intervals of the means, which miss with a quarter of ``wrong``.
        wrong: With which probability an interval may miss, means included.
    """
    width = about.bounds[1] - about.bounds[0]
    if width < 1e-100:  # its square vanishes, and rows were taken for 0
        return np.zeros(len(noisy)), np.zeros(len(noisy))
    shares = np.clip((means - about.bounds[0]) / width, 0.0, 1.0)
    low, high = _around_points(tail, noisy, scales, about, shares, wrong / 2 if about.sample else 3 * wrong / 4)
    nearest = np.clip(0.5, shares[:, 0], shares[:, 1])
    high = np.minimum(high, nearest * (1 - nearest))  # of a mean m within the bounds, none is more than m (1 - m)
    # Rows were rounded to the grids, by half a step each.
    slack = _rounding(about) / width**2
    low, high = np.clip(low - slack, 0.0, 0.25), np.clip(high + slack, 0.0, 0.25)
    if about.sample:  # n / (n - 1) is 1 at least, and is largest for the fewest rows that there may be
        fewest = np.maximum(2.0, noisy[:, 0] - reach(tail, scales[:1], wrong / 4) - 0.5)
        high = high * fewest / (fewest - 1)
    return low * width**2, high * width**2


def _around_points(
    tail: Tail, noisy: Floats, scales: Floats, about: QueryStatistic, shares: Floats, wrong: float
) -> tuple[Floats, Floats]:
    """Return ends for the variance of (x - lower) / width, where its mean is between ``shares``."""
    low, high = np.full(len(noisy), np.inf), np.full(len(noisy), -np.inf)
    start, stop = np.floor(shares[:, 0] * _POINTS), np.ceil(shares[:, 1] * _POINTS)
    wide = stop - start > _MOST_POINTS
    for step in range(_MOST_POINTS + 1):
        rows = np.flatnonzero(~wide & (start + step <= stop))
        if not rows.size:
            break
        top, slack = _top(about, ((start + step) / _POINTS)[rows])
        ends = quotients(tail, noisy[rows], scales, top, [1.0, 0.0, 0.0], wrong, slack=slack)
        low[rows] = np.minimum(low[rows], ends[0] - (0.5 / _POINTS) ** 2)
        high[rows] = np.maximum(high[rows], ends[1])
    return np.where(wide, 0.0, low), np.where(wide, 0.25, high)


def _top(about: QueryStatistic, shares: Floats) -> tuple[Floats, float]:
    """Return sum (x - c)^2 / width^2 in the three totals, and what rounding of noise, half a step each, adds to it."""
    _, centred, squares = about.parts
    width = about.bounds[1] - about.bounds[0]
    c = about.bounds[0] + shares * width
    constant = squares.offset - 2 * c * centred.offset + c**2
    top = np.column_stack([constant, -2 * c * centred.grid, np.full(len(c), squares.grid)]) / width**2
    # The quotient itself, at most 1, is the coefficient of the count.
    return top, 0.5 * float(1 + np.abs(top).sum(axis=1).max())


def _rounding(about: QueryStatistic) -> float:
    _, centred, squares = about.parts
    return squares.grid + 2 * max(map(abs, about.bounds)) * centred.grid
