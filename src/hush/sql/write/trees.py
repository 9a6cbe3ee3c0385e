"""Quantiles in SQL: the noisy trees of groups, from exact counts of their leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hush.randomness import RandomSource
from hush.sql.syntax.releases import LeafCounts
from hush.sql.write.plan import QueryPlan
from hush.statistics.noise.release import Block, NoisePlan
from hush.statistics.noise.tree import BRANCHING, HEIGHT, UNITS, NoisyTree, tree_block

Quantiles = dict[str, tuple[float, float, float]]

# What a tree gets of the budget where a count gets 1. A rank is a sum of some thirty nodes, each with the noise of four
# counts (Laplace), so it has about 22 times a count's error. Least squares over both, in rows, at scales of c / share:
# shares in proportion to c^(2/3), about 8.
_SHARE = 8.0


def tree_blocks(plan: QueryPlan) -> tuple[Block, ...]:
    """Return what one unit does, in one group, to the nodes of each of the plan's trees."""
    return tuple(replace(tree_block(tree.rows), share=_SHARE) for tree in plan.trees)


def tree_noise(plan: QueryPlan, noise: NoisePlan, place: int) -> NoisePlan:
    """Return the part of the noise that is for one tree; trees stand behind all other releases."""
    at = len(plan.releases) + place
    return replace(noise, blocks=noise.blocks[at : at + 1], block_scales=noise.block_scales[at : at + 1])


def as_pairs(leaves: Mapping[int, int]) -> NDArray[np.int64]:
    """Return leaves and their counts in two columns: a tenth of a dictionary's size."""
    return np.array([*leaves.items()], dtype=np.int64).reshape(-1, 2)


def node_totals(tree: LeafCounts, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the exact counts of all nodes above and at the leaves, level by level from the top, in units of noise."""
    counts = np.zeros(tree.leaves, dtype=np.int64)
    counts[leaves[:, 0]] = leaves[:, 1]
    levels = [counts]
    for _ in range(HEIGHT - 1):
        levels.append(levels[-1].reshape(-1, BRANCHING).sum(axis=1))
    return np.concatenate(levels[::-1]) * UNITS


def expected_quantiles(plan: QueryPlan, place: int, noise: NoisePlan, expected: float, confidence: float) -> Quantiles:
    """Return what `release_quantiles` would give, about, for rows that are spread evenly over the bounds."""
    levels = tuple(np.full(BRANCHING**level, expected / BRANCHING**level) for level in range(1, HEIGHT + 1))
    found = NoisyTree(levels, tree_noise(plan, noise, place), plan.trees[place].bounds)
    wanted = [statistic for statistic in plan.statistics if statistic.tree == place]
    return {about.name: found.quantile(float(about.probability or 0.0), confidence) for about in wanted}


def release_quantiles(
    plan: QueryPlan, place: int, noise: NoisePlan, leaves: NDArray[np.int64], confidence: float, source: RandomSource
) -> Quantiles:
    """Release one tree of one group; return its quantiles with their intervals, by the names of statistics.

    All quantiles of a column come from one tree: any number of them costs the same. One tree is held at a time.
    """
    tree, own = plan.trees[place], tree_noise(plan, noise, place)
    noisy = own.release(node_totals(tree, leaves)[None, :], source)[0] / UNITS
    ends = np.cumsum([BRANCHING**level for level in range(1, HEIGHT + 1)])
    found = NoisyTree(tuple(np.split(noisy, ends[:-1])), own, tree.bounds)
    wanted = [statistic for statistic in plan.statistics if statistic.tree == place]
    return {about.name: found.quantile(float(about.probability or 0.0), confidence) for about in wanted}
