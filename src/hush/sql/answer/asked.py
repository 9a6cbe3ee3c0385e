"""A question with its noise: fixed before anybody looks at data, and what it releases of exact groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import ComposedEvent, Event
from hush.errors import InvalidArgument
from hush.guarantee import Guarantee, Unit
from hush.randomness import RandomSource
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.releases import SumRelease
from hush.sql.write.plan import ExactGroup, QueryPlan
from hush.sql.write.trees import Quantiles, release_quantiles, tree_blocks
from hush.statistics.noise.release import Block, LaplaceNoise, NoiseKind, NoisePlan, plan_noise
from hush.statistics.noise.selection import Selection, SelectionPlan, TruncatedGeometric
from hush.statistics.noise.tree import UNITS
from hush.statistics.question import SELECTION_SHARE, claim

Leaves = Mapping[tuple[Any, ...], NDArray[np.int64]]
_NONE = np.empty((0, 2), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """What is told of one group: everything made of it is post-processing.

    Attributes:
        keys: The values of the keys.
        numbers: Noisy releases by name, in steps of their grids, and quantiles by the statistic's name.
        quantiles: For these, the value and the interval.
    """

    keys: tuple[Any, ...]
    numbers: Mapping[str, float]
    quantiles: Quantiles = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """A plan with its noise.

    Attributes:
        plan: What is asked.
        noise: One block for each of the plan's releases, then one for each of its trees.
        selection: How groups that are not public are chosen.
        epsilon: What all of it costs.
        delta: The same.
        unit: What is protected.
    """

    plan: QueryPlan
    noise: NoisePlan
    selection: SelectionPlan | None
    epsilon: float
    delta: float
    unit: Unit
    assumptions: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The kind of noise, in words."""
        return "Laplace" if isinstance(self.noise.noise, LaplaceNoise) else "Gaussian"

    def scales(self) -> dict[str, float]:
        """Return the scale of each release's noise in its own unit; of a tree, that of a node's count."""
        names = [f"{release.what.value}{self._for(release)}" for release in self.plan.releases]
        names += [f"rows in a node of a tree{self._for(tree)}" for tree in range(len(self.plan.trees))]
        names = [f"{name} ({place})" if names.count(name) > 1 else name for place, name in enumerate(names, 1)]
        grids = [release.grid for release in self.plan.releases] + [1 / UNITS] * len(self.plan.trees)
        scales = zip(names, grids, self.noise.block_scales, strict=True)
        return {name: grid * scale for name, grid, scale in scales}

    def _for(self, part: SumRelease | int) -> str:
        """Return which columns of the answer need a release, or a tree."""
        used = {place for place, about in enumerate(self.plan.statistics) if part in (about.tree, *about.parts)}
        names = [output.name for output in self.plan.outputs if _statistics_in(output.expression) & used]
        return f" for {', '.join(names)}" if names else ""

    def claim(self, source: RandomSource) -> tuple[Guarantee, Event]:
        """Return what the answer gives away."""
        event, delta = self.noise.event, self.noise.delta
        if self.selection is not None:
            event, delta = ComposedEvent((event, self.selection.event)), self.delta
        method = f"{self.kind} noise on bounded contributions"
        return claim(event, self.epsilon, delta, method, unit=self.unit, source=source, more=self.assumptions)

    def release(
        self, groups: Sequence[ExactGroup], trees: Sequence[Leaves], confidence: float, source: RandomSource
    ) -> list[Released]:
        """Choose groups, where they are not public, and add noise to what is told of them.

        Args:
            groups: The plan's exact aggregates.
            trees: For each of its trees, the exact counts of leaves by group; of groups that are not told, unused.
            confidence: Of the quantiles' intervals.
            source: Where noise comes from.
        """
        if self.selection is not None and groups:
            users = np.array([group.units for group in groups], dtype=np.int64)
            kept = self.selection.choose(users, source)
            groups = [group for group, keep in zip(groups, kept, strict=True) if keep]
            # In an order that depends on nothing but the keys that are told.
            groups = sorted(groups, key=lambda group: [(key is None, str(key)) for key in group.keys])
        return [self._told(group, row, trees, confidence, source) for group, row in self._noisy(groups, source)]

    def _noisy(self, groups: Sequence[ExactGroup], source: RandomSource) -> list[tuple[ExactGroup, dict[str, float]]]:
        names = [release.name for release in self.plan.releases]
        if not names or not groups:
            return [(group, {}) for group in groups]
        totals = np.array([[group.sums[name] for name in names] for group in groups], dtype=np.int64)
        ahead = len(names)
        plain = replace(self.noise, blocks=self.noise.blocks[:ahead], block_scales=self.noise.block_scales[:ahead])
        noisy = plain.release(totals, source)
        return [
            (group, dict(zip(names, map(float, row), strict=True))) for group, row in zip(groups, noisy, strict=True)
        ]

    def _told(
        self,
        group: ExactGroup,
        numbers: dict[str, float],
        trees: Sequence[Leaves],
        confidence: float,
        source: RandomSource,
    ) -> Released:
        found: Quantiles = {}
        for place, leaves in enumerate(trees):
            # A group without a value has a tree as well, of noise only.
            own = leaves.get(group.keys, _NONE)
            found.update(release_quantiles(self.plan, place, self.noise, own, confidence, source))
        values = {name: entry[0] for name, entry in found.items()}
        return Released(keys=group.keys, numbers={**numbers, **values}, quantiles=found)


def _statistics_in(expression: Expr) -> set[int]:
    own = {int(expression.value)} if expression.op == "statistic" else set()
    return own.union(*map(_statistics_in, expression.args))


def ask(
    plan: QueryPlan, epsilon: float, delta: float, noise: NoiseKind | None, selection: Selection | None, unit: Unit
) -> Asked:
    """Return a plan's noise: all releases and trees share one budget, with the choice of groups."""
    blocks = tuple(
        Block(columns=1, l1=release.sensitivity, l2=release.sensitivity, whole=release.grid == 1.0)
        for release in plan.releases
    )
    blocks += tree_blocks(plan)
    groups = plan.groups_per_unit if plan.num_groups is None else min(plan.groups_per_unit, max(plan.num_groups, 1))
    if plan.public_keys or not plan.keys:
        found = plan_noise(blocks, groups_per_unit=groups, epsilon=epsilon, delta=delta, noise=noise)
        return Asked(plan, found, None, epsilon, delta, unit)
    if not delta > 0:
        raise InvalidArgument(
            "delta", delta, "a number in (0, 1)", "Telling which groups occur needs one", "Or list the keys"
        )
    share = epsilon * SELECTION_SHARE
    found = plan_noise(blocks, groups_per_unit=groups, epsilon=epsilon - share, delta=delta / 2, noise=noise)
    left = delta if isinstance(found.noise, LaplaceNoise) else delta / 2
    chosen = (selection or TruncatedGeometric()).plan(groups_per_unit=groups, epsilon=share, delta=left)
    return Asked(plan, found, chosen, epsilon, delta, unit)
