"""The plan of a query: the SQL to run on the engine, the sums to release, and the answer that follows from them.

`hush.sql.read.query.plan_query` makes a plan from a query and the catalog, without looking at data. The engine runs
`QueryPlan.sql`, whose rows `QueryPlan.groups` reads. `hush.sql.answer.priced_query` adds noise to them, and
`QueryPlan.answer` computes the columns, HAVING, ORDER BY and LIMIT from the noisy numbers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from hush.errors import InvalidArgument
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.output import evaluate, sort_key
from hush.sql.syntax.relation import Origin, Scan
from hush.sql.syntax.releases import LeafCounts, QueryStatistic, SumRelease
from hush.sql.write import bounded
from hush.sql.write.dialects import dialect_named
from hush.sql.write.extremes import extremes_query


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """A key of GROUP BY. ``domain`` holds its public values, or None if they are not public."""

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
    """One expression of ORDER BY."""

    expression: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactGroup:
    """One group as the engine returns it. It is exact: never show it before noise is added.

    Attributes:
        keys: The values of the keys.
        units: The number of units in the group after bounding, for partition selection.
        sums: The exact integer of each of the plan's releases, by name.
    """

    keys: tuple[Any, ...]
    units: int
    sums: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """A query with bounded contributions: one integer per unit, group and release, in few groups per unit.

    Adding or removing one unit, with any rows, changes at most ``groups_per_unit`` groups. In each of them every
    release changes by at most its ``sensitivity``, and the number of units by one. This holds for every ranking key and
    whatever the engine's hash does: which groups of a unit are kept is a function of that unit's own groups, with ties
    broken by the keys, so the contributions of other units stay as they are. The hash only makes the choice fair.

    Attributes:
        origin: Where rows come from.
        where: Which rows count.
        keys: The keys that rows are grouped by.
        public_keys: Whether all groups are listed in advance. If not, partition selection chooses the groups to show.
        values: The expressions that are summed or counted, by row.
        releases: The sums to release for each group.
        trees: The quantile trees to release for each group.
        statistics: The query's aggregates, as functions of the releases.
        outputs: The columns of the answer.
        having: Which groups are shown, decided on released values.
        order: The order of the answer's rows.
        limit: The most rows of the answer.
        groups_per_unit: The most groups that a unit contributes to (L0).
        rows_per_unit: The most rows of a unit that count in one group, or in all groups together: see ``in_total``.
        in_total: Whether ``rows_per_unit`` holds for all groups together. The absolute values of what a unit adds to a
            release then sum, over all groups, to at most that release's sensitivity.
        units: How many columns identify a unit: 2 for a user within a window.
        undeclared: The columns that aggregates compute with, and whose bounds nobody declared.
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
    in_total: bool
    units: int
    undeclared: tuple[Expr, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the answer's columns."""
        return tuple(output.name for output in self.outputs)

    @property
    def num_groups(self) -> int | None:
        """The number of groups, if keys are public."""
        return math.prod(len(key.domain or ()) for key in self.keys) if self.public_keys else None

    @property
    def single_table(self) -> str | None:
        """The table that all rows come from, or None for joins and subqueries."""
        body = self.origin.first.relation.body
        return body.table if isinstance(body, Scan) and not self.origin.joins else None

    def sql(self, dialect: str = "duckdb", *, ranking_key: bytes) -> str:
        """Return the whole query: one row per group, exact and bounded. `groups` reads its result.

        Args:
            dialect: duckdb, spark or postgres.
            ranking_key: Random bytes that decide which groups of a unit are kept. Privacy does not depend on keeping
                them secret. Users who know them, however, could name their groups so that these are kept more often.
        """
        return bounded.groups_query(self, dialect_named(dialect), _checked_key(ranking_key))

    def bounded_sql(self, dialect: str = "duckdb", *, ranking_key: bytes, part: tuple[int, int] = (0, 1)) -> str:
        """Return the lower half of the query: one row per unit and group. Never show its result.

        Args:
            dialect: duckdb, spark or postgres.
            ranking_key: As for `sql`.
            part: (index, parts): only units whose hash has remainder ``index``. All parts together are the whole.
                DuckDB only, because hashes of other engines can be negative.
        """
        if part[1] != 1 and dialect != "duckdb":
            raise InvalidArgument("part", part, f"(0, 1) for {dialect}", "Only duckdb bounds units in parts")
        return bounded.contributions_query(self, dialect_named(dialect), _checked_key(ranking_key), part)

    def summary_sql(self, table: str, dialect: str = "duckdb", *, columns: Mapping[str, str] | None = None) -> str:
        """Return the upper half of the query, over a table that holds the result of the lower half.

        Args:
            table: The table's name.
            dialect: duckdb, spark or postgres.
            columns: The column of each release in that table, by the release's name; by default that name.
        """
        sql_dialect = dialect_named(dialect)
        return bounded.summary_query(self, sql_dialect, sql_dialect.identifier(table), columns)

    def tree_sql(self, tree: int, dialect: str = "duckdb", *, ranking_key: bytes) -> str:
        """Return the query for a quantile tree: the keys (the group's number if they are public), leaf and count."""
        return bounded.leaves_query(self, dialect_named(dialect), _checked_key(ranking_key), self.trees[tree])

    def levels_sql(self, dialect: str = "duckdb", *, num_levels: int) -> str:
        """Return the query that counts units by the levels of their rows and groups. Its result is exact: hide it."""
        rows = replace(self, values=(), releases=(), trees=())
        return bounded.levels_query(rows, dialect_named(dialect), num_levels)

    def extremes_sql(self, column: Expr, dialect: str = "duckdb", *, edges: Sequence[float]) -> str:
        """Return the query that counts units by the bins of their extreme values. Its result is exact: hide it.

        Args:
            column: One of ``undeclared``.
            dialect: duckdb, spark or postgres.
            edges: The edges of the bins.
        """
        return extremes_query(self, column, dialect_named(dialect), edges)

    def column_name(self, column: Expr) -> str:
        """Return the name by which a query knows a column, or the column that is cast to a number."""
        source = column
        while source.op != "column":
            source = source.args[0]
        alias, name = source.value
        sources = [self.origin.first, *(join.source for join in self.origin.joins)]
        fields = next(entry.relation.fields for entry in sources if entry.alias == alias)
        return next(field.name for field in fields if field.column == name)

    def rows_fingerprint(self) -> str:
        """Return a hash of the rows that a query reads, whatever groups they are in."""
        rows = replace(self, keys=(), public_keys=True, groups_per_unit=1, rows_per_unit=1, in_total=False)
        return rows.fingerprint()

    def fingerprint(self) -> str:
        """Return a hash of what the bounded rows depend on, besides the releases: origin, keys and limits.

        The text of the lower half says all of that, and is linear in the query. A repr of the origin would write a
        common table expression again wherever the query names it.
        """
        rows = replace(self, values=(), releases=(), trees=())
        text = bounded.contributions_query(rows, dialect_named("duckdb"), "")
        contents = (text, self.groups_per_unit, self.rows_per_unit, self.in_total)
        return hashlib.sha256(repr(contents).encode()).hexdigest()

    def groups(self, rows: Iterable[Sequence[Any]]) -> list[ExactGroup]:
        """Return the groups from the result of `sql`: for public keys all of them, in the order of the lists."""
        names = [release.name for release in self.releases]
        groups = []
        listed = self.listed_keys() if self.public_keys and self.keys else []
        for row in rows:
            num_keys = 1 if listed else len(self.keys)
            keys = listed[int(row[0])] if listed else tuple(row[:num_keys])
            units, *sums = row[num_keys:]
            groups.append(ExactGroup(keys=keys, units=int(units), sums=dict(zip(names, map(int, sums), strict=True))))
        return groups

    def listed_keys(self) -> list[tuple[Any, ...]]:
        """Return the keys of all public groups, in the order of their numbers."""
        return list(product(*[key.domain or () for key in self.keys]))

    def answer(self, released: Iterable[tuple[Sequence[Any], Mapping[str, float]]]) -> list[tuple[Any, ...]]:
        """Return the rows of the answer. HAVING, ORDER BY and LIMIT act on released values, which is post-processing.

        Args:
            released: For each group that may be shown, its keys and its noisy releases by name, in steps of their
                grids. Quantiles are there by their statistic's name.
        """
        rows = []
        for keys, numbers in released:
            statistics = [statistic.value(numbers) for statistic in self.statistics]
            if self.having is None or evaluate(self.having, keys, statistics) is True:
                cells = tuple(evaluate(output.expression, keys, statistics) for output in self.outputs)
                order = tuple(
                    sort_key(evaluate(by.expression, keys, statistics), by.descending, by.nulls_first)
                    for by in self.order
                )
                rows.append((order, cells))
        if self.order:
            rows.sort(key=lambda row: row[0])
        return [cells for _, cells in rows[: self.limit]]


def _checked_key(key: object) -> str:
    """Return a ranking key in hexadecimal digits, which every dialect can quote. Messages do not show it."""
    if not isinstance(key, bytes) or len(key) < 16:
        raise InvalidArgument("ranking_key", "...", "at least 16 random bytes", "Use secrets.token_bytes(16)")
    return key.hex()
