"""The numbers that a query releases with noise, and how its aggregates follow from them.

The engine computes one integer per group for each `SumRelease`, and the leaf counts of each `LeafCounts`. Noise is
added to these and to nothing else. A `QueryStatistic` is an aggregate of the query as a function of the noisy numbers.
For example, AVG(x) is a sum around the middle of the bounds divided by a count; COUNT(x) beside it uses the same count,
at no extra cost. `Allocation` finds a set of releases without duplicates for all aggregates of a query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from hush.sql.syntax.expression import Expr
from hush.sql.syntax.grid import grid_for, on_grid


class Quantity(StrEnum):
    """The quantity that is summed over units."""

    ROWS = "rows"
    VALUES = "values"
    UNITS = "units"
    DISTINCT = "distinct values"
    SUM = "sum"
    CENTRED = "centred sum"
    SQUARES = "centred sum of squares"


@dataclass(frozen=True, slots=True, kw_only=True)
class SumRelease:
    """One number per group: the sum over units of an integer between ``lower`` and ``upper``.

    Adding or removing a unit changes the number in at most the plan's ``groups_per_unit`` groups, each time by an
    integer in that range. A unit without rows in a group contributes 0, which is in the range.

    The number of distinct values is not a sum over units: several units may have the same value. But the values that
    count are a union of at most ``upper`` values of each unit, so one unit adds 0 to ``upper`` values to it.

    Attributes:
        name: Its column in the engine's result.
        quantity: The quantity that is summed.
        value: The index of the plan's value that is added up or counted.
        lower: The smallest contribution of a unit to a group, in steps of the grid.
        upper: The largest contribution of a unit to a group, in steps of the grid.
        grid: The size of a step.
        offset: Subtracted from each row's value before it is put on the grid.
        row_bounds: Where each row's value is clamped.
    """

    name: str
    quantity: Quantity
    lower: int
    upper: int
    value: int | None = None
    grid: float = 1.0
    offset: float = 0.0
    row_bounds: tuple[float, float] = (0.0, 1.0)

    @property
    def sensitivity(self) -> int:
        """The most by which one unit changes one group (L-infinity), in steps of the grid."""
        return max(abs(self.lower), abs(self.upper), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafCounts:
    """The leaf counts of a quantile tree: each row that counts adds one to one leaf.

    Attributes:
        value: The index of the plan's value.
        bounds: The range that the leaves divide evenly.
        rows: How many rows of a unit count in one group (the L1 change of each level of the tree, per group).
        leaves: The number of leaves. The levels above them are built where the noise is added.
    """

    value: int
    bounds: tuple[float, float]
    rows: int
    leaves: int = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatistic:
    """An aggregate of the query, as a function of releases.

    Attributes:
        kind: count, sum, shared sum, mean, variance, stddev, covariance, correlation, slope or quantile; unknown for
            what is missing, because nothing is known of the bounds it would be computed with.
        parts: The releases it is computed from; none for a quantile.
        bounds: The range of a row's value; for two values, that of their product.
        probability: For a quantile, its level.
        sample: For a variance or covariance, whether to divide by n - 1.
        tree: For a quantile, the index of the plan's tree.
        name: For a quantile, its name among the released numbers.
    """

    kind: str
    parts: tuple[SumRelease, ...] = ()
    bounds: tuple[float, float] = (0.0, 0.0)
    probability: float | None = None
    sample: bool = False
    tree: int | None = None
    name: str = ""

    def value(self, released: Mapping[str, float]) -> float | None:
        """Return the aggregate from released numbers, in steps of their grids. Every known count and sum has a value.

        A count is an integer.
        """
        if self.kind == "quantile":
            return released.get(self.name)
        if self.kind == "unknown":
            return None
        return _FORMULAS[self.kind](self, [released[part.name] for part in self.parts])


def _single(statistic: QueryStatistic, totals: list[float]) -> float:
    """Return a count or sum from its one release."""
    return totals[0] * statistic.parts[0].grid


def _shared_sum(statistic: QueryStatistic, totals: list[float]) -> float:
    """Return a sum from the releases of a mean: sum x = sum (x - c) + c * n."""
    count, centred = totals
    return centred * statistic.parts[1].grid + statistic.parts[1].offset * count


def _quotient(statistic: QueryStatistic, index: int, totals: list[float]) -> float:
    """Return the centred sum at ``index`` over the count, plus the centre."""
    part = statistic.parts[index]
    return totals[index] * part.grid / max(1.0, totals[0]) + part.offset


def _mean(statistic: QueryStatistic, totals: list[float]) -> float:
    """Return the bounded mean of Wilson et al. 2020: a count of at least 1, and a result within the bounds."""
    return min(max(_quotient(statistic, 1, totals), statistic.bounds[0]), statistic.bounds[1])


def _variance(statistic: QueryStatistic, totals: list[float]) -> float:
    """Return E x^2 - (E x)^2, between 0 and the largest variance that the bounds allow."""
    spread = (_quotient(statistic, 2, totals) - _mean(statistic, totals) ** 2) * _sample_factor(statistic, totals)
    # Popoviciu: width^2 / 4; over n - 1, at most twice that, for n = 2.
    return min(max(spread, 0.0), (statistic.bounds[1] - statistic.bounds[0]) ** 2 / (2 if statistic.sample else 4))


def _count(statistic: QueryStatistic, totals: list[float]) -> float:
    """Return a count from its one release, as an integer. Its grid has steps of 1, and so has its noise."""
    total = _single(statistic, totals)
    return round(total) if math.isfinite(total) else total


def _sample_factor(statistic: QueryStatistic, totals: list[float]) -> float:
    """Return n / (n - 1) for a sample, where n is at least 2."""
    return max(2.0, totals[0]) / (max(2.0, totals[0]) - 1) if statistic.sample and totals[0] > 1 else 1.0


def _covariance(statistic: QueryStatistic, totals: list[float]) -> float:
    """Return E uv - E u E v, as far as the bounds allow. The parts are the count, uv, u and v."""
    product, first, second = (_quotient(statistic, index, totals) for index in (1, 2, 3))
    largest = statistic.bounds[1] * (2 if statistic.sample else 1)
    return min(max((product - first * second) * _sample_factor(statistic, totals), -largest), largest)


def _correlation(statistic: QueryStatistic, totals: list[float]) -> float | None:
    """Return the covariance over both standard deviations; nothing if a noisy variance is not positive."""
    variances = [_quotient(statistic, index + 2, totals) - _quotient(statistic, index, totals) ** 2 for index in (2, 3)]
    if not min(variances) > 0:
        return None
    return min(max(_covariance(statistic, totals) / math.sqrt(variances[0]) / math.sqrt(variances[1]), -1.0), 1.0)


def _slope(statistic: QueryStatistic, totals: list[float]) -> float | None:
    """Return the covariance over the variance of v; nothing if that is not positive."""
    variance = _quotient(statistic, 4, totals) - _quotient(statistic, 3, totals) ** 2
    return _covariance(statistic, totals) / variance if variance > 0 else None


_FORMULAS: Mapping[str, Callable[[QueryStatistic, list[float]], float | None]] = {
    "count": _count,
    "sum": _single,
    "shared sum": _shared_sum,
    "mean": _mean,
    "variance": _variance,
    "stddev": lambda statistic, totals: math.sqrt(_variance(statistic, totals)),
    "covariance": _covariance,
    "correlation": _correlation,
    "slope": _slope,
}


@dataclass(frozen=True, slots=True)
class Request:
    """An aggregate as the query writes it.

    Attributes:
        kind: rows, units, distinct, count, sum, mean, variance, stddev, quantile, covariance, correlation or slope.
        argument: What is aggregated; None for rows and units. For two values u and v, their product.
        probability: For a quantile, its level.
        sample: For a variance or covariance, whether to divide by n - 1.
        factors: For two values, u and v around the middles of their bounds. Both are missing where the product is.
        per_unit: For distinct values, the most that a unit can have whatever its rows are, if that is known.
    """

    kind: str
    argument: Expr | None = None
    probability: float | None = None
    sample: bool = False
    factors: tuple[Expr, ...] = ()
    per_unit: int | None = None


class Allocation:
    """The releases that a query's aggregates need, each of them once.

    A mean needs a count and a centred sum, a variance a sum of squares as well. Aggregates of the same argument share
    them, and so every release gets a larger part of the budget.

    Attributes:
        releases: The sums to release.
        values: The expressions that they add up or count, by row.
        trees: The quantile trees to release.
        statistics: One for each request, in order.

    >>> from hush.data.tables.catalog import ColumnKind
    >>> age = Expr("column", ColumnKind.FLOAT, low=0.0, high=120.0)
    >>> allocation = Allocation([Request("mean", age), Request("count", age), Request("sum", age)], rows=1)
    >>> [release.quantity.value for release in allocation.releases]
    ['values', 'centred sum']
    """

    def __init__(self, requests: list[Request], rows: int) -> None:
        """Allocate releases.

        Args:
            requests: The query's aggregates.
            rows: How many rows of a unit count in a group.
        """
        self._rows = rows
        self.releases: list[SumRelease] = []
        self.values: list[Expr] = []
        self.trees: list[LeafCounts] = []
        # A sum of one of these is computed from the mean's releases, instead of a release of its own.
        self._centred = {r.argument for r in requests if r.kind in ("mean", "variance", "stddev")}
        self.statistics = tuple(self._statistic(index, request) for index, request in enumerate(requests))

    def _statistic(self, index: int, request: Request) -> QueryStatistic:
        """Return the statistic of a request, and make the releases that it needs."""
        kind, argument = request.kind, request.argument
        if kind in ("rows", "units"):
            upper = self._rows if kind == "rows" else 1
            return QueryStatistic(kind="count", parts=(self._release(Quantity(kind), 0, upper),))
        assert argument is not None
        bounds = (argument.low, argument.high)
        if kind == "distinct":
            most = min(self._rows, request.per_unit or self._rows)
            release = self._release(Quantity.DISTINCT, 0, most, value=self._value_index(argument))
            return QueryStatistic(kind="count", parts=(release,))
        if kind == "count":
            return QueryStatistic(kind="count", parts=(self._count(argument),))
        if kind == "quantile":
            return self._quantile(index, request, argument)
        if request.factors:
            return self._paired(request, argument)
        if kind == "sum" and argument not in self._centred:
            return QueryStatistic(kind="sum", parts=(self._sum(argument),), bounds=bounds)
        parts = [self._count(argument), self._centred_sum(argument, Quantity.CENTRED, *bounds)]
        if kind in ("variance", "stddev"):
            parts.append(self._squares(argument))
        kind = "shared sum" if kind == "sum" else kind
        return QueryStatistic(kind=kind, parts=tuple(parts), bounds=bounds, sample=request.sample)

    def _count(self, argument: Expr) -> SumRelease:
        """Return the release of a count. A required column has no missing values, so its count is that of the rows."""
        if argument.required:
            return self._release(Quantity.ROWS, 0, self._rows)
        return self._release(Quantity.VALUES, 0, self._rows, value=self._value_index(argument))

    def _sum(self, argument: Expr) -> SumRelease:
        """Return the release of a sum by itself. Its range contains 0, for units without rows in a group."""
        grid = grid_for(argument.low, argument.high, self._rows, argument.integral)
        low, high = on_grid(argument.low, grid), on_grid(argument.high, grid)
        lower, upper = min(0, low * self._rows), max(0, high * self._rows)
        bounds = (argument.low, argument.high)
        return self._release(Quantity.SUM, lower, upper, self._value_index(argument), grid, 0.0, bounds)

    def _centred_sum(self, argument: Expr, quantity: Quantity, low: float, high: float) -> SumRelease:
        """Return the release of a sum around the middle of [low, high], which halves the sensitivity."""
        middle, half = low + (high - low) / 2, (high - low) / 2
        grid = grid_for(0.0, half, self._rows, integral=False)
        limit = (math.floor(half / grid) + 1) * self._rows  # + 1: rounding may add a step to each row
        bounds = (argument.low, argument.high)
        return self._release(quantity, -limit, limit, self._value_index(argument), grid, middle, bounds)

    def _squares(self, argument: Expr) -> SumRelease:
        """Return the release of a sum of squares."""
        ends = sorted((argument.low**2, argument.high**2))
        smallest = 0.0 if argument.low < 0 < argument.high else ends[0]
        return self._centred_sum(argument, Quantity.SQUARES, smallest, ends[1])

    def _paired(self, request: Request, product: Expr) -> QueryStatistic:
        """Return the statistic of two values: from a count, the sums of uv, u and v, and sums of squares."""
        sums = [self._centred_sum(part, Quantity.CENTRED, part.low, part.high) for part in (product, *request.factors)]
        squared = {"covariance": (), "slope": request.factors[1:], "correlation": request.factors}[request.kind]
        parts = (self._count(product), *sums, *map(self._squares, squared))
        bounds = (product.low, product.high)
        return QueryStatistic(kind=request.kind, parts=parts, bounds=bounds, sample=request.sample)

    def _quantile(self, index: int, request: Request, argument: Expr) -> QueryStatistic:
        """Return the statistic of a quantile. All quantiles of an argument share one tree."""
        tree = LeafCounts(value=self._value_index(argument), bounds=(argument.low, argument.high), rows=self._rows)
        if tree not in self.trees:
            self.trees.append(tree)
        return QueryStatistic(
            kind="quantile",
            bounds=tree.bounds,
            probability=request.probability,
            tree=self.trees.index(tree),
            name=f"quantile{index}",
        )

    def _value_index(self, argument: Expr) -> int:
        """Return the index of an argument among the plan's values, which are listed once each."""
        if argument not in self.values:
            self.values.append(argument)
        return self.values.index(argument)

    def _release(
        self,
        quantity: Quantity,
        lower: int,
        upper: int,
        value: int | None = None,
        grid: float = 1.0,
        offset: float = 0.0,
        row_bounds: tuple[float, float] = (0.0, 1.0),
    ) -> SumRelease:
        """Return the release of a quantity, which is made once."""
        for known in self.releases:
            if (known.quantity, known.value) == (quantity, value):
                return known
        release = SumRelease(
            name=f"a{len(self.releases)}",
            quantity=quantity,
            lower=lower,
            upper=upper,
            value=value,
            grid=grid,
            offset=offset,
            row_bounds=row_bounds,
        )
        self.releases.append(release)
        return release
