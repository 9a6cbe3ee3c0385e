"""Growing random trees without looking at rows: thresholds from noisy marginals, then counts in the leaves.

`trees` describes the releases. This file holds their parts: the size of the forest (`ForestShape`), the noisy
marginals as cumulative shares (`histograms`, `cumulative_shares`), the trees (`grow`), and the exact counts
(`leaf_counts`). Trees are grown in the space of quantiles, where every feature is uniform on [0, 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hush.accounting import gaussian_multiplier
from hush.estimators.base.estimator import Floats
from hush.estimators.partitions.kmeans import uniform
from hush.randomness import RandomSource
from hush.statistics import Block, GaussianNoise, LaplaceNoise, NoisePlan, plan_noise

BINS = 16
_POOLED_BINS = 4
_MARGINALS_SHARE = 0.15  # share of the budget for one histogram per feature
_POOLED_SHARE = 0.05  # share of the budget for one histogram of all features
_MAX_TREES = 32
_LEAF_ROWS = 5.0  # expected number of rows in a leaf, at least
_NOISE_ROWS = 35.0  # rows per standard deviation of a leaf's noise, at least


@dataclass(frozen=True, slots=True)
class _ForestNoise:
    """One kind of noise.

    Attributes:
        epsilon: Budget of Laplace noise; infinite for Gaussian noise.
        multiplier: Noise multiplier of Gaussian noise; infinite for Laplace noise.
    """

    epsilon: float
    multiplier: float

    @property
    def is_gaussian(self) -> bool:
        return self.multiplier < math.inf

    def stddev(self, num_counts: float, share: float = 1.0) -> float:
        """Return the standard deviation of the noise on counts of which a row is in ``num_counts``."""
        # Epsilons add up, and so do inverse squares of Gaussian noise. Both divide by the share.
        if self.is_gaussian:
            return math.sqrt(num_counts / share) * self.multiplier
        return math.sqrt(2) * num_counts / self.epsilon / share


@dataclass(frozen=True, slots=True)
class ForestShape:
    """The size of a forest, from a noisy number of rows and public numbers only.

    Attributes:
        trees: Number of trees. Default: as many, up to 32, as keep the standard deviation s of the noise in a leaf's
            counts below 1/35 of the rows.
        depth: Depth of each tree, 3 to 8. Default: evenly spread rows would put s sqrt(trees) / 2 rows into a leaf, at
            least 5.
        marginals: Share of the budget for histograms of the features; 0 where the noise would exceed twice the mean
            bin.
        pooled: Whether there is a single, coarser histogram of all features. It is used where one per feature would be
            too noisy and this one is not: features are often skewed alike within bounds that must hold their largest
            values.
        gaussian: Whether the noise is Gaussian. All numbers above are those that suit this kind of noise.
    """

    trees: int
    depth: int
    marginals: float
    pooled: bool = False
    gaussian: bool = False

    @staticmethod
    def choose(
        rows: float, features: int, *, epsilon: float, delta: float, trees: int | None, depth: int | None
    ) -> ForestShape:
        """Return the shape that suits this number of rows.

        With a delta, each kind of noise has a shape of its own, and one of the two is made. The number of trees limits
        the noise of a leaf alike for both, so the kind that affords more trees is better, and then the smaller noise.

        Args:
            rows: Noisy number of rows.
            features: Number of features.
            epsilon: Budget of histograms and leaves.
            delta: Failure probability of histograms and leaves.
            trees: Number of trees, or None.
            depth: Depth of each tree, or None.
        """
        kinds = [_ForestNoise(epsilon, math.inf)]
        if delta > 0:
            kinds.append(_ForestNoise(math.inf, gaussian_multiplier(epsilon, delta)))
        shapes = [ForestShape._for_noise(rows, features, kind, trees, depth) for kind in kinds]
        return max(zip(shapes, kinds, strict=True), key=lambda pair: pair[0]._preference(pair[1]))[0]

    @staticmethod
    def _for_noise(
        rows: float, features: int, noise: _ForestNoise, trees: int | None, depth: int | None
    ) -> ForestShape:
        """Return the shape that suits this number of rows, with one kind of noise."""
        affordable = [count for count in range(1, _MAX_TREES + 1) if noise.stddev(count) * _NOISE_ROWS <= rows]
        num_trees = trees or max(affordable, default=1)
        leaf_rows = max(_LEAF_ROWS, noise.stddev(num_trees) * math.sqrt(num_trees) / 2)
        default_depth = min(max(round(math.log2(max(rows / leaf_rows, 1.0))), 3), 8)
        per_feature = noise.stddev(features, _MARGINALS_SHARE) * BINS <= 2 * rows
        pooled = not per_feature and noise.stddev(1, _POOLED_SHARE) * _POOLED_BINS <= rows
        share = _MARGINALS_SHARE if per_feature else _POOLED_SHARE if pooled else 0.0
        return ForestShape(
            trees=num_trees, depth=depth or default_depth, marginals=share, pooled=pooled, gaussian=noise.is_gaussian
        )

    def _preference(self, noise: _ForestNoise) -> tuple[float, float]:
        """Return what to compare kinds of noise by: more trees at the same noise per leaf, and then less noise."""
        return self.trees, -noise.stddev(self.trees, 1 - self.marginals)

    def counts_difference(self, classes: int) -> bool:
        """Return whether leaves release the difference of two class counts, which is all that a single tree needs.

        A row changes the difference by 1. Noise on the difference has half the variance of the difference of two noisy
        counts.
        """
        return self.trees == 1 and classes == 2

    def plan(self, features: int, classes: int, *, epsilon: float, delta: float) -> NoisePlan:
        """Return the noise plan of the leaves and of the histograms, if any. A row is in one leaf or bin of each."""
        cells = self.trees * (1 << self.depth) * (1 if self.counts_difference(classes) else classes)
        leaves = Block(columns=cells, l1=self.trees, l2=math.sqrt(self.trees), share=1 - self.marginals, whole=True)
        columns, length = (_POOLED_BINS, features) if self.pooled else (features * BINS, math.sqrt(features))
        bins = Block(columns=columns, l1=features, l2=length, share=self.marginals or 1.0, whole=True)
        blocks = (leaves, bins) if self.marginals else (leaves,)
        noise = GaussianNoise() if self.gaussian else LaplaceNoise()
        return plan_noise(
            blocks, groups_per_unit=1, epsilon=epsilon, delta=delta if self.gaussian else 0.0, noise=noise
        )


@dataclass(frozen=True, slots=True)
class Forest:
    """Complete binary trees: at node i, rows with feature > threshold go to node 2 i + 2, others to 2 i + 1.

    Attributes:
        features: Feature of each node, by [tree, node].
        thresholds: Threshold of each node, by [tree, node].
        depth: Number of splits on the way to a leaf.
    """

    features: NDArray[np.int64]
    thresholds: Floats
    depth: int

    @property
    def num_leaves(self) -> int:
        return 1 << self.depth

    def leaves(self, unit_rows: Floats) -> NDArray[np.int64]:
        """Return the leaf of each row in each tree, by [tree, row]."""
        row_indices = np.arange(len(unit_rows))
        positions = np.zeros((len(self.features), len(unit_rows)), dtype=np.int64)
        for tree, nodes in enumerate(positions):
            for _ in range(self.depth):
                features, thresholds = self.features[tree, nodes], self.thresholds[tree, nodes]
                # Children of node i are 2 i + 1 and 2 i + 2.
                nodes[:] = 2 * nodes + 1 + (unit_rows[row_indices, features] > thresholds)
        return positions - (self.num_leaves - 1)


def grow(trees: int, depth: int, edges: Floats, source: RandomSource) -> Forest:
    """Grow random trees. A threshold splits the noisy mass of its feature within the cell between 20:80 and 80:20.

    Args:
        trees: Number of trees.
        depth: Depth of each.
        edges: Cumulative share of each feature at the edges of its bins.
        source: Random source.
    """
    dimension, nodes = len(edges), (1 << depth) - 1
    features = np.minimum((uniform(source, trees * nodes) * dimension).astype(np.int64), dimension - 1)
    features = features.reshape(trees, nodes)
    split_fractions = uniform(source, trees * nodes).reshape(trees, nodes) * 0.6 + 0.2
    ranks = np.empty((trees, nodes))
    for node in range(nodes):
        low, high = _cell(features, ranks, node)
        ranks[:, node] = low + (high - low) * split_fractions[:, node]
    return Forest(features, _at_rank(edges, features, ranks), depth)


def _cell(features: NDArray[np.int64], ranks: Floats, node: int) -> tuple[Floats, Floats]:
    """Return the interval of quantiles of its own feature that reaches a node, in each tree."""
    node_features, low, high = features[:, node], np.zeros(len(features)), np.ones(len(features))
    while node > 0:
        parent = (node - 1) // 2
        # Only ancestors that split the same feature narrow the interval.
        cut = np.where(features[:, parent] == node_features, ranks[:, parent], np.nan)
        if node == 2 * parent + 2:
            low = np.fmax(low, cut)
        else:
            high = np.fmin(high, cut)
        node = parent
    return low, high


def _at_rank(edges: Floats, features: NDArray[np.int64], ranks: Floats) -> Floats:
    """Return the value of a feature at a quantile; ``edges`` are cumulative shares at the edges of bins."""
    bin_edges = np.linspace(-1.0, 1.0, BINS + 1)
    values = np.empty(ranks.shape)
    for feature, cumulative in enumerate(edges):
        selected = features == feature
        values[selected] = np.interp(ranks[selected], cumulative, bin_edges)
    return values


def histograms(unit_rows: Floats, *, pooled: bool) -> NDArray[np.int64]:
    """Count the rows in each bin of each feature; if pooled, of all features together in fewer bins."""
    bins = np.minimum(((unit_rows + 1) * (BINS / 2)).astype(np.int64), BINS - 1)
    flat_bins = (bins + np.arange(unit_rows.shape[1]) * BINS).ravel()
    counts = np.bincount(flat_bins, minlength=unit_rows.shape[1] * BINS).astype(np.int64)
    return (
        counts.reshape(-1, _POOLED_BINS, BINS // _POOLED_BINS).sum(axis=(0, 2))[None, :] if pooled else counts[None, :]
    )


def cumulative_shares(noisy: NDArray[np.int64], plan: NoisePlan, features: int) -> Floats:
    """Return the cumulative share of the bins of each feature. Bins no higher than the noise share what they hold."""
    counts = noisy.astype(np.float64)
    extreme = math.log(counts.size)  # the largest of n exponential noise variables is about ln(n)
    # The largest noise among all bins: lower bins cannot be told from empty ones.
    noise_level = plan.block_scales[1] * (extreme if isinstance(plan.noise, LaplaceNoise) else math.sqrt(2 * extreme))
    hidden = counts <= noise_level
    counts = np.where(hidden, 0.0, counts)
    if counts.size != _POOLED_BINS:
        counts += hidden * _hidden_rows(noisy.reshape(-1, BINS), hidden.reshape(-1, BINS), plan).repeat(BINS)
    if len(counts) == _POOLED_BINS:
        if counts[[0, -1]].min() >= counts[1:-1].max():  # with mass at both ends, even splits separate them best
            counts[:] = 1.0
        counts = np.tile(np.repeat(counts, BINS // _POOLED_BINS), features)
    counts = counts.reshape(-1, BINS)
    # Every bin keeps a small share, so that thresholds can fall anywhere within the bounds.
    counts += np.maximum(0.02 * counts.sum(axis=1, keepdims=True) / BINS, 1e-3)
    cumulative = np.cumsum(counts, axis=1) / counts.sum(axis=1, keepdims=True)
    return np.concatenate([np.zeros((len(counts), 1)), cumulative], axis=1)


def _hidden_rows(noisy: NDArray[np.int64], hidden: NDArray[np.bool_], plan: NoisePlan) -> Floats:
    """Return the mean count of the bins that hold less than the noise, by feature, less its standard error.

    None of these bins can be told from an empty one, but together they may hold most of the rows.
    """
    stddev = plan.block_scales[1] * (math.sqrt(2) if isinstance(plan.noise, LaplaceNoise) else 1.0)
    sizes = np.maximum(hidden.sum(axis=1), 1)
    means: Floats = (noisy * hidden).sum(axis=1) / sizes
    return np.asarray(np.maximum(means - stddev / np.sqrt(sizes), 0.0))


def leaf_counts(
    leaves: NDArray[np.int64], class_indices: NDArray[np.int64], num_leaves: int, num_classes: int
) -> NDArray[np.int64]:
    """Count the rows of each class in each leaf, by [tree, leaf, class]."""
    size = num_leaves * num_classes
    counts = [np.bincount(row_leaves * num_classes + class_indices, minlength=size) for row_leaves in leaves]
    return np.array(counts, dtype=np.int64).reshape(len(leaves), num_leaves, num_classes)


def single_block(plan: NoisePlan, index: int) -> NoisePlan:
    """Return the plan of one block, to release it on its own: the leaves depend on the histograms."""
    return replace(plan, blocks=(plan.blocks[index],), block_scales=(plan.block_scales[index],))
