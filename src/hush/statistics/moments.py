r"""Means, variances and standard deviations, each from one release that also holds count and sum.

Every row is replaced by weights that add up to one: with s = (x - lower) / (upper - lower), the totals of (1 - s, s)
for a mean, and of ((1 - s)^2, 2 s (1 - s), s^2) for a variance. The weights of one row then have the L1 norm 1, however
many columns there are, and an L2 norm of at most 1, so they can be released at the cost of a single count. The count is
the sum of all columns. Compared with separate releases at equal shares of epsilon, the noise of count and sum has half
the variance with two columns, and a third with three.

The flow: `_release_weights` bounds, sums and releases the weights; `mean_of` and `variance_of` turn the noisy totals
into estimates. `hush.sql` releases count, centred sum and centred squares apart, which engines can compute.

References: Wilson et al. 2020 and its bounded mean, which releases count and sum apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.accounting.budget import Budget
from hush.randomness import RandomSource
from hush.statistics.approximate_bounds import LearnBounds, resolve_bounds
from hush.statistics.columns import as_floats
from hush.statistics.noise.charge import released
from hush.statistics.noise.estimate import Estimate
from hush.statistics.noise.release import Block, NoiseKind
from hush.statistics.noise.selection import Selection
from hush.statistics.noise.tails import quotients, reach, variance_ends
from hush.statistics.request import Answer, StatisticRequest, checked_request

Floats = NDArray[np.float64]


@released
def mean(
    values: Any,
    *,
    units: Any,
    bounds: tuple[float, float] | LearnBounds,
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
    """Return the mean of the values, each clamped to the bounds. Its ``parts`` are count and sum, at no extra charge.

    At most ``rows_per_unit`` random rows of a unit count in a group. Missing values (NaN) are left out. The mean of an
    empty group is somewhere within the bounds. The arguments are those of `count`, and ``bounds``: the range that each
    value is clamped to. Choose it from public knowledge, or pass `LearnBounds` to learn it on a share of epsilon.

    >>> from hush.randomness import TestSource
    >>> result = mean([20, 30, 40], units=[1, 2, 3], bounds=(0, 100), epsilon=1.0, source=TestSource(1))
    >>> 0 <= result.low <= result.value <= result.high <= 100, sorted(result.parts)
    (True, ['count', 'sum'])

    Guarantee:
        As `count`, for mean, count and sum together.

    Assumes:
        As `count` (the caller's duty).

    References:
        Wilson et al. 2020 (bounded mean); the joint release of (1 - s, s) is described in this module's docstring;
        intervals: Fieller 1954.
    """
    request = checked_request(
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
    answer, unit, limits = _release_weights(request, values, bounds, degree=1)
    return mean_of(answer, unit, limits)


@released
def variance(
    values: Any,
    *,
    units: Any,
    bounds: tuple[float, float] | LearnBounds,
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
    """Return the population variance of the values, clamped as in `mean`.

    Its ``parts`` are std, mean, count and sum, at no extra charge: all come from one release of three totals. The
    arguments are those of `mean`.

    >>> from hush.randomness import TestSource
    >>> result = variance([1, 2, 3] * 500, units=range(1500), bounds=(0, 4), epsilon=100.0, source=TestSource(1))
    >>> round(result.value, 1), sorted(result.parts)
    (0.7, ['count', 'mean', 'std', 'sum'])

    Guarantee:
        As `count`, for all parts together.

    Assumes:
        As `count` (the caller's duty).

    References:
        Wilson et al. 2020; the joint release of three weights is described in this module's docstring.
    """
    request = checked_request(
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
    answer, unit, limits = _release_weights(request, values, bounds, degree=2)
    return variance_of(answer, unit, limits)


@released
def std(
    values: Any,
    *,
    units: Any,
    bounds: tuple[float, float] | LearnBounds,
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
    """Return the standard deviation: the root of `variance`, from the same release. The arguments are those of `mean`.

    >>> from hush.randomness import TestSource
    >>> result = std([1, 2, 3] * 500, units=range(1500), bounds=(0, 4), epsilon=100.0, source=TestSource(1))
    >>> round(result.value, 1)
    0.8

    Guarantee:
        As `count`.

    Assumes:
        As `count` (the caller's duty).

    References:
        As `variance`.
    """
    request = checked_request(
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
    answer, unit, limits = _release_weights(request, values, bounds, degree=2)
    return variance_of(answer, unit, limits).parts["std"]


@released
def describe(
    values: Any,
    *,
    units: Any,
    bounds: tuple[float, float] | LearnBounds,
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
    """Return count, sum, mean, variance and std of a column, all from one release. The arguments are those of `mean`.

    >>> from hush.randomness import TestSource
    >>> results = describe([1, 2, 3] * 500, units=range(1500), bounds=(0, 4), epsilon=100.0, source=TestSource(1))
    >>> [(name, round(result.value, 1)) for name, result in results.items()]
    [('count', 1500.0), ('sum', 3000.1), ('mean', 2.0), ('variance', 0.7), ('std', 0.8)]

    Guarantee:
        As `count`: every estimate carries the guarantee of all of them together.

    Assumes:
        As `count` (the caller's duty).

    References:
        As `variance`.
    """
    request = checked_request(
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
    answer, unit, limits = _release_weights(request, values, bounds, degree=2)
    spread = variance_of(answer, unit, limits)
    return {
        **{name: spread.parts[name] for name in ("count", "sum", "mean")},
        "variance": spread,
        "std": spread.parts["std"],
    }


def unit_weights(numbers: Floats, limits: tuple[float, float], steps: int, degree: int) -> NDArray[np.int64]:
    """Return the weights of each number, as integers that add up to ``steps`` in every row.

    Args:
        numbers: The values.
        limits: The bounds that they are clamped to.
        steps: The integer that stands for 1.
        degree: 1 for the weights (1 - s, s) of a mean, 2 for those of a variance.
    """
    lower, upper = limits
    # Clipped twice: the quotient may exceed 1 by a rounding error.
    share = np.clip((np.clip(numbers, lower, upper) - lower) / (upper - lower), 0.0, 1.0)
    result = np.empty((len(numbers), degree + 1), dtype=np.int64)
    if degree == 1:
        result[:, 1] = np.rint(share * steps)
    else:
        # Round down, so that the remainder for the first column is not negative.
        result[:, 1], result[:, 2] = np.floor(2 * share * (1 - share) * steps), np.floor(share * share * steps)
    result[:, 0] = steps - result[:, 1:].sum(axis=1)
    # If a rounding error of the floats made it negative after all, the second column pays.
    result[:, 0], result[:, 1] = np.maximum(result[:, 0], 0), result[:, 1] + np.minimum(result[:, 0], 0)
    return result


def _release_weights(
    request: StatisticRequest, values: Any, bounds: tuple[float, float] | LearnBounds, *, degree: int
) -> tuple[Answer, float, tuple[float, float]]:
    """Release the totals of the weights; return them with the size of one step, and the checked bounds."""
    numbers = as_floats("values", values)
    request, limits = resolve_bounds(request, numbers, bounds)
    steps = request.steps()
    contributions = request.bound(~np.isnan(numbers))
    totals = contributions.totals(unit_weights(numbers[contributions.rows], limits, steps, degree))
    block = Block.disjoint(request.limits.rows_per_unit * steps, columns=degree + 1)
    return request.answer(totals, contributions.units_per_group(), (block,)), 1 / steps, limits


def _linear(answer: Answer, unit: float, coefficients: ArrayLike) -> tuple[Any, Any, Any, float]:
    """Return value, interval ends and noise scale of a linear function of the totals."""
    weights = np.asarray(coefficients, dtype=np.float64)
    value = answer.totals @ weights * unit
    scale = float(np.sqrt(np.square(weights).sum()) * answer.plan.block_scales[0] * unit)
    noise_reach = reach(answer.plan.tail, weights * answer.plan.scales, 1 - answer.confidence)
    margin = (noise_reach + np.abs(weights).sum()) * unit  # one step per column covers the rounding
    return value, value - margin, value + margin, scale


def _ratio(answer: Answer, unit: float, top: ArrayLike, wrong: float) -> tuple[Floats, Floats, Floats]:
    """Return the mean of a weighted sum of the columns, in [0, 1], and the ends of its interval.

    Args:
        answer: The noisy totals.
        unit: The size of one step.
        top: Coefficients of the numerator. The denominator is the sum of all columns.
        wrong: The probability with which the interval may miss.
    """
    noisy = answer.totals.astype(np.float64)
    above, ones = np.asarray(top, dtype=np.float64), np.ones(noisy.shape[1])
    # Centred at the middle of the range: for few rows, noise on the count then matters little.
    value = np.clip(0.5 + noisy @ (above - 0.5) / np.maximum(noisy @ ones, 1 / unit), 0.0, 1.0)
    low, high = quotients(answer.plan.tail, noisy, answer.plan.scales, above, ones, wrong, slack=2.0 * len(ones))
    return value, np.minimum(low, value), np.maximum(high, value)


def mean_of(answer: Answer, unit: float, limits: tuple[float, float]) -> Estimate:
    """Return the mean, with count and sum as its parts, from noisy totals of two or three weights.

    Args:
        answer: The noisy totals.
        unit: The size of one step: one over the number of steps in a row's weights.
        limits: The bounds of the values.
    """
    lower, upper = limits
    middle = (lower + upper) / 2  # noise on the count shifts a centred sum least
    columns = answer.totals.shape[1]
    top = np.arange(columns) / (columns - 1)  # s in terms of (1 - s, s), and of ((1 - s)^2, 2 s (1 - s), s^2)
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
    """Return the variance, with std, mean, count and sum as its parts, from noisy totals of three weights.

    Args:
        answer: The noisy totals.
        unit: The size of one step.
        limits: The bounds of the values.
    """
    width, wrong = limits[1] - limits[0], 1 - answer.confidence
    # The interval may miss if that of the mean does (a quarter of ``wrong``), or that of the moment (the rest).
    first, first_low, first_high = _ratio(answer, unit, [0.0, 0.5, 1.0], wrong / 4)
    second = _ratio(answer, unit, [0.0, 0.0, 1.0], wrong / 4)[0]
    value = np.clip(second - first**2, 0.0, 0.25)
    low, high = _variance_ends(answer, first_low, first_high, 3 * wrong / 4)
    # No variance exceeds m (1 - m) if the mean m is within the bounds.
    nearest = np.clip(0.5, first_low, first_high)
    slack = 16 * unit  # rows were rounded to the grid
    high = np.clip(np.minimum(high, nearest * (1 - nearest)) + slack, value, 0.25)
    low, scale = np.clip(low - slack, 0.0, value), answer.plan.block_scales[0] * unit * width**2
    average = mean_of(answer, unit, limits)
    roots = np.sqrt(value) * width, np.sqrt(low) * width, np.sqrt(high) * width
    parts = {**average.parts, "mean": average, "std": answer.estimate(*roots, scale)}
    return answer.estimate(value * width**2, low * width**2, high * width**2, scale, parts)


def _variance_ends(answer: Answer, mean_low: Floats, mean_high: Floats, wrong: float) -> tuple[Floats, Floats]:
    """Return intervals for the variance of s, given intervals for its mean, which may miss on their own."""
    noisy = answer.totals.astype(np.float64)

    def moment_ends(rows: NDArray[np.int64], centres: Floats) -> tuple[Floats, Floats]:
        # (s - c)^2 in terms of ((1 - s)^2, 2 s (1 - s), s^2)
        top = np.column_stack([centres**2, centres**2 - centres, (1 - centres) ** 2])
        return quotients(answer.plan.tail, noisy[rows], answer.plan.scales, top, np.ones(3), wrong, slack=6.0)

    return variance_ends(mean_low, mean_high, moment_ends)
