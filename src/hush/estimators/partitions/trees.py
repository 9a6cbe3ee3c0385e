"""Random trees with splits from noisy marginals and noisy class counts in the leaves.

    count       a noisy number of rows, which decides the size of the forest
    histograms  one per feature in public bins, where a row is in one bin of each; or, where that is too noisy, a single
                coarse one of all features; or none
    trees       grown at random: a node draws a feature, and a threshold between quantiles of its noisy marginal within
                the cell. No row is looked at
    leaves      noisy class counts in the leaves of each tree; a row is in one leaf per tree

All rows are in all trees: T trees have sqrt(T) times the Gaussian noise, and T times the votes. A single tree for two
classes needs only the difference of their counts, whose noise has half the variance.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count
from hush.estimators.base.bounds import check_bounds, feature_bounds, scale_to_unit
from hush.estimators.base.estimator import Floats, PrivateClassifierMixin, PrivateEstimator
from hush.estimators.base.two_stage_budget import TwoStageBudget
from hush.estimators.partitions.tree_growth import (
    BINS,
    ForestShape,
    cumulative_shares,
    grow,
    histograms,
    leaf_counts,
    single_block,
)
from hush.mechanisms import DiscreteLaplace
from hush.numerics import quiet_numpy
from hush.randomness import RandomSource

_COUNT_SHARE = 0.05  # share of epsilon for the number of rows
_MAX_DEPTH = 16
_CAUTION = 2.0  # pseudo-count of a leaf, in standard deviations of its noise
_SHARPNESS = 8.0  # inverse temperature of the probabilities; it does not change predictions


class PrivateRandomForestClassifier(PrivateClassifierMixin, ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Random trees over noisy quantiles of the features, with noisy class counts in the leaves.

    Use it for classes that are not a linear function of the features, or features of very different shapes. Where a
    linear model fits, it needs less epsilon.

    A twentieth of epsilon counts the rows. The noisy count decides the number of trees, 1 to 32, so that the noise in a
    leaf is below 1/35 of the rows; their depth, 3 to 8, so that leaves have enough rows for their noise; and whether
    thresholds follow noisy marginals or are uniform between the bounds.

    Args:
        n_estimators: Number of trees. Default: from the noisy count, as above.
        epsilon: Privacy budget of one fit.
        delta: 0 for Laplace noise. Above 0, the noise is of the kind that affords more trees, Laplace or Gaussian, and
            the smaller one if both afford as many; with many trees and features Gaussian noise is much smaller.
        bounds: Public (lower, upper) of each feature, or one pair for all. Values are clamped to it.
        classes: All class labels, public. Rows of any other class are dropped.
        max_depth: Depth of each tree, at most 16. Default: from the noisy count, as above.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        classes_: The declared class labels, sorted.
        n_estimators_: Number of trees.
        max_depth_: Depth of each tree.
        n_features_in_: Number of features in X.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy when one row is added or removed: of the count, and, given the count, of
        the rest, for a forest of any size.

    Assumes:
        Rows are clamped to the bounds, and rows with a missing value are dropped (checked here). Bounds and classes are
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
        if self.max_depth is not None and not check_count("max_depth", self.max_depth) <= _MAX_DEPTH:
            raise InvalidArgument("max_depth", self.max_depth, f"at most {_MAX_DEPTH}")

    @quiet_numpy
    def fit(self, X: Any, y: Any) -> Self:
        """Grow the trees and count the classes in their leaves."""
        self._check()
        rows = self._rows(X)
        class_indices = self._class_indices(self._labels(rows, y, numeric=False))
        bounds = feature_bounds("bounds", self.bounds, self.n_features_in_)
        stages = TwoStageBudget.split(float(self.epsilon), float(self.delta), _COUNT_SHARE)
        source = self._charge(stages.event)
        unit_rows, complete = scale_to_unit(rows, *bounds)
        usable = complete & (class_indices >= 0)
        # One row changes the number of usable rows by at most 1.
        count = DiscreteLaplace(epsilon=stages.first).release(int(usable.sum()), source).value
        self._grow(unit_rows[usable], class_indices[usable], self._shape(float(count), stages), stages, source)
        self._bounds = bounds
        return self

    def _shape(self, count: float, stages: TwoStageBudget) -> ForestShape:
        return ForestShape.choose(
            count,
            self.n_features_in_,
            epsilon=stages.second,
            delta=stages.delta,
            trees=None if self.n_estimators is None else int(self.n_estimators),
            depth=None if self.max_depth is None else int(self.max_depth),
        )

    def _grow(
        self, unit_rows: Floats, class_indices: Any, shape: ForestShape, stages: TwoStageBudget, source: RandomSource
    ) -> None:
        """Release the histograms, grow the trees from them, and release the counts of the leaves."""
        classes, features = len(self.classes_), self.n_features_in_
        plan = shape.plan(features, classes, epsilon=stages.second, delta=stages.delta)
        # Without marginals, thresholds are uniform between the bounds.
        edges = np.tile(np.linspace(0.0, 1.0, BINS + 1), (features, 1))
        if shape.marginals:
            edges = cumulative_shares(
                single_block(plan, 1).release(histograms(unit_rows, pooled=shape.pooled), source)[0], plan, features
            )
        # The trees follow from noisy marginals and random numbers, so given those their leaves are public cells.
        self._forest = grow(shape.trees, shape.depth, edges, source)
        totals = leaf_counts(self._forest.leaves(unit_rows), class_indices, self._forest.num_leaves, classes)
        if shape.counts_difference(classes):
            # Half of the difference for one class, and minus half for the other: predictions depend on nothing else.
            difference = (
                single_block(plan, 0).release((totals[:, :, 1] - totals[:, :, 0]).reshape(1, -1), source)[0] / 2
            )
            self._counts = np.stack([-difference, difference], axis=1)[None]
        else:
            noisy = single_block(plan, 0).release(totals.reshape(1, -1), source)
            self._counts = noisy.reshape(totals.shape).astype(np.float64)
        self._noise = float(plan.block_scales[0])
        self.n_estimators_, self.max_depth_ = shape.trees, shape.depth

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities: the votes of the leaves, averaged and weighted by their reliability."""
        check_is_fitted(self)
        unit_rows, _ = scale_to_unit(self._rows(X, reset=False), *self._bounds)
        leaves = self._forest.leaves(unit_rows)
        votes = self._votes()
        scores = np.zeros((len(unit_rows), len(self.classes_)))
        for tree, row_leaves in enumerate(leaves):
            scores += votes[tree, row_leaves]
        # Softmax, shifted so that it cannot overflow.
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities: Floats = exponentials / exponentials.sum(axis=1, keepdims=True)
        return probabilities

    def _votes(self) -> Floats:
        """Return the vote of each leaf for each class. The more the noise outweighs its rows, the smaller the vote.

        With little noise, votes are shares of the classes. With much noise, they are proportional to the counts, and
        noise cancels between trees. Negative counts stay: clipping them would leave a bias.
        """
        classes = len(self.classes_)
        totals = np.maximum(self._counts.sum(axis=2, keepdims=True), 0.0)
        # The noise of a leaf's total is that of a count times sqrt(classes).
        pseudo_count = 1.0 + _CAUTION * self._noise * math.sqrt(classes)
        votes: Floats = (
            (self._counts + pseudo_count / classes) / (totals + pseudo_count) * _SHARPNESS / len(self._counts)
        )
        return votes

    def predict(self, X: Any) -> Any:
        """Return the most likely class of each row."""
        indices = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[indices]


class PrivateDecisionTreeClassifier(PrivateRandomForestClassifier):
    """A single random tree: a `PrivateRandomForestClassifier` with one tree.

    Choose it for an epsilon so small that a forest would have only one or two trees. Otherwise a forest is more
    accurate. Its splits follow noisy quantiles and do not look at labels.

    Args:
        epsilon: Privacy budget of one fit.
        delta: 0 for Laplace noise. Above 0, the smaller of Laplace and Gaussian noise is drawn.
        bounds: Public (lower, upper) of each feature, or one pair for all. Values are clamped to it.
        classes: All class labels, public. Rows of any other class are dropped.
        max_depth: Depth of the tree, at most 16. Default: from a noisy count of the rows.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        classes_: The declared class labels, sorted.
        n_estimators_: Number of trees, 1.
        max_depth_: Depth of the tree.
        n_features_in_: Number of features in X.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        That of `PrivateRandomForestClassifier`.

    Assumes:
        As `PrivateRandomForestClassifier`: bounds and classes are public (the caller's duty).

    References:
        Those of `PrivateRandomForestClassifier`.

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
