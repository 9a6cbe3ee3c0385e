"""What an engine has to offer, and exact bounded aggregates from one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hush.errors import HushError
from hush.sql.write.plan import ExactGroup, QueryPlan
from hush.sql.write.trees import as_pairs


class EngineFailed(HushError):
    """The engine could not run a plan. Why is not said: its words may quote a record."""


@contextmanager
def wordless() -> Iterator[None]:
    """Replace an engine's errors: their words may quote a record."""
    try:
        yield
    except Exception as error:
        if isinstance(error, HushError):
            raise
        raise EngineFailed(
            "the engine could not run the plan. Its reason is not shown, since it may quote a record. "
            "Check that tables exist as declared and that memory suffices."
        ) from None


class Engine(Protocol):
    """Runs the text of plans on data that stay where they are."""

    @property
    def dialect(self) -> str:
        """The dialect that it reads: duckdb, spark or postgres."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What guarantees about its data rest on."""

    def columns(self, table: str) -> dict[str, str]:
        """Return the names and declared types of a table's columns; values are not looked at."""

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query. An error never carries the engine's words, which may quote a record."""

    def materialise(self, name: str, sql: str) -> None:
        """Store the rows of a query in a temporary table, in place of one of that name."""

    def drop(self, name: str) -> None:
        """Remove a temporary table."""


@runtime_checkable
class InParts(Protocol):
    """An engine that makes views in parts: several passes over a table, each of which holds fewer units in memory."""

    def parts(self, table: str) -> int:
        """Return in how many parts a table's units are best bounded."""

    def append(self, name: str, sql: str) -> None:
        """Add the rows of a query to a temporary table."""


@dataclass(frozen=True, slots=True)
class BoundedView:
    """A temporary table of bounded contributions, one row per unit and group: exact, and not to be shown to anyone.

    Attributes:
        table: Its name on the engine.
        columns: Which column holds which release.
    """

    table: str
    columns: Mapping[tuple[Any, ...], str]


@dataclass(slots=True)
class BoundedViews:
    """Bounded contributions, kept on the engine, so that further questions over the same groups are fast.

    Views are keyed by the lower part of plans: rows, keys and limits; leaves of quantile trees by their column and
    bounds as well. One ranking key serves all of them, so that the same question gives the same exact aggregates, and
    a unit has the same groups in each. They are as old as the first question: `forget` them after the data have
    changed.

    Attributes:
        engine: Where they are.
        ranking_key: Decides which groups of a unit are kept.
    """

    engine: Engine
    ranking_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _views: dict[str, BoundedView] = field(default_factory=dict, repr=False)
    _leaves: dict[tuple[Any, ...], dict[tuple[Any, ...], NDArray[np.int64]]] = field(default_factory=dict, repr=False)
    _used: int = 0

    def groups(self, plan: QueryPlan) -> list[ExactGroup]:
        """Return a plan's exact aggregates, from a view that is made if there is none. Not to be shown to anyone."""
        view = self.bounded_view(plan)
        columns = {release.name: view.columns[_signature(plan, place)] for place, release in enumerate(plan.releases)}
        sql = plan.summary_sql(view.table, self.engine.dialect, columns=columns)
        return plan.groups(self.engine.run(sql))

    def bounded_view(self, plan: QueryPlan) -> BoundedView:
        """Return the view that holds a plan's contributions; one that lacks a release is made again for this plan."""
        name, wanted = plan.fingerprint(), [_signature(plan, place) for place in range(len(plan.releases))]
        known = self._views.get(name)
        if known is not None and all(signature in known.columns for signature in wanted):
            return known
        if known is not None:
            self.engine.drop(known.table)
        self._used += 1
        table = f"hush_view_{secrets.token_hex(4)}_{self._used}"
        self._make(table, plan)
        columns = {signature: plan.releases[place].name for place, signature in enumerate(wanted)}
        self._views[name] = BoundedView(table, columns)
        return self._views[name]

    def leaves(self, plan: QueryPlan, place: int) -> Mapping[tuple[Any, ...], NDArray[np.int64]]:
        """Return a quantile tree's leaves and their counts, in two columns, for each group's keys: exact.

        They are kept in memory: no more numbers than are read once anyway, and reading them takes longer than noise.
        Which quantiles are asked for does not matter: another one of the same column has the same leaves.
        """
        tree = plan.trees[place]
        wanted = (plan.fingerprint(), replace(tree, value=0), plan.values[tree.value])
        if wanted not in self._leaves:
            found = exact_leaves(plan, place, self.engine, ranking_key=self.ranking_key)
            self._leaves[wanted] = {keys: as_pairs(counts) for keys, counts in found.items()}
        return self._leaves[wanted]

    def _make(self, table: str, plan: QueryPlan) -> None:
        engine, dialect, key = self.engine, self.engine.dialect, self.ranking_key
        if plan.scanned is None or not isinstance(engine, InParts):
            engine.materialise(table, plan.bounded_sql(dialect, ranking_key=key))
            return
        parts = engine.parts(plan.scanned)
        engine.materialise(table, plan.bounded_sql(dialect, ranking_key=key, part=(0, parts)))
        try:
            for place in range(1, parts):
                engine.append(table, plan.bounded_sql(dialect, ranking_key=key, part=(place, parts)))
        except BaseException:
            engine.drop(table)
            raise

    def forget(self) -> None:
        """Drop all views."""
        for view in self._views.values():
            self.engine.drop(view.table)
        self._views.clear()
        self._leaves.clear()


def exact_groups(plan: QueryPlan, engine: Engine, *, ranking_key: bytes) -> list[ExactGroup]:
    """Return a plan's exact, bounded aggregates. They are input to noise, and not to be shown to anyone."""
    return plan.groups(engine.run(plan.sql(engine.dialect, ranking_key=ranking_key)))


def exact_leaves(
    plan: QueryPlan, tree: int, engine: Engine, *, ranking_key: bytes
) -> dict[tuple[Any, ...], dict[int, int]]:
    """Return, for each group's keys, the counts of a quantile tree's leaves; leaves without rows are left out."""
    found: dict[tuple[Any, ...], dict[int, int]] = {}
    listed = plan.listed_keys() if plan.public_keys else ()
    for row in engine.run(plan.tree_sql(tree, engine.dialect, ranking_key=ranking_key)):
        *keys, leaf, count = row
        name = tuple(keys) if not (plan.public_keys and plan.keys) else listed[int(keys[0])]
        found.setdefault(name, {})[int(leaf)] = int(count)
    return found


def _signature(plan: QueryPlan, place: int) -> tuple[Any, ...]:
    release = plan.releases[place]
    value: Sequence[Any] = () if release.value is None else (plan.values[release.value],)
    return (release.what, release.grid, release.lower, release.upper, *value)
