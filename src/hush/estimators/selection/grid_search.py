"""Private model selection: fits on one part of the data, compared on another, with the cost of every fit."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from hush.accounting import ComposedEvent, Event, PldAccountant, RdpAccountant, events
from hush.accounting.budget import Budget, Charge
from hush.accounting.events import ParallelByIndexEvent, plain_event
from hush.errors import InvalidArgument, check_delta, check_instance, check_positive
from hush.estimators.base.estimator import KeepsBudget, PrivateEstimator, check_budget_and_source
from hush.estimators.linear.sums import truncated
from hush.estimators.selection.grid_table import SearchTable, made_table, same
from hush.estimators.selection.splits import RELATION, UNIT, HeldOut, Masks, RowSplit, check_paid, fit_event
from hush.guarantee import Guarantee
from hush.mechanisms import ExponentialMechanism, Laplace
from hush.numerics import silent
from hush.randomness import RandomSource, assumptions_of, source_or_default, uniform_below


def _has(name: str) -> Any:
    return available_if(lambda search: hasattr(getattr(search, "best_estimator_", search.estimator), name))


class PrivateGridSearch(KeepsBudget, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a private estimator with several settings, and keep the best on rows that it was not trained on.

    With `HeldOut` rows, every row is held out or trained on, by a coin of its own; so it pays for the fits or for the
    comparison, never for both. With `Folds` every row is in both, and the best setting is fitted once more, to all
    rows: better comparisons of few rows, which cost more. Without ``repetitions`` each of the settings is tried once,
    the costs of all fits add up, and the exponential mechanism chooses. With them (such as
    ``hush.training.LogarithmicRepetitions(10)``) settings are drawn a secret number of times, only the best leaves, and
    that costs less for many settings; it needs delta > 0 and fits that have a Renyi divergence. The epsilon of each fit
    is that of ``estimator``: ``guarantee_`` is what all cost.

    >>> import numpy as np
    >>> from hush.estimators import Folds, PrivateLogisticRegression
    >>> from hush.randomness import TestSource
    >>> X, y = np.array([[1.0], [-1.0]] * 300), np.array([1, 0] * 300)
    >>> inner = PrivateLogisticRegression(epsilon=0.5, data_norm=1.0, classes=[0, 1], source=TestSource(1))
    >>> grid = {"regularization": [1.0, 10.0]}
    >>> search = PrivateGridSearch(inner, grid, score_epsilon=0.5, cv=Folds(3), source=TestSource(1)).fit(X, y)
    >>> search.score(X, y) > 0.9, round(search.guarantee_.epsilon, 3)  # two settings, two of three fits; 0.5; the last
    (True, 3.0)

    Guarantee:
        (``guarantee_.epsilon``, delta)-differential privacy of the best estimator and its settings, add or remove. All
        rows but those with NaN or more than 1e30 among their numbers, which are left out one by one, are in it. To
        every training set one row is added that is nobody's, with nothing but missing values: so none is empty, and
        neighbours stay neighbours. A row that the best estimator refuses to predict counts as wrong. Where settings
        differ in what a fit costs, the last fit after `Folds` is paid for as if all of them had been fitted: which one
        is best depends on the data.

    Assumes:
        The grid is public, steps that learn nothing treat rows one by one, and so do predictions, but for what matrix
        products round (the caller's duty). Steps of pipelines,
        column transformers and unions that learn something are private ones (checked here). Fits cost what their
        ``event_`` says, whatever the data are, and nobody sees how long a search with ``repetitions`` took (the
        caller's duty).

    References:
        McSherry & Talwar 2007 (the choice among all); Papernot & Steinke 2022, Theorems 2 and 6 (``repetitions``).

    Args:
        estimator: A private estimator; or a pipeline, column transformers in it or not, of private steps and of such as
            learn nothing. Missing values must not be errors for them. Their own budgets are not charged here.
        param_grid: As in scikit-learn's GridSearchCV; public.
        score_epsilon: What the comparison costs those who are held out.
        delta: Of the guarantee. That of fits adds up within it.
        loss_bound: For regressors: the absolute error that counts as entirely wrong; public.
        repetitions: The law of the number of fits; None: all settings once.
        cv: `HeldOut` or `Folds`; None: ``HeldOut(0.2)``.
        budget: What searches are charged to.
        source: Of coins and noise, for tests.

    Attributes:
        best_estimator_: The best, fitted; its guarantee is that of the whole search.
        best_params_: Its settings.
        classes_: Its classes, if it has any.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, if they have any.
        guarantee_: What the search gave away.
        event_: The same for accountants.
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        score_epsilon: float,
        delta: float = 0.0,
        loss_bound: float | None = None,
        repetitions: Any = None,
        cv: RowSplit | None = None,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.score_epsilon = score_epsilon
        self.delta = delta
        self.loss_bound = loss_bound
        self.repetitions = repetitions
        self.cv = cv
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        check_budget_and_source(self.budget, self.source)
        check_positive("score_epsilon", self.score_epsilon)
        check_delta("delta", self.delta)
        if self.cv is not None:
            check_instance("cv", self.cv, RowSplit, "Such as HeldOut(0.2) or Folds(5)")
        if self.loss_bound is not None:
            check_positive("loss_bound", self.loss_bound)
        elif not is_classifier(self.estimator):
            raise InvalidArgument("loss_bound", None, "a number > 0", "How far off is entirely wrong?")
        if self.repetitions is not None and not (self.delta > 0 and hasattr(self.repetitions, "draw")):
            raise InvalidArgument("repetitions", self.repetitions, "a law of their number, with delta > 0")
        if not len(ParameterGrid(self.param_grid)) >= 1:
            raise InvalidArgument("param_grid", self.param_grid, "at least one setting")

    def __sklearn_tags__(self) -> Any:
        """Say what the estimator says of itself, and that two fits differ."""
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "transformer_tags", "input_tags"):
            setattr(tags, name, getattr(inner, name))
        tags.target_tags, tags.non_deterministic = inner.target_tags, True
        return tags

    @silent
    def fit(self, X: Any, y: Any) -> Self:
        """Search, charge what it costs, and keep the best."""
        self._check()
        if y is None:
            raise ValueError("PrivateGridSearch requires y to be passed, but the target y is None.")
        table = made_table(X, y, classes=is_classifier(self.estimator), numeric=self._reads_numbers())
        source, split = source_or_default(self.source), self.cv or HeldOut()
        settings = list(ParameterGrid(self.param_grid))
        masks = split.masks(table.count, source)
        run = self._every if self.repetitions is None else self._some
        place, model, event = run(settings, table, masks, split, source)
        if split.refits:
            everyone = np.ones(table.count, dtype=bool)
            model = self._fitted(settings[place], table, everyone)
            event = ComposedEvent((event, *self._costs(settings, table, everyone)))
        self._charge(event, source)
        if hasattr(model, "guarantee_"):  # to see the best is to see what all fits led to
            model.guarantee_, model.event_ = self.guarantee_, self.event_
        validate_data(self, X, skip_check_array=True)  # names and number of features
        self.best_params_, self.best_estimator_ = settings[place], model
        return self

    def _reads_numbers(self) -> bool:
        """Return whether the estimator reads numbers only. A pipeline's tags do not tell: its first step decides."""
        return isinstance(self.estimator, PrivateEstimator) and not get_tags(self.estimator).input_tags.string

    def _every(
        self, settings: Any, table: SearchTable, masks: Masks, split: RowSplit, source: RandomSource
    ) -> tuple[Any, ...]:
        fitted = [[self._fitted(setting, table, train) for train, _ in masks] for setting in settings]
        scores = [self._total(models, table, masks) for models in fitted]
        choice = ExponentialMechanism(epsilon=float(self.score_epsilon), monotone=True)
        chosen = choice.release(scores, source).value
        costs = [[fit_event(model) for model in models] for models in fitted]
        return chosen, fitted[chosen][0], split.event(costs, choice._event)

    def _some(
        self, settings: Any, table: SearchTable, masks: Masks, split: RowSplit, source: RandomSource
    ) -> tuple[Any, ...]:
        comparison = Laplace(epsilon=float(self.score_epsilon), sensitivity=1.0)
        costs = [[fit_event(self._fitted(one, table.nobody(), train)) for train, _ in masks] for one in settings]
        tries = {split.event([each], comparison._event) for each in costs}
        event = self.repetitions.event(ParallelByIndexEvent(tuple(sorted(tries, key=repr))))
        best: tuple[tuple[float, int], int, Any] | None = None
        for _ in range(self.repetitions.draw(source)):
            place = int(uniform_below(source, len(settings), 1)[0])
            models = [self._fitted(settings[place], table, train) for train, _ in masks]
            key = (comparison.release(self._total(models, table, masks), source).value, source.word())
            if best is None or key > best[0]:
                best = (key, place, models[0])
        # A number of fits may be 0: then nothing of the data leaves.
        _, place, model = best or (None, 0, self._fitted(settings[0], table.nobody(), masks[0][0]))
        return place, model, event

    def _costs(self, settings: Any, table: SearchTable, train: NDArray[np.bool_]) -> list[Event]:
        """Return what fits of all settings cost: which is best is no matter of costs, so nobody's rows are fitted."""
        found = {fit_event(self._fitted(setting, table.nobody(), train)) for setting in settings}
        return sorted(found, key=repr)

    def _fitted(self, setting: Any, table: SearchTable, train: NDArray[np.bool_]) -> Any:
        model = clone(self.estimator).set_params(**setting)
        budgets = [name for name in model.get_params(deep=True) if name.split("__")[-1] == "budget"]
        model.set_params(**dict.fromkeys(budgets))  # the search is charged as a whole
        check_paid(model)
        return model.fit(*table.training(train))

    def _total(self, models: Any, table: SearchTable, masks: Masks) -> float:
        return sum(self._score(model, table, test) for model, (_, test) in zip(models, masks, strict=True))

    def _score(self, model: Any, table: SearchTable, test: NDArray[np.bool_]) -> float:
        """Return how many rows are right; each adds a number from 0 to 1, a multiple of 2^-18: the sum is exact."""
        if is_classifier(self.estimator):
            return float(sum(np.count_nonzero(same(found, labels)) for found, labels in table.predicted(model, test)))
        total = 0.0
        for found, labels in table.predicted(model, test):
            with np.errstate(all="ignore"):
                wrong = np.minimum(np.abs(found - labels) / self.loss_bound, 1.0)
            total += float(truncated(np.nan_to_num(1.0 - wrong, nan=0.0)).sum())
        return total

    def _charge(self, event: Event, source: RandomSource) -> None:
        event, found = plain_event(event, RELATION, UNIT)
        own = ("fits cost what they state, whatever the data are", *assumptions_of(source))
        stated = tuple(dict.fromkeys((*own, *found)))
        accountant = PldAccountant() if self.repetitions is None else RdpAccountant()
        if self.repetitions is not None:
            stated += ("the number of fits, and how long they took, are kept secret",)
        epsilon = accountant.compose(event).epsilon(float(self.delta))
        if not epsilon < math.inf:
            raise InvalidArgument("delta", self.delta, "at least what the deltas of all fits add up to")
        qualified = events.QualifiedEvent(event, RELATION.value, str(UNIT), stated)
        if self.budget is not None:
            charge = Charge(event=qualified, purpose="PrivateGridSearch", delta=float(self.delta) or None)
            self.budget.reserve(charge).commit()
        self.event_ = qualified
        self.guarantee_ = Guarantee(
            epsilon=epsilon, delta=float(self.delta), method="private model selection", assumptions=stated
        )

    @_has("predict")  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """Predict by the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Predict probabilities by the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @_has("predict_log_proba")  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Predict logarithms of probabilities by the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict_log_proba(X)

    @_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return margins by the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    @_has("transform")  # type: ignore[untyped-decorator]
    def transform(self, X: Any) -> Any:
        """Transform by the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.transform(X)

    @_has("inverse_transform")  # type: ignore[untyped-decorator]
    def inverse_transform(self, X: Any) -> Any:
        """Undo a transformation by the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.inverse_transform(X)

    @property
    def classes_(self) -> NDArray[Any]:
        """The best estimator's classes."""
        return np.asarray(self.best_estimator_.classes_)

    def score(self, X: Any, y: Any) -> float:
        """Return the best estimator's score on rows that are given, which must be public, or charged for."""
        check_is_fitted(self)
        return float(self.best_estimator_.score(X, y))
