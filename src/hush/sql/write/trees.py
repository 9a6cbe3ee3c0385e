"""Quantiles: noisy trees of counts, built from the exact leaf counts that the engine returns.

All quantiles of a column come from one tree per group, so any number of them costs the same. The 65,536 leaves of a
tree divide the bounds evenly. Every node has noise, which is drawn where a quantile needs it.
`hush.statistics.noise.tree` holds the tree itself, which quantiles of arrays use as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hush.randomness import RandomSource
from hush.sql.write.plan import QueryPlan
from hush.statistics import Block, NoisePlan
from hush.statistics.noise import CountedNodes, EvenTree, NoisyTrees, TreeCells, tree_block, tree_quantiles

# A quantile and the ends of its interval, by the name of the statistic.
Quantiles = dict[str, tuple[float, float, float]]
Keys = tuple[Any, ...]

# The share of the budget that a tree gets, relative to a count. A rank is a combination of some sixty nodes, each with
# the noise of about five counts (Laplace), so its error is c = 20 times a count's. Minimising the sum of squared errors
# (c_i / share_i)^2 over shares of a fixed total gives shares in proportion to c^(2/3): about 8.
_TREE_SHARE = 8.0


def tree_blocks(plan: QueryPlan) -> tuple[Block, ...]:
    """Return, for each of the plan's trees, how much one unit adds to the nodes in one group."""
    return tuple(replace(tree_block(tree.rows), share=_TREE_SHARE) for tree in plan.trees)


def tree_noise(plan: QueryPlan, noise: NoisePlan, index: int) -> NoisePlan:
    """Return the noise of one tree. The blocks of trees follow those of the sums."""
    block = len(plan.releases) + index
    return replace(noise, blocks=noise.blocks[block : block + 1], block_scales=noise.block_scales[block : block + 1])


class GroupCells:
    """Exact counts of the cells of each group's tree. Never show them.

    Args:
        counts: For each group's keys, the counts of its cells. Empty cells are left out.
    """

    def __init__(self, counts: Mapping[Keys, Mapping[int, int]]) -> None:
        """Keep the counts as arrays, which take a tenth of a dictionary's memory."""
        self._members = {keys: member for member, keys in enumerate(counts)}
        lengths = [len(cells) for cells in counts.values()]
        cells = [np.fromiter(entries, dtype=np.int64) for entries in counts.values()]
        amounts = [np.fromiter(entries.values(), dtype=np.int64) for entries in counts.values()]
        empty = np.empty(0, dtype=np.int64)
        members = np.repeat(np.arange(len(lengths)), lengths)
        self._cells = TreeCells(members, np.concatenate([empty, *cells]), np.concatenate([empty, *amounts]))

    def released(self, groups: Sequence[Keys], noise: NoisePlan, source: RandomSource) -> NoisyTrees:
        """Return a noisy tree for each group.

        A group without values gets a tree of pure noise, so that its lack of values does not show.

        Args:
            groups: The keys of the groups.
            noise: The noise of one tree.
            source: The random source.
        """
        members = np.array([self._members.get(keys, -1) for keys in groups], dtype=np.int64)
        return NoisyTrees(self._cells, members, noise, source)


def expected_quantiles(plan: QueryPlan, index: int, noise: NoisePlan, expected: float, confidence: float) -> Quantiles:
    """Return roughly what `plan_quantiles` would return for ``expected`` rows spread evenly over the bounds."""
    (quantiles,) = plan_quantiles(plan, index, EvenTree(expected, tree_noise(plan, noise, index)), confidence)
    return quantiles


def plan_quantiles(plan: QueryPlan, index: int, trees: CountedNodes, confidence: float) -> list[Quantiles]:
    """Return for each group the quantiles that a tree of the plan answers, with their intervals."""
    bounds = plan.trees[index].bounds
    results = {
        statistic.name: np.column_stack(
            tree_quantiles(trees, float(statistic.probability or 0.0), confidence, bounds)
        ).tolist()
        for statistic in plan.statistics
        if statistic.tree == index
    }
    names, columns = list(results), list(results.values())
    return [dict(zip(names, map(tuple, row), strict=True)) for row in zip(*columns, strict=True)]
