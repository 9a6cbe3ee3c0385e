"""Exact, bounded aggregates from an engine, and views that keep them for further queries.

`exact_groups` and `exact_leaves` run a plan from scratch. `BoundedViews` runs a plan once, stores its groups on the
engine, if that keeps views, and answers further queries over the same rows, keys and limits from there. A query's
privacy cost does not depend on which of the two is used: noise is drawn anew for every answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.sql.engines.engine import Engine, InParts, KeepsViews, LoadsFiles
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.releases import SumRelease
from hush.sql.write.plan import ExactGroup, QueryPlan
from hush.sql.write.trees import GroupCells, Keys

# For how many parts of the engine's one pass over a file finds the groups that units may keep, and in how many parts of
# the units a table of rows is added up. If the engine has no more than so many parts, all rows are stored.
_PARTS_OF_FIRST, _PARTS_OF_ROWS, _MOST_STORED = 4, 4, 4


@dataclass(frozen=True, slots=True)
class BoundedView:
    """A temporary table of groups and their bounded sums, for each part of the units. It is exact: never show it.

    Attributes:
        table: Its name on the engine.
        columns: The column of each release, by the release's signature.
    """

    table: str
    columns: Mapping[tuple[Any, ...], str]


@dataclass(slots=True)
class BoundedViews:
    """Sums of bounded contributions, kept on the engine so that further queries over the same groups are fast.

    A view is found by the origin, keys and limits of a plan. Leaf counts of quantile trees are found by
    their column and bounds as well. All of them use one ranking key. The same query therefore has the same exact
    aggregates each time, and a unit is in the same groups in every view. A view is as old as the first query that used
    it: call `forget` after the data have changed.

    Views must not leave the engine. They hold no noise.

    Attributes:
        engine: The engine that holds them.
        ranking_key: Decides which groups of a unit are kept.
    """

    engine: Engine
    ranking_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _views: dict[str, BoundedView] = field(default_factory=dict, repr=False)
    _leaves: dict[tuple[Any, ...], GroupCells] = field(default_factory=dict, repr=False)
    _distinct: dict[tuple[Any, ...], dict[Keys, int]] = field(default_factory=dict, repr=False)
    _num_views: int = 0

    def groups(self, plan: QueryPlan) -> list[ExactGroup]:
        """Return a plan's exact aggregates from its view, which is built if necessary. Never show them."""
        if not isinstance(self.engine, KeepsViews):
            return exact_groups(plan, self.engine, ranking_key=self.ranking_key)
        view = self.bounded_view(plan)
        columns = {release.name: view.columns[_signature(plan, release)] for release in plan.sums}
        sql = plan.summary_sql(view.table, self.engine.dialect, columns=columns)
        return _with_distinct_counts(plan, plan.groups(self.engine.run(sql)), self._distinct_counts)

    def _distinct_counts(self, plan: QueryPlan, release: SumRelease) -> dict[Keys, int]:
        """Return the exact number of distinct values by group, which is counted once."""
        signature = (plan.fingerprint(), *_signature(plan, release))
        if signature not in self._distinct:
            counts = exact_distinct(plan, release, self.engine, ranking_key=self.ranking_key)
            self._distinct[signature] = counts
        return self._distinct[signature]

    def bounded_view(self, plan: QueryPlan) -> BoundedView:
        """Return the view of a plan's groups. A view that lacks a release is built again for this plan."""
        name, signatures = plan.fingerprint(), [_signature(plan, release) for release in plan.sums]
        known = self._views.get(name)
        if known is not None and all(signature in known.columns for signature in signatures):
            return known
        if known is not None:
            self._keeper.drop(known.table)
        self._num_views += 1
        table = f"hush_view_{secrets.token_hex(4)}_{self._num_views}"
        self._build(table, plan)
        columns = {_signature(plan, release): release.name for release in plan.sums}
        self._views[name] = BoundedView(table, columns)
        return self._views[name]

    def leaves(self, plan: QueryPlan, index: int) -> GroupCells:
        """Return the exact leaf counts of a quantile tree in each group. Never show them.

        They stay in memory: they have to be read once anyway, and reading them again would take longer than the noise.
        All quantiles of a column share them.
        """
        tree = plan.trees[index]
        signature = (plan.fingerprint(), replace(tree, value=0), plan.values[tree.value])
        if signature not in self._leaves:
            self._leaves[signature] = GroupCells(exact_leaves(plan, index, self.engine, ranking_key=self.ranking_key))
        return self._leaves[signature]

    def levels(self, plan: QueryPlan, num_levels: int) -> dict[tuple[int, int, int], int]:
        """Return the exact number of units by level: of rows, groups, and rows in the fullest group. Never show it."""
        rows = self.engine.run(plan.levels_sql(self.engine.dialect, num_levels=num_levels))
        return {(int(rows), int(groups), int(fullest)): int(units) for rows, groups, fullest, units in rows}

    def extremes(self, plan: QueryPlan, column: Expr, edges: Sequence[float]) -> NDArray[np.int64]:
        """Return the exact number of units by the bin of their least value, and by that of their greatest one.

        Never show them.

        Args:
            plan: The plan.
            column: One of its undeclared columns.
            edges: The edges of the bins.
        """
        counts = np.zeros((2, len(edges) - 1), dtype=np.int64)
        for side, index, units in self.engine.run(plan.extremes_sql(column, self.engine.dialect, edges=edges)):
            counts[int(side), int(index)] = int(units)
        return counts

    @property
    def _keeper(self) -> KeepsViews:
        """The engine, if it keeps views."""
        assert isinstance(self.engine, KeepsViews)
        return self.engine

    def _build(self, table: str, plan: QueryPlan) -> None:
        """Build a view, in parts if the engine prefers that. A unit is in one part, with all of its rows."""
        dialect, key, parts = self.engine.dialect, self.ranking_key, _num_parts(plan, self.engine)
        if plan.searches(parts) or 1 < parts <= _MOST_STORED:
            _fill_from_rows(self.engine, table, plan, key, parts)
        else:
            _fill(self._keeper, table, parts, partial(plan.sql, dialect, ranking_key=key))

    def load(self) -> None:
        """Let the engine read files. Call it before anything is charged: a damaged file is refused here."""
        if isinstance(self.engine, LoadsFiles):
            self.engine.load()

    def forget(self) -> None:
        """Drop all views, and read files again before the next query."""
        if isinstance(self.engine, LoadsFiles):
            self.engine.forget()
        self.drop()

    def drop(self) -> None:
        """Drop all views. The engine keeps what it has read."""
        for view in self._views.values():
            self._keeper.drop(view.table)
        self._views.clear()
        self._leaves.clear()
        self._distinct.clear()


def exact_groups(plan: QueryPlan, engine: Engine, *, ranking_key: bytes) -> list[ExactGroup]:
    """Return a plan's exact, bounded aggregates. They are the input to the noise: never show them."""
    groups = plan.groups(engine.run(plan.sql(engine.dialect, ranking_key=ranking_key)))
    return _with_distinct_counts(plan, groups, partial(exact_distinct, engine=engine, ranking_key=ranking_key))


def exact_distinct(plan: QueryPlan, release: SumRelease, engine: Engine, *, ranking_key: bytes) -> dict[Keys, int]:
    """Return the exact number of distinct values by the group's keys. Groups without values are left out."""
    dialect, parts = engine.dialect, _num_parts(plan, engine)
    if parts > 1 and isinstance(engine, KeepsViews):
        table = f"hush_values_{secrets.token_hex(4)}"
        _fill(engine, table, parts, partial(plan.values_sql, release, dialect, ranking_key=ranking_key))
        try:
            rows = engine.run(plan.values_summary_sql(table, dialect))
        finally:
            engine.drop(table)
    else:
        rows = engine.run(plan.distinct_sql(release, dialect, ranking_key=ranking_key))
    return {keys: int(number) for keys, (number,) in plan.by_keys(rows)}


def _with_distinct_counts(
    plan: QueryPlan, groups: list[ExactGroup], count: Callable[[QueryPlan, SumRelease], dict[Keys, int]]
) -> list[ExactGroup]:
    """Return groups with the numbers of distinct values, too. A group that only the other query has is dropped.

    Both queries use one ranking key, so units are in the same groups, unless the data have changed in between. Even
    then one unit changes each release in no more groups than it may: blocks of noise have their own groups.
    """
    counts = {release.name: count(plan, release) for release in plan.distinct_counts}
    return [
        replace(group, sums={**group.sums, **{name: by_keys.get(group.keys, 0) for name, by_keys in counts.items()}})
        for group in groups
    ]


def exact_leaves(plan: QueryPlan, tree: int, engine: Engine, *, ranking_key: bytes) -> dict[Keys, dict[int, int]]:
    """Return the exact leaf counts of a quantile tree, by the group's keys. Empty leaves are left out.

    As views, they are counted in parts if the engine prefers that. A unit is in one part, with all of its rows.
    """
    counts: dict[Keys, dict[int, int]] = {}
    parts = _num_parts(plan, engine)
    for index in range(parts):
        rows = engine.run(plan.tree_sql(tree, engine.dialect, ranking_key=ranking_key, part=(index, parts)))
        for keys, (leaf, count) in plan.by_keys(rows):
            leaves = counts.setdefault(keys, {})
            leaves[int(leaf)] = leaves.get(int(leaf), 0) + int(count)
    return counts


def _fill(engine: KeepsViews, table: str, parts: int, sql: Callable[..., str]) -> None:
    """Store the rows of a query about each part of the units in a temporary table."""
    engine.materialise(table, sql(part=(0, parts)))
    if not isinstance(engine, InParts):
        return
    try:
        for index in range(1, parts):
            engine.append(table, sql(part=(index, parts)))
    except BaseException:  # half a table would look like a whole one
        engine.drop(table)
        raise


def _fill_from_rows(engine: Engine, table: str, plan: QueryPlan, key: bytes, parts: int) -> None:
    """Store a view in parts of the units, and before that their rows, those of several parts at a time."""
    assert isinstance(engine, KeepsViews)
    assert isinstance(engine, InParts)
    try:
        smaller = 2 if parts <= _MOST_STORED else _PARTS_OF_ROWS
        for index, tables in _rows_of_units(engine, table, plan, key, parts):
            for part in range(smaller * index, smaller * (index + 1)):
                sql = plan.sql(ranking_key=key, part=(part, smaller * tables), rows=f"{table}_rows")
                (engine.append if part else engine.materialise)(table, sql)
    except BaseException:  # half a table would look like a whole one
        engine.drop(table)
        raise
    finally:
        engine.drop(f"{table}_first")
        engine.drop(f"{table}_rows")


def _rows_of_units(engine: Engine, table: str, plan: QueryPlan, key: bytes, parts: int) -> Iterator[tuple[int, int]]:
    """Store the rows of one group of units after another; yield its index, and how many there are.

    Rows of groups that cannot be kept are left out, if that is worth a search: one pass over the file finds these
    groups for many units, and the rows that are left are stored for twice as many units at a time. If most rows are
    left, as where units have few rows, the search ends.
    """
    assert isinstance(engine, KeepsViews)
    first, rows = f"{table}_first", f"{table}_rows"
    searches = parts // _PARTS_OF_FIRST if plan.searches(parts) else 1
    is_searched = plan.searches(parts)
    for index in range(searches):
        if is_searched:
            engine.materialise(first, plan.first_sql(ranking_key=key, part=(index, searches)))
            is_searched = bool(engine.run(plan.selective_sql(first))[0][0])
        if not is_searched:
            engine.drop(first)
        tables = parts // 2 if is_searched else parts
        for number in range(tables // searches * index, tables // searches * (index + 1)):
            stored = first if is_searched else None
            engine.materialise(rows, plan.rows_sql(stored, ranking_key=key, part=(number, tables)))
            yield number, tables
            engine.drop(rows)  # before the next ones are there


def _num_parts(plan: QueryPlan, engine: Engine) -> int:
    """Return in how many parts to bound a plan's units."""
    if plan.single_table is None or not isinstance(engine, InParts):
        return 1
    return engine.parts(plan.single_table)


def _signature(plan: QueryPlan, release: SumRelease) -> tuple[Any, ...]:
    """Return the computation of a release, independent of the numbering of a plan's values."""
    value: Sequence[Any] = () if release.value is None else (plan.values[release.value],)
    return (release.quantity, release.grid, release.lower, release.upper, *value)
