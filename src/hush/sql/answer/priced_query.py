"""A query with its noise, and the release of its groups.

`price_query` decides, from public numbers only, how much noise each release of a plan gets and how groups that are not
public are selected. This fixes the cost of the query before any data are read. `PricedQuery.release` then turns the
exact groups of an engine into noisy ones. Everything after it is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hush.accounting import Event
from hush.data.tables.catalog import Catalog, PrivateTable, Through
from hush.errors import Unsupported
from hush.guarantee import CalendarWindow, Guarantee, Unit
from hush.randomness import RandomSource
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.relation import scanned_tables
from hush.sql.syntax.releases import Quantity, SumRelease
from hush.sql.write.plan import ExactGroup, QueryPlan
from hush.sql.write.trees import GroupCells, Quantiles, plan_quantiles, tree_blocks, tree_noise
from hush.statistics import Block, ContributionLimits, LaplaceNoise, NoisePlan, Selection, TotalLimits
from hush.statistics.noise import NoiseKind, ReleasePlan, level_scales, plan_release

_ROWS_ARE_UNITS = "each row is its own privacy unit: a person with two rows counts as two"
_KEYS_ARE_UNIQUE = "no two people have rows with the same {}: a row of {} that refers to both counts for both"
_CLOCKS = "{} of {} is written in the time zone {}: its clocks begin and end windows"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedGroup:
    """The noisy numbers of one group.

    Attributes:
        keys: The values of the keys.
        numbers: The noisy releases by name, in steps of their grids; quantiles by the name of their statistic.
        quantiles: The same quantiles with their intervals.
    """

    keys: tuple[Any, ...]
    numbers: Mapping[str, float]
    quantiles: Quantiles = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PricedQuery:
    """A plan with its noise.

    Attributes:
        plan: The plan.
        budget: The noise, and the selection of groups that are not public. The noise has one block for each of the
            plan's releases, then one for each of its trees.
        unit: The privacy unit.
        assumptions: Assumptions of the engine and of the table.
        limits: The limits that it was planned with.
    """

    plan: QueryPlan
    budget: ReleasePlan
    unit: Unit
    assumptions: tuple[str, ...] = ()
    limits: ContributionLimits | TotalLimits = field(default_factory=ContributionLimits)

    @property
    def noise(self) -> NoisePlan:
        """The noise on all releases and trees."""
        return self.budget.noise

    @property
    def noise_kind(self) -> str:
        """The kind of noise, as a word."""
        return self.noise.kind

    def scales(self) -> dict[str, float]:
        """Return the noise scale of each release, in units of the data, and of nodes of each tree, in rows."""
        names = [f"{release.quantity.value}{self._used_by(release)}" for release in self.plan.releases]
        names += [f"rows in a node of a tree{self._used_by(tree)}" for tree in range(len(self.plan.trees))]
        names = [f"{name} ({number})" if names.count(name) > 1 else name for number, name in enumerate(names, 1)]
        num_sums = len(self.plan.releases)
        sums = zip(self.plan.releases, self.noise.block_scales[:num_sums], strict=True)
        scales = [release.grid * scale for release, scale in sums]
        scales += [level_scales(tree_noise(self.plan, self.noise, index))[1] for index in range(len(self.plan.trees))]
        return dict(zip(names, scales, strict=True))

    def log_error(self) -> float:
        """Return the logarithm of the product of the mean squared errors of all numbers, in units of the data.

        It is used to compare limits. The releases' grids differ between limits, so steps of a grid would not do.
        """
        factor = 2.0 if isinstance(self.noise.noise, LaplaceNoise) else 1.0  # of the squared scale
        grids = [release.grid for release in self.plan.releases] + [1.0] * len(self.plan.trees)
        blocks = zip(self.noise.blocks, grids, self.noise.block_scales, strict=True)
        return sum(
            block.share * (math.log(factor) + 2 * (math.log(grid) + math.log(scale))) for block, grid, scale in blocks
        )

    def _used_by(self, part: SumRelease | int) -> str:
        """Return which columns of the answer use a release, or a tree, as a suffix."""
        statistics = {
            index for index, statistic in enumerate(self.plan.statistics) if part in (statistic.tree, *statistic.parts)
        }
        names = [output.name for output in self.plan.outputs if _statistics_in(output.expression) & statistics]
        return f" for {', '.join(names)}" if names else ""

    def claim(self, source: RandomSource) -> tuple[Guarantee, Event]:
        """Return the guarantee of the answer, and its event for accountants."""
        return self.budget.claim(source, unit=self.unit, assumptions=self.assumptions)

    def release(
        self, groups: Sequence[ExactGroup], trees: Sequence[GroupCells], confidence: float, source: RandomSource
    ) -> list[ReleasedGroup]:
        """Select the groups to show, unless they are public, and add noise to their numbers.

        Args:
            groups: The plan's exact groups.
            trees: The exact leaf counts of each of the plan's trees, by group.
            confidence: The confidence of the quantiles' intervals.
            source: The random source.
        """
        if self.budget.selection is not None and groups:
            num_units = np.array([group.units for group in groups], dtype=np.int64)
            groups = [groups[index] for index in self.budget.choose_groups(num_units, source)]
            # The engine's order may depend on the data. This one depends on the selected keys only.
            groups = sorted(groups, key=lambda group: [(key is None, 0 if key is None else key) for key in group.keys])
        sums = self._noisy_sums(groups, source)
        quantiles = self._noisy_quantiles([group.keys for group in groups], trees, confidence, source)
        return [
            ReleasedGroup(
                keys=group.keys,
                numbers={**sums[index], **{name: ends[0] for name, ends in quantiles[index].items()}},
                quantiles=quantiles[index],
            )
            for index, group in enumerate(groups)
        ]

    def _noisy_sums(self, groups: Sequence[ExactGroup], source: RandomSource) -> list[dict[str, float]]:
        """Return each group's noisy sums by name. The sums of all groups are one release."""
        names = [release.name for release in self.plan.releases]
        if not names or not groups:
            return [{} for _ in groups]
        totals = np.array([[group.sums[name] for name in names] for group in groups], dtype=np.int64)
        num_sums = len(names)
        sum_noise = replace(
            self.noise, blocks=self.noise.blocks[:num_sums], block_scales=self.noise.block_scales[:num_sums]
        )
        rows = sum_noise.release(totals, source).astype(np.float64).tolist()
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _noisy_quantiles(
        self,
        groups: Sequence[tuple[Any, ...]],
        trees: Sequence[GroupCells],
        confidence: float,
        source: RandomSource,
    ) -> list[Quantiles]:
        """Return each group's noisy quantiles by name, with their intervals."""
        quantiles: list[Quantiles] = [{} for _ in groups]
        for index, cells in enumerate(trees):
            noisy = cells.released(groups, tree_noise(self.plan, self.noise, index), source)
            for group, of_tree in zip(quantiles, plan_quantiles(self.plan, index, noisy, confidence), strict=True):
                group.update(of_tree)
        return quantiles


def _statistics_in(expression: Expr) -> set[int]:
    """Return the indices of the statistics that an expression uses."""
    own_index = {int(expression.value)} if expression.op == "statistic" else set()
    return own_index.union(*map(_statistics_in, expression.args))


def price_query(
    plan: QueryPlan, epsilon: float, delta: float, noise: NoiseKind | None, selection: Selection | None, unit: Unit
) -> PricedQuery:
    """Return a plan with its noise. All releases, all trees and the selection of groups share one budget.

    Args:
        plan: The plan.
        epsilon: The epsilon of the whole answer.
        delta: The delta of the whole answer.
        noise: The kind of noise; None for the kind with the smaller error.
        selection: How groups that are not public are selected; None for the default.
        unit: The privacy unit.
    """
    # One unit changes a release by at most its sensitivity in each of its groups. Integers get integer noise.
    blocks = tuple(Block.disjoint(_sensitivity(plan, release), whole=release.grid == 1.0) for release in plan.releases)
    limits = ContributionLimits(groups_per_unit=plan.groups_per_unit, rows_per_unit=plan.rows_per_unit)
    budget = plan_release(
        blocks + tree_blocks(plan),
        groups_per_unit=limits.groups_among(plan.num_groups),
        public_groups=plan.public_keys or not plan.keys,
        epsilon=epsilon,
        delta=delta,
        noise=noise,
        selection=selection,
        groups_per_block=1 if plan.in_total else None,
    )
    return PricedQuery(plan, budget, unit)


def _sensitivity(plan: QueryPlan, release: SumRelease) -> int:
    """Return the most that one unit adds to a release: in one group; or, with a limit in total, in all groups."""
    if plan.in_total and release.quantity in (Quantity.UNITS, Quantity.DISTINCT):
        # As many as count in a group, for each group that has a row.
        return min(plan.groups_per_unit * release.sensitivity, plan.rows_per_unit)
    return release.sensitivity


def protected_unit(catalog: Catalog, plan: QueryPlan) -> Unit:
    """Return the privacy unit: a user; a row; or a user within the windows of the tables that the plan reads."""
    owner = plan.origin.owner
    if owner is not None and owner.relation.id_kind is None:
        return Unit.example()
    units = {
        Unit.user_calendar(CalendarWindow(table.window), zone=table.zone)
        for _, table in _tables_read(catalog, plan)
        if table.window is not None
    }
    if plan.units == 1 or not units:
        return Unit.user()
    if len(units) > 1:
        why = "rows of one user could be in one window of the first, and in several of the other"
        raise Unsupported(f"tables with different windows in one query: {why}", "Declare the same window for both")
    return units.pop()


def plan_assumptions(catalog: Catalog, plan: QueryPlan) -> tuple[str, ...]:
    """Return the assumptions of a plan's unit about the tables that it reads."""
    unit, assumptions = protected_unit(catalog, plan), []
    for name, table in _tables_read(catalog, plan):
        if isinstance(table.unit, Through):
            assumptions.append(_KEYS_ARE_UNIQUE.format(f"{table.unit.to}.{table.unit.key}", name))
        if table.window is not None and unit.window is not None:
            assumptions.append(_CLOCKS.format(table.time, name, table.zone))
    if unit == Unit.example():
        assumptions.append(_ROWS_ARE_UNITS)
    return tuple(assumptions)


def _tables_read(catalog: Catalog, plan: QueryPlan) -> list[tuple[str, PrivateTable]]:
    """Return the private tables that a plan reads, by name."""
    tables = [(name, catalog.tables[name]) for name in sorted(scanned_tables(plan.origin, plan.where))]
    return [(name, table) for name, table in tables if isinstance(table, PrivateTable)]
