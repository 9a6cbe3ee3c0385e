r"""Quantiles from a tree of noisy counts: any number of them, with intervals, for one charge.

The range is cut into 16^4 cells. A row counts in one node on each of four levels, so a unit's rows have 4 times the L1
norm and twice the L2 norm of plain counts. Every node gets noise. The rank of a cell's lower edge is a sum of few
nodes: on each level, the siblings before the node that leads to the cell.

The flow: `cells_of` maps numbers to cells, `node_totals` sums their counts up the tree, `release_tree` adds noise, and
`NoisyTree.quantile` reads the result. `hush.sql` starts from counts of cells that an engine returns.

Interval of the q-quantile x: with exact ranks C(<x) and C(<=x), and n rows, C(<x) <= q n <= C(<=x). At the true x, the
noise in both differences from q n is known. So x is, with the stated confidence, in one of the cells where the first
noisy difference is not too large and the second one not too small. The interval covers all of these cells.

References: Hay, Rastogi, Miklau & Suciu 2010 (trees of counts); Wilson et al. 2020; the interval is our own inversion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hush.randomness import RandomSource
from hush.statistics.noise.release import Block, LaplaceNoise, NoisePlan

BRANCHING = 16
HEIGHT = 4
CELLS = BRANCHING**HEIGHT
NODES = sum(BRANCHING**level for level in range(1, HEIGHT + 1))
UNITS = 1 << 10  # per row: noise is rounded to this fraction of a row, which sums of about sixty nodes hardly notice
_ROUNDING = BRANCHING * HEIGHT / UNITS


def tree_block(rows_per_unit: int) -> Block:
    """Return the sensitivity of the tree's nodes: a row adds one node on each level."""
    return Block(columns=NODES, l1=HEIGHT * rows_per_unit * UNITS, l2=math.sqrt(HEIGHT) * rows_per_unit * UNITS)


def cells_of(numbers: NDArray[np.float64], bounds: tuple[float, float]) -> NDArray[np.int64]:
    """Return the cell of each number; numbers beyond the bounds are clamped.

    >>> cells_of(np.array([-5.0, 0.0, 50.0, 100.0]), (0.0, 100.0)).tolist()
    [0, 0, 32768, 65535]
    """
    lower, upper = bounds
    # Clamped first, so that every number is in a cell and a row adds exactly one on each level.
    fractions = (np.clip(numbers, lower, upper) - lower) / (upper - lower)
    cells: NDArray[np.int64] = np.clip(np.floor(fractions * CELLS), 0, CELLS - 1).astype(np.int64)
    return cells


def cell_counts(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rows each of the tree's cells has."""
    return np.bincount(cells, minlength=CELLS).astype(np.int64)


def node_totals(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the exact counts of all nodes, level by level from the top, from the counts of the cells."""
    levels = [counts]
    for _ in range(HEIGHT - 1):
        levels.append(levels[-1].reshape(-1, BRANCHING).sum(axis=1))
    return np.concatenate(levels[::-1])


def node_counts(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the exact counts of all nodes, level by level from the top, from each row's cell."""
    return node_totals(cell_counts(cells))


@dataclass(frozen=True, slots=True)
class NoisyTree:
    """A released tree. Everything computed from it is post-processing.

    Attributes:
        levels: The noisy counts of the nodes, in rows, level by level from the top.
        plan: The noise that they have.
        bounds: The range that the cells divide.
    """

    levels: tuple[NDArray[np.float64], ...]
    plan: NoisePlan
    bounds: tuple[float, float]

    def quantile(self, level: float, confidence: float) -> tuple[float, float, float]:
        """Return the ``level``-quantile and the ends of its confidence interval."""
        low_cell, high_cell = self._interval(level, 1 - confidence)
        value = self._number_at(min(max(self._descend(level), low_cell), high_cell + 1.0))
        return value, self._number_at(low_cell), self._number_at(high_cell + 1)

    def _number_at(self, position: float) -> float:
        """Return the number at a position that is counted in cells from the lower bound."""
        lower, upper = self.bounds
        return float(min(max(lower + position / CELLS * (upper - lower), lower), upper))

    def _descend(self, level: float) -> float:
        """Return the position of the quantile in cells.

        Walk down from the root. At each node, enter the child in which the cumulative share passes the rank.
        """
        node, share = 0, level
        for depth, counts in enumerate(self.levels):
            children = np.maximum(counts[node * BRANCHING : (node + 1) * BRANCHING], 0.0)
            children[children < self.noise_scale] = 0.0  # probably noise alone
            total = children.sum()
            if not total > 0:  # no child rises above the noise: interpolate within this node
                return (node + share) * float(BRANCHING) ** (HEIGHT - depth)
            # Within the child, the rank that is left is interpolated as a share of the child's rows.
            sums = np.cumsum(children)
            child = min(int(np.searchsorted(sums, share * total)), BRANCHING - 1)
            while children[child] == 0 and child > 0:
                child -= 1
            rank_before = sums[child] - children[child]
            share = min(max((share * total - rank_before) / max(children[child], 1.0), 0.0), 1.0)
            node = node * BRANCHING + child
        return node + share

    @property
    def noise_scale(self) -> float:
        """The scale of the noise on one node, in rows."""
        return self.plan.block_scales[0] / UNITS

    def _interval(self, level: float, wrong: float) -> tuple[int, int]:
        """Return the first and the last cell that may hold the quantile; all of them if the test rejects every cell."""
        ranks = self._ranks()
        total = float(self.levels[0].sum())
        is_laplace = isinstance(self.plan.noise, LaplaceNoise)
        limits = rank_limits(is_laplace, level, wrong / 2) * self.noise_scale + _ROUNDING
        first_level, lower_levels = _nodes_before().T
        reach = limits[first_level, lower_levels]
        # The rank of a cell's upper edge is that of the next cell's lower edge; after the last cell, it is the total.
        upper_ranks = np.append(ranks[1:], total)
        upper_reach = np.append(reach[1:], limits[BRANCHING, 0])
        possible = np.flatnonzero((ranks - level * total <= reach) & (upper_ranks - level * total >= -upper_reach))
        return (int(possible[0]), int(possible[-1])) if possible.size else (0, CELLS - 1)

    def _ranks(self) -> NDArray[np.float64]:
        """Return the noisy rank of each cell's lower edge."""
        ranks = np.zeros(1)
        for counts in self.levels:
            siblings = counts.reshape(-1, BRANCHING)
            ranks = (ranks[:, None] + np.cumsum(siblings, axis=1) - siblings).ravel()
        return ranks


def release_tree(
    counts: NDArray[np.int64], bounds: tuple[float, float], plan: NoisePlan, source: RandomSource
) -> NoisyTree:
    """Return the tree above the cells, with noise on every node.

    Args:
        counts: The exact number of rows in each cell.
        bounds: The range that the cells divide.
        plan: The noise for one `tree_block`.
        source: The source of the noise.
    """
    # Counts are multiplied by UNITS, so that noise is rounded to a small fraction of a row.
    noisy = plan.release(node_totals(counts)[None, :] * UNITS, source)[0] / UNITS
    ends = np.cumsum([BRANCHING**level for level in range(1, HEIGHT + 1)])
    return NoisyTree(tuple(np.split(noisy, ends[:-1])), plan, bounds)


@lru_cache(maxsize=1)
def _nodes_before() -> Any:
    """Return two columns: how many nodes of the first level, and of all lower levels, a cell's rank is the sum of."""
    cells = np.arange(CELLS)
    first_level = cells // BRANCHING ** (HEIGHT - 1)
    lower_levels = np.sum([cells // BRANCHING**level % BRANCHING for level in range(HEIGHT - 1)], axis=0)
    counts = np.column_stack([first_level, lower_levels])
    counts.flags.writeable = False  # the cache shares it
    return counts


@lru_cache(maxsize=64)
def rank_limits(laplace: bool, level: float, wrong: float) -> Any:
    """Return a table of bounds that (rank - level * total) exceeds with probability ``wrong``, for unit noise.

    The rows are the number of first-level nodes in the rank (0 to 16), the columns that of lower nodes. The total is
    the sum of the first level, so first-level nodes have the coefficient 1 - level inside the rank and -level outside
    it. Lower nodes have the coefficient 1.

    Args:
        laplace: Whether the noise is Laplace; Gaussian otherwise.
        level: The quantile's level.
        wrong: The probability of exceeding the bound, on one side.
    """
    first_level = np.arange(BRANCHING + 1)[:, None]
    lower_levels = np.arange((BRANCHING - 1) * (HEIGHT - 1) + 1)[None, :]
    if not laplace:
        # The variance of the sum: the squares of the coefficients, in the order of the docstring.
        squares = first_level * (1 - level) ** 2 + (BRANCHING - first_level) * level**2 + lower_levels
        return -float(ndtri(wrong)) * np.sqrt(squares)
    # Chernoff: P(sum > t) <= e^(-u t) / prod (1 - c_i^2 u^2), for any u below one over the largest c_i.
    best = np.full(np.broadcast_shapes(first_level.shape, lower_levels.shape), np.inf)
    for rate in np.linspace(0.01, 0.99, 99):
        logs = -first_level * math.log1p(-(((1 - level) * rate) ** 2))
        logs = logs - (BRANCHING - first_level) * math.log1p(-((level * rate) ** 2))
        logs = logs - lower_levels * math.log1p(-(rate**2))
        best = np.minimum(best, (logs + math.log(1 / wrong)) / rate)
    return best
