"""What has to be released, with noise, for a query to be answered; and how answers follow from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from hush.sql.syntax.expression import Expr
from hush.sql.syntax.grid import grid_for, on_grid


class Counted(StrEnum):
    """What is added up over units."""

    ROWS = "rows"
    VALUES = "values"
    UNITS = "units"
    SUM = "sum"
    CENTRED = "centred sum"
    SQUARES = "centred sum of squares"


@dataclass(frozen=True, slots=True, kw_only=True)
class SumRelease:
    """One number for each group: the sum, over units, of an integer between ``lower`` and ``upper``.

    Adding or removing a unit changes the number in at most the plan's ``groups_per_unit`` groups, in each by one value of
    that range; units without rows in a group contribute 0, which is in the range.

    Attributes:
        name: Its column in the answer of the engine.
        what: What is added up.
        value: Which of the plan's values, for sums and counts of values.
        lower: The least that one unit adds to a group, in steps of the grid.
        upper: The most that one unit adds to a group, in steps of the grid.
        grid: The size of a step.
        offset: What was subtracted from each row's value before it was put on the grid.
        row_bounds: Where each row's value is clamped.
    """

    name: str
    what: Counted
    lower: int
    upper: int
    value: int | None = None
    grid: float = 1.0
    offset: float = 0.0
    row_bounds: tuple[float, float] = (0.0, 1.0)

    @property
    def sensitivity(self) -> int:
        """The most by which one unit changes one group (Linf), in steps of the grid."""
        return max(abs(self.lower), abs(self.upper), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafCounts:
    """The counts of a quantile tree's leaves: each kept row of a unit counts in one leaf, 0 to ``leaves`` - 1.

    Attributes:
        value: Which of the plan's values.
        bounds: What the leaves divide evenly.
        leaves: How many there are; the tree above them is for the noise to build.
        rows: How many rows of a unit count in one group (the L1 change of one level, for one group).
    """

    value: int
    bounds: tuple[float, float]
    rows: int
    leaves: int = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatistic:
    """An aggregate of the query, as a function of releases.

    Attributes:
        kind: count, sum, mean, variance, stddev or quantile.
        parts: The releases that it is computed from; for a quantile, the name under which its value is expected.
        bounds: The range of a row's value.
        probability: For a quantile, which.
        sample: For a variance, whether to divide by n - 1.
        tree: For a quantile, which of the plan's trees.
    """

    kind: str
    parts: tuple[SumRelease, ...] = ()
    bounds: tuple[float, float] = (0.0, 0.0)
    probability: float | None = None
    sample: bool = False
    tree: int | None = None
    name: str = ""

    def value(self, released: Mapping[str, float]) -> float | None:
        """Return the aggregate from released numbers, which are in steps of their grids. It has always a value."""
        if self.kind == "quantile":
            return released.get(self.name)
        return _FORMULAS[self.kind](self, [released[part.name] for part in self.parts])


def _single(about: QueryStatistic, found: list[float]) -> float:
    return found[0] * about.parts[0].grid


def _shared_sum(about: QueryStatistic, found: list[float]) -> float:
    count, centred = found
    return centred * about.parts[1].grid + about.parts[1].offset * count


def _centre(about: QueryStatistic, place: int, found: list[float]) -> float:
    part = about.parts[place]
    return found[place] * part.grid / max(1.0, found[0]) + part.offset


def _mean(about: QueryStatistic, found: list[float]) -> float:
    """The bounded mean of Google's library: sum around the middle, count at least 1, result within the bounds."""
    return min(max(_centre(about, 1, found), about.bounds[0]), about.bounds[1])


def _variance(about: QueryStatistic, found: list[float]) -> float:
    spread = _centre(about, 2, found) - _mean(about, found) ** 2
    if about.sample and found[0] > 1:
        spread *= max(2.0, found[0]) / (max(2.0, found[0]) - 1)
    return min(max(spread, 0.0), (about.bounds[1] - about.bounds[0]) ** 2 / (2 if about.sample else 4))


_FORMULAS: Mapping[str, Callable[[QueryStatistic, list[float]], float]] = {
    "count": _single,
    "sum": _single,
    "shared sum": _shared_sum,
    "mean": _mean,
    "variance": _variance,
    "stddev": lambda about, found: math.sqrt(_variance(about, found)),
}


@dataclass(frozen=True, slots=True)
class Request:
    """An aggregate as the query asks for it."""

    kind: str
    argument: Expr | None = None
    probability: float | None = None
    sample: bool = False


class Allocation:
    """Finds the smallest set of releases for all requests: a mean contains a count and a sum, a variance all three."""

    def __init__(self, requests: list[Request], rows: int) -> None:
        """Take what is asked for and how many rows of a unit count."""
        self._rows = rows
        self._requests = requests
        self.releases: list[SumRelease] = []
        self.values: list[Expr] = []
        self.trees: list[LeafCounts] = []
        self._centred = {r.argument for r in requests if r.kind in ("mean", "variance", "stddev")}
        self.statistics = tuple(self._statistic(place, request) for place, request in enumerate(requests))

    def _statistic(self, place: int, request: Request) -> QueryStatistic:
        kind, about = request.kind, request.argument
        if kind in ("rows", "units"):
            most = self._rows if kind == "rows" else 1
            return QueryStatistic(kind="count", parts=(self._release(Counted(kind), 0, most),))
        assert about is not None
        bounds = (about.low, about.high)
        if kind == "count":
            return QueryStatistic(kind="count", parts=(self._count(about),))
        if kind == "quantile":
            return self._quantile(place, request, about)
        if kind == "sum" and about not in self._centred:
            return QueryStatistic(kind="sum", parts=(self._sum(about),), bounds=bounds)
        parts = [self._count(about), self._around_middle(about, Counted.CENTRED, *bounds)]
        if kind in ("variance", "stddev"):
            ends = sorted((about.low**2, about.high**2))
            parts.append(
                self._around_middle(about, Counted.SQUARES, 0.0 if about.low < 0 < about.high else ends[0], ends[1])
            )
        kind = "shared sum" if kind == "sum" else kind
        return QueryStatistic(kind=kind, parts=tuple(parts), bounds=bounds, sample=request.sample)

    def _count(self, about: Expr) -> SumRelease:
        if about.required:
            return self._release(Counted.ROWS, 0, self._rows)
        return self._release(Counted.VALUES, 0, self._rows, value=self._value(about))

    def _sum(self, about: Expr) -> SumRelease:
        grid = grid_for(about.low, about.high, self._rows, about.whole)
        low, high = on_grid(about.low, grid), on_grid(about.high, grid)
        lower, upper = min(0, low * self._rows), max(0, high * self._rows)
        return self._release(Counted.SUM, lower, upper, self._value(about), grid, 0.0, (about.low, about.high))

    def _around_middle(self, about: Expr, what: Counted, low: float, high: float) -> SumRelease:
        middle, half = low + (high - low) / 2, (high - low) / 2
        grid = grid_for(0.0, half, self._rows, whole=False)
        most = (math.floor(half / grid) + 1) * self._rows  # rounding is within the clamp, hence within the bound
        return self._release(what, -most, most, self._value(about), grid, middle, (about.low, about.high))

    def _quantile(self, place: int, request: Request, about: Expr) -> QueryStatistic:
        tree = LeafCounts(value=self._value(about), bounds=(about.low, about.high), rows=self._rows)
        if tree not in self.trees:
            self.trees.append(tree)
        at = self.trees.index(tree)
        return QueryStatistic(
            kind="quantile", bounds=tree.bounds, probability=request.probability, tree=at, name=f"quantile{place}"
        )

    def _value(self, about: Expr) -> int:
        if about not in self.values:
            self.values.append(about)
        return self.values.index(about)

    def _release(
        self,
        what: Counted,
        lower: int,
        upper: int,
        value: int | None = None,
        grid: float = 1.0,
        offset: float = 0.0,
        row_bounds: tuple[float, float] = (0.0, 1.0),
    ) -> SumRelease:
        for known in self.releases:
            if (known.what, known.value) == (what, value):
                return known
        found = SumRelease(
            name=f"a{len(self.releases)}",
            what=what,
            lower=lower,
            upper=upper,
            value=value,
            grid=grid,
            offset=offset,
            row_bounds=row_bounds,
        )
        self.releases.append(found)
        return found
