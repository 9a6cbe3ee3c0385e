r"""Counts, sums, means and variances.

Mean and variance come from weights that add up to one in every row: with s = (x - lower) / (upper - lower), totals of
(1 - s, s) for a mean, and of ((1 - s)^2, 2 s (1 - s), s^2) for a variance. One row is then 1 in L1 norm, however many
columns there are, and at most 1 in L2 norm: they are released at the price of a single count. The count is the sum of
all columns; its noise, and the sum's, have half the variance (a third, of three) of what separate releases at equal
shares of epsilon would have. References: Wilson et al. 2020 and its bounded mean, which releases them apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.accounting.budget import Budget
from hush.mechanisms.smooth import check_bounds
from hush.randomness import RandomSource
from hush.statistics.columns import as_floats
from hush.statistics.noise.charged import released
from hush.statistics.noise.estimate import Estimate
from hush.statistics.noise.release import Block, NoiseKind
from hush.statistics.noise.selection import Selection
from hush.statistics.noise.tails import quotients, reach
from hush.statistics.question import Answer, Question, question

_POINTS, _MOST_POINTS = 256, 16  # where variances are tried around


@released
def mean(
    values: Any,
    *,
    units: Any,
    bounds: tuple[float, float],
    rows_per_unit: int = 1,
    epsilon: float,
    delta: float = 0.0,
    groups: Any = None,
    keys: Any = None,
    groups_per_unit: int = 1,
    noise: NoiseKind | None = None,
    selection: Selection | None = None,
    confidence: float = 0.95,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> Estimate:
    """Return the mean of values, each clamped to the bounds; its ``parts`` are the count and the sum, at no charge.

    Of each user, at most ``rows_per_unit`` random rows in a group. NaN is left out. The mean of nothing is reported
    somewhere within the bounds. Arguments are those of `count`.

    >>> from hush.randomness import TestSource
    >>> result = mean([20, 30, 40], units=[1, 2, 3], bounds=(0, 100), epsilon=1.0, source=TestSource(1))
    >>> 0 <= result.low <= result.value <= result.high <= 100, sorted(result.parts)
    (True, ['count', 'sum'])

    Guarantee:
        As `count`, for mean, count and sum together.

    Assumes:
        As `count` (the caller's duty).

    References:
        Wilson et al. 2020 (bounded mean); the joint release of (1 - s, s) is described above; intervals: Fieller 1954.
    """
    asked = question(
        values,
        units,
        rows_per_unit,
        epsilon,
        delta,
        groups,
        keys,
        groups_per_unit,
        noise,
        selection,
        confidence,
        source,
    )
    answer, unit, limits = _weighted(asked, values, bounds, degree=1)
    return mean_of(answer, unit, limits)


@released
def variance(
    values: Any,
    *,
    units: Any,
    bounds: tuple[float, float],
    rows_per_unit: int = 1,
    epsilon: float,
    delta: float = 0.0,
    groups: Any = None,
    keys: Any = None,
    groups_per_unit: int = 1,
    noise: NoiseKind | None = None,
    selection: Selection | None = None,
    confidence: float = 0.95,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> Estimate:
    """Return the variance (over n) of values, clamped as in `mean`; ``parts``: std, mean, count and sum, at no charge.

    One release of three totals. Arguments are those of `count`.

    Guarantee:
        As `count`, for all parts together.

    Assumes:
        As `count` (the caller's duty).

    References:
        Wilson et al. 2020; the joint release of three weights is described above.
    """
    asked = question(
        values,
        units,
        rows_per_unit,
        epsilon,
        delta,
        groups,
        keys,
        groups_per_unit,
        noise,
        selection,
        confidence,
        source,
    )
    answer, unit, limits = _weighted(asked, values, bounds, degree=2)
    return variance_of(answer, unit, limits)


@released
def std(
    values: Any,
    *,
    units: Any,
    bounds: tuple[float, float],
    rows_per_unit: int = 1,
    epsilon: float,
    delta: float = 0.0,
    groups: Any = None,
    keys: Any = None,
    groups_per_unit: int = 1,
    noise: NoiseKind | None = None,
    selection: Selection | None = None,
    confidence: float = 0.95,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> Estimate:
    """Return the standard deviation: the root of `variance`, from the same release.

    Guarantee:
        As `count`.

    Assumes:
        As `count` (the caller's duty).

    References:
        As `variance`.
    """
    asked = question(
        values,
        units,
        rows_per_unit,
        epsilon,
        delta,
        groups,
        keys,
        groups_per_unit,
        noise,
        selection,
        confidence,
        source,
    )
    answer, unit, limits = _weighted(asked, values, bounds, degree=2)
    return variance_of(answer, unit, limits).parts["std"]


@released
def describe(
    values: Any,
    *,
    units: Any,
    bounds: tuple[float, float],
    rows_per_unit: int = 1,
    epsilon: float,
    delta: float = 0.0,
    groups: Any = None,
    keys: Any = None,
    groups_per_unit: int = 1,
    noise: NoiseKind | None = None,
    selection: Selection | None = None,
    confidence: float = 0.95,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> dict[str, Estimate]:
    """Return count, sum, mean, variance and std of one column, all from one release; arguments as for `count`.

    Guarantee:
        As `count`: every estimate carries the guarantee of all of them together.

    Assumes:
        As `count` (the caller's duty).

    References:
        As `variance`.
    """
    asked = question(
        values,
        units,
        rows_per_unit,
        epsilon,
        delta,
        groups,
        keys,
        groups_per_unit,
        noise,
        selection,
        confidence,
        source,
    )
    answer, unit, limits = _weighted(asked, values, bounds, degree=2)
    found = variance_of(answer, unit, limits)
    return {
        **{name: found.parts[name] for name in ("count", "sum", "mean")},
        "variance": found,
        "std": found.parts["std"],
    }


def unit_weights(
    numbers: NDArray[np.float64], limits: tuple[float, float], steps: int, degree: int
) -> NDArray[np.int64]:
    """Return the weights of numbers, in integers that add up to ``steps`` in each row."""
    lower, upper = limits
    share = np.clip((np.clip(numbers, lower, upper) - lower) / (upper - lower), 0.0, 1.0)
    result = np.empty((len(numbers), degree + 1), dtype=np.int64)
    if degree == 1:
        result[:, 1] = np.rint(share * steps)
    else:
        # Rounded down, lest what is left be negative.
        result[:, 1], result[:, 2] = np.floor(2 * share * (1 - share) * steps), np.floor(share * share * steps)
    result[:, 0] = steps - result[:, 1:].sum(axis=1)
    result[:, 0], result[:, 1] = np.maximum(result[:, 0], 0), result[:, 1] + np.minimum(result[:, 0], 0)
    return result


def _weighted(
    asked: Question, values: Any, bounds: tuple[float, float], *, degree: int
) -> tuple[Answer, float, tuple[float, float]]:
    """Release the totals of the weights; return them with their unit and the checked bounds."""
    limits = check_bounds(bounds)
    numbers, steps = as_floats("values", values), asked.steps()
    kept = asked.bound(~np.isnan(numbers))
    totals = kept.totals(unit_weights(numbers[kept.rows], limits, steps, degree))
    most = asked.limits.rows_per_unit * steps
    block = Block(columns=degree + 1, l1=most, l2=most)
    return asked.answer(totals, kept.num_users(), (block,)), 1 / steps, limits


def _linear(answer: Answer, unit: float, coefficients: ArrayLike) -> tuple[Any, Any, Any, float]:
    """Return value, interval and noise scale of a linear function of the totals."""
    weights = np.asarray(coefficients, dtype=np.float64)
    value = answer.totals @ weights * unit
    scale = float(np.sqrt(np.square(weights).sum()) * answer.plan.block_scales[0] * unit)
    off = (reach(answer.plan.tail, weights * answer.plan.scales, 1 - answer.confidence) + np.abs(weights).sum()) * unit
    return value, value - off, value + off, scale


def _ratio(
    answer: Answer, unit: float, top: ArrayLike, wrong: float
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return a mean of weights, in [0, 1], and its interval: a total over the total of all columns."""
    noisy = answer.totals.astype(np.float64)
    above, ones = np.asarray(top, dtype=np.float64), np.ones(noisy.shape[1])
    # Around the middle of the range: of few rows, noise on the count then does little.
    value = np.clip(0.5 + noisy @ (above - 0.5) / np.maximum(noisy @ ones, 1 / unit), 0.0, 1.0)
    low, high = quotients(answer.plan.tail, noisy, answer.plan.scales, above, ones, wrong, slack=2.0 * len(ones))
    return value, np.minimum(low, value), np.maximum(high, value)


def mean_of(answer: Answer, unit: float, limits: tuple[float, float]) -> Estimate:
    """Return the mean from noisy totals of two (or three) weights; ``unit`` is one over how many make a row."""
    lower, upper = limits
    middle = (lower + upper) / 2
    columns = answer.totals.shape[1]
    top = np.arange(columns) / (columns - 1)  # s, of (1 - s, s) and of ((1 - s)^2, 2 s (1 - s), s^2)
    value, low, high = _ratio(answer, unit, top, 1 - answer.confidence)
    slack = 8 * unit  # rows were rounded to the grid
    total, total_low, total_high, scale = _linear(answer, unit, lower + top * (upper - lower))
    return answer.estimate(
        np.clip(lower + value * (upper - lower), lower, upper),
        np.clip(lower + (low - slack) * (upper - lower), lower, upper),
        np.clip(lower + (high + slack) * (upper - lower), lower, upper),
        _linear(answer, unit, (lower - middle) + top * (upper - lower))[3],
        {
            "count": answer.estimate(*_linear(answer, unit, np.ones(columns))),
            "sum": answer.estimate(total, total_low, total_high, scale),
        },
    )


def variance_of(answer: Answer, unit: float, limits: tuple[float, float]) -> Estimate:
    """Return the variance from noisy totals of three weights."""
    width, wrong = limits[1] - limits[0], 1 - answer.confidence
    first, first_low, first_high = _ratio(answer, unit, [0.0, 0.5, 1.0], wrong / 4)
    second = _ratio(answer, unit, [0.0, 0.0, 1.0], wrong / 4)[0]
    value = np.clip(second - first**2, 0.0, 0.25)
    low, high = variance_ends(answer, first_low, first_high, 3 * wrong / 4)
    # No variance is more than m (1 - m) for a mean m within the bounds.
    nearest = np.clip(0.5, first_low, first_high)
    slack = 16 * unit  # rows were rounded to the grid
    high = np.clip(np.minimum(high, nearest * (1 - nearest)) + slack, value, 0.25)
    low, scale = np.clip(low - slack, 0.0, value), answer.plan.block_scales[0] * unit * width**2
    average = mean_of(answer, unit, limits)
    roots = np.sqrt(value) * width, np.sqrt(low) * width, np.sqrt(high) * width
    parts = {**average.parts, "mean": average, "std": answer.estimate(*roots, scale)}
    return answer.estimate(value * width**2, low * width**2, high * width**2, scale, parts)


def variance_ends(
    answer: Answer, mean_low: NDArray[np.float64], mean_high: NDArray[np.float64], wrong: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return an interval for the variance of s, given one for its mean m, which may miss with its own probability.

    Var s = E (s - c)^2 - (c - m)^2 for any c. Of fixed points, 1 / 256 apart, one is within 1 / 512 of m: at that one,
    E (s - c)^2 is a quotient with an interval of its own, and the rest is at most 1 / 512^2. Which one it is, is not
    known: the result holds the intervals of all that may be, up to 17 of them. Beyond, it is the whole range.
    """
    noisy = answer.totals.astype(np.float64)
    low, high = np.full(len(noisy), np.inf), np.full(len(noisy), -np.inf)
    start, stop = np.floor(mean_low * _POINTS), np.ceil(mean_high * _POINTS)
    wide = stop - start > _MOST_POINTS
    for step in range(_MOST_POINTS + 1):
        rows = np.flatnonzero(~wide & (start + step <= stop))
        if not rows.size:
            break
        c = ((start + step) / _POINTS)[rows]
        top = np.column_stack([c**2, c**2 - c, (1 - c) ** 2])  # (s - c)^2 in the weights
        ends = quotients(answer.plan.tail, noisy[rows], answer.plan.scales, top, np.ones(3), wrong, slack=6.0)
        low[rows] = np.minimum(low[rows], ends[0] - (0.5 / _POINTS) ** 2)
        high[rows] = np.maximum(high[rows], ends[1])
    return np.where(wide, 0.0, low), np.where(wide, 0.25, high)
