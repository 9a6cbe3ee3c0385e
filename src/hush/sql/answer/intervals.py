"""Intervals for what a question in SQL is answered by, from the law of its noise.

They are for the exact aggregates of bounded contributions, each for itself: what bounding leaves out is not in them,
and among rows that were chosen by their noisy values (HAVING, LIMIT) fewer of them hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hush.sql.answer.asked import Asked, Released
from hush.sql.answer.spread import variance_ends
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.output import evaluate
from hush.sql.syntax.releases import QueryStatistic
from hush.statistics.noise.release import NoisePlan
from hush.statistics.noise.tails import quotients, reach

Interval = tuple[float, float]


def linear_weights(about: QueryStatistic) -> tuple[float, ...]:
    """Return the coefficients of a count's or sum's releases, in the order of its parts."""
    if about.kind == "shared sum":
        return (about.parts[1].offset, about.parts[1].grid)
    return (about.parts[0].grid,)


def linear_reach(noise: NoisePlan, scales: Sequence[float], weights: Sequence[float], wrong: float) -> float:
    """Return what the noise of a weighted sum exceeds with probability ``wrong`` at most.

    Noise is rounded to whole steps. Discrete Laplace noise is no larger, in distribution, than rounded Laplace noise:
    2 a^m / (1 + a) <= a^(m - 1/2); added to other symmetric unimodal noise this keeps its order (Anderson 1955).
    """
    if len(weights) == 1:
        return math.floor(reach(noise.tail, [scales[0]], wrong) + 0.5) * abs(weights[0])
    off = reach(noise.tail, np.multiply(scales, weights), wrong)
    return off + 0.5 * float(np.abs(weights).sum())


def intervals(asked: Asked, released: Sequence[Released], confidence: float) -> list[dict[str, Interval]]:
    """Return, for each group, the intervals of those columns of the answer that have one."""
    found: list[dict[str, Interval]] = [{} for _ in released]
    for output in asked.plan.outputs:
        place = _only_statistic(output.expression)
        if place is None or not released:
            continue
        about = asked.plan.statistics[place]
        ends = _RULES[about.kind](asked, about, released, 1 - confidence)
        carried = [_carried(output.expression, place, pair) for pair in ends]
        if all(pair is not None for pair in carried):
            for entry, pair in zip(found, carried, strict=True):
                assert pair is not None
                entry[output.name] = pair
    return found


def _only_statistic(expression: Expr) -> int | None:
    """Return which statistic a column is a monotone function of, if it is one of constants and that statistic alone."""
    if expression.op == "statistic":
        return int(expression.value)
    constant = [part.op == "literal" for part in expression.args]
    if expression.op in _MONOTONE_OF_ONE or (expression.op in _MONOTONE and constant.count(True) == len(constant) - 1):
        if expression.op == "div" and constant[0]:
            return None
        return _only_statistic(expression.args[constant.index(False)]) if False in constant else None
    return None


def _carried(expression: Expr, place: int, ends: Interval) -> Interval | None:
    """Return where a monotone function of a statistic is, if the statistic is between two ends."""
    if expression.op == "statistic":
        return float(ends[0]), float(ends[1])
    found = [evaluate(expression, (), [None] * place + [end]) for end in ends]
    return None if None in found else (float(min(found)), float(max(found)))


_MONOTONE_OF_ONE = ("number", "neg", "round", "floor", "ceil")
_MONOTONE = ("add", "sub", "mul", "div", "least", "greatest")


def scale_of(asked: Asked) -> Mapping[str, float]:
    """Return the scale of each release's noise in steps of its grid, by name."""
    return {release.name: asked.noise.block_scales[place] for place, release in enumerate(asked.plan.releases)}


def _linear(asked: Asked, about: QueryStatistic, released: Sequence[Released], wrong: float) -> list[Interval]:
    scales = [scale_of(asked)[part.name] for part in about.parts]
    off = linear_reach(asked.noise, scales, linear_weights(about), wrong)
    values = [about.value(each.numbers) or 0.0 for each in released]
    return [(value - off, value + off) for value in values]


def _mean(asked: Asked, about: QueryStatistic, released: Sequence[Released], wrong: float) -> list[Interval]:
    """Return Fieller's interval for the centred sum over the count, in halves of the bounds' width."""
    count, centred = about.parts
    half = (about.bounds[1] - about.bounds[0]) / 2
    step = centred.grid / half
    noisy = np.array([[each.numbers[count.name], each.numbers[centred.name]] for each in released])
    scales = np.array([scale_of(asked)[part.name] for part in about.parts])
    # Rounding: half a row times a ratio of 1 at most, and half a step.
    low, high = quotients(
        asked.noise.tail, noisy, scales, [0.0, step], [1.0, 0.0], wrong, limits=(-1.0, 1.0), slack=0.5 + step
    )
    ends = []
    for place, each in enumerate(released):
        value = about.value(each.numbers) or 0.0
        least, most = ((end * half + centred.offset) for end in (low[place] - step, high[place] + step))
        ends.append((max(min(least, value), about.bounds[0]), min(max(most, value), about.bounds[1])))
    return ends


def _variance(asked: Asked, about: QueryStatistic, released: Sequence[Released], wrong: float) -> list[Interval]:
    """Return intervals of a variance from its three totals; a quarter of ``wrong`` is for the mean."""
    scales = np.array([scale_of(asked)[part.name] for part in about.parts])
    noisy = np.array([[each.numbers[part.name] for part in about.parts] for each in released])
    means = _mean(asked, replace(about, kind="mean", parts=about.parts[:2]), released, wrong / 4)
    low, high = variance_ends(asked.noise.tail, noisy, scales, about, np.array(means), wrong)
    values = [replace(about, kind="variance").value(each.numbers) or 0.0 for each in released]
    ends = [(min(a, value), max(b, value)) for a, b, value in zip(low, high, values, strict=True)]
    return ends if about.kind == "variance" else [(math.sqrt(a), math.sqrt(b)) for a, b in ends]


def _quantile(asked: Asked, about: QueryStatistic, released: Sequence[Released], wrong: float) -> list[Interval]:
    return [each.quantiles[about.name][1:] for each in released]


_RULES: Mapping[str, Callable[[Asked, QueryStatistic, Sequence[Released], float], list[Interval]]] = {
    "count": _linear,
    "sum": _linear,
    "shared sum": _linear,
    "mean": _mean,
    "variance": _variance,
    "stddev": _variance,
    "quantile": _quantile,
}
