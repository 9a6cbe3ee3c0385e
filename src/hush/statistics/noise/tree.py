r"""Trees of noisy counts over a range of numbers, one for each group: any number of quantiles for one charge.

The range is cut into 16^4 cells. The root of a tree counts all rows; it has 16 children, and so on for four levels, the
last of which are the cells. A row counts in one node on each of five levels. Each node gets independent noise. The
upper levels get less noise, where an error moves a quantile further: a row counts with a larger integer there
(`LEVEL_UNITS`), and noise is relative to the sum of these integers.

Noise is drawn when a node is looked at for the first time, and kept. A walk looks at a few hundred of the 69,905 nodes.
The released numbers have the same law as if all noise had been drawn beforehand: the noise of different nodes is
independent, and which nodes are looked at depends on public numbers and on noisy counts only. What is seen is therefore
a function of the whole noisy tree, which is what the charge is for.

The flow: `cells_of` maps numbers to cells, `TreeCells` holds their exact counts, `NoisyTrees.counts` adds noise, and
`hush.statistics.noise.quantiles` reads the result. `hush.sql` starts from counts of cells that an engine returns.

References: Hay, Rastogi, Miklau & Suciu 2010 (trees of counts); Cormode et al. 2012 (levels with different noise).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hush.randomness import RandomSource
from hush.statistics.noise.release import Block, NoisePlan

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BRANCHING = 16
HEIGHT = 4
CELLS = BRANCHING**HEIGHT
NODES = sum(BRANCHING**level for level in range(HEIGHT + 1))
# What a row adds to its node on each level, from the root. Noise is rounded to one of these units, which sums of about
# seventy nodes do not notice. The ratios were tried out: they gave small errors for data that fill their bounds and for
# data that are concentrated.
LEVEL_UNITS = (10 << 8, 13 << 8, 11 << 8, 9 << 8, 8 << 8)


def tree_block(rows_per_unit: int) -> Block:
    """Return the sensitivity of the tree's nodes: a row adds to one node on each level."""
    l1 = sum(LEVEL_UNITS) * rows_per_unit
    # L2: a row's five nodes are distinct, so their units add up in squares. All rows may share one path.
    return Block(columns=NODES, l1=l1, l2=math.hypot(*LEVEL_UNITS) * (1 + 2.0**-50) * rows_per_unit)


def level_scales(plan: NoisePlan) -> tuple[float, ...]:
    """Return the noise scale of a node on each level, from the root, in rows.

    Args:
        plan: The noise for one `tree_block`.
    """
    return tuple(plan.block_scales[0] / units for units in LEVEL_UNITS)


def cells_of(numbers: Floats, bounds: tuple[float, float]) -> Integers:
    """Return the cell of each number; numbers beyond the bounds are clamped.

    >>> cells_of(np.array([-5.0, 0.0, 50.0, 100.0]), (0.0, 100.0)).tolist()
    [0, 0, 32768, 65535]
    """
    lower, upper = bounds
    # Clamped first, so that every number is in a cell and a row adds exactly one on each level.
    fractions = (np.clip(numbers, lower, upper) - lower) / (upper - lower)
    cells: Integers = np.clip(np.floor(fractions * CELLS), 0, CELLS - 1).astype(np.int64)
    return cells


def cell_counts(cells: Integers) -> Integers:
    """Return how many rows each of a tree's cells has."""
    return np.bincount(cells, minlength=CELLS).astype(np.int64)


class TreeCells:
    """Exact counts of the cells of several trees. Never show them.

    Args:
        trees: The index of a tree, for each entry.
        cells: A cell of that tree.
        counts: How many rows are there. Entries of the same cell are added up.
    """

    def __init__(self, trees: Integers, cells: Integers, counts: Integers) -> None:
        """Sort the entries, so that the rows of any node are a difference of two running totals."""
        positions = trees * CELLS + cells
        # One sort makes the rows of any interval a difference of two running totals.
        order = np.argsort(positions, kind="stable")
        self._positions = positions[order]
        self._totals = np.concatenate([[0], np.cumsum(counts[order], dtype=np.int64)])

    def between(self, edges: Integers) -> Integers:
        """Return the number of rows between neighbouring edges, along the last axis: positions tree * CELLS + cell."""
        counts: Integers = np.diff(self._totals[np.searchsorted(self._positions, edges)], axis=-1)
        return counts


class CountedNodes(Protocol):
    """Trees whose nodes have counts, noisy or expected."""

    @property
    def scales(self) -> tuple[float, ...]:
        """The noise scale of a node on each level, from the root, in rows."""

    @property
    def plan(self) -> NoisePlan:
        """The noise on all nodes."""

    def roots(self) -> Floats:
        """Return the count of each tree's root."""

    def counts(self, level: int, trees: Integers, nodes: Integers) -> Floats:
        """Return the counts of the 16 children of nodes on a level, one row for each node.

        Args:
            level: The level of the nodes; 0 for roots.
            trees: The tree of each node.
            nodes: The index of each node on its level.
        """


@dataclass(slots=True)
class NoisyTrees:
    """Released trees. Everything computed from their counts is post-processing.

    Attributes:
        cells: The exact counts.
        members: The index in ``cells`` of each tree; -1 for a tree without rows, which has noise like any other tree.
        plan: The noise for one `tree_block`.
        source: The source of the noise.
    """

    cells: TreeCells = field(repr=False)
    members: Integers
    plan: NoisePlan
    source: RandomSource
    _drawn: list[tuple[Integers, Floats]] = field(default_factory=list, repr=False)
    _roots: Floats | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Begin without any node."""
        self._drawn = [(np.empty(0, dtype=np.int64), np.empty((0, BRANCHING))) for _ in range(HEIGHT)]

    @property
    def scales(self) -> tuple[float, ...]:
        """The noise scale of a node on each level, from the root, in rows."""
        return level_scales(self.plan)

    def roots(self) -> Floats:
        """Return the noisy number of rows of each tree."""
        if self._roots is None:
            edges = self.members[:, None] * CELLS + np.array([0, CELLS])
            self._roots = self._with_noise(0, self.cells.between(edges)).ravel()
        return self._roots

    def counts(self, level: int, trees: Integers, nodes: Integers) -> Floats:
        """Return the noisy counts of the 16 children of nodes on a level, as `CountedNodes` says."""
        keys = trees * BRANCHING**level + nodes
        known, rows = self._drawn[level]
        # A node's noise is drawn once and kept: averaging fresh draws would cost privacy again.
        new = np.setdiff1d(keys, known)
        if len(new):
            known, rows = np.concatenate([known, new]), np.concatenate([rows, self._draw(level, new)])
            order = np.argsort(known)
            known, rows = self._drawn[level] = known[order], rows[order]
        counts: Floats = rows[np.searchsorted(known, keys)]
        return counts

    def _draw(self, level: int, keys: Integers) -> Floats:
        """Return the noisy counts of the children of nodes that were not looked at before."""
        trees, nodes = np.divmod(keys, BRANCHING**level)
        width = CELLS // BRANCHING ** (level + 1)
        # A tree without rows has the position -1, below all others: its counts are exactly 0.
        edges = self.members[trees] * CELLS + nodes * width * BRANCHING
        return self._with_noise(level + 1, self.cells.between(edges[:, None] + width * np.arange(BRANCHING + 1)))

    def _with_noise(self, level: int, counts: Integers) -> Floats:
        """Return exact counts of nodes of one level with noise, in rows."""
        block = replace(self.plan.blocks[0], columns=counts.shape[1])
        # The block's scale stays that of the whole tree, however few of its nodes are drawn.
        noisy = replace(self.plan, blocks=(block,)).release(counts * LEVEL_UNITS[level], self.source)
        rows: Floats = noisy.astype(np.float64) / LEVEL_UNITS[level]
        return rows


def trees_of(cells: Sequence[Integers], plan: NoisePlan, source: RandomSource) -> NoisyTrees:
    """Return a released tree for each array of cells, one entry per row.

    Args:
        cells: The cells of each tree's rows.
        plan: The noise for one `tree_block`.
        source: The source of the noise.
    """
    trees = np.repeat(np.arange(len(cells)), [len(rows) for rows in cells])
    joined = np.concatenate([np.empty(0, dtype=np.int64), *cells])
    exact = TreeCells(trees, joined, np.ones(len(joined), dtype=np.int64))
    return NoisyTrees(exact, np.arange(len(cells)), plan, source)


@dataclass(frozen=True, slots=True)
class EvenTree:
    """A tree with equal counts in all nodes of a level and no noise: the expectation for evenly spread data.

    Attributes:
        rows: The number of rows.
        plan: The noise that the tree would have.
    """

    rows: float
    plan: NoisePlan

    @property
    def scales(self) -> tuple[float, ...]:
        """The noise scale of a node on each level, from the root, in rows."""
        return level_scales(self.plan)

    def roots(self) -> Floats:
        """Return the number of rows."""
        return np.array([self.rows])

    def counts(self, level: int, trees: Integers, nodes: Integers) -> Floats:
        """Return equal counts, as `CountedNodes` says."""
        return np.full((len(nodes), BRANCHING), self.rows / BRANCHING ** (level + 1))
