"""Quantiles in SQL: the noisy trees of groups, from exact counts of their leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hush.randomness import Source
from hush.statistics._release import Block, NoisePlan
from hush.statistics._tree import BRANCHING, HEIGHT, UNITS, NoisyTree, tree_block
from hush.statistics.sql._plan import Plan
from hush.statistics.sql._releases import Tree

Quantiles = dict[str, tuple[float, float, float]]


def tree_blocks(plan: Plan) -> tuple[Block, ...]:
    """Return what one unit does, in one group, to the nodes of each of the plan's trees."""
    return tuple(tree_block(tree.rows) for tree in plan.trees)


def tree_noise(plan: Plan, noise: NoisePlan, place: int) -> NoisePlan:
    """Return the part of the noise that is for one tree; trees stand behind all other releases."""
    at = len(plan.releases) + place
    return replace(noise, blocks=noise.blocks[at : at + 1], block_scales=noise.block_scales[at : at + 1])


def node_totals(tree: Tree, leaves: Mapping[int, int]) -> NDArray[np.int64]:
    """Return the exact counts of all nodes above and at the leaves, level by level from the top, in units of noise."""
    counts = np.zeros(tree.leaves, dtype=np.int64)
    if leaves:
        counts[list(leaves)] = list(leaves.values())
    levels = [counts]
    for _ in range(HEIGHT - 1):
        levels.append(levels[-1].reshape(-1, BRANCHING).sum(axis=1))
    return np.concatenate(levels[::-1]) * UNITS


def release_quantiles(
    plan: Plan, place: int, noise: NoisePlan, leaves: Mapping[int, int], confidence: float, source: Source
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
