"""The smallest epsilon for a requested accuracy, and the expected errors at an epsilon.

Both follow from public numbers: the noise of a priced query, the declared bounds, and your guess of a group's size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from hush.errors import InvalidArgument, check_positive
from hush.sql.answer.intervals import intervals, linear_reach, linear_weights, scale_of
from hush.sql.answer.priced_query import PricedQuery, ReleasedGroup
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.releases import Quantity, SumRelease
from hush.sql.write.trees import Quantiles, expected_quantiles, tree_noise
from hush.statistics.noise import rank_reach

_MIN_EPSILON, _MAX_EPSILON = 2.0**-20, 2.0**9  # accountants accept no others
_COUNTS = (Quantity.ROWS, Quantity.VALUES, Quantity.UNITS, Quantity.DISTINCT)  # of about one for each row
_PRECISION = 1.001  # of the epsilon that is found, as a ratio


def solve_epsilon(
    price_at: Callable[[float], PricedQuery], *, accuracy: float | None, expected: float | None, confidence: float
) -> float:
    """Return an epsilon, at most a thousandth too large, at which the noise is within ``accuracy``.

    This holds for every count, sum and quantile separately, with the given confidence. Errors are relative: for a
    count, to ``expected`` rows; for a sum, to ``expected`` rows at the middle of the bounds (or at half their width, if
    that is more); for the sums inside AVG and VARIANCE, to ``expected`` rows at half the width; for a quantile, the
    error of its rank is relative to ``expected``.

    Args:
        price_at: Prices the query at an epsilon.
        accuracy: The relative error, such as 0.05.
        expected: The expected number of rows in a group: a public guess.
        confidence: The probability with which the error stays within ``accuracy``.
    """
    target = check_positive("accuracy", accuracy)
    if expected is None:
        raise InvalidArgument(
            "expected", None, "the approximate number of rows in a group", "Guess it: do not look it up in the data"
        )
    check_positive("expected", expected)
    size, wrong = float(expected), 1 - confidence

    def is_enough(epsilon: float) -> bool:
        """Return whether all errors are within the requested accuracy at an epsilon."""
        try:
            query = price_at(epsilon)
        except InvalidArgument:
            if epsilon >= 1:
                raise  # an invalid argument, and not noise that is too large to be drawn
            return False
        return all(error <= target for error in relative_errors(query, size, wrong))

    # Errors fall as epsilon grows. Find a power of two that is enough while its half is not, then bisect on a log
    # scale.
    high = 1.0
    if is_enough(high):
        while high > _MIN_EPSILON and is_enough(high / 2):
            high /= 2
    else:
        while not is_enough(high):
            high *= 2
            if high > _MAX_EPSILON:
                raise InvalidArgument(
                    "accuracy",
                    accuracy,
                    f"an error that epsilon <= {_MAX_EPSILON:.0f} can achieve",
                    "Allow a larger one",
                )
    low = high / 2
    while high / low > _PRECISION:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def relative_errors(query: PricedQuery, expected: float, wrong: float) -> Iterator[float]:
    """Yield, for each count, sum and quantile, the relative error that it exceeds with probability ``wrong``."""
    scales = scale_of(query)
    for release in query.plan.releases:
        error = linear_reach(query.noise, [scales[release.name]], [release.grid], wrong)
        yield error / (expected * _typical_contribution(query, release))
    for statistic in query.plan.statistics:
        if statistic.kind == "shared sum":
            part_scales = [scales[part.name] for part in statistic.parts]
            error = linear_reach(query.noise, part_scales, linear_weights(statistic), wrong)
            yield error / (expected * _typical_value(statistic.bounds))
        if statistic.tree is not None:
            noise = tree_noise(query.plan, query.noise, statistic.tree)
            yield rank_reach(noise, float(statistic.probability or 0.0), wrong) / expected


def expected_errors(query: PricedQuery, expected: float, confidence: float) -> dict[str, float]:
    """Return half the width of each column's interval in a group of about ``expected`` rows.

    It is computed for values that are spread evenly over their bounds, because nothing is known about the real ones.
    """
    numbers = {release.name: expected * _mean_contribution(release) / release.grid for release in query.plan.releases}
    quantiles: Quantiles = {}
    for index in range(len(query.plan.trees)):
        quantiles.update(expected_quantiles(query.plan, index, query.noise, expected, confidence))
    numbers.update({name: quantile[0] for name, quantile in quantiles.items()})
    outputs = tuple(replace(output, expression=_unrounded(output.expression)) for output in query.plan.outputs)
    query = replace(query, plan=replace(query.plan, outputs=outputs))
    (ends,) = intervals(query, [ReleasedGroup(keys=(), numbers=numbers, quantiles=quantiles)], confidence)
    return {name: (high - low) / 2 for name, (low, high) in ends.items()}


def _unrounded(expression: Expr) -> Expr:
    """Return an expression without ROUND, FLOOR and CEIL, which would hide or enlarge a small error."""
    if expression.op in ("round", "floor", "ceil"):
        return _unrounded(expression.args[0])
    return replace(expression, args=tuple(map(_unrounded, expression.args)))


def _mean_contribution(release: SumRelease) -> float:
    """Return the average contribution of a row if values are uniform within their bounds."""
    if release.quantity in _COUNTS:
        return 1.0
    low, high = release.row_bounds
    average = low + (high - low) / 2
    if release.quantity is Quantity.SQUARES:
        average = average**2 + (high - low) ** 2 / 12  # E x^2 = (E x)^2 + Var x
    return average - release.offset


def _typical_contribution(query: PricedQuery, release: SumRelease) -> float:
    """Return the contribution of a row that errors are relative to."""
    if release.quantity in _COUNTS:
        return 1.0
    if release.quantity is Quantity.SUM:
        return _typical_value(release.row_bounds)
    return release.sensitivity * release.grid / query.plan.rows_per_unit


def _typical_value(bounds: tuple[float, float]) -> float:
    """Return the magnitude at the middle of the bounds, or half their width if that is more."""
    low, high = bounds
    return max(abs(low + high), high - low) / 2 or 1.0
