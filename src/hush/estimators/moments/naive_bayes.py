"""Private Gaussian naive Bayes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument
from hush.estimators.base.bounds import check_bounds, feature_bounds
from hush.estimators.base.estimator import Floats, PrivateClassifierMixin, PrivateEstimator, blame_epsilon
from hush.estimators.moments.moments import FixedPoint, class_totals, moments_plan, noisy_moments
from hush.randomness import RandomSource
from hush.statistics import CalibratedPlan


class PrivateGaussianNB(PrivateClassifierMixin, ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Gaussian naive Bayes: counts, means and variances of each class, from a single noisy release.

    Try it first if you have few rows or a small epsilon. It has few parameters, and it works with delta = 0. Where
    features are correlated and rows are plentiful, `PrivateLDA` or a logistic regression does better.

    Args:
        epsilon: Privacy budget of one fit.
        delta: 0 for Laplace noise. Above 0, the smaller of Laplace and Gaussian noise is drawn.
        bounds: Public (lower, upper) of each feature, or one pair for all. Values are clamped to it.
        classes: All class labels, public. Rows of any other class are dropped.
        priors: Public class probabilities, in the order of ``classes``. Default: learned, at no further cost.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        classes_: The declared class labels, sorted.
        theta_: Means by [class, feature].
        var_: Variances by [class, feature], never below the level of their noise.
        class_count_: Noisy number of rows of each class.
        class_prior_: Class probabilities.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy when one row is added or removed; delta = 0 with Laplace noise.

    Assumes:
        Rows are clamped to the bounds, and rows with a missing value are dropped (checked here). Bounds and classes are
        public (the caller's duty). Each person has one row (the caller's duty).

    References:
        Vaidya, Shafiq, Basu & Hong 2013 (noisy parameters). Variant: one release of sums, add-or-remove neighbours.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.linspace(-1, 1, 2000)[:, None]
    >>> model = PrivateGaussianNB(epsilon=1.0, bounds=(-1, 1), classes=[0, 1], source=TestSource(1))
    >>> model.fit(x, x[:, 0] > 0).predict([[-0.5], [0.5]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float = 0.0,
        bounds: Any,
        classes: Any,
        priors: Any = None,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.priors = priors
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        check_bounds("bounds", self.bounds)
        self._check_classes()
        check_priors(self.priors, len(self.classes))
        self._plan(1)  # refuses an unusable epsilon in the constructor

    def _plan(self, num_features: int) -> CalibratedPlan:
        return blame_epsilon(self.epsilon, lambda: moments_plan(num_features, float(self.epsilon), float(self.delta)))

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows and labels."""
        self._check()
        rows = self._rows(X)
        class_indices = self._class_indices(self._labels(rows, y, numeric=False))
        lower, upper = feature_bounds("bounds", self.bounds, self.n_features_in_)
        plan = self._plan(self.n_features_in_)
        source = self._charge(plan.event, spent=(plan.epsilon, plan.delta))
        totals = class_totals(rows, class_indices, len(self.classes_), FixedPoint(lower, upper, len(rows)))
        moments = noisy_moments(totals, plan, source)
        # Moments are in units of the bounds, which map to -1 and 1: x = middle + half u, so Var x = half^2 Var u.
        half = (upper - lower) / 2
        self.theta_ = lower + half + moments.means * half
        self.var_ = moments.variances * half**2
        self.class_count_ = moments.counts
        self.class_prior_ = class_priors(self.priors, self.classes, moments.counts)
        return self

    def _joint_log_likelihood(self, X: Any) -> Floats:
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        logs = [
            # ln p(c) + sum_j ln N(x_j; mean_cj, var_cj): features are independent given the class.
            np.log(prior) - 0.5 * (np.log(2 * np.pi * var).sum() + ((rows - mean) ** 2 / var).sum(axis=1))
            for prior, mean, var in zip(self.class_prior_, self.theta_, self.var_, strict=True)
        ]
        return np.stack(logs, axis=1)

    def predict(self, X: Any) -> Any:
        """Return the most likely class of each row."""
        indices = np.argmax(self._joint_log_likelihood(X), axis=1)
        return self.classes_[indices]

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the log-probability of each class."""
        joint = self._joint_log_likelihood(X)
        logs: Floats = joint - logsumexp(joint, axis=1, keepdims=True)
        return logs

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class."""
        return np.exp(self.predict_log_proba(X))


def check_priors(priors: Any, num_classes: int) -> None:
    """Check that priors are one positive probability per class."""
    if priors is None:
        return
    try:
        values = np.asarray(priors, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (num_classes,) or not bool((values > 0).all()) or not abs(float(values.sum()) - 1) < 1e-6:
        raise InvalidArgument("priors", priors, "one probability > 0 per class, with sum 1")


def class_priors(priors: Any, classes: Any, counts: Floats) -> Floats:
    """Return the class probabilities in the sorted order of classes: public ones, or shares of the noisy counts.

    A class with a noisy count below 1 counts as one row, so that no probability is 0.

    Args:
        priors: Public probabilities in the order of ``classes``, or None.
        classes: The class labels as declared.
        counts: Noisy number of rows of each class, in sorted order.
    """
    if priors is not None:
        return np.asarray(priors, dtype=np.float64)[np.argsort(np.asarray(classes))]
    # Post-processing of noisy counts. It costs nothing, and a probability of 0 would rule a class out for good.
    sizes = np.maximum(counts, 1.0)
    shares: Floats = sizes / sizes.sum()
    return shares
