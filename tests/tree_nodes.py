"""All nodes of trees whose noise is drawn where it is looked at, for comparisons of neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hush.statistics.noise import NoisyTrees
from hush.statistics.noise.tree import BRANCHING, CELLS, HEIGHT, LEVEL_UNITS


def all_nodes(trees: NoisyTrees) -> NDArray[np.int64]:
    """Return what noise would be added to, were every node looked at: one row for each tree, levels from the root."""
    levels = []
    for level in range(HEIGHT + 1):
        edges = np.arange(BRANCHING**level + 1) * (CELLS // BRANCHING**level)
        levels.append(trees.cells.between(trees.members[:, None] * CELLS + edges) * LEVEL_UNITS[level])
    return np.concatenate(levels, axis=1)
