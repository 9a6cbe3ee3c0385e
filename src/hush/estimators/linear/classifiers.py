"""Linear classifiers by empirical risk minimisation: logistic regression and support vector machines."""

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
from hush.estimators.base.bounds import LearnBounds, check_norm, fitted_norm, norm_costs, with_norm
from hush.estimators.base.estimator import Floats, PrivateClassifierMixin, PrivateEstimator, planned
from hush.estimators.linear.losses import HuberHinge, LogisticLoss, MarginLoss
from hush.estimators.linear.method import LinearMethod, LinearRecipe, Problem
from hush.estimators.linear.noisy_gradients import NoisyGradients
from hush.estimators.linear.objective import ObjectivePerturbation
from hush.estimators.linear.sums import MOST_ROWS, clipped
from hush.numerics import silent
from hush.randomness import RandomSource


class _LinearClassifier(PrivateClassifierMixin, ClassifierMixin, PrivateEstimator, ABC):  # type: ignore[misc]
    """Weights of one class against another, or of each class against the rest."""

    _most_rows = MOST_ROWS

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
            check_positive("regularization", self.regularization, "Without any, one record may move the weights far")
        if self.method is not None:
            check_instance("method", self.method, LinearMethod, "Such as ObjectivePerturbation()")
        self._recipe(1)  # what is wrong with epsilon and delta is said here

    def _recipe(self, num_features: int) -> LinearRecipe:
        """Return everything that is decided without looking at the data."""

        def make() -> LinearRecipe:
            recipe = self._method().prepare(self._problem(num_features))
            with_norm(self.data_norm, float(self.epsilon), recipe.event)  # events have limits, too
            return recipe

        return planned(self.epsilon, make)

    def _method(self) -> LinearMethod:
        if self.method is not None:
            return self.method
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
            epsilon=norm_costs(self.data_norm, float(self.epsilon))[1],
            delta=float(self.delta),
            regularization=None if self.regularization is None else float(self.regularization),
        )

    @silent
    def fit(self, X: Any, y: Any) -> Self:
        """Learn weights; rows that are longer than the norm are scaled down, and those left out that have no number.

        Args:
            X: Rows of numbers. Those with NaN or infinity in them are left out.
            y: Their classes. Rows of a class that is not declared are left out.
        """
        self._check()
        rows = self._rows(X)
        places = self._places(self._labels(rows, y, numeric=False))
        recipe = self._recipe(rows.shape[1])
        source = self._start(with_norm(self.data_norm, float(self.epsilon), recipe.event))
        kept = (places >= 0) & np.isfinite(rows).all(axis=1)
        order = np.inf if self._method().largest_entry else 2
        self.data_norm_ = fitted_norm(
            self.data_norm, rows[kept], epsilon=float(self.epsilon), source=source, order=order
        )
        bounded = clipped(rows[kept], self.data_norm_, intercept=bool(self.fit_intercept), order=order)
        weights = recipe.run(bounded, places[kept], source)
        self._set_weights(weights, order)
        self._joint = self._method().joint_classes  # as fitted, whatever set_params does afterwards
        return self

    def _set_weights(self, weights: Floats, order: float) -> None:
        """Put weights of rows in units of the norm, and of the intercept's column, into the data's own units."""
        shrink = np.sqrt(0.5) if self.fit_intercept and order == 2 else 1.0
        features = weights[:, :-1] if self.fit_intercept else weights
        self.coef_ = features * (shrink / self.data_norm_)
        self.intercept_ = weights[:, -1] * shrink if self.fit_intercept else np.zeros(len(weights))

    def decision_function(self, X: Any) -> Floats:
        """Return margins: one for each row and class, or that of the second of two."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        margins: Floats = rows @ self.coef_.T + self.intercept_
        return margins[:, 0] if margins.shape[1] == 1 else margins

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        margins = self.decision_function(X)
        places = (margins > 0).astype(np.int64) if margins.ndim == 1 else margins.argmax(axis=1)
        return np.asarray(self.classes_[places])


class PrivateLogisticRegression(_LinearClassifier):
    """Logistic regression with differential privacy.

    Choose `ObjectivePerturbation` for two classes, or without delta; `NoisyGradients` for more classes or many
    features, with delta > 0 (each is the default there); `FrankWolfe` for thousands of features of which few matter;
    and `OutputPerturbation` or `BoltOnSGD` where training must stay as it is. Scale features to similar ranges first,
    by public bounds.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from hush.randomness import TestSource
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = X[:, [0, 1]] / [30.0, 40.0]  # a public scale
    >>> model = PrivateLogisticRegression(epsilon=5.0, data_norm=1.5, classes=[0, 1], source=TestSource(1)).fit(X, y)
    >>> print(model.guarantee_)
    epsilon <= 5, delta = 0 per example (add-or-remove), by PrivateLogisticRegression
    >>> model.score(X, y) > 0.8
    True

    Guarantee:
        (epsilon, delta)-differential privacy of all attributes after fit, add or remove, by the method's theorem.

    Assumes:
        ``data_norm`` and ``classes`` are public (the caller's duty); that they hold is not assumed: rows are scaled
        down, or left out (checked here).

    References:
        As in the method: `ObjectivePerturbation`, `OutputPerturbation`, `BoltOnSGD`, `NoisyGradients`, `FrankWolfe`.

    Args:
        epsilon: Of the guarantee.
        data_norm: A public bound on the L2 norm of rows; with `FrankWolfe`, on their largest entry. Or `LearnBounds`.
        classes: All labels, public.
        delta: Of the guarantee.
        method: How; unless given, `ObjectivePerturbation()`, or, for more than two classes and with delta > 0,
            `NoisyGradients()`.
        regularization: Half of it times the squared norm of the weights (of rows in units of ``data_norm``) is added to
            the sum of losses; chosen without looking at the data, unless given.
        fit_intercept: Whether there is one. It is bounded and regularised like a weight.
        budget: What fits are charged to.
        source: Of noise, for tests.

    Attributes:
        coef_: Weights, a row for each class; for two classes one row, of the second against the first.
        intercept_: Constant terms, as many as rows of weights.
        classes_: The labels, sorted.
        data_norm_: What rows were scaled down to: ``data_norm``, or what was learned.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What fit gave away.
        event_: The same for accountants.
    """

    def _loss(self) -> MarginLoss:
        return LogisticLoss()

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class: by softmax where weights were learned so, else one against the rest."""
        margins = self.decision_function(X)
        if margins.ndim == 1:
            second = expit(margins)
            return np.column_stack([1 - second, second])
        if self._joint:
            return np.asarray(softmax(margins, axis=1))
        each = np.maximum(expit(margins), 1e-300)
        return np.asarray(each / each.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithms of the probabilities."""
        return np.log(np.maximum(self.predict_proba(X), 1e-300))


class PrivateLinearSVC(_LinearClassifier):
    """A linear support vector machine with differential privacy, by the Huber hinge.

    Choose it over `PrivateLogisticRegression` if no probabilities are needed and classes are well apart: margins beyond
    1 do not pull at the weights. The hinge's corner is rounded, which objective perturbation needs.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> X = np.array([[-1.0], [1.0]] * 300)
    >>> model = PrivateLinearSVC(epsilon=2.0, data_norm=1.0, classes=["no", "yes"], source=TestSource(1))
    >>> model.fit(X, ["no", "yes"] * 300).predict([[-0.9], [0.9]]).tolist()
    ['no', 'yes']

    Guarantee:
        (epsilon, delta)-differential privacy of all attributes after fit, add or remove, by the method's theorem.

    Assumes:
        ``data_norm`` and ``classes`` are public (the caller's duty); rows are scaled down, or left out (checked here).

    References:
        Chaudhuri, Monteleoni & Sarwate 2011, Section 3.4.2 (Huber hinge); the rest as in the method.

    Args:
        epsilon: Of the guarantee.
        data_norm: A public bound on the L2 norm of rows; with `FrankWolfe`, on their largest entry. Or `LearnBounds`.
        classes: All labels, public.
        delta: Of the guarantee.
        method: How; unless given, `ObjectivePerturbation()`, or, for more than two classes and with delta > 0,
            `NoisyGradients()`.
        regularization: As in `PrivateLogisticRegression`.
        fit_intercept: Whether there is one. It is bounded and regularised like a weight.
        budget: What fits are charged to.
        source: Of noise, for tests.

    Attributes:
        coef_: Weights, a row for each class; for two classes one row, of the second against the first.
        intercept_: Constant terms, as many as rows of weights.
        classes_: The labels, sorted.
        data_norm_: What rows were scaled down to: ``data_norm``, or what was learned.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What fit gave away.
        event_: The same for accountants.
    """

    def _loss(self) -> MarginLoss:
        return HuberHinge()
