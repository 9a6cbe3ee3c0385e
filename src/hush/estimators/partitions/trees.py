"""Trees whose splits come from noisy marginals, with noisy counts of classes in their leaves.

Up to three releases. First, the number of rows, from which the size of the forest follows. Then, where noise leaves
something of it, a histogram of each feature in public bins, in which a row is in one bin of each; or, where that is too
much, one coarse histogram of all features together. From these, trees are grown at
random: at a node, a feature is drawn, and a threshold between quantiles of its marginal within the cell; no row is
looked at. Last, each tree's leaves count the classes of the rows in them: a row is in one leaf of each tree. All rows
are in all trees: T trees have sqrt(T) times the Gaussian noise, and T times the votes. One tree of two classes needs
only the difference of their counts, which has half the variance of two counts with noise.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count
from hush.estimators.base.bounds import check_bounds, fitted_bounds, scaled
from hush.estimators.base.estimator import Floats, PrivateClassifierMixin, PrivateEstimator
from hush.estimators.base.two_parts import TwoParts
from hush.estimators.partitions.tree_growth import BINS, Shape, grown, histograms, leaf_counts, part, quantiles
from hush.mechanisms import DiscreteLaplace
from hush.numerics import silent
from hush.randomness import RandomSource

_COUNTING = 0.05  # the part of epsilon for the number of rows
_DEEPEST = 16
_CAUTION = 2.0
_SHARPNESS = 8.0  # of probabilities: how far the mean of the trees is trusted; it does not change predictions


class PrivateRandomForestClassifier(PrivateClassifierMixin, ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Random trees over noisy quantiles of the features, with noisy class counts in the leaves.

    For classes that are no linear function of the features, or features of very different shapes. Where a linear model
    fits, it needs less epsilon. A twentieth of epsilon counts the rows; from the noisy count follow the number of
    trees, 1 to 32, so that the noise in a leaf is below 1/35 of the rows; their depth, 3 to 8, so that leaves have rows
    enough for their noise; and whether thresholds follow noisy marginals, or are anywhere between the bounds.

    Args:
        n_estimators: How many trees; None: by the rule above.
        epsilon: For everything that fit releases.
        delta: 0 for Laplace noise; above it, whichever of Laplace and Gaussian noise is smaller. With many trees and
            features Gaussian noise is much smaller.
        bounds: (lower, upper) of each feature, or of all; public: values are clamped.
        classes: All labels that there may be; public. Rows of another class are left out.
        max_depth: How many splits lead to a leaf; None: by the rule above.
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        classes_: The labels, sorted.
        n_estimators_: How many trees there are.
        max_depth_: How many splits lead to a leaf.
        n_features_in_: How many features there are.
        guarantee_: What fit gave away.
        event_: The same for accountants.

    Guarantee:
        (epsilon, delta)-differential privacy for one row, added or removed: of the count, and, given it, of the rest,
        whatever its size.

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
        n_estimators: int | None = None,
        *,
        epsilon: float,
        delta: float = 0.0,
        bounds: Any,
        classes: Any,
        max_depth: int | None = None,
        budget: Budget | None = None,
        source: RandomSource | None = None,
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
        if self.n_estimators is not None:
            check_count("n_estimators", self.n_estimators)
        if self.max_depth is not None and not check_count("max_depth", self.max_depth) <= _DEEPEST:
            raise InvalidArgument("max_depth", self.max_depth, f"at most {_DEEPEST}")

    @silent
    def fit(self, X: Any, y: Any) -> Self:
        """Grow trees, and count classes in their leaves."""
        self._check()
        rows = self._rows(X)
        places = self._places(self._labels(rows, y, numeric=False))
        bounds = fitted_bounds("bounds", self.bounds, self.n_features_in_)
        costs = TwoParts.of(float(self.epsilon), float(self.delta), _COUNTING)
        source = self._start(costs.event)
        units, complete = scaled(rows, *bounds)
        kept = complete & (places >= 0)
        count = DiscreteLaplace(epsilon=costs.first).release(int(kept.sum()), source).value
        self._grow(units[kept], places[kept], self._shape(float(count), costs), costs, source)
        self._bounds = bounds
        return self

    def _shape(self, count: float, costs: TwoParts) -> Shape:
        return Shape.chosen(
            count,
            self.n_features_in_,
            epsilon=costs.left,
            delta=costs.delta,
            trees=None if self.n_estimators is None else int(self.n_estimators),
            depth=None if self.max_depth is None else int(self.max_depth),
        )

    def _grow(self, units: Floats, places: Any, shape: Shape, costs: TwoParts, source: RandomSource) -> None:
        classes, features = len(self.classes_), self.n_features_in_
        plan = shape.plan(features, classes, epsilon=costs.left, delta=costs.delta)
        edges = np.tile(np.linspace(0.0, 1.0, BINS + 1), (features, 1))
        if shape.marginals:
            edges = quantiles(part(plan, 1).release(histograms(units, pooled=shape.pooled), source)[0], plan, features)
        self._forest = grown(shape.trees, shape.depth, edges, source)
        totals = leaf_counts(self._forest.leaves(units), places, self._forest.num_leaves, classes)
        if shape.differs(classes):
            excess = part(plan, 0).release((totals[:, :, 1] - totals[:, :, 0]).reshape(1, -1), source)[0] / 2
            self._counts = np.stack([-excess, excess], axis=1)[None]
        else:
            noisy = part(plan, 0).release(totals.reshape(1, -1), source)
            self._counts = noisy.reshape(totals.shape).astype(np.float64)
        self._noise = float(plan.block_scales[0])
        self.n_estimators_, self.max_depth_ = shape.trees, shape.depth

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
    """One random tree: a `PrivateRandomForestClassifier` of one.

    Choose it for epsilons so small that a forest has no more than one or two trees; else a forest does better. Its
    splits follow noisy quantiles and look at no labels.

    Args:
        epsilon: As for the forest, and so are the others.
        delta: As for the forest.
        bounds: As for the forest.
        classes: As for the forest.
        max_depth: As for the forest.
        budget: As for the forest.
        source: As for the forest.

    Attributes:
        classes_: The labels, sorted.
        n_estimators_: 1.
        max_depth_: How many splits lead to a leaf.
        n_features_in_: How many features there are.
        guarantee_: What fit gave away.
        event_: The same for accountants.

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
        max_depth: int | None = None,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.max_depth = max_depth
        self.budget = budget
        self.source = source
        self._check()
