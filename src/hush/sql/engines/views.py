"""Exact, bounded aggregates from an engine, and views that keep bounded contributions for further queries.

`exact_groups` and `exact_leaves` run a plan from scratch. `BoundedViews` runs the lower half of a plan once, stores its
rows on the engine, and answers further queries over the same rows, keys and limits from there. A query's privacy cost
does not depend on which of the two is used: noise is drawn anew for every answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.sql.engines.engine import Engine, InParts, LoadsFiles
from hush.sql.syntax.expression import Expr
from hush.sql.write.plan import ExactGroup, QueryPlan
from hush.sql.write.trees import leaf_array

Keys = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class BoundedView:
    """A temporary table of bounded contributions, one row per unit and group. It is exact: never show it.

    Attributes:
        table: Its name on the engine.
        columns: The column of each release, by the release's signature.
    """

    table: str
    columns: Mapping[tuple[Any, ...], str]


@dataclass(slots=True)
class BoundedViews:
    """Bounded contributions, kept on the engine so that further queries over the same groups are fast.

    A view is found by the lower half of a plan: origin, keys and limits. Leaf counts of quantile trees are found by
    their column and bounds as well. All of them use one ranking key. The same query therefore has the same exact
    aggregates each time, and a unit is in the same groups in every view. A view is as old as the first query that used
    it: call `forget` after the data have changed.

    Views must not leave the engine. They hold one row per unit, and no noise.

    Attributes:
        engine: The engine that holds them.
        ranking_key: Decides which groups of a unit are kept.
    """

    engine: Engine
    ranking_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _views: dict[str, BoundedView] = field(default_factory=dict, repr=False)
    _leaves: dict[tuple[Any, ...], dict[Keys, NDArray[np.int64]]] = field(default_factory=dict, repr=False)
    _num_views: int = 0

    def groups(self, plan: QueryPlan) -> list[ExactGroup]:
        """Return a plan's exact aggregates from its view, which is built if necessary. Never show them."""
        view = self.bounded_view(plan)
        columns = {release.name: view.columns[_signature(plan, index)] for index, release in enumerate(plan.releases)}
        sql = plan.summary_sql(view.table, self.engine.dialect, columns=columns)
        return plan.groups(self.engine.run(sql))

    def bounded_view(self, plan: QueryPlan) -> BoundedView:
        """Return the view of a plan's contributions. A view that lacks a release is built again for this plan."""
        name, signatures = plan.fingerprint(), [_signature(plan, index) for index in range(len(plan.releases))]
        known = self._views.get(name)
        if known is not None and all(signature in known.columns for signature in signatures):
            return known
        if known is not None:
            self.engine.drop(known.table)
        self._num_views += 1
        table = f"hush_view_{secrets.token_hex(4)}_{self._num_views}"
        self._build(table, plan)
        columns = {signature: plan.releases[index].name for index, signature in enumerate(signatures)}
        self._views[name] = BoundedView(table, columns)
        return self._views[name]

    def leaves(self, plan: QueryPlan, index: int) -> Mapping[Keys, NDArray[np.int64]]:
        """Return the exact leaf counts of a quantile tree, by the group's keys, as `leaf_array` returns them.

        They stay in memory: they have to be read once anyway, and reading them again would take longer than the noise.
        All quantiles of a column share them.
        """
        tree = plan.trees[index]
        signature = (plan.fingerprint(), replace(tree, value=0), plan.values[tree.value])
        if signature not in self._leaves:
            counts = exact_leaves(plan, index, self.engine, ranking_key=self.ranking_key)
            self._leaves[signature] = {keys: leaf_array(leaves) for keys, leaves in counts.items()}
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

    def _build(self, table: str, plan: QueryPlan) -> None:
        """Build a view, in parts if the engine prefers that. A unit is in one part, with all of its rows."""
        engine, dialect, key = self.engine, self.engine.dialect, self.ranking_key
        if plan.single_table is None or not isinstance(engine, InParts):
            engine.materialise(table, plan.bounded_sql(dialect, ranking_key=key))
            return
        parts = engine.parts(plan.single_table)
        engine.materialise(table, plan.bounded_sql(dialect, ranking_key=key, part=(0, parts)))
        try:
            for index in range(1, parts):
                engine.append(table, plan.bounded_sql(dialect, ranking_key=key, part=(index, parts)))
        except BaseException:  # half a view would look like a whole one
            engine.drop(table)
            raise

    def load(self) -> None:
        """Let the engine read files. Call it before anything is charged: a damaged file is refused here."""
        if isinstance(self.engine, LoadsFiles):
            self.engine.load()

    def forget(self) -> None:
        """Drop all views, and read files again before the next query."""
        if isinstance(self.engine, LoadsFiles):
            self.engine.forget()
        for view in self._views.values():
            self.engine.drop(view.table)
        self._views.clear()
        self._leaves.clear()


def exact_groups(plan: QueryPlan, engine: Engine, *, ranking_key: bytes) -> list[ExactGroup]:
    """Return a plan's exact, bounded aggregates. They are the input to the noise: never show them."""
    return plan.groups(engine.run(plan.sql(engine.dialect, ranking_key=ranking_key)))


def exact_leaves(plan: QueryPlan, tree: int, engine: Engine, *, ranking_key: bytes) -> dict[Keys, dict[int, int]]:
    """Return the exact leaf counts of a quantile tree, by the group's keys. Empty leaves are left out."""
    counts: dict[Keys, dict[int, int]] = {}
    listed = plan.listed_keys() if plan.public_keys else ()
    for row in engine.run(plan.tree_sql(tree, engine.dialect, ranking_key=ranking_key)):
        *columns, leaf, count = row
        keys = tuple(columns) if not (plan.public_keys and plan.keys) else listed[int(columns[0])]
        counts.setdefault(keys, {})[int(leaf)] = int(count)
    return counts


def _signature(plan: QueryPlan, index: int) -> tuple[Any, ...]:
    """Return what a release computes, independent of the numbering of a plan's values."""
    release = plan.releases[index]
    value: Sequence[Any] = () if release.value is None else (plan.values[release.value],)
    return (release.quantity, release.grid, release.lower, release.upper, *value)
