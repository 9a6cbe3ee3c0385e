"""Linear classifiers by empirical risk minimisation: logistic regression and support vector machines.

The flow of a fit: rows are clipped (`sums.clip_rows`), a method turns them into private weights
(`method.LinearRecipe`), and the weights are converted back to the units of the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_instance, check_positive
from hush.estimators.base.bounds import check_norm, event_with_norm, resolve_norm, split_epsilon
from hush.estimators.base.estimator import Floats, PrivateClassifierMixin, PrivateEstimator, blame_epsilon
from hush.estimators.linear.losses import HuberHinge, LogisticLoss, MarginLoss
from hush.estimators.linear.method import LinearMethod, LinearRecipe, Problem
from hush.estimators.linear.noisy_gradients import NoisyGradients
from hush.estimators.linear.objective import ObjectivePerturbation
from hush.estimators.linear.sums import MAX_ROWS, clip_rows
from hush.numerics import quiet_numpy
from hush.randomness import RandomSource
from hush.statistics import LearnBounds


class _LinearClassifier(PrivateClassifierMixin, ClassifierMixin, PrivateEstimator, ABC):  # type: ignore[misc]
    """The common part: weights of the second class against the first, or of each class against the rest."""

    _max_rows = MAX_ROWS

    def __init__(
        self,
        *,
        epsilon: float,
        data_norm: float | LearnBounds,
        classes: Any,
        delta: float = 0.0,
        method: LinearMethod | None = None,
        regularization: float | None = None,
        fit_intercept: bool = True,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.data_norm = data_norm
        self.classes = classes
        self.delta = delta
        self.method = method
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        self._check_classes()
        check_norm("data_norm", self.data_norm)
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise InvalidArgument("fit_intercept", self.fit_intercept, "True or False")
        if self.regularization is not None:
            check_positive(
                "regularization", self.regularization, "Without it, one row could move the weights arbitrarily far"
            )
        if self.method is not None:
            check_instance("method", self.method, LinearMethod, "Pass ObjectivePerturbation(), for example")
        self._recipe(1)  # refuses unusable epsilon and delta in the constructor

    def _recipe(self, num_features: int) -> LinearRecipe:
        """Return every decision that needs no data."""

        def build() -> LinearRecipe:
            recipe = self._method().prepare(self._problem(num_features))
            event_with_norm(self.data_norm, float(self.epsilon), recipe.event)  # events check their parameters
            return recipe

        return blame_epsilon(self.epsilon, build)

    def _method(self) -> LinearMethod:
        if self.method is not None:
            return self.method
        # One against the rest divides epsilon by the number of classes; a joint loss does not, but needs delta.
        several = len(np.asarray(self.classes)) > 2
        return NoisyGradients() if several and self.delta > 0 else ObjectivePerturbation()

    @abstractmethod
    def _loss(self) -> MarginLoss: ...

    def _problem(self, num_features: int) -> Problem:
        classes = len(np.asarray(self.classes))
        return Problem(
            loss=self._loss(),
            dimension=num_features + bool(self.fit_intercept),
            outputs=1 if classes == 2 else classes,
            softmax=isinstance(self._loss(), LogisticLoss),
            epsilon=split_epsilon(self.data_norm, float(self.epsilon))[1],
            delta=float(self.delta),
            regularization=None if self.regularization is None else float(self.regularization),
        )

    @quiet_numpy
    def fit(self, X: Any, y: Any) -> Self:
        """Fit the weights. Rows longer than the clip norm are scaled down.

        Args:
            X: Rows of numbers. Rows with NaN or infinity are dropped.
            y: Class labels. Rows with a label that is not declared are dropped.
        """
        self._check()
        rows = self._rows(X)
        class_indices = self._class_indices(self._labels(rows, y, numeric=False))
        recipe = self._recipe(rows.shape[1])
        source = self._charge(event_with_norm(self.data_norm, float(self.epsilon), recipe.event))
        # Rows are clipped one by one: adding a row changes no other.
        usable = (class_indices >= 0) & np.isfinite(rows).all(axis=1)
        order = np.inf if self._method().largest_entry else 2
        self.data_norm_ = resolve_norm(
            self.data_norm, rows[usable], epsilon=float(self.epsilon), source=source, order=order
        )
        bounded = clip_rows(rows[usable], self.data_norm_, intercept=bool(self.fit_intercept), order=order)
        weights = recipe.run(bounded, class_indices[usable], source)
        self._set_weights(weights, order)
        self._joint = self._method().joint_classes  # remembered, since set_params may change the method
        return self

    def _set_weights(self, weights: Floats, order: float) -> None:
        """Convert weights of clipped rows, and of the intercept column, to the data's units."""
        # Clipped rows were divided by data_norm, and shortened by sqrt(1/2) for the intercept.
        shrink = np.sqrt(0.5) if self.fit_intercept and order == 2 else 1.0
        features = weights[:, :-1] if self.fit_intercept else weights
        self.coef_ = features * (shrink / self.data_norm_)
        self.intercept_ = weights[:, -1] * shrink if self.fit_intercept else np.zeros(len(weights))

    def decision_function(self, X: Any) -> Floats:
        """Return the margins: one column per class, or the margin of the second of two classes."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        margins: Floats = rows @ self.coef_.T + self.intercept_
        return margins[:, 0] if margins.shape[1] == 1 else margins

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely class of each row."""
        margins = self.decision_function(X)
        class_indices = (margins > 0).astype(np.int64) if margins.ndim == 1 else margins.argmax(axis=1)
        return np.asarray(self.classes_[class_indices])


class PrivateLogisticRegression(_LinearClassifier):
    """Logistic regression with differential privacy.

    Choose the method by your data: `ObjectivePerturbation` for two classes or delta = 0; `NoisyGradients` for more
    classes or many features, with delta > 0 (each is the default there); `FrankWolfe` for thousands of features of
    which few matter; `OutputPerturbation` or `BoltOnSGD` where training must stay as it is. Scale features to similar
    ranges first, by public bounds.

    Args:
        epsilon: Privacy budget of one fit.
        data_norm: Public clip norm: bound on the L2 norm of a row, or on its largest entry with `FrankWolfe`; or
            `LearnBounds`. Longer rows are scaled down.
        classes: All class labels, public. Rows of any other class are dropped.
        delta: Failure probability of the guarantee, in [0, 1).
        method: The mechanism. Default: `ObjectivePerturbation()`; with more than two classes and delta > 0,
            `NoisyGradients()`.
        regularization: Ridge: half of it times the squared norm of the weights (for rows in units of ``data_norm``) is
            added to the sum of losses. Default: chosen by the method, without looking at the data.
        fit_intercept: Whether to fit an intercept. It is clipped and regularised like any other weight.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        coef_: Weights, one row per class; with two classes a single row, for the second class.
        intercept_: Intercepts, one for each row of ``coef_``.
        classes_: The declared class labels, sorted.
        data_norm_: Clip norm of the rows: ``data_norm``, or the norm that was learned.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy of all fitted attributes when one row is added or removed, by the theorem
        of the method.

    Assumes:
        ``data_norm`` and ``classes`` are public (the caller's duty). They need not be right: rows are scaled down or
        dropped (checked here).

    References:
        Those of the method: `ObjectivePerturbation`, `OutputPerturbation`, `BoltOnSGD`, `NoisyGradients`, `FrankWolfe`.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from hush.randomness import TestSource
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = X[:, [0, 1]] / [30.0, 40.0]  # a public scale
    >>> model = PrivateLogisticRegression(epsilon=5.0, data_norm=1.5, classes=[0, 1], source=TestSource(1)).fit(X, y)
    >>> model.guarantee_.epsilon, model.guarantee_.method
    (5.0, 'PrivateLogisticRegression')
    >>> model.score(X, y) > 0.8
    True
    """

    def _loss(self) -> MarginLoss:
        return LogisticLoss()

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities: softmax if the classes were fitted jointly, otherwise one against the rest."""
        margins = self.decision_function(X)
        if margins.ndim == 1:
            second = expit(margins)
            return np.column_stack([1 - second, second])
        if self._joint:
            return np.asarray(softmax(margins, axis=1))
        # One against the rest: each class has a probability of its own, and together they need not add up to 1.
        scores = np.maximum(expit(margins), 1e-300)
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the log-probability of each class."""
        return np.log(np.maximum(self.predict_proba(X), 1e-300))


class PrivateLinearSVC(_LinearClassifier):
    """A linear support vector machine with differential privacy, with the Huber hinge loss.

    Choose it over `PrivateLogisticRegression` if you need no probabilities and the classes are well separated: rows
    with a margin beyond 1 do not influence the weights. The corner of the hinge is rounded, as objective perturbation
    requires.

    Args:
        epsilon: Privacy budget of one fit.
        data_norm: Public clip norm: bound on the L2 norm of a row, or on its largest entry with `FrankWolfe`; or
            `LearnBounds`. Longer rows are scaled down.
        classes: All class labels, public. Rows of any other class are dropped.
        delta: Failure probability of the guarantee, in [0, 1).
        method: The mechanism. Default: `ObjectivePerturbation()`; with more than two classes and delta > 0,
            `NoisyGradients()`.
        regularization: Ridge, as in `PrivateLogisticRegression`.
        fit_intercept: Whether to fit an intercept. It is clipped and regularised like any other weight.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        coef_: Weights, one row per class; with two classes a single row, for the second class.
        intercept_: Intercepts, one for each row of ``coef_``.
        classes_: The declared class labels, sorted.
        data_norm_: Clip norm of the rows: ``data_norm``, or the norm that was learned.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy of all fitted attributes when one row is added or removed, by the theorem
        of the method.

    Assumes:
        ``data_norm`` and ``classes`` are public (the caller's duty). They need not be right: rows are scaled down or
        dropped (checked here).

    References:
        Chaudhuri, Monteleoni & Sarwate 2011, Section 3.4.2 (Huber hinge); and those of the method.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> X = np.array([[-1.0], [1.0]] * 300)
    >>> model = PrivateLinearSVC(epsilon=2.0, data_norm=1.0, classes=["no", "yes"], source=TestSource(1))
    >>> model.fit(X, ["no", "yes"] * 300).predict([[-0.9], [0.9]]).tolist()
    ['no', 'yes']
    """

    def _loss(self) -> MarginLoss:
        return HuberHinge()
