"""How random trees grow: thresholds from noisy marginals, cells in the space of quantiles, counts in leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hush.estimators.base.estimator import Floats, noise_multiplier
from hush.estimators.partitions.kmeans import uniform
from hush.randomness import RandomSource
from hush.statistics import Block, LaplaceNoise, NoisePlan, plan_noise

BINS = 16
_POOLED_BINS = 4
_MARGINALS = 0.15  # what part of the budget the histograms of features get, where they are worth it
_POOLED = 0.05  # the same for one histogram of all
_MOST_TREES = 32
_LEAF_ROWS = 5.0
_NOISE_ROWS = 35.0


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a forest is: from a noisy number of rows and public numbers alone.

    Attributes:
        trees: How many; without a given number, as many, up to 32, as leave the standard deviation s of the noise in a
            leaf's counts below 1/35 of the rows.
        depth: Of each, 3 to 8; without a given one, an even spread gives a leaf s sqrt(trees) / 2 rows, and 5 at least.
        marginals: The share of the budget for histograms of features; 0 where noise is above twice what a bin has.
        pooled: Whether there is one histogram, of fewer bins, for all features together: where one for each would have
            too much noise, and this one has no more than its bins have on average. Features are often skewed alike
            within bounds that have to hold the largest values.
    """

    trees: int
    depth: int
    marginals: float
    pooled: bool = False

    @staticmethod
    def chosen(
        rows: float, features: int, *, epsilon: float, delta: float, trees: int | None, depth: int | None
    ) -> Shape:
        """Return what suits this number of rows, or what is given."""
        multiplier = noise_multiplier(epsilon, delta) if delta > 0 else math.inf

        def deviation(records: float) -> float:
            return min(math.sqrt(2) * records / epsilon, math.sqrt(records) * multiplier)

        fits = [count for count in range(1, _MOST_TREES + 1) if deviation(count) * _NOISE_ROWS <= rows]
        many = trees or max(fits, default=1)
        least = max(_LEAF_ROWS, deviation(many) * math.sqrt(many) / 2)
        deep = min(max(round(math.log2(max(rows / least, 1.0))), 3), 8)

        def noise(histograms: int, share: float) -> float:
            # Epsilons add up, and squares of Gaussian noise: so shares count.
            return min(math.sqrt(2) * histograms / epsilon / share, math.sqrt(histograms / share) * multiplier)

        each = noise(features, _MARGINALS) * BINS <= 2 * rows
        pooled = not each and noise(1, _POOLED) * _POOLED_BINS <= rows
        share = _MARGINALS if each else _POOLED if pooled else 0.0
        return Shape(trees=many, depth=depth or deep, marginals=share, pooled=pooled)

    def differs(self, classes: int) -> bool:
        """Return whether leaves tell by how much one class exceeds the other: all that one tree of two predicts by.

        A row moves the difference by 1, as it does one of two counts, of which the difference has twice the variance.
        """
        return self.trees == 1 and classes == 2

    def plan(self, features: int, classes: int, *, epsilon: float, delta: float) -> NoisePlan:
        """Return the noise of the histograms, if there are any, and of the leaves: a row is once in each."""
        cells = self.trees * (1 << self.depth) * (1 if self.differs(classes) else classes)
        leaves = Block(columns=cells, l1=self.trees, l2=math.sqrt(self.trees), share=1 - self.marginals, whole=True)
        columns, length = (_POOLED_BINS, features) if self.pooled else (features * BINS, math.sqrt(features))
        bins = Block(columns=columns, l1=features, l2=length, share=self.marginals or 1.0, whole=True)
        blocks = (leaves, bins) if self.marginals else (leaves,)
        return plan_noise(blocks, groups_per_unit=1, epsilon=epsilon, delta=delta)


@dataclass(frozen=True, slots=True)
class Forest:
    """Complete binary trees: at node i, rows with feature > threshold go to 2 i + 2, others to 2 i + 1."""

    features: NDArray[np.int64]
    thresholds: Floats
    depth: int

    @property
    def num_leaves(self) -> int:
        return 1 << self.depth

    def leaves(self, units: Floats) -> NDArray[np.int64]:
        """Return the leaf of each row in each tree: [tree, row]."""
        everyone = np.arange(len(units))
        found = np.zeros((len(self.features), len(units)), dtype=np.int64)
        for tree, nodes in enumerate(found):
            for _ in range(self.depth):
                features, thresholds = self.features[tree, nodes], self.thresholds[tree, nodes]
                nodes[:] = 2 * nodes + 1 + (units[everyone, features] > thresholds)
        return found - (self.num_leaves - 1)


def grown(trees: int, depth: int, edges: Floats, source: RandomSource) -> Forest:
    """Grow trees: thresholds halve a feature's noisy mass within the cell, give or take a random part of it."""
    dimension, nodes = len(edges), (1 << depth) - 1
    features = np.minimum((uniform(source, trees * nodes) * dimension).astype(np.int64), dimension - 1)
    features = features.reshape(trees, nodes)
    places = uniform(source, trees * nodes).reshape(trees, nodes) * 0.6 + 0.2
    ranks = np.empty((trees, nodes))
    for node in range(nodes):
        low, high = _cell(features, ranks, node)
        ranks[:, node] = low + (high - low) * places[:, node]
    return Forest(features, _at_rank(edges, features, ranks), depth)


def _cell(features: NDArray[np.int64], ranks: Floats, node: int) -> tuple[Floats, Floats]:
    """Return between which quantiles of its feature a node of each tree is: every feature goes from 0 to 1."""
    mine, low, high = features[:, node], np.zeros(len(features)), np.ones(len(features))
    while node > 0:
        above = (node - 1) // 2
        cut = np.where(features[:, above] == mine, ranks[:, above], np.nan)
        if node == 2 * above + 2:
            low = np.fmax(low, cut)
        else:
            high = np.fmin(high, cut)
        node = above
    return low, high


def _at_rank(edges: Floats, features: NDArray[np.int64], ranks: Floats) -> Floats:
    """Return the value of a feature at a quantile; ``edges`` are cumulative shares at the ends of bins."""
    ends = np.linspace(-1.0, 1.0, BINS + 1)
    values = np.empty(ranks.shape)
    for feature, cumulative in enumerate(edges):
        mine = features == feature
        values[mine] = np.interp(ranks[mine], cumulative, ends)
    return values


def histograms(units: Floats, *, pooled: bool) -> NDArray[np.int64]:
    """Return how many rows are in each bin of each feature; or of all features together, in fewer bins."""
    bins = np.minimum(((units + 1) * (BINS / 2)).astype(np.int64), BINS - 1)
    flat = (bins + np.arange(units.shape[1]) * BINS).ravel()
    counts = np.bincount(flat, minlength=units.shape[1] * BINS).astype(np.int64)
    return (
        counts.reshape(-1, _POOLED_BINS, BINS // _POOLED_BINS).sum(axis=(0, 2))[None, :] if pooled else counts[None, :]
    )


def quantiles(noisy: NDArray[np.int64], plan: NoisePlan, features: int) -> Floats:
    """Return cumulative shares of each feature's bins; bins no higher than noise have a small share each."""
    counts = noisy.astype(np.float64)
    extreme = math.log(counts.size)  # of so many noise variables
    highest = plan.block_scales[1] * (extreme if isinstance(plan.noise, LaplaceNoise) else math.sqrt(2 * extreme))
    counts = np.where(counts > highest, counts, 0.0)
    if len(counts) == _POOLED_BINS:
        if counts[[0, -1]].min() >= counts[1:-1].max():  # two heaps at the ends are best split between them
            counts[:] = 1.0
        counts = np.tile(np.repeat(counts, BINS // _POOLED_BINS), features)
    counts = counts.reshape(-1, BINS)
    # A bin of the size of the noise may be anywhere: the range stays reachable.
    counts += np.maximum(0.02 * counts.sum(axis=1, keepdims=True) / BINS, 1e-3)
    cumulative = np.cumsum(counts, axis=1) / counts.sum(axis=1, keepdims=True)
    return np.concatenate([np.zeros((len(counts), 1)), cumulative], axis=1)


def leaf_counts(
    leaves: NDArray[np.int64], places: NDArray[np.int64], num_leaves: int, num_classes: int
) -> NDArray[np.int64]:
    """Count the rows of each class in each leaf: [trees, leaves, classes]."""
    size = num_leaves * num_classes
    counted = [np.bincount(mine * num_classes + places, minlength=size) for mine in leaves]
    return np.array(counted, dtype=np.int64).reshape(len(leaves), num_leaves, num_classes)


def part(plan: NoisePlan, place: int) -> NoisePlan:
    """Return the plan of one block: it is released after another, which it depends on."""
    return replace(plan, blocks=(plan.blocks[place],), block_scales=(plan.block_scales[place],))
