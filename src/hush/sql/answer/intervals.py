"""Confidence intervals for the columns of an answer, from the law of the noise.

The interval of the noise contains the exact aggregate over bounded contributions, with the stated confidence. That
equals the true aggregate if no unit is beyond the limits. A unit within them counts in full, so it needs nothing more.

Units beyond bias counts and sums, in one direction: what is left out is missing. Where limits were chosen privately,
the same noisy histogram tells how much units just beyond the limit are expected to hold (`ChosenLimit.expected`), and
intervals of counts and sums are wider by that on the side where it is missing. It is an estimate, not a bound: a
private bound on what is beyond would be many times as wide as the noise, and none can cover one unit with any number of
rows (`conditions`). The other side does not move, so the lower end of a count is always valid for the true count.

The stated confidence holds for each interval separately. Among rows that were selected by their noisy values (HAVING,
LIMIT), fewer intervals hold.

| statistic | interval |
|---|---|
| count, sum | value +- the quantile of its noise |
| mean | Fieller's interval for the ratio of the centred sum and the count |
| variance, stddev | from the mean's interval and a ratio of three totals (`spread`) |
| quantile | the cells of the noisy tree that may contain it (`hush.statistics.noise.tree`) |
| covariance, correlation | interval arithmetic within the reaches of four to six totals (`spread`) |
| slope | likewise; none if the variance below it could be 0 in some group |

A column has an interval if it is a monotone function of one statistic and of constants. `_RULES` has a rule for each
kind of statistic; `_transform` carries the interval through the expression.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hush.sql.answer.choices.left_out import LeftOut
from hush.sql.answer.priced_query import PricedQuery, ReleasedGroup
from hush.sql.answer.spread import paired_interval, variance_intervals
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.output import evaluate
from hush.sql.syntax.releases import QueryStatistic
from hush.sql.write.plan import QueryPlan
from hush.statistics import NoisePlan
from hush.statistics.noise import quotients, reach

Interval = tuple[float, float]


def linear_weights(statistic: QueryStatistic) -> tuple[float, ...]:
    """Return the coefficients of the releases in a count or sum, in the order of its parts."""
    if statistic.kind == "shared sum":
        return (statistic.parts[1].offset, statistic.parts[1].grid)
    return (statistic.parts[0].grid,)


def linear_reach(noise: NoisePlan, scales: Sequence[float], weights: Sequence[float], wrong: float) -> float:
    """Return a bound that the noise of a weighted sum exceeds with probability at most ``wrong``.

    Noise is rounded to whole steps. Discrete Laplace noise is stochastically no larger than rounded Laplace noise:
    2 a^m / (1 + a) <= a^(m - 1/2). Adding other symmetric unimodal noise preserves this order (Anderson 1955).
    """
    if len(weights) == 1:  # the noise is an integer number of steps, so the bound is one, too
        return math.floor(reach(noise.tail, [scales[0]], wrong) + 0.5) * abs(weights[0])
    bound = reach(noise.tail, np.multiply(scales, weights), wrong)
    # Rounding moves each term by at most half a step.
    return bound + 0.5 * float(np.abs(weights).sum())


def intervals(query: PricedQuery, groups: Sequence[ReleasedGroup], confidence: float) -> list[dict[str, Interval]]:
    """Return, for each group, the intervals of the noise of the columns that have one, by the column's name."""
    return allowing_intervals(query, groups, confidence, LeftOut())[1]


def allowing_intervals(
    query: PricedQuery, groups: Sequence[ReleasedGroup], confidence: float, left_out: LeftOut
) -> tuple[list[dict[str, Interval]], list[dict[str, Interval]]]:
    """Return intervals that allow for what is beyond the limits, and those of the noise alone.

    Args:
        query: The query with its noise.
        groups: Its released groups.
        confidence: The confidence of each interval.
        left_out: What counts and sums allow for.
    """
    wide: list[dict[str, Interval]] = [{} for _ in groups]
    noise: list[dict[str, Interval]] = [{} for _ in groups]
    for output in query.plan.outputs:
        index = _single_statistic(output.expression)
        if index is None or not groups:
            continue
        statistic = query.plan.statistics[index]
        if statistic.kind not in _RULES:
            continue
        ends = _RULES[statistic.kind](query, statistic, groups, 1 - confidence)
        for columns, allowance in ((wide, left_out), (noise, LeftOut())):
            transformed = [
                None
                if interval is None
                else _transform(output.expression, index, allowance.widened(statistic, interval))
                for interval in ends
            ]
            # A column has an interval in all groups or in none.
            if all(interval is not None for interval in transformed):
                for by_name, interval in zip(columns, transformed, strict=True):
                    assert interval is not None
                    by_name[output.name] = interval
    return wide, noise


def missing_slopes(plan: QueryPlan, intervals: Sequence[Mapping[str, Interval]]) -> list[str]:
    """Return why slopes have no intervals, where they have none. It follows from the released totals."""
    where = "in some group" if plan.keys else "of all rows"
    lines = []
    for output in plan.outputs:
        index = _single_statistic(output.expression)
        is_slope = index is not None and plan.statistics[index].kind == "slope"
        if is_slope and intervals and output.name not in intervals[0]:
            lines.append(
                f"{output.name} has no interval: given the noise, the variance that it is divided by could be 0 "
                f"{where}, so the slope could be any number."
            )
    return lines


def _single_statistic(expression: Expr) -> int | None:
    """Return the index of the statistic that a column is a monotone function of, together with constants only."""
    if expression.op == "statistic":
        return int(expression.value)
    constant = [operand.op == "literal" for operand in expression.args]
    if expression.op in _MONOTONE_UNARY or (expression.op in _MONOTONE and constant.count(True) == len(constant) - 1):
        if expression.op == "div" and constant[0]:
            return None  # constant / x has a pole
        return _single_statistic(expression.args[constant.index(False)]) if False in constant else None
    return None


def _transform(expression: Expr, index: int, ends: Interval) -> Interval | None:
    """Return the interval of a monotone expression, given that of its statistic."""
    if expression.op == "statistic":
        return float(ends[0]), float(ends[1])
    values = [evaluate(expression, (), [None] * index + [end]) for end in ends]
    return None if None in values else (float(min(values)), float(max(values)))


_MONOTONE_UNARY = ("number", "neg", "round", "floor", "ceil")
_MONOTONE = ("add", "sub", "mul", "div", "least", "greatest")


def scale_of(query: PricedQuery) -> Mapping[str, float]:
    """Return the noise scale of each release by name, in steps of its grid."""
    return {release.name: query.noise.block_scales[index] for index, release in enumerate(query.plan.releases)}


def _linear(
    query: PricedQuery, statistic: QueryStatistic, groups: Sequence[ReleasedGroup], wrong: float
) -> list[Interval]:
    """Return the intervals of a count or sum: the value plus and minus the reach of its noise."""
    scales = [scale_of(query)[part.name] for part in statistic.parts]
    bound = linear_reach(query.noise, scales, linear_weights(statistic), wrong)
    values = [statistic.value(group.numbers) or 0.0 for group in groups]
    return [(value - bound, value + bound) for value in values]


def _mean(
    query: PricedQuery, statistic: QueryStatistic, groups: Sequence[ReleasedGroup], wrong: float
) -> list[Interval]:
    """Return Fieller's interval for the centred sum over the count, computed in units of half the bounds' width."""
    count, centred = statistic.parts
    half = (statistic.bounds[1] - statistic.bounds[0]) / 2
    step = centred.grid / half
    noisy = np.array([[group.numbers[count.name], group.numbers[centred.name]] for group in groups])
    scales = np.array([scale_of(query)[part.name] for part in statistic.parts])
    # Rounding: half a row times a ratio of at most 1, and half a step.
    low, high = quotients(
        query.noise.tail, noisy, scales, [0.0, step], [1.0, 0.0], wrong, limits=(-1.0, 1.0), slack=0.5 + step
    )
    ends = []
    for index, group in enumerate(groups):
        value = statistic.value(group.numbers) or 0.0
        lower, upper = ((end * half + centred.offset) for end in (low[index] - step, high[index] + step))
        # The released value is always inside, even where clamping has moved it.
        ends.append((max(min(lower, value), statistic.bounds[0]), min(max(upper, value), statistic.bounds[1])))
    return ends


def _variance(
    query: PricedQuery, statistic: QueryStatistic, groups: Sequence[ReleasedGroup], wrong: float
) -> list[Interval]:
    """Return intervals of a variance or standard deviation. A quarter of ``wrong`` is for the mean."""
    scales = np.array([scale_of(query)[part.name] for part in statistic.parts])
    noisy = np.array([[group.numbers[part.name] for part in statistic.parts] for group in groups])
    means = _mean(query, replace(statistic, kind="mean", parts=statistic.parts[:2]), groups, wrong / 4)
    low, high = variance_intervals(query.noise.tail, noisy, scales, statistic, np.array(means), wrong)
    values = [replace(statistic, kind="variance").value(group.numbers) or 0.0 for group in groups]
    ends = [(min(a, value), max(b, value)) for a, b, value in zip(low, high, values, strict=True)]
    return ends if statistic.kind == "variance" else [(math.sqrt(a), math.sqrt(b)) for a, b in ends]


def _quantile(
    query: PricedQuery, statistic: QueryStatistic, groups: Sequence[ReleasedGroup], wrong: float
) -> list[Interval]:
    """Return the intervals of a quantile, which its tree has computed already."""
    return [group.quantiles[statistic.name][1:] for group in groups]


def _paired(
    query: PricedQuery, statistic: QueryStatistic, groups: Sequence[ReleasedGroup], wrong: float
) -> list[Interval | None]:
    """Return the intervals of a covariance, correlation or slope, each with the released value inside."""
    scales, share = scale_of(query), wrong / len(statistic.parts)
    reaches = [linear_reach(query.noise, [scales[part.name]], [1.0], share) for part in statistic.parts]
    ends: list[Interval | None] = []
    for group in groups:
        interval = paired_interval(statistic, [group.numbers[part.name] for part in statistic.parts], reaches)
        value = statistic.value(group.numbers)
        if interval is not None and value is not None:
            interval = min(interval[0], value), max(interval[1], value)
        ends.append(interval)
    return ends


Rule = Callable[[PricedQuery, QueryStatistic, Sequence[ReleasedGroup], float], Sequence[Interval | None]]
_RULES: Mapping[str, Rule] = {
    "count": _linear,
    "sum": _linear,
    "shared sum": _linear,
    "mean": _mean,
    "variance": _variance,
    "stddev": _variance,
    "quantile": _quantile,
    **dict.fromkeys(("covariance", "correlation", "slope"), _paired),
}
