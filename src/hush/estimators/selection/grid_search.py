"""Private model selection: fit several settings, compare them on other rows, and account for every fit.

table     the usable rows, with one placeholder row that belongs to no unit (`grid_table`)
masks     rows to train on and rows to compare on, by independent coins (`splits`)
scores    correct predictions on the comparison rows
choice    the exponential mechanism over all settings, or the best of a secret number of random tries
charge    all fits and the comparison, as one event
"""

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

from hush.accounting import ComposedEvent, Event, PldAccountant, SelectionAccountant, events
from hush.accounting.budget import Budget, Charge
from hush.accounting.events import ParallelByIndexEvent, plain_event
from hush.accounting.receipts import receipt_of
from hush.errors import InvalidArgument, check_delta, check_instance, check_positive
from hush.estimators.base.estimator import PrivateEstimator, SharesBudget, check_budget_and_source
from hush.estimators.linear.sums import truncate
from hush.estimators.selection.grid_table import SearchTable, build_table, equal_labels
from hush.estimators.selection.splits import RELATION, UNIT, HeldOut, Masks, RowSplit, check_private_steps, fit_event
from hush.guarantee import Guarantee
from hush.mechanisms import ExponentialMechanism, Laplace, Monotone
from hush.numerics import quiet_numpy
from hush.randomness import RandomSource, assumptions_of, source_or_default, uniform_below


def _available(name: str) -> Any:
    """Expose a method only if the wrapped estimator has it."""
    return available_if(lambda search: hasattr(getattr(search, "best_estimator_", search.estimator), name))


class PrivateGridSearch(SharesBudget, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a private estimator with several settings, and choose the best on rows that it was not trained on.

    Choose `HeldOut` or `Folds` as ``cv``. With `HeldOut`, a coin decides for each row whether it is held out or trained
    on. It pays for the fits or for the comparison, never for both. With `Folds`, every row takes part in both, and the
    best setting is fitted once more to all rows: a better comparison of few rows, at a higher cost.

    Without ``repetitions`` each setting is tried once, the costs of all fits add up, and the exponential mechanism
    chooses. With ``repetitions``, such as ``hush.training.Repetitions.logarithmic(10)``, settings are drawn a secret
    number of times and only the best is returned. That costs less for many settings, but needs delta > 0 and fits with
    a Renyi divergence. The epsilon of each fit is that of ``estimator``; ``guarantee_`` covers the whole search.

    Args:
        estimator: A private estimator, or a pipeline (with or without column transformers) of private steps and steps
            that learn nothing. They must accept missing values. Their own budgets are not charged.
        param_grid: As in scikit-learn's GridSearchCV; public.
        score_epsilon: Privacy budget of the comparison.
        delta: Failure probability of the guarantee, in [0, 1). The deltas of all fits must fit into it.
        loss_bound: For regressors, the absolute error that counts as entirely wrong; public.
        repetitions: Distribution of the number of fits. Default: every setting once.
        cv: `HeldOut` or `Folds`. Default: ``HeldOut(0.2)``.
        budget: Every search is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source of coins and noise, for tests only. Default: cryptographic randomness.

    Attributes:
        best_estimator_: The best estimator, fitted. Its guarantee is that of the whole search.
        best_params_: Its settings.
        classes_: Its classes, if it has any.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of the search.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (``guarantee_.epsilon``, delta)-differential privacy of the best estimator and its settings when one row is
        added or removed. Rows with NaN or numbers above 1e30 are dropped one by one. One placeholder row with only
        missing values is added to every training set, so none is empty and neighbours stay neighbours. A row that the
        estimator refuses to predict counts as wrong. If settings differ in cost, the final fit after `Folds` is charged
        as if all settings had been fitted, since the best setting depends on the data.

    Assumes:
        The grid is public (the caller's duty). Steps that learn nothing treat rows one by one, and so do predictions,
        except for the rounding of matrix products (the caller's duty). Steps of pipelines, column transformers and
        unions that learn something are private (checked here). Fits cost what their ``event_`` says for any data, and
        no one observes how long a search with ``repetitions`` took (the caller's duty).

    References:
        McSherry & Talwar 2007 (choice among all settings); Papernot & Steinke 2022, Theorems 2 and 6 (``repetitions``).

    >>> import numpy as np
    >>> from hush.estimators import Folds, PrivateLogisticRegression
    >>> from hush.randomness import TestSource
    >>> X, y = np.array([[1.0], [-1.0]] * 300), np.array([1, 0] * 300)
    >>> inner = PrivateLogisticRegression(epsilon=0.5, data_norm=1.0, classes=[0, 1], source=TestSource(1))
    >>> grid = {"regularization": [1.0, 10.0]}
    >>> search = PrivateGridSearch(inner, grid, score_epsilon=0.5, cv=Folds(3), source=TestSource(1)).fit(X, y)
    >>> search.score(X, y) > 0.9, round(search.guarantee_.epsilon, 3)  # 2 settings * 2 of 3 fits * 0.5, + 0.5, + 0.5
    (True, 3.0)
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
            check_instance("cv", self.cv, RowSplit, "Pass HeldOut(0.2) or Folds(5), for example")
        if self.loss_bound is not None:
            check_positive("loss_bound", self.loss_bound)
        elif not is_classifier(self.estimator):
            raise InvalidArgument(
                "loss_bound", None, "a number > 0", "It is the absolute error that counts as entirely wrong"
            )
        if self.repetitions is not None and not (self.delta > 0 and hasattr(self.repetitions, "draw")):
            raise InvalidArgument("repetitions", self.repetitions, "a distribution of their number, with delta > 0")
        if not len(ParameterGrid(self.param_grid)) >= 1:
            raise InvalidArgument("param_grid", self.param_grid, "at least one setting")

    def __sklearn_tags__(self) -> Any:
        """Return the estimator's tags, and tell scikit-learn that two fits differ."""
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "transformer_tags", "input_tags"):
            setattr(tags, name, getattr(inner, name))
        tags.target_tags, tags.non_deterministic = inner.target_tags, True
        return tags

    @quiet_numpy
    def fit(self, X: Any, y: Any) -> Self:
        """Search, charge the cost, and keep the best estimator."""
        self._check()
        if y is None:
            raise ValueError("PrivateGridSearch requires y to be passed, but the target y is None.")
        table = build_table(X, y, classes=is_classifier(self.estimator), numeric=self._reads_numbers())
        source, split = source_or_default(self.source), self.cv or HeldOut()
        settings = list(ParameterGrid(self.param_grid))
        masks = split.masks(table.count, source)
        search = self._try_all if self.repetitions is None else self._try_random
        best, model, event = search(settings, table, masks, split, source)
        if split.refits:
            all_rows = np.ones(table.count, dtype=bool)
            model = self._fit_setting(settings[best], table, all_rows)
            event = ComposedEvent((event, *self._refit_costs(settings, table, all_rows)))
        self._charge(event, source)
        if hasattr(model, "guarantee_"):  # the best estimator is the outcome of the whole search
            model.guarantee_, model.event_ = self.guarantee_, self.event_
        validate_data(self, X, skip_check_array=True)  # records names and number of features
        self.best_params_, self.best_estimator_ = settings[best], model
        return self

    def _reads_numbers(self) -> bool:
        """Return whether the estimator reads numbers only. Tags of a pipeline do not say: its first step decides."""
        return isinstance(self.estimator, PrivateEstimator) and not get_tags(self.estimator).input_tags.string

    def _try_all(
        self, settings: Any, table: SearchTable, masks: Masks, split: RowSplit, source: RandomSource
    ) -> tuple[Any, ...]:
        """Fit every setting and choose by the exponential mechanism. Return its index, model and the cost."""
        fitted = [[self._fit_setting(setting, table, train) for train, _ in masks] for setting in settings]
        scores = [self._total_score(models, table, masks) for models in fitted]
        # Adding a row never lowers a score, so the selection is monotone: no factor of 2.
        selection = ExponentialMechanism(epsilon=float(self.score_epsilon), sensitivity=Monotone())
        chosen = selection.release(scores, source).value
        costs = [[fit_event(model) for model in models] for models in fitted]
        return chosen, fitted[chosen][0], split.event(costs, selection._event)

    def _try_random(
        self, settings: Any, table: SearchTable, masks: Masks, split: RowSplit, source: RandomSource
    ) -> tuple[Any, ...]:
        """Try random settings a secret number of times. Return the index and model of the best, and the cost."""
        comparison = Laplace(epsilon=float(self.score_epsilon), sensitivity=1.0)
        costs = [
            [fit_event(self._fit_setting(setting, table.placeholders(), train)) for train, _ in masks]
            for setting in settings
        ]
        try_events = {split.event([fits], comparison._event) for fits in costs}
        event = self.repetitions.event(ParallelByIndexEvent(tuple(sorted(try_events, key=repr))))
        best: tuple[tuple[float, int], int, Any] | None = None
        for _ in range(self.repetitions.draw(source)):
            index = int(uniform_below(source, len(settings), 1)[0])
            models = [self._fit_setting(settings[index], table, train) for train, _ in masks]
            key = (comparison.release(self._total_score(models, table, masks), source).value, source.word())
            if best is None or key > best[0]:
                best = (key, index, models[0])
        # The secret number may be 0. Then the model is fitted to placeholders, and nothing about the data is released.
        _, index, model = best or (None, 0, self._fit_setting(settings[0], table.placeholders(), masks[0][0]))
        return index, model, event

    def _refit_costs(self, settings: Any, table: SearchTable, train: NDArray[np.bool_]) -> list[Event]:
        """Return the cost of fitting each setting, found on placeholder rows: the cost must not depend on the data."""
        fit_events = {fit_event(self._fit_setting(setting, table.placeholders(), train)) for setting in settings}
        return sorted(fit_events, key=repr)

    def _fit_setting(self, setting: Any, table: SearchTable, train: NDArray[np.bool_]) -> Any:
        """Return a copy of the estimator with this setting, fitted to the training rows, without its own budget."""
        model = clone(self.estimator).set_params(**setting)
        budgets = [name for name in model.get_params(deep=True) if name.split("__")[-1] == "budget"]
        model.set_params(**dict.fromkeys(budgets))  # the search is charged as one
        check_private_steps(model)
        return model.fit(*table.training(train))

    def _total_score(self, models: Any, table: SearchTable, masks: Masks) -> float:
        return sum(self._score(model, table, test) for model, (_, test) in zip(models, masks, strict=True))

    def _score(self, model: Any, table: SearchTable, test: NDArray[np.bool_]) -> float:
        """Return the number of correct rows. Each adds a multiple of 2^-18 between 0 and 1, so the sum is exact."""
        if is_classifier(self.estimator):
            return float(
                sum(
                    np.count_nonzero(equal_labels(predicted, labels))
                    for predicted, labels in table.predictions(model, test)
                )
            )
        total = 0.0
        for predicted, labels in table.predictions(model, test):
            with np.errstate(all="ignore"):
                errors = np.minimum(np.abs(predicted - labels) / self.loss_bound, 1.0)
            total += float(truncate(np.nan_to_num(1.0 - errors, nan=0.0)).sum())
        return total

    def _charge(self, event: Event, source: RandomSource) -> None:
        """State the guarantee of the search and charge it to the budget."""
        event, inherited = plain_event(event, RELATION, UNIT)
        base_assumptions = ("every fit costs what its event states, for any data", *assumptions_of(source))
        stated = tuple(dict.fromkeys((*base_assumptions, *inherited)))
        accountant = PldAccountant() if self.repetitions is None else SelectionAccountant()
        if self.repetitions is not None:
            stated += ("the number of fits and their running time are kept secret",)
        epsilon = accountant.compose(event).epsilon(float(self.delta))
        if not epsilon < math.inf:
            raise InvalidArgument("delta", self.delta, "at least the sum of the deltas of all fits")
        qualified = events.QualifiedEvent(event, RELATION, UNIT, stated)
        guarantee = Guarantee(
            epsilon=epsilon, delta=float(self.delta), method="private model selection", assumptions=stated
        )
        if self.budget is not None:
            charge = Charge(event=qualified, purpose="PrivateGridSearch", delta=float(self.delta) or None)
            reservation = self.budget.reserve(charge)
            reservation.commit()
            self.receipt_ = receipt_of(reservation, guarantee)
        self.event_, self.guarantee_ = qualified, guarantee

    @_available("predict")  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """Predict with the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @_available("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return class probabilities of the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @_available("predict_log_proba")  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Return class log-probabilities of the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict_log_proba(X)

    @_available("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return the margins of the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    @_available("transform")  # type: ignore[untyped-decorator]
    def transform(self, X: Any) -> Any:
        """Transform rows with the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.transform(X)

    @_available("inverse_transform")  # type: ignore[untyped-decorator]
    def inverse_transform(self, X: Any) -> Any:
        """Invert a transformation with the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.inverse_transform(X)

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes of the best estimator."""
        return np.asarray(self.best_estimator_.classes_)

    def score(self, X: Any, y: Any) -> float:
        """Return the score of the best estimator. It is not private: pass public rows, or account for the release."""
        check_is_fitted(self)
        return float(self.best_estimator_.score(X, y))
