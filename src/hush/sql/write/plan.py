"""The plan of a query: the SQL to run on the engine, the sums to release, and the answer that follows from them.

`hush.sql.read.query.plan_query` makes a plan from a query and the catalog, without looking at data. The engine runs
`QueryPlan.sql`, whose rows `QueryPlan.groups` reads. `hush.sql.answer.priced_query` adds noise to them, and
`QueryPlan.answer` computes the columns, HAVING, windows, ORDER BY and LIMIT from the noisy numbers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from hush.data.tables.catalog import ColumnKind
from hush.errors import InvalidArgument
from hush.sql.syntax.expression import Expr, summed_columns
from hush.sql.syntax.output import Order, evaluate, sort_key
from hush.sql.syntax.relation import Origin, Scan, from_items_of
from hush.sql.syntax.releases import LeafCounts, Quantity, QueryStatistic, SumRelease
from hush.sql.syntax.windows import Released, ReleasedWindow, window_values, windows_in
from hush.sql.write import bounded
from hush.sql.write.dialects import dialect_named
from hush.sql.write.extremes import extremes_query

_ADDED_UP = (Quantity.SUM, Quantity.CENTRED, Quantity.SQUARES)


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
class ExactGroup:
    """One group as the engine returns it. It is exact: never show it before noise is added.

    Attributes:
        keys: The values of the keys.
        units: The number of units in the group after bounding, for partition selection.
        sums: The exact integer of each of the plan's releases, by name. From `QueryPlan.groups`, numbers of distinct
            values are missing: they come from queries of their own.
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
        qualify: Which of these are shown, decided on windows over them.
        order: The order of the answer's rows.
        limit: The most rows of the answer.
        offset: How many rows are skipped before these.
        sets: The keys of each grouping set, by index; empty for one grouping. The last key is then the set's number,
            and a key that is not in the set is NULL.
        groups_per_unit: The most groups that a unit contributes to (L0), in all sets together.
        groups_per_set: The most groups of one set that a unit contributes to, without a limit in total.
        rows_per_unit: The most rows of a unit that count in one group, or in all groups together: see ``in_total``.
        in_total: Whether ``rows_per_unit`` holds for all groups together. The absolute values of what a unit adds to a
            release then sum, over all groups, to at most that release's sensitivity.
        units: How many columns identify a unit: 2 for a user within a window.
        undeclared: The columns that aggregates compute with, and whose bounds are undeclared.
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
    qualify: Expr | None
    order: tuple[Order, ...]
    limit: int | None
    offset: int
    sets: tuple[tuple[int, ...], ...]
    groups_per_unit: int
    groups_per_set: int
    rows_per_unit: int
    in_total: bool
    units: int
    undeclared: tuple[Expr, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the answer's columns."""
        return tuple(output.name for output in self.outputs)

    @property
    def sums(self) -> tuple[SumRelease, ...]:
        """The releases that are sums over units: all but the numbers of distinct values."""
        return tuple(release for release in self.releases if release.quantity is not Quantity.DISTINCT)

    @property
    def distinct_counts(self) -> tuple[SumRelease, ...]:
        """The releases that are numbers of distinct values, each from a query of its own."""
        return tuple(release for release in self.releases if release.quantity is Quantity.DISTINCT)

    @property
    def num_groups(self) -> int | None:
        """The number of groups, if keys are public."""
        if not self.public_keys:
            return None
        sizes = [len(key.expression.domain or ()) for key in self.keys]
        groupings = self.sets or (tuple(range(len(sizes))),)
        return sum(math.prod(sizes[index] for index in members) for members in groupings)

    @property
    def single_table(self) -> str | None:
        """The table that all rows come from, or None for joins and subqueries."""
        body = self.origin.first.relation.body
        return body.table if isinstance(body, Scan) and not self.origin.joins else None

    def without(self, columns: Collection[Expr]) -> QueryPlan:
        """Return the same plan, in whose answer all aggregates that compute with these columns are missing."""
        identities = {column.identity for column in columns}
        statistics = [
            replace(statistic, kind="unknown")
            if identities.intersection(column.identity for column in self.columns_added_up(statistic))
            else statistic
            for statistic in self.statistics
        ]
        return replace(self, statistics=tuple(statistics))

    def columns_added_up(self, statistic: QueryStatistic | None = None) -> list[Expr]:
        """Return the columns that an aggregate, or any of them, adds up or orders, with their bounds."""
        releases = self.releases if statistic is None else statistic.parts
        trees = self.trees if statistic is None else () if statistic.tree is None else (self.trees[statistic.tree],)
        added_up = [release.value for release in releases if release.quantity in _ADDED_UP]
        indices = dict.fromkeys([*added_up, *(tree.value for tree in trees)])
        return [column for index in indices if index is not None for column in summed_columns(self.values[index])]

    def sql(
        self,
        dialect: str = "duckdb",
        *,
        ranking_key: bytes,
        part: tuple[int, int] = (0, 1),
        rows: str | None = None,
    ) -> str:
        """Return the whole query: one row per group, exact and bounded. `groups` reads its result.

        Args:
            dialect: A name in `hush.sql.write.dialects.DIALECTS`.
            ranking_key: Random bytes that decide which groups of a unit are kept. Privacy does not depend on keeping
                them secret. Users who know them, however, could name their groups so that these are kept more often.
            part: (index, parts): only units whose hash begins with the bits of ``index``. All parts together are the
                whole. Their number is a power of two. DuckDB only, because hashes of other engines can be negative.
            rows: The name of a table of the rows of `rows_sql`, about these units and maybe others. The result is the
                same as without it.
        """
        _check_part(part, dialect)
        form = dialect_named(dialect)
        stored = None if rows is None else form.identifier(rows)
        return bounded.groups_query(self, form, _checked_key(ranking_key), part, stored)

    def searches(self, parts: int) -> bool:
        """Return whether, in so many parts, rows of groups that a unit cannot keep are left out before they count."""
        return bounded.searches(self, parts)

    def first_sql(self, *, ranking_key: bytes, part: tuple[int, int]) -> str:
        """Return DuckDB's query for where the groups that each unit may keep are: see `rows_sql`."""
        _check_part(part, "duckdb")
        return bounded.first_query(self, dialect_named("duckdb"), _checked_key(ranking_key), part)

    def selective_sql(self, first: str) -> str:
        """Return DuckDB's query for whether far fewer rows are left than there are, from a table of `first_sql`."""
        return bounded.is_selective(dialect_named("duckdb").identifier(first))

    def rows_sql(self, first: str | None, *, ranking_key: bytes, part: tuple[int, int]) -> str:
        """Return DuckDB's query for the rows of the groups that units may keep, a few more than they will.

        Args:
            first: The name of a table of the result of `first_sql`, about these units and maybe others; None for the
                rows of all groups.
            ranking_key: As for `sql`.
            part: As for `sql`.
        """
        _check_part(part, "duckdb")
        dialect = dialect_named("duckdb")
        stored = None if first is None else dialect.identifier(first)
        return bounded.rows_query(self, dialect, _checked_key(ranking_key), part, stored)

    def summary_sql(self, table: str, dialect: str = "duckdb", *, columns: Mapping[str, str]) -> str:
        """Return the query that adds up a table of the results of `sql`, of parts of the units. `groups` reads it.

        Args:
            table: The table's name.
            dialect: duckdb, spark or postgres.
            columns: The column of each release in that table, by the release's name.
        """
        return bounded.summary_query(self, dialect_named(dialect).identifier(table), columns)

    def tree_sql(
        self, tree: int, dialect: str = "duckdb", *, ranking_key: bytes, part: tuple[int, int] = (0, 1)
    ) -> str:
        """Return the query for a quantile tree: the keys (the group's number if they are public), leaf and count.

        It is about all units or, as in `sql`, about one part of them.
        """
        _check_part(part, dialect)
        return bounded.leaves_query(self, dialect_named(dialect), _checked_key(ranking_key), self.trees[tree], part)

    def distinct_sql(self, release: SumRelease, dialect: str = "duckdb", *, ranking_key: bytes) -> str:
        """Return the query for distinct values: the keys (the group's number if they are public), and their number."""
        return bounded.distinct_query(self, dialect_named(dialect), _checked_key(ranking_key), release)

    def values_sql(
        self, release: SumRelease, dialect: str = "duckdb", *, ranking_key: bytes, part: tuple[int, int]
    ) -> str:
        """Return the query for the values that `distinct_sql` counts, of one part of the units: the keys, and a value.

        Parts share values, so their numbers do not add up: `values_summary_sql` counts a table of all of them.
        """
        _check_part(part, dialect)
        return bounded.values_query(self, dialect_named(dialect), _checked_key(ranking_key), release, part)

    def values_summary_sql(self, table: str, dialect: str = "duckdb") -> str:
        """Return the query that counts a table of the results of `values_sql`; its rows are those of `distinct_sql`."""
        return bounded.number_of_values(self, dialect_named(dialect).identifier(table))

    def levels_sql(self, dialect: str = "duckdb", *, num_levels: int) -> str:
        """Return the query that counts units by the levels of their rows and groups. Its result is exact: hide it."""
        rows = replace(self, values=(), releases=(), trees=())
        return bounded.levels_query(rows, dialect_named(dialect), num_levels)

    def extremes_sql(self, column: Expr, dialect: str = "duckdb", *, edges: Sequence[float]) -> str:
        """Return the query that counts units by the bins of their extreme values. Its result is exact: hide it.

        Args:
            column: One of ``undeclared``.
            dialect: As for `sql`.
            edges: The edges of the bins.
        """
        return extremes_query(self, column, dialect_named(dialect), edges)

    def column_name(self, column: Expr) -> str:
        """Return the name by which a query knows a column, or the first column of a text that is read as a number."""
        pending = [column]
        while pending and pending[0].op != "column":
            pending = [*pending[0].args, *pending[1:]]
        if not pending:
            return "a constant text"
        alias, name = pending[0].value
        fields = next(from_item.relation.fields for from_item in from_items_of(self.origin) if from_item.alias == alias)
        return next(field.name for field in fields if field.column == name)

    def rows_fingerprint(self) -> str:
        """Return a hash of the rows that a query reads, whatever groups they are in."""
        rows = replace(self, keys=(), public_keys=True, sets=(), groups_per_unit=1, groups_per_set=1)
        return replace(rows, rows_per_unit=1, in_total=False).fingerprint()

    def fingerprint(self) -> str:
        """Return a hash of what the groups depend on, besides the releases: origin, keys and limits.

        The text of the query without releases contains all of that, and its length is linear in the query. A repr of
        the origin would write a common table expression again wherever the query names it.
        """
        rows = replace(self, values=(), releases=(), trees=())
        text = bounded.groups_query(rows, dialect_named("duckdb"), "")
        contents = (text, self.groups_per_unit, self.rows_per_unit, self.in_total)
        return hashlib.sha256(repr(contents).encode()).hexdigest()

    def groups(self, rows: Iterable[Sequence[Any]]) -> list[ExactGroup]:
        """Return the groups from the result of `sql`: for public keys all of them, in the order of the lists."""
        names = [release.name for release in self.sums]
        if self.public_keys and self.keys:
            by_number = {int(row[0]): row[1:] for row in rows}
            # That a group is empty must not show: it is there with zeros.
            empty = [0] * (1 + len(names))
            numbers = [(keys, by_number.get(number, empty)) for number, keys in enumerate(self.listed_keys())]
        else:
            numbers = list(self.by_keys(rows))
        return [
            ExactGroup(keys=keys, units=int(units), sums=dict(zip(names, map(int, sums), strict=True)))
            for keys, (units, *sums) in numbers
            if not self.sets or self._is_in_its_set(keys)
        ]

    def _is_in_its_set(self, keys: tuple[Any, ...]) -> bool:
        """Return whether the keys of a group are NULL where they are not in its set, and listed where they are.

        The lists of public keys have NULL for the other sets, and are combined as if all keys were independent.
        """
        *others, number = keys
        for index, (value, key) in enumerate(zip(others, self.keys, strict=False)):
            listed = key.expression.domain
            if index not in self.sets[int(number)]:
                listed = (None,)
            if listed is not None and value not in listed:
                return False
        return True

    def by_keys(self, rows: Iterable[Sequence[Any]]) -> Iterator[tuple[tuple[Any, ...], Sequence[Any]]]:
        """Yield the keys of each row of an engine's result, and the rest of the row."""
        listed = self.listed_keys() if self.public_keys and self.keys else []
        num_keys = 1 if listed else len(self.keys)
        for row in rows:
            yield listed[int(row[0])] if listed else self.read_keys(row[:num_keys]), row[num_keys:]

    def read_keys(self, cells: Sequence[Any]) -> tuple[Any, ...]:
        """Return the keys of a group from an engine's cells. MySQL has 1 for TRUE, and drivers have decimals."""
        types = [_KEY_TYPES.get(key.expression.kind) for key in self.keys]
        pairs = zip(types, cells, strict=True)
        return tuple(cell if cell is None or number is None else number(cell) for number, cell in pairs)

    def listed_keys(self) -> list[tuple[Any, ...]]:
        """Return the keys of all public groups, in the order of their numbers."""
        return list(product(*[key.domain or () for key in self.keys]))

    def answer(self, released: Iterable[tuple[Sequence[Any], Mapping[str, float]]]) -> list[tuple[Any, ...]]:
        """Return the rows of the answer. All that follows the release is post-processing: HAVING, windows, ORDER BY.

        Args:
            released: For each group that may be shown, its keys and its noisy releases by name, in steps of their
                grids. Quantiles are there by their statistic's name.
        """
        groups: list[Released] = [
            (keys, [statistic.value(numbers) for statistic in self.statistics]) for keys, numbers in released
        ]
        if self.having is not None:
            groups = [group for group in groups if evaluate(self.having, *group) is True]
        columns = {window: window_values(window, groups) for window in self._windows()}
        rows = []
        for index, group in enumerate(groups):
            windows = {window: values[index] for window, values in columns.items()}
            if self.qualify is None or evaluate(self.qualify, *group, windows) is True:
                cells = tuple(evaluate(output.expression, *group, windows) for output in self.outputs)
                order = tuple(
                    sort_key(evaluate(by.expression, *group, windows), by.descending, by.nulls_first)
                    for by in self.order
                )
                rows.append((order, cells))
        if self.order:
            rows.sort(key=lambda row: row[0])
        end = None if self.limit is None else self.offset + self.limit
        return [cells for _, cells in rows[self.offset : end]]

    def _windows(self) -> set[ReleasedWindow]:
        """Return the windows that the answer uses."""
        expressions = [*(output.expression for output in self.outputs), *(by.expression for by in self.order)]
        expressions += [] if self.qualify is None else [self.qualify]
        return {window for expression in expressions for window in windows_in(expression)}


_KEY_TYPES: Mapping[ColumnKind, Callable[[Any], Any]] = {
    ColumnKind.BOOL: bool,
    ColumnKind.INT: int,
    ColumnKind.FLOAT: float,
}


def _checked_key(key: object) -> str:
    """Return a ranking key in hexadecimal digits, which every dialect can quote. Messages do not show it."""
    if not isinstance(key, bytes) or len(key) < 16:
        raise InvalidArgument("ranking_key", "...", "at least 16 random bytes", "Use secrets.token_bytes(16)")
    return key.hex()


def _check_part(part: tuple[int, int], dialect: str) -> None:
    """Refuse parts that would not be the whole, or that an engine cannot tell apart."""
    if part[1].bit_count() != 1 or not 0 <= part[0] < part[1]:
        raise InvalidArgument("part", part, "an index below a power of two", "Other parts would not be the whole")
    if part[1] != 1 and dialect != "duckdb":
        raise InvalidArgument("part", part, f"(0, 1) for {dialect}", "Only duckdb bounds units in parts")
