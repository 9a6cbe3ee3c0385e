"""The smallest epsilon that makes an answer as accurate as wanted: from public numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from hush.errors import InvalidArgument, check_positive
from hush.sql.answer.asked import Asked, Released
from hush.sql.answer.intervals import intervals, linear_reach, linear_weights, scale_of
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.releases import Counted, SumRelease
from hush.sql.write.trees import Quantiles, expected_quantiles, tree_noise
from hush.statistics.noise.release import LaplaceNoise
from hush.statistics.noise.tree import UNITS, _limits

_LEAST, _MOST = 2.0**-20, 2.0**9  # accountants take no more
_CLOSE = 1.001


def solve_epsilon(
    asked_at: Callable[[float], Asked], *, accuracy: float | None, expected: float | None, confidence: float
) -> float:
    """Return an epsilon, at most a thousandth too large, at which noise is within ``accuracy``.

    Every count, sum and quantile, each for itself, with the confidence that is given. A count is compared with
    ``expected`` rows; a sum with as many rows in the middle of the bounds (or half their width from 0, if that is
    more); sums within AVG and VARIANCE with as many rows at half the width; the rank of a quantile with ``expected``.

    Args:
        asked_at: The question at an epsilon.
        accuracy: The relative error, such as 0.05.
        expected: How many rows a group is expected to have: a guess that is public.
        confidence: Such as 0.95.
    """
    wanted = check_positive("accuracy", accuracy)
    if expected is None:
        raise InvalidArgument("expected", None, "how many rows a group has, about", "It must not be looked up")
    check_positive("expected", expected)
    size, wrong = float(expected), 1 - confidence

    def enough(epsilon: float) -> bool:
        try:
            asked = asked_at(epsilon)
        except InvalidArgument:
            if epsilon >= 1:
                raise  # a mistake of the caller, not noise beyond what can be drawn
            return False
        return all(error <= wanted for error in relative_errors(asked, size, wrong))

    high = 1.0
    if enough(high):
        while high > _LEAST and enough(high / 2):
            high /= 2
    else:
        while not enough(high):
            high *= 2
            if high > _MOST:
                raise InvalidArgument(
                    "accuracy",
                    accuracy,
                    f"one that an epsilon of {_MOST:.0f} can give",
                    "Allow more",
                )
    low = high / 2
    while high / low > _CLOSE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def relative_errors(asked: Asked, expected: float, wrong: float) -> Iterator[float]:
    """Yield, for each count, sum and quantile, what its noise exceeds with probability ``wrong``, over its size."""
    scales = scale_of(asked)
    for release in asked.plan.releases:
        off = linear_reach(asked.noise, [scales[release.name]], [release.grid], wrong)
        yield off / (expected * _row_size(asked, release))
    for about in asked.plan.statistics:
        if about.kind == "shared sum":
            own = [scales[part.name] for part in about.parts]
            off = linear_reach(asked.noise, own, linear_weights(about), wrong)
            yield off / (expected * _middle(about.bounds))
        if about.tree is not None:
            limits = _limits(isinstance(asked.noise.noise, LaplaceNoise), float(about.probability or 0.0), wrong / 2)
            scale = tree_noise(asked.plan, asked.noise, about.tree).block_scales[0] / UNITS
            yield float(limits.max()) * scale / expected


def expected_errors(asked: Asked, expected: float, confidence: float) -> dict[str, float]:
    """Return, for each column that has an interval, half the width that it has for a group of about so many rows.

    Computed for values that are spread evenly over their bounds: nothing is known of the true ones.
    """
    numbers = {release.name: expected * _even(release) / release.grid for release in asked.plan.releases}
    found: Quantiles = {}
    for place in range(len(asked.plan.trees)):
        found.update(expected_quantiles(asked.plan, place, asked.noise, expected, confidence))
    numbers.update({name: entry[0] for name, entry in found.items()})
    plain = tuple(replace(each, expression=_unrounded(each.expression)) for each in asked.plan.outputs)
    asked = replace(asked, plan=replace(asked.plan, outputs=plain))
    (ends,) = intervals(asked, [Released(keys=(), numbers=numbers, quantiles=found)], confidence)
    return {name: (high - low) / 2 for name, (low, high) in ends.items()}


def _unrounded(expression: Expr) -> Expr:
    """Return an expression without its rounding, which may hide an error, or make it larger."""
    if expression.op in ("round", "floor", "ceil"):
        return _unrounded(expression.args[0])
    return replace(expression, args=tuple(map(_unrounded, expression.args)))


def _even(release: SumRelease) -> float:
    """Return what a row adds on average, if values are spread evenly over their bounds."""
    if release.what in (Counted.ROWS, Counted.VALUES, Counted.UNITS):
        return 1.0
    low, high = release.row_bounds
    average = low + (high - low) / 2
    if release.what is Counted.SQUARES:
        average = average**2 + (high - low) ** 2 / 12
    return average - release.offset


def _row_size(asked: Asked, release: SumRelease) -> float:
    if release.what in (Counted.ROWS, Counted.VALUES, Counted.UNITS):
        return 1.0
    if release.what is Counted.SUM:
        return _middle(release.row_bounds)
    return release.sensitivity * release.grid / asked.plan.rows_per_unit


def _middle(bounds: tuple[float, float]) -> float:
    low, high = bounds
    return max(abs(low + high), high - low) / 2 or 1.0
