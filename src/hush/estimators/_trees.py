r"""Trees whose splits come from noisy marginals, with noisy counts of classes in their leaves.

Two releases. First, a histogram of each feature in public bins: a row is in one bin of each. From these, trees are
grown at random: at a node, a feature is drawn, and a threshold between quantiles of its marginal within the cell; no
row is looked at. Then each tree's leaves count the classes of the rows in them: a row is in one leaf of each tree.
All rows are in all trees: T trees have sqrt(T) times the Gaussian noise, and T times the votes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count
from hush.estimators._bounds import check_bounds, fitted_bounds, scaled
from hush.estimators._kmeans import uniform
from hush.estimators._private import Floats, PrivateClassifierMixin, PrivateEstimator
from hush.randomness import Source
from hush.statistics import Block, Laplace, NoisePlan, plan_noise

_BINS = 16
_MARGINALS = 0.2  # what part of the budget the histograms of features get
_DEEPEST = 16
_CAUTION = 2.0
_SHARPNESS = 8.0  # of probabilities: how far the mean of the trees is trusted; it does not change predictions


class PrivateRandomForestClassifier(PrivateClassifierMixin, ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Random trees over noisy quantiles of the features, with noisy class counts in the leaves.

    For classes that are no linear function of the features, or features of very different shapes. Deeper trees need
    more rows: 2^max_depth leaves share them. Where a linear model fits, it needs less epsilon.

    Args:
        n_estimators: How many trees.
        epsilon: For everything that fit releases.
        delta: 0 for Laplace noise; above it, whichever of Laplace and Gaussian noise is smaller. With many trees and
            features Gaussian noise is much smaller.
        bounds: (lower, upper) of each feature, or of all; public: values are clamped.
        classes: All labels that there may be; public. Rows of another class are left out.
        max_depth: How many splits lead to a leaf.
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        classes_: The labels, sorted.
        guarantee_: What fit gave away.
        event_: The same for accountants.

    Guarantee:
        (epsilon, delta)-differential privacy for one row, added or removed; delta = 0 with Laplace noise.

    Assumes:
        Rows are clamped, and those with something missing left out (checked here: done here). Bounds and classes are
        public (the caller's duty). Each person has one row (the caller's duty).

    References:
        Jagannathan, Pillaipakkamnatt & Wright 2009 (random trees with noisy leaves); Geurts, Ernst & Wehenkel 2006
        (random thresholds). Variant: thresholds follow noisy marginals, and all rows are in all trees.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.linspace(-1, 1, 4000)[:, None]
    >>> forest = PrivateRandomForestClassifier(
    ...     20, epsilon=1.0, delta=1e-6, bounds=(-1, 1), classes=[0, 1], max_depth=4, source=TestSource(1)
    ... )
    >>> forest.fit(x, np.abs(x[:, 0]) < 0.5).predict([[-0.9], [0.0], [0.9]]).tolist()
    [0, 1, 0]
    """

    def __init__(
        self,
        n_estimators: int = 20,
        *,
        epsilon: float,
        delta: float = 0.0,
        bounds: Any,
        classes: Any,
        max_depth: int = 5,
        budget: Budget | None = None,
        source: Source | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.max_depth = max_depth
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        check_bounds("bounds", self.bounds)
        self._check_classes()
        check_count("n_estimators", self.n_estimators)
        if not check_count("max_depth", self.max_depth) <= _DEEPEST:
            raise InvalidArgument("max_depth", self.max_depth, f"at most {_DEEPEST}")

    def fit(self, X: Any, y: Any) -> Self:
        """Grow trees, and count classes in their leaves."""
        self._check()
        rows = self._rows(X)
        places = self._places(self._labels(rows, y, numeric=False))
        bounds = fitted_bounds("bounds", self.bounds, self.n_features_in_)
        plan = self._plan()
        source = self._start(plan.event, spent=(plan.epsilon, plan.delta))
        units, complete = scaled(rows, *bounds)
        kept = complete & (places >= 0)
        units, places = units[kept], places[kept]
        edges = _quantiles(_part(plan, 0).release(_histograms(units), source)[0], plan)
        self._forest = _grown(int(self.n_estimators), int(self.max_depth), edges, source)
        totals = _leaf_counts(self._forest.leaves(units), places, self._forest.num_leaves, len(self.classes_))
        noisy = _part(plan, 1).release(totals.reshape(1, -1), source)
        self._counts = noisy.reshape(totals.shape).astype(np.float64)
        self._noise = float(plan.block_scales[1])
        self._bounds = bounds
        return self

    def _plan(self) -> NoisePlan:
        trees, d = int(self.n_estimators), self.n_features_in_
        cells = trees * (1 << int(self.max_depth)) * len(self.classes_)
        blocks = (
            Block(columns=d * _BINS, l1=d, l2=math.sqrt(d), share=_MARGINALS, whole=True),
            Block(columns=cells, l1=trees, l2=math.sqrt(trees), share=1 - _MARGINALS, whole=True),
        )
        return plan_noise(blocks, max_groups=1, epsilon=float(self.epsilon), delta=float(self.delta))

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities: those of the leaves, averaged by how much they can be relied on."""
        check_is_fitted(self)
        units, _ = scaled(self._rows(X, reset=False), *self._bounds)
        leaves = self._forest.leaves(units)
        votes = self._votes()
        summed = np.zeros((len(units), len(self.classes_)))
        for tree, mine in enumerate(leaves):
            summed += votes[tree, mine]
        exps = np.exp(summed - summed.max(axis=1, keepdims=True))
        shares: Floats = exps / exps.sum(axis=1, keepdims=True)
        return shares

    def _votes(self) -> Floats:
        """Return what each leaf says of each class; the less, the more noise outweighs its rows.

        With little noise these are shares of classes; with much, counts, in which noise cancels between trees. Negative
        counts stay: cut off, it would not.
        """
        classes = len(self.classes_)
        totals = np.maximum(self._counts.sum(axis=2, keepdims=True), 0.0)
        weight = 1.0 + _CAUTION * self._noise * math.sqrt(classes)
        votes: Floats = (self._counts + weight / classes) / (totals + weight) * _SHARPNESS / len(self._counts)
        return votes

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]


class PrivateDecisionTreeClassifier(PrivateRandomForestClassifier):
    """One random tree: a `PrivateRandomForestClassifier` of one, for a model that can be drawn. A forest does better.

    Args:
        epsilon: As for the forest, and so are the others.
        delta: As for the forest.
        bounds: As for the forest.
        classes: As for the forest.
        max_depth: As for the forest.
        budget: As for the forest.
        source: As for the forest.

    Guarantee:
        As the forest's.

    Assumes:
        As the forest: bounds and classes are public (the caller's duty).

    References:
        As the forest's.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.linspace(-1, 1, 4000)[:, None]
    >>> tree = PrivateDecisionTreeClassifier(epsilon=1.0, bounds=(-1, 1), classes=[0, 1], source=TestSource(1))
    >>> tree.fit(x, x[:, 0] > 0).predict([[-0.9], [0.9]]).tolist()
    [0, 1]
    """

    n_estimators = 1

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float = 0.0,
        bounds: Any,
        classes: Any,
        max_depth: int = 5,
        budget: Budget | None = None,
        source: Source | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.max_depth = max_depth
        self.budget = budget
        self.source = source
        self._check()


@dataclass(frozen=True, slots=True)
class _Forest:
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


def _grown(trees: int, depth: int, edges: Floats, source: Source) -> _Forest:
    """Grow trees: thresholds halve a feature's noisy mass within the cell, give or take a random part of it."""
    dimension, nodes = len(edges), (1 << depth) - 1
    features = np.minimum((uniform(source, trees * nodes) * dimension).astype(np.int64), dimension - 1)
    features = features.reshape(trees, nodes)
    places = uniform(source, trees * nodes).reshape(trees, nodes) * 0.6 + 0.2
    ranks = np.empty((trees, nodes))
    everyone = np.arange(trees)
    # Cells in the space of quantiles: every feature goes from 0 to 1.
    cells = np.zeros((trees, 1, dimension, 2)) + np.array([0.0, 1.0])
    for level in range(depth):
        first = (1 << level) - 1
        below = np.repeat(cells, 2, axis=1) if level < depth - 1 else None
        for place in range(1 << level):
            feature = features[:, first + place]
            low, high = cells[everyone, place, feature].T
            rank = low + (high - low) * places[:, first + place]
            ranks[:, first + place] = rank
            if below is not None:
                below[everyone, 2 * place, feature, 1] = rank
                below[everyone, 2 * place + 1, feature, 0] = rank
        if below is not None:
            cells = below
    return _Forest(features, _at_rank(edges, features, ranks), depth)


def _at_rank(edges: Floats, features: NDArray[np.int64], ranks: Floats) -> Floats:
    """Return the value of a feature at a quantile; ``edges`` are cumulative shares at the ends of bins."""
    ends = np.linspace(-1.0, 1.0, _BINS + 1)
    values = np.empty(ranks.shape)
    for feature, cumulative in enumerate(edges):
        mine = features == feature
        values[mine] = np.interp(ranks[mine], cumulative, ends)
    return values


def _histograms(units: Floats) -> NDArray[np.int64]:
    bins = np.minimum(((units + 1) * (_BINS / 2)).astype(np.int64), _BINS - 1)
    flat = (bins + np.arange(units.shape[1]) * _BINS).ravel()
    return np.bincount(flat, minlength=units.shape[1] * _BINS).astype(np.int64)[None, :]


def _quantiles(noisy: NDArray[np.int64], plan: NoisePlan) -> Floats:
    """Return cumulative shares of each feature's bins; bins no higher than noise have a small share each."""
    counts = noisy.reshape(-1, _BINS).astype(np.float64)
    extreme = math.log(counts.size)  # of so many noise variables
    highest = plan.block_scales[0] * (extreme if isinstance(plan.noise, Laplace) else math.sqrt(2 * extreme))
    counts = np.where(counts > highest, counts, 0.0)
    # A bin of the size of the noise may be anywhere: the range stays reachable.
    counts += np.maximum(0.02 * counts.sum(axis=1, keepdims=True) / _BINS, 1e-3)
    cumulative = np.cumsum(counts, axis=1) / counts.sum(axis=1, keepdims=True)
    return np.concatenate([np.zeros((len(counts), 1)), cumulative], axis=1)


def _leaf_counts(
    leaves: NDArray[np.int64], places: NDArray[np.int64], num_leaves: int, num_classes: int
) -> NDArray[np.int64]:
    size = num_leaves * num_classes
    counted = [np.bincount(mine * num_classes + places, minlength=size) for mine in leaves]
    return np.array(counted, dtype=np.int64).reshape(len(leaves), num_leaves, num_classes)


def _part(plan: NoisePlan, place: int) -> NoisePlan:
    """Return the plan of one block: it is released after another, which it depends on."""
    return replace(plan, blocks=(plan.blocks[place],), block_scales=(plan.block_scales[place],))
