"""Counts, distinct counts and sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument
from hush.numerics import check_bounds
from hush.randomness import RandomSource
from hush.statistics.approximate_bounds import LearnBounds, resolve_bounds
from hush.statistics.columns import as_floats, is_present
from hush.statistics.distinct_values import distinct_totals
from hush.statistics.noise.charge import released
from hush.statistics.noise.estimate import Estimate
from hush.statistics.noise.release import Block, NoiseKind
from hush.statistics.noise.selection import Selection
from hush.statistics.noise.tails import reach
from hush.statistics.request import Answer, checked_request

# With total_bounds, rows are not clamped to the bounds, only far beyond them: this many times the largest bound. It
# keeps the fixed-point sums within 64 bits.
_ROW_LIMIT = 2.0**18


@released
def count(
    values: Any,
    *,
    units: Any,
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
    """Count rows whose value is not missing: at most ``rows_per_unit`` of each unit in each group.

    Args:
        values: A column; it only matters which of its values are missing. To count all rows, pass ``units`` again.
        units: The id of each row's privacy unit, or `EachRow` for privacy per row. Rows without an id are left out.
        rows_per_unit: How many rows of a unit count in a group.
        epsilon: The budget of the release.
        delta: The delta for Gaussian noise, and for revealing which groups exist.
        groups: A key for each row. The result then has an entry for each group.
        keys: The public list of groups. Without it, the groups to reveal are selected privately.
        groups_per_unit: In how many groups a unit counts. If it is in more, a random choice of them is kept.
        noise: `LaplaceNoise` or `GaussianNoise`; None for the kind with the smaller mean squared error.
        selection: How groups are selected if they are not public; None for `Selection.truncated_geometric`.
        confidence: The confidence of the interval.
        source: The source of randomness; None for the operating system's.
        budget: The budget to charge before the result leaves, such as a ledger's.

    Returns:
        The count, an integer that may be negative because of the noise.

    >>> from hush.randomness import TestSource
    >>> result = count(["a", "b", None, "c"], units=[1, 1, 2, 3], epsilon=50.0, source=TestSource(1))
    >>> result.value, str(result.guarantee.unit)
    (2, 'user')

    Guarantee:
        (epsilon, delta)-differential privacy for all rows of one unit; delta = 0 for Laplace noise on public groups.

    Assumes:
        Each person has exactly one id (the caller's duty). Contributions are bounded (checked here).

    References:
        Wilson et al. 2020 (bounded contributions); Ghosh, Roughgarden & Sundararajan 2009 (the noise).
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
    # A count needs no sampling of rows: clamping each unit's count gives the same.
    contributions = request.bound(is_present(values), sample_rows=False)
    row_limit = request.limits.rows_per_unit
    totals = contributions.totals(np.ones(len(contributions.rows), dtype=np.int64), (0, row_limit))
    block = Block.disjoint(row_limit, whole=True)
    return total_of(request.answer(totals, contributions.units_per_group(), (block,)), 1.0, whole=True)


@released
def distinct_count(
    values: Any,
    *,
    units: Any,
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
    """Count distinct values, of which each unit contributes at most ``rows_per_unit`` random ones in each group.

    ``distinct_count(units, units=units, ...)`` is the number of units. The arguments are those of `count`.

    >>> from hush.randomness import TestSource
    >>> words = ["a", "b", "a", "c"]
    >>> distinct_count(words, units=[1, 2, 3, 4], epsilon=50.0, source=TestSource(1)).value
    3

    Guarantee:
        As `count`: one more unit adds at most ``rows_per_unit`` distinct values to a group.

    Assumes:
        As `count` (the caller's duty).

    References:
        Wilson et al. 2020.
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
    totals, num_units = distinct_totals(request, values)
    block = Block.disjoint(request.limits.rows_per_unit, whole=True)
    return total_of(request.answer(totals, num_units, (block,)), 1.0, whole=True)


@released
def sum(  # noqa: A001
    values: Any,
    *,
    units: Any,
    bounds: tuple[float, float] | LearnBounds | None = None,
    total_bounds: tuple[float, float] | None = None,
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
    """Sum values.

    Pass one of two kinds of bounds:

    - ``bounds``: each row is clamped to them, or to those that `LearnBounds` learns, and at most ``rows_per_unit``
      random rows of a unit count in a group.
    - ``total_bounds``: all rows of a unit count, and its sum in each group is clamped to them.

    Missing values (NaN) are left out. All other arguments are those of `count`.

    >>> from hush.randomness import TestSource
    >>> result = sum([20, 30, 900], units=[1, 2, 3], bounds=(0, 100), epsilon=200.0, source=TestSource(1))
    >>> round(result.value)
    150

    Guarantee:
        As `count`. Sums run on integers of a fixed-point grid, so rounding cannot increase the sensitivity.

    Assumes:
        As `count` (the caller's duty).

    References:
        Wilson et al. 2020; Casacuberta et al. 2022.
    """
    if (bounds is None) == (total_bounds is None):
        expected = "either bounds of a row, or total_bounds of a unit's sum in a group"
        advice = "Pass one of them. To learn the range of a row on a share of epsilon, pass bounds=LearnBounds()"
        raise InvalidArgument("bounds", bounds, expected, advice)
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
    numbers = as_floats("values", values)
    if bounds is None:
        lower, upper = check_bounds(total_bounds)
    else:
        request, (lower, upper) = resolve_bounds(request, numbers, bounds)
    largest, steps = max(abs(lower), abs(upper)), request.steps()
    contributions = request.bound(~np.isnan(numbers), sample_rows=bounds is not None)
    numbers = numbers[contributions.rows]
    # The bounds on the grid are rounded inwards, so the sensitivity is at most ``steps`` per row.
    ends = math.ceil(lower / largest * steps), math.floor(upper / largest * steps)
    if bounds is None:
        # The unit's sum is clamped, after summing. Rows are limited only so that sums cannot overflow.
        fractions = np.clip(np.nan_to_num(numbers / largest, nan=0.0), -_ROW_LIMIT, _ROW_LIMIT)
        totals = contributions.totals(np.rint(fractions * steps).astype(np.int64), ends)
        sensitivity = steps
    else:
        weights = np.clip(np.rint(np.clip(numbers, lower, upper) / largest * steps), *ends)
        totals = contributions.totals(weights.astype(np.int64))
        sensitivity = request.limits.rows_per_unit * steps
    answer = request.answer(totals, contributions.units_per_group(), (Block.disjoint(sensitivity),))
    return total_of(answer, largest / steps)


def total_of(answer: Answer, unit: float, *, whole: bool = False) -> Estimate:
    """Return the estimate of a single column of totals. Nothing is cut off at 0, so the value is unbiased.

    Args:
        answer: The noisy totals.
        unit: The size of one integer step.
        whole: Whether the total is a count, which stays an integer.
    """
    totals = answer.totals[:, 0]
    # Rounding the noise adds half a step; for a sum, rounding the data adds as much again.
    margin = reach(answer.plan.tail, answer.plan.scales, 1 - answer.confidence) + (0.5 if whole else 1.0)
    scale = answer.plan.block_scales[0] * unit
    if whole:
        margin = math.floor(margin)
        return answer.estimate(totals, totals - margin, totals + margin, scale)
    return answer.estimate(totals * unit, (totals - margin) * unit, (totals + margin) * unit, scale)
