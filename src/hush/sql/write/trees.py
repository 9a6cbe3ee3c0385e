"""Quantiles: noisy trees of counts, built from the exact leaf counts that the engine returns.

All quantiles of a column come from one tree per group, so any number of them costs the same. A tree's root has 16
children and so on for four levels; the 65,536 leaves divide the bounds evenly. Noise is added to the nodes of all
levels. `hush.statistics.noise.tree` holds the tree itself, which quantiles of arrays use as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hush.randomness import RandomSource
from hush.sql.write.plan import QueryPlan
from hush.statistics import Block, NoisePlan
from hush.statistics.noise import BRANCHING, HEIGHT, NoisyTree, release_tree, tree_block

# A quantile and the ends of its interval, by the name of the statistic.
Quantiles = dict[str, tuple[float, float, float]]

# The share of the budget that a tree gets, relative to a count. A rank is a sum of about thirty nodes, each with the
# noise of four counts (Laplace), so its error is c = 22 times a count's. Minimising the sum of squared errors (c_i /
# share_i)^2 over shares of a fixed total gives shares in proportion to c^(2/3): about 8.
_TREE_SHARE = 8.0


def tree_blocks(plan: QueryPlan) -> tuple[Block, ...]:
    """Return, for each of the plan's trees, how much one unit adds to the nodes in one group."""
    return tuple(replace(tree_block(tree.rows), share=_TREE_SHARE) for tree in plan.trees)


def tree_noise(plan: QueryPlan, noise: NoisePlan, index: int) -> NoisePlan:
    """Return the noise of one tree. The blocks of trees follow those of the sums."""
    block = len(plan.releases) + index
    return replace(noise, blocks=noise.blocks[block : block + 1], block_scales=noise.block_scales[block : block + 1])


def leaf_array(leaves: Mapping[int, int]) -> NDArray[np.int64]:
    """Return leaves and their counts as two columns, which take a tenth of a dictionary's memory."""
    return np.array([*leaves.items()], dtype=np.int64).reshape(-1, 2)


def expected_quantiles(plan: QueryPlan, index: int, noise: NoisePlan, expected: float, confidence: float) -> Quantiles:
    """Return roughly what `release_quantiles` would return for ``expected`` rows spread evenly over the bounds."""
    levels = tuple(np.full(BRANCHING**level, expected / BRANCHING**level) for level in range(1, HEIGHT + 1))
    tree = NoisyTree(levels, tree_noise(plan, noise, index), plan.trees[index].bounds)
    return _quantiles(plan, index, tree, confidence)


def release_quantiles(
    plan: QueryPlan, index: int, noise: NoisePlan, leaves: NDArray[np.int64], confidence: float, source: RandomSource
) -> Quantiles:
    """Release one tree of one group and return its quantiles with their intervals.

    Only one tree is in memory at a time: it has 69,904 nodes.

    Args:
        plan: The plan.
        index: The index of the tree in the plan.
        noise: The noise of the whole query.
        leaves: The exact leaf counts of the group, from `leaf_array`.
        confidence: The confidence of the intervals.
        source: The random source.
    """
    tree = plan.trees[index]
    counts = np.zeros(tree.leaves, dtype=np.int64)
    counts[leaves[:, 0]] = leaves[:, 1]
    noisy = release_tree(counts, tree.bounds, tree_noise(plan, noise, index), source)
    return _quantiles(plan, index, noisy, confidence)


def _quantiles(plan: QueryPlan, index: int, tree: NoisyTree, confidence: float) -> Quantiles:
    """Return the quantiles of the plan that a tree answers, with their intervals."""
    return {
        statistic.name: tree.quantile(float(statistic.probability or 0.0), confidence)
        for statistic in plan.statistics
        if statistic.tree == index
    }
