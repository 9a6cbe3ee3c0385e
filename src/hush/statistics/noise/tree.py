r"""Quantiles from a tree of noisy counts: any number of them, with intervals, for one charge.

The range is cut into 16^4 cells; a row counts in one node of each of four levels, so a user's rows are 4 times as large
in L1 norm and twice in L2 norm. Every node gets noise. The rank of a cell's edge is a sum of few nodes: on each level,
the siblings before the one that leads to it.

Interval of the q-quantile x: with C(<x) and C(<=x) exact ranks and n the number of rows, C(<x) <= q n <= C(<=x). The
noise of both differences from q n is known at the true x, so with the stated confidence x is among the cells where the
noisy first one is not too large, nor the noisy second one too small. The interval holds all these cells.

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
UNITS = 1 << 10  # to a row: noise is rounded to this fraction, and sums of some sixty nodes hardly notice
_ROUNDING = BRANCHING * HEIGHT / UNITS


def tree_block(rows_per_unit: int) -> Block:
    """Return what one user does to the nodes of a tree: one row more is one in each level."""
    return Block(columns=NODES, l1=HEIGHT * rows_per_unit * UNITS, l2=math.sqrt(HEIGHT) * rows_per_unit * UNITS)


def cells_of(numbers: NDArray[np.float64], bounds: tuple[float, float]) -> NDArray[np.int64]:
    """Return the cell of each number, clamped to the bounds."""
    lower, upper = bounds
    share = (np.clip(numbers, lower, upper) - lower) / (upper - lower)
    cells: NDArray[np.int64] = np.clip(np.floor(share * CELLS), 0, CELLS - 1).astype(np.int64)
    return cells


def node_counts(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the exact counts of all nodes, level by level from the top."""
    leaves = np.bincount(cells, minlength=CELLS).astype(np.int64)
    levels = [leaves]
    for _ in range(HEIGHT - 1):
        levels.append(levels[-1].reshape(-1, BRANCHING).sum(axis=1))
    return np.concatenate(levels[::-1])


@dataclass(frozen=True, slots=True)
class NoisyTree:
    """A released tree; everything that is asked of it is post-processing."""

    levels: tuple[NDArray[np.float64], ...]
    plan: NoisePlan
    bounds: tuple[float, float]

    def quantile(self, level: float, confidence: float) -> tuple[float, float, float]:
        """Return the ``level``-quantile and its interval."""
        low, high = self._interval(level, 1 - confidence)
        value = self._at(min(max(self._descend(level), low), high + 1.0))
        return value, self._at(low), self._at(high + 1)

    def _at(self, place: float) -> float:
        """Return the number at a place, counted in cells from the lower bound."""
        lower, upper = self.bounds
        return float(min(max(lower + place / CELLS * (upper - lower), lower), upper))

    def _descend(self, level: float) -> float:
        """Walk down, each time into the child where the cumulative share passes what is left of the rank."""
        node, share = 0, level
        for depth, counts in enumerate(self.levels):
            children = np.maximum(counts[node * BRANCHING : (node + 1) * BRANCHING], 0.0)
            # What noise alone would put there is no guide.
            children[children < self.noise_scale] = 0.0
            total = children.sum()
            if not total > 0:
                return (node + share) * float(BRANCHING) ** (HEIGHT - depth)
            sums = np.cumsum(children)
            child = min(int(np.searchsorted(sums, share * total)), BRANCHING - 1)
            while children[child] == 0 and child > 0:
                child -= 1
            before = sums[child] - children[child]
            share = min(max((share * total - before) / max(children[child], 1.0), 0.0), 1.0)
            node = node * BRANCHING + child
        return node + share

    @property
    def noise_scale(self) -> float:
        """Of the noise on a node, in rows."""
        return self.plan.block_scales[0] / UNITS

    def _interval(self, level: float, wrong: float) -> tuple[int, int]:
        before, digits = self._ranks()
        total = float(self.levels[0].sum())
        limits = _limits(isinstance(self.plan.noise, LaplaceNoise), level, wrong / 2)
        up_to = np.append(before[1:], total)  # the rank of a cell's upper edge is that of the next one's lower
        reach = self.noise_scale * limits[digits[:, 0], digits[:, 1]] + _ROUNDING
        reach_next = np.append(reach[1:], self._total_reach(level, wrong / 2))
        possible = (before - level * total <= reach) & (up_to - level * total >= -reach_next)
        found = np.flatnonzero(possible)
        return (int(found[0]), int(found[-1])) if found.size else (0, CELLS - 1)

    def _total_reach(self, level: float, wrong: float) -> float:
        limits = _limits(isinstance(self.plan.noise, LaplaceNoise), level, wrong)
        return self.noise_scale * float(limits[BRANCHING, 0]) + _ROUNDING

    def _ranks(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return each cell's noisy rank, and how many nodes of the first and of lower levels it is the sum of."""
        ranks = np.zeros(1)
        for counts in self.levels:
            siblings = counts.reshape(-1, BRANCHING)
            ranks = (ranks[:, None] + np.cumsum(siblings, axis=1) - siblings).ravel()
        return ranks, _digits()


def release_tree(
    cells: NDArray[np.int64], bounds: tuple[float, float], plan: NoisePlan, source: RandomSource
) -> NoisyTree:
    """Return the tree of rows' cells, with noise on every node."""
    noisy = plan.release(node_counts(cells)[None, :] * UNITS, source)[0] / UNITS
    ends = np.cumsum([BRANCHING**level for level in range(1, HEIGHT + 1)])
    return NoisyTree(tuple(np.split(noisy, ends[:-1])), plan, bounds)


@lru_cache(maxsize=1)
def _digits() -> Any:
    """Return, for each cell, how many nodes of the first level and of the lower ones are before it."""
    cells = np.arange(CELLS)
    first = cells // BRANCHING ** (HEIGHT - 1)
    lower = np.sum([cells // BRANCHING**level % BRANCHING for level in range(HEIGHT - 1)], axis=0)
    found = np.column_stack([first, lower])
    found.flags.writeable = False  # it is shared
    return found


@lru_cache(maxsize=64)
def _limits(laplace: bool, level: float, wrong: float) -> Any:
    """Return, for sums of first-level and lower nodes, what (rank - level * total) of unit noise exceeds at most.

    The nodes before count 1 - level each on the first level, those after it -level; lower ones 1.
    """
    first = np.arange(BRANCHING + 1)[:, None]
    lower = np.arange((BRANCHING - 1) * (HEIGHT - 1) + 1)[None, :]
    if not laplace:
        squares = first * (1 - level) ** 2 + (BRANCHING - first) * level**2 + lower
        return -float(ndtri(wrong)) * np.sqrt(squares)
    # Chernoff: P(sum > t) <= e^(-u t) / prod (1 - c_i^2 u^2), for any u below one over the largest c_i.
    best = np.full(np.broadcast_shapes(first.shape, lower.shape), np.inf)
    for rate in np.linspace(0.01, 0.99, 99):
        logs = -first * math.log1p(-(((1 - level) * rate) ** 2)) - (BRANCHING - first) * math.log1p(
            -((level * rate) ** 2)
        )
        logs = logs - lower * math.log1p(-(rate**2))
        best = np.minimum(best, (logs + math.log(1 / wrong)) / rate)
    return best
