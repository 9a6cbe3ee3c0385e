r"""Quantiles of noisy trees, and their confidence intervals.

The q-quantile x of n rows has at least q n rows at or below it and at least (1 - q) n at or above. For an edge e
between cells, let D(e) = (rows before e) - q n. The cell of x has D <= 0 at its lower edge and D >= 0 at its upper one,
and so has every node on the path from the root to it.

**The lower end.** A walk goes down from the root. At each node it enters the leftmost child that no test rejects, or
the last one if all are rejected. A test may reject a child v only on evidence that D < 0 at its upper edge. *Coverage*:
suppose that no test rejects a node of the true path. By induction, the walk is on the true path, or it left it to the
left: on the path, the true child is not rejected, so the walk enters it or one further left. The end is the lower edge
of the walk's cell, so it is at most x. The tests of the true path alone have to be counted, two on each level, and
their error probabilities add up to half of what the interval may miss. Nothing is assumed about other nodes, so the
walk may choose what to look at, and it looks at 16 new nodes on each level. The upper end is found symmetrically.

**The first test: a weighted sum.** Within a node u with lower edge l, D(e) = D(l) + (rows of u before e), and the rows
of u before e are w (children before e) + (1 - w) (u - children behind e), for any w. The test takes the w with the
least variance and keeps the noise of the sum, a known combination of independent noise. It rejects if P(noise <= sum)
is at most the level's share.

**The second test: one large node.** If D >= 0 at v's upper edge, all nodes behind it hold at most m = (1 - q) n rows
together. Let T be the largest noisy count among v's siblings behind it, less (1 - q) times the noisy root. With
S = Z - (1 - q) Z_0, the noise of a node and of the root, P(T > t) <= sum_i P(S > t + m - x_i) for the exact counts x_i
of at most 15 siblings. The tail of S is convex on the positive side, so the bound is largest if one of them has all m
rows: P(S > t) + 14 P(S > t + m). A lower limit of m comes from the root, with its own share of the error. This test
finds data that are concentrated in few nodes, among many empty ones whose noise would drown them in a sum.

References: Hay et al. 2010 (combining parents and children); Drechsler et al. 2022 (intervals for medians by inversion
of a noisy distribution function). The walk and the second test are our own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.statistics.noise.release import LaplaceNoise, NoisePlan
from hush.statistics.noise.tails import gaussian_tail, laplace_sum_tail, reach
from hush.statistics.noise.tree import BRANCHING, CELLS, HEIGHT, LEVEL_UNITS, CountedNodes, EvenTree, Floats, Integers

# How the probability of missing on one side is divided: the root's limit, and the two tests on each level.
_ROOT_SHARE = 0.03
_SUM_SHARES = (0.30, 0.12, 0.05, 0.02)
_LARGEST_SHARES = (0.18, 0.14, 0.10, 0.06)
_ROUNDING = (BRANCHING * HEIGHT + 1) / min(LEVEL_UNITS)  # each of a test's noises is rounded, by a unit at most
_LIKELY = 1.2  # times the scale of a sum is not evidence: its tail is not even computed
_BISECTIONS = 40
_CHILDREN = np.arange(BRANCHING)


def tree_quantiles(
    trees: CountedNodes, level: float, confidence: float, bounds: tuple[float, float]
) -> tuple[Floats, Floats, Floats]:
    """Return each tree's ``level``-quantile, and the lower and the upper ends of their confidence intervals.

    Args:
        trees: The noisy trees.
        level: The quantile's level.
        confidence: The probability with which an interval contains the quantile of the exact counts, up to its cell.
        bounds: The range that the cells divide.
    """
    # Both ends may miss, so each gets half of the error.
    wrong = (1 - confidence) / 2
    # The upper end is the lower end of the mirrored trees, at the mirrored level.
    low = _first_cell(trees, level, wrong).astype(np.float64)
    high = CELLS - _first_cell(_Mirrored(trees), 1 - level, wrong).astype(np.float64)
    position = np.clip(_position(trees, level), low, np.maximum(low, high))
    lower, upper = bounds
    numbers = [np.clip(lower + cells / CELLS * (upper - lower), lower, upper) for cells in (position, low, high)]
    return numbers[0], numbers[1], np.maximum(numbers[2], numbers[0])


@dataclass(frozen=True, slots=True)
class _Mirrored:
    """Trees with their cells in the opposite order."""

    trees: CountedNodes

    @property
    def scales(self) -> tuple[float, ...]:
        """The noise scale of a node on each level, from the root."""
        return self.trees.scales

    @property
    def plan(self) -> NoisePlan:
        """The noise on all nodes."""
        return self.trees.plan

    def roots(self) -> Floats:
        """Return the count of each tree's root."""
        return self.trees.roots()

    def counts(self, level: int, trees: Integers, nodes: Integers) -> Floats:
        """Return the counts of the children, the last one first."""
        return self.trees.counts(level, trees, BRANCHING**level - 1 - nodes)[:, ::-1]


def rank_reach(plan: NoisePlan, level: float, wrong: float) -> float:
    """Return a bound, in rows, that the estimate of D at a middle cell exceeds with probability ``wrong``.

    Args:
        plan: The noise for one tree.
        level: The quantile's level.
        wrong: The probability of exceeding the bound, on both sides together.
    """
    tree, middle = EvenTree(0.0, plan), np.full(1, BRANCHING // 2)
    walk = _start(tree.roots(), level)
    for depth in range(HEIGHT):
        _descend(walk, middle, np.zeros((1, BRANCHING)), tree.scales[depth], tree.scales[depth + 1])
    low, high = 0.0, 800.0 * tree.scales[0]
    for _ in range(_BISECTIONS):
        size = 0.5 * (low + high)
        tail = _sum_tail(plan, walk.scales, walk.numbers, np.array([size]))
        low, high = (low, size) if 2 * float(tail[0]) <= wrong else (size, high)
    return high


def _position(trees: CountedNodes, level: float) -> Floats:
    """Return the position of each tree's quantile, in cells.

    Walk down from the root. At each node, enter the child in which the cumulative share passes the rank.
    """
    roots = trees.roots()
    indices, nodes = np.arange(len(roots)), np.zeros(len(roots), dtype=np.int64)
    share, position = np.full(len(roots), level), np.full(len(roots), np.nan)
    for depth in range(HEIGHT):
        children = trees.counts(depth, indices, nodes)
        children = np.where(children < trees.scales[depth + 1], 0.0, children)  # probably noise alone
        sums = np.cumsum(children, axis=1)
        # If no child rises above the noise, interpolate within this node.
        stops = np.isnan(position) & ~(sums[:, -1] > 0)
        position[stops] = ((nodes + share) * float(BRANCHING) ** (HEIGHT - depth))[stops]
        # A rank of zero is in the first child that has rows.
        rank = np.maximum(share, 1e-12) * sums[:, -1]
        child = np.minimum((sums < rank[:, None]).sum(axis=1), BRANCHING - 1)
        count = _entries(children, child)
        # Within the child, the rank that is left is interpolated as a share of the child's rows.
        share = np.clip((rank - _entries(sums, child) + count) / np.maximum(count, 1.0), 0.0, 1.0)
        nodes = nodes * BRANCHING + child
    return np.where(np.isnan(position), nodes + share, position)


@dataclass(slots=True)
class _Walk:
    """Where each tree's walk is, and an estimate of D there.

    At the lower edge of the node, D is about ``base + weight * count``, and at the upper edge one ``count`` more.

    Attributes:
        nodes: The node on its level.
        counts: Its noisy count.
        base: The part of the estimate without the node's count.
        weights: What its count is multiplied by, between -1 and 0.
        scales: The noise in ``base``: the scales of independent terms, one row per tree.
        numbers: How many terms have each of these scales.
    """

    nodes: Integers
    counts: Floats
    base: Floats
    weights: Floats
    scales: Floats
    numbers: Floats


def _start(roots: Floats, level: float) -> _Walk:
    """Return walks at the roots, where D at the lower edge is -q times the root's count."""
    size = len(roots)
    nothing = np.empty((size, 0))
    return _Walk(np.zeros(size, dtype=np.int64), roots, np.zeros(size), np.full(size, -level), nothing, nothing)


def _first_cell(trees: CountedNodes, level: float, wrong: float) -> Integers:
    """Return the lower end of each tree's interval: a cell that is behind the quantile's with probability ``wrong``."""
    roots = trees.roots()
    walk = _start(roots, level)
    root_reach = reach(trees.plan.tail, [trees.scales[0]], 2 * wrong * _ROOT_SHARE)
    # m of the second test: a lower limit of the rows behind the quantile.
    fewest = (1 - level) * np.maximum(roots - root_reach - _ROUNDING, 0.0)
    for depth in range(HEIGHT):
        children = trees.counts(depth, np.arange(len(roots)), walk.nodes)
        # Each test spends its own share of the error, so a union bound covers all of them.
        rejected = _is_sum_too_small(trees, depth, walk, children, wrong * _SUM_SHARES[depth])
        pair = [trees.scales[depth + 1], (1 - level) * trees.scales[0]]
        bound = _quantile(trees, pair, fewest, wrong * _LARGEST_SHARES[depth])
        largest = np.maximum.accumulate(children[:, ::-1], axis=1)[:, -2::-1]  # among the children behind each
        rejected[:, :-1] |= largest > ((1 - level) * roots + bound + _ROUNDING)[:, None]
        # The leftmost child that no test rejects. False sorts before True.
        child = np.where(rejected.all(axis=1), BRANCHING - 1, np.argmin(rejected, axis=1))
        _descend(walk, child, children, trees.scales[depth], trees.scales[depth + 1])
    return walk.nodes


def _is_sum_too_small(
    trees: CountedNodes, depth: int, walk: _Walk, children: Floats, wrong: float
) -> NDArray[np.bool_]:
    """Return for each child whether the first test rejects it: D at its upper edge is clearly negative."""
    outer, inner = trees.scales[depth], trees.scales[depth + 1]
    # The least variance: children before the edge have the coefficient w, the others w - 1, the node ``of_node``.
    before, behind = _CHILDREN + 1, BRANCHING - 1 - _CHILDREN
    ratio = (outer / inner) ** 2
    w = (behind + (walk.weights[:, None] + 1) * ratio) / (BRANCHING + ratio)
    of_node = walk.weights[:, None] + 1 - w
    sums = np.cumsum(children, axis=1)
    estimate = walk.base[:, None] + of_node * walk.counts[:, None] + w * sums - (1 - w) * (sums[:, -1:] - sums)
    size = -estimate - _ROUNDING
    # Variances of independent noise add up. This is the deviation up to a constant, enough for a first check.
    squares = (walk.numbers * walk.scales**2).sum(axis=1)[:, None] + (of_node * outer) ** 2
    deviation = np.sqrt(squares + inner**2 * (before * w**2 + behind * (1 - w) ** 2))
    rejected = np.zeros(children.shape, dtype=np.bool_)
    # Tails are costly. Where the estimate is within the noise, no tail could reject.
    rows, columns = np.nonzero(size > _LIKELY * deviation)
    w, of_node = w[rows, columns], of_node[rows, columns]
    scales = np.column_stack([walk.scales[rows], np.abs(of_node) * outer, w * inner, (1 - w) * inner])
    numbers = np.column_stack([walk.numbers[rows], np.ones(len(rows)), before[columns], behind[columns]])
    rejected[rows, columns] = _sum_tail(trees.plan, scales, numbers, size[rows, columns]) <= wrong
    return rejected


def _sum_tail(plan: NoisePlan, scales: Floats, numbers: Floats, size: Floats) -> Floats:
    """Return a bound on P(sum > size) for sums of noise with these scales, so many of each."""
    if isinstance(plan.noise, LaplaceNoise):
        return laplace_sum_tail(scales, numbers, size)
    # One side of a symmetric law. n equal Gaussian terms are one of sqrt(n) times the scale.
    return 0.5 * gaussian_tail(np.sqrt(numbers) * scales, size)


def _descend(walk: _Walk, child: Integers, children: Floats, outer: float, inner: float) -> None:
    """Enter a child of each node. Its own count gets a weight later, when its children are known."""
    behind = BRANCHING - 1 - child
    ratio = (outer / inner) ** 2
    w = (behind + (walk.weights + 1) * ratio) / (BRANCHING - 1 + ratio)
    of_node = walk.weights + 1 - w
    counts = _entries(children, child)
    sums = np.cumsum(children, axis=1)
    after = _entries(sums, child)
    walk.base += of_node * walk.counts + w * (after - counts) - (1 - w) * (sums[:, -1] - after)
    walk.scales = np.column_stack([walk.scales, np.abs(of_node) * outer, w * inner, (1 - w) * inner])
    walk.numbers = np.column_stack([walk.numbers, np.ones(len(child)), child, behind])
    walk.weights, walk.counts, walk.nodes = w - 1, counts, walk.nodes * BRANCHING + child


def _quantile(trees: CountedNodes, scales: list[float], fewest: Floats, wrong: float) -> Floats:
    """Return t with P(S > t) + 14 P(S > t + m) <= wrong, for the sum S of noise with these scales and each m."""
    coefficients, ahead = np.array(scales), np.stack([np.zeros(len(fewest)), fewest])
    low, high = np.zeros(len(fewest)), np.full(len(fewest), 800.0 * sum(scales))
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        # Bisection keeps the end at which the bound holds.
        alone, with_others = 0.5 * trees.plan.tail(coefficients, middle + ahead)
        is_enough = alone + (BRANCHING - 2) * with_others <= wrong
        low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
    return high


def _entries(table: Floats, columns: Integers) -> Floats:
    """Return one entry of each row."""
    return np.take_along_axis(table, columns[:, None], axis=1)[:, 0]
