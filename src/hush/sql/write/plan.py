"""The plan of a query: what to run on the engine, what to release, and how the answer follows."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from hush.errors import InvalidArgument
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.output import evaluate, sort_key
from hush.sql.syntax.relation import Origin, Scan
from hush.sql.syntax.releases import LeafCounts, QueryStatistic, SumRelease
from hush.sql.write import bounded as bounded_module
from hush.sql.write.dialects import dialect_named


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """A key of GROUP BY. ``domain`` holds its public values, where there are any."""

    name: str
    expression: Expr
    domain: tuple[Any, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A column of the answer."""

    name: str
    expression: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One criterion of ORDER BY."""

    expression: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactGroup:
    """One group as the engine gives it: exact, not to be shown before noise is added.

    Attributes:
        keys: The values of the keys.
        units: How many units are in it after bounding, for partition selection.
        sums: For each of the plan's releases, by name, the exact integer.
    """

    keys: tuple[Any, ...]
    units: int
    sums: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """A query, bounded: per unit and group one integer for each release, in at most ``groups_per_unit`` groups per unit.

    Adding or removing one unit, with any rows, changes at most ``groups_per_unit`` groups, and there each release by at most
    its ``sensitivity`` and the number of units by one. It holds for every ranking key and whatever the engine's hash
    does: which groups of a unit are kept is a function of that unit's own groups (ties are broken by the keys), so that
    other units' contributions stay as they are. The hash only makes the choice fair.

    Attributes:
        origin: Where rows come from.
        where: Which of them count.
        keys: What they are grouped by.
        public_keys: Whether the groups are listed in advance; if not, partition selection is needed.
        values: What is summed, by row.
        releases: What is to be released for each group.
        trees: Quantile trees to be released for each group.
        statistics: The query's aggregates, as functions of releases.
        outputs: The columns of the answer.
        having: Which groups are shown, decided on released values.
        order: In which order.
        limit: How many.
        groups_per_unit: In how many groups a unit takes part (L0).
        rows_per_unit: How many rows of a unit count in one group.
        units: How many columns identify a unit: 2 for a user within a window.
    """

    origin: Origin
    where: Expr | None
    keys: tuple[GroupKey, ...]
    public_keys: bool
    values: tuple[Expr, ...]
    releases: tuple[SumRelease, ...]
    trees: tuple[LeafCounts, ...]
    statistics: tuple[QueryStatistic, ...]
    outputs: tuple[Output, ...]
    having: Expr | None
    order: tuple[Order, ...]
    limit: int | None
    groups_per_unit: int
    rows_per_unit: int
    units: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the answer's columns."""
        return tuple(output.name for output in self.outputs)

    @property
    def num_groups(self) -> int | None:
        """How many groups there are, where that is public."""
        return math.prod(len(key.domain or ()) for key in self.keys) if self.public_keys else None

    @property
    def scanned(self) -> str | None:
        """The table, if rows come straight from one; None after joins and subqueries."""
        body = self.origin.first.relation.body
        return body.table if isinstance(body, Scan) and not self.origin.joins else None

    def sql(self, dialect: str = "duckdb", *, ranking_key: bytes) -> str:
        """Return the whole query: one row for each group, exact and bounded, for `groups` to read.

        Args:
            dialect: duckdb, spark or postgres.
            ranking_key: Random bytes that decide which groups of a unit are kept. They are no secret that privacy hangs
                on, but units that know them could choose names of groups that are kept more often.
        """
        to = dialect_named(dialect)
        return bounded_module.whole(self, to, _checked_key(ranking_key))

    def bounded_sql(self, dialect: str = "duckdb", *, ranking_key: bytes, part: tuple[int, int] = (0, 1)) -> str:
        """Return the lower part only: one row for each unit and group that is kept. Not to be shown to anyone.

        Args:
            dialect: duckdb, spark or postgres.
            ranking_key: As for `sql`.
            part: (place, parts): only units whose hash has this remainder. All parts together are the whole. For
                duckdb only: elsewhere remainders can be negative.
        """
        to = dialect_named(dialect)
        if part[1] != 1 and dialect != "duckdb":
            raise InvalidArgument("part", part, f"(0, 1) for {dialect}", "Parts are for duckdb")
        return bounded_module.kept(self, to, _checked_key(ranking_key), part)

    def summary_sql(self, table: str, dialect: str = "duckdb", *, columns: Mapping[str, str] | None = None) -> str:
        """Return the upper part, over a table that holds the lower part.

        Args:
            table: Its name.
            dialect: duckdb, spark or postgres.
            columns: For each release's name, its column in that table; by default the same.
        """
        to = dialect_named(dialect)
        return bounded_module.summary(self, to, to.identifier(table), columns)

    def tree_sql(self, tree: int, dialect: str = "duckdb", *, ranking_key: bytes) -> str:
        """Return the query for a quantile tree: keys (or the group's number, if public), leaf, count."""
        to = dialect_named(dialect)
        return bounded_module.leaves(self, to, _checked_key(ranking_key), self.trees[tree])

    def fingerprint(self) -> str:
        """Return what names the lower part up to its releases: rows, keys and limits."""
        about = (self.origin, self.where, self.keys, self.public_keys, self.groups_per_unit, self.rows_per_unit)
        return hashlib.sha256(repr(about).encode()).hexdigest()

    def groups(self, rows: Iterable[Sequence[Any]]) -> list[ExactGroup]:
        """Read what the engine answered to `sql`: for public keys every group, in the order of the lists."""
        names = [release.name for release in self.releases]
        found = []
        listed = self.listed_keys() if self.public_keys and self.keys else []
        for row in rows:
            width = 1 if listed else len(self.keys)
            keys = listed[int(row[0])] if listed else tuple(row[:width])
            numbers = row[width:]
            sums = dict(zip(names, map(int, numbers[1:]), strict=True))
            found.append(ExactGroup(keys=keys, units=int(numbers[0]), sums=sums))
        return found

    def listed_keys(self) -> list[tuple[Any, ...]]:
        """Return the keys of all groups, where they are public, in the order of their numbers."""
        return list(product(*[key.domain or () for key in self.keys]))

    def answer(self, released: Iterable[tuple[Sequence[Any], Mapping[str, float]]]) -> list[tuple[Any, ...]]:
        """Return the rows of the answer: HAVING, ORDER BY and LIMIT on released values, which is post-processing.

        Args:
            released: For each group that may be shown, its keys and the noisy releases by name, in steps of the grid
                (and for quantiles, values by the statistic's name).
        """
        kept = []
        for keys, numbers in released:
            statistics = [statistic.value(numbers) for statistic in self.statistics]
            if self.having is None or evaluate(self.having, keys, statistics) is True:
                shown = tuple(evaluate(output.expression, keys, statistics) for output in self.outputs)
                order = tuple(
                    sort_key(evaluate(by.expression, keys, statistics), by.descending, by.nulls_first)
                    for by in self.order
                )
                kept.append((order, shown))
        if self.order:
            kept.sort(key=lambda entry: entry[0])
        return [shown for _, shown in kept[: self.limit]]


def _checked_key(key: object) -> str:
    if not isinstance(key, bytes) or len(key) < 16:
        raise InvalidArgument("ranking_key", "...", "at least 16 random bytes", "Use secrets.token_bytes(16)")
    return key.hex()
