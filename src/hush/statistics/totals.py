"""Counts and sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument
from hush.mechanisms.smooth import check_bounds
from hush.randomness import RandomSource
from hush.statistics.columns import as_floats, is_present
from hush.statistics.distinct import distinct_totals
from hush.statistics.noise.charged import released
from hush.statistics.noise.estimate import Estimate
from hush.statistics.noise.release import Block, NoiseKind
from hush.statistics.noise.selection import Selection
from hush.statistics.noise.tails import reach
from hush.statistics.question import Answer, question

_WIDE = 2.0**18  # how far beyond the bounds of a total a row may be, before it is clamped, too


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
    """Count rows: those whose value is not missing, at most ``rows_per_unit`` of a user in a group.

    Args:
        values: A column; only what is missing in it matters. To count all rows give ``units`` again.
        units: Whose each row is, an id; or `EachRow` for privacy per row. Rows without an id are left out.
        rows_per_unit: How many rows of a user count in a group; the rest does not.
        epsilon: What the release costs, in all.
        delta: The slack for Gaussian noise and for telling which groups there are.
        groups: A key for each row; the result has an entry for each group.
        keys: The public list of groups. Without one, which groups are told is a private choice, too.
        groups_per_unit: How many groups of a user count; which ones is random.
        noise: `Laplace` or `Gaussian`; None for the one with the smaller mean squared error.
        selection: How groups that are not public are chosen; None for `TruncatedGeometric`.
        confidence: Of the interval.
        source: Where randomness comes from; the operating system if None.
        budget: What the release is charged to before it leaves, such as a ledger's data set.

    >>> from hush.randomness import TestSource
    >>> result = count(["a", "b", None, "c"], units=[1, 1, 2, 3], epsilon=50.0, source=TestSource(1))
    >>> result.value, str(result.guarantee.unit)
    (2, 'user')

    Guarantee:
        (epsilon, delta)-differential privacy for all that one user has, delta = 0 for Laplace noise on public groups.

    Assumes:
        Every person has one id (the caller's duty). Contributions are bounded (checked here: done here).

    References:
        Wilson et al. 2020 (bounded contributions); Ghosh, Roughgarden & Sundararajan 2009 (the noise).
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
    kept = asked.bound(is_present(values), sample=False)
    most = asked.limits.rows_per_unit
    totals = kept.totals(np.ones(len(kept.rows), dtype=np.int64), (0, most))
    answer = asked.answer(totals, kept.num_users(), (Block(columns=1, l1=most, l2=most, whole=True),))
    return total_of(answer, 1.0, whole=True)


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
    """Count different values, of which each user brings at most ``rows_per_unit`` (random ones) in a group.

    ``distinct_count(units, units=units)`` is the number of units. Arguments are those of `count`.

    Guarantee:
        As `count`: with one user more, a group has at most ``rows_per_unit`` more different values.

    Assumes:
        As `count` (the caller's duty).

    References:
        Wilson et al. 2020.
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
    totals, num_users = distinct_totals(asked, values)
    most = asked.limits.rows_per_unit
    answer = asked.answer(totals, num_users, (Block(columns=1, l1=most, l2=most, whole=True),))
    return total_of(answer, 1.0, whole=True)


@released
def sum(  # noqa: A001
    values: Any,
    *,
    units: Any,
    bounds: tuple[float, float] | None = None,
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

    With ``bounds``, at most ``rows_per_unit`` random rows of a user in a group, each clamped to the bounds. With
    ``total_bounds``, all rows of a user in a group, and their total clamped. NaN is left out. Further arguments are
    those of `count`.

    Guarantee:
        As `count`. Sums are of integers on a fixed-point grid, which rounding cannot widen.

    Assumes:
        As `count` (the caller's duty).

    References:
        Wilson et al. 2020; Casacuberta et al. 2022.
    """
    if (bounds is None) == (total_bounds is None):
        raise InvalidArgument(
            "bounds", bounds, "bounds of a row, or total_bounds of a user's total in a group", "Give one of both"
        )
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
    lower, upper = check_bounds(total_bounds if bounds is None else bounds)
    largest = max(abs(lower), abs(upper))
    numbers, steps = as_floats("values", values), asked.steps()
    kept = asked.bound(~np.isnan(numbers), sample=bounds is not None)
    ends = math.ceil(lower / largest * steps), math.floor(upper / largest * steps)
    if bounds is None:
        wide = np.clip(np.nan_to_num(numbers[kept.rows] / largest, nan=0.0), -_WIDE, _WIDE)
        totals, most = kept.totals(np.rint(wide * steps).astype(np.int64), ends), 1
    else:
        rows = np.clip(np.rint(np.clip(numbers[kept.rows], lower, upper) / largest * steps), *ends)
        totals, most = kept.totals(rows.astype(np.int64)), asked.limits.rows_per_unit
    answer = asked.answer(totals, kept.num_users(), (Block(columns=1, l1=most * steps, l2=most * steps),))
    return total_of(answer, largest / steps)


def total_of(answer: Answer, unit: float, *, whole: bool = False) -> Estimate:
    """Return the estimate of a single column, in its own unit; low and high are not cut off at 0, nor is the value."""
    totals = answer.totals[:, 0]
    off = reach(answer.plan.tail, answer.plan.scales, 1 - answer.confidence) + (0.5 if whole else 1.0)
    scale = answer.plan.block_scales[0] * unit
    if whole:
        off = math.floor(off)
        return answer.estimate(totals, totals - off, totals + off, scale)
    return answer.estimate(totals * unit, (totals - off) * unit, (totals + off) * unit, scale)
