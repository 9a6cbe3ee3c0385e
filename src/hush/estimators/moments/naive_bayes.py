"""Gaussian naive Bayes from noisy moments of each class."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument
from hush.estimators.base.bounds import check_bounds, fitted_bounds
from hush.estimators.base.estimator import Floats, PrivateClassifierMixin, PrivateEstimator, planned
from hush.estimators.moments.moments import Steps, class_totals, moments_plan, noisy_moments
from hush.randomness import RandomSource
from hush.statistics import NoisePlan


class PrivateGaussianNB(PrivateClassifierMixin, ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Gaussian naive Bayes: counts, means and variances of each class, from one noisy release.

    For a first classifier with few rows or a small epsilon: it has few parameters, and works without a delta. Where
    features depend on each other and rows are many, `PrivateLDA` or a logistic regression does better.

    Args:
        epsilon: For everything that fit releases.
        delta: 0 for Laplace noise; above it, whichever of Laplace and Gaussian noise is smaller.
        bounds: (lower, upper) of each feature, or of all; public: values are clamped.
        classes: All labels that there may be; public. Rows of another class are left out.
        priors: Public class probabilities; None to learn them (at no further cost).
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        classes_: The labels, sorted.
        theta_: Means of each class.
        var_: Variances of each class; not below what noise alone would suggest.
        class_count_: Noisy numbers of rows.
        class_prior_: Class probabilities.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What fit gave away.
        event_: The same for accountants.

    Guarantee:
        (epsilon, delta)-differential privacy for one row, added or removed; delta = 0 with Laplace noise.

    Assumes:
        Rows are clamped to the bounds, and those with something missing left out (checked here: done here). Bounds and
        classes are public (the caller's duty). Each person has one row (the caller's duty).

    References:
        Vaidya, Shafiq, Basu & Hong 2013 (noisy parameters; here one release of sums, and add-or-remove neighbours).

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
        self._plan(1)  # what is wrong with epsilon is said here

    def _plan(self, num_features: int) -> NoisePlan:
        return planned(self.epsilon, lambda: moments_plan(num_features, float(self.epsilon), float(self.delta)))

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows and labels."""
        self._check()
        rows = self._rows(X)
        places = self._places(self._labels(rows, y, numeric=False))
        lower, upper = fitted_bounds("bounds", self.bounds, self.n_features_in_)
        plan = self._plan(self.n_features_in_)
        source = self._start(plan.event, spent=(plan.epsilon, plan.delta))
        totals = class_totals(rows, places, len(self.classes_), Steps(lower, upper, len(rows)))
        found = noisy_moments(totals, plan, source)
        half = (upper - lower) / 2
        self.theta_ = lower + half + found.means * half
        self.var_ = found.variances * half**2
        self.class_count_ = found.counts
        self.class_prior_ = priors_of(self.priors, self.classes, found.counts)
        return self

    def _joint_log_likelihood(self, X: Any) -> Floats:
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        logs = [
            np.log(prior) - 0.5 * (np.log(2 * np.pi * var).sum() + ((rows - mean) ** 2 / var).sum(axis=1))
            for prior, mean, var in zip(self.class_prior_, self.theta_, self.var_, strict=True)
        ]
        return np.stack(logs, axis=1)

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row."""
        best = np.argmax(self._joint_log_likelihood(X), axis=1)
        return self.classes_[best]

    def predict_log_proba(self, X: Any) -> Floats:
        """Return logarithms of class probabilities."""
        joint = self._joint_log_likelihood(X)
        logs: Floats = joint - logsumexp(joint, axis=1, keepdims=True)
        return logs

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities."""
        return np.exp(self.predict_log_proba(X))


def check_priors(priors: Any, num_classes: int) -> None:
    """Refuse priors that are no probabilities of the classes."""
    if priors is None:
        return
    try:
        values = np.asarray(priors, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (num_classes,) or not bool((values > 0).all()) or not abs(float(values.sum()) - 1) < 1e-6:
        raise InvalidArgument("priors", priors, "a probability > 0 for each class, which add up to 1")


def priors_of(priors: Any, classes: Any, counts: Floats) -> Floats:
    """Return public priors, which are in the order of ``classes``, or those that noisy counts suggest, in sorted order.

    No class has less than one row's.
    """
    if priors is not None:
        return np.asarray(priors, dtype=np.float64)[np.argsort(np.asarray(classes))]
    least = np.maximum(counts, 1.0)
    shares: Floats = least / least.sum()
    return shares
