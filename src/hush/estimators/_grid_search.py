"""Private model selection: fits on one part of the data, compared on another, with the cost of every fit."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, check_X_y

from hush.accounting import Composed, Event, PldAccountant, RdpAccountant, events
from hush.accounting.budget import Budget, Charge
from hush.accounting.events import ParallelByIndex, plain_event
from hush.errors import InvalidArgument, check_delta, check_instance, check_positive
from hush.estimators._erm_sums import truncated
from hush.guarantee import Guarantee, Relation, Unit
from hush.mechanisms import ExponentialMechanism, Laplace
from hush.mechanisms._mechanism import silent
from hush.randomness import Source, assumptions_of, bernoulli, source_or_default, uniform_below

_RELATION, _UNIT = Relation.ADD_OR_REMOVE, Unit.example()


def _has(name: str) -> Any:
    return available_if(lambda search: hasattr(search.estimator, name))


class PrivateGridSearch(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a private estimator with several settings, and keep the best on rows that were held out.

    Every row is held out or trained on, by a coin of its own; so it pays for the fits or for the comparison, never for
    both. Without ``repetitions`` each of the settings is fitted once, the costs of all fits add up, and the exponential
    mechanism chooses. With them (such as ``hush.training.LogarithmicRepetitions(10)``) settings are drawn a
    secret number of times, only the best leaves, and that costs less for many settings; it needs delta > 0 and fits
    that have a Renyi divergence. The epsilon of each fit is that of ``estimator``: ``guarantee_`` is what all cost.

    Guarantee:
        (``guarantee_.epsilon``, delta)-differential privacy of the best estimator and its settings, add or remove.

    Assumes:
        The grid is public (the caller's duty). Fits cost what their ``event_`` says, whatever the data are, and nobody
        sees how long a search with ``repetitions`` took (the caller's duty).

    References:
        McSherry & Talwar 2007 (the choice among all); Papernot & Steinke 2022, Theorems 2 and 6 (``repetitions``).

    Args:
        estimator: A private estimator; its own budget is not charged here.
        param_grid: As in scikit-learn's GridSearchCV; public.
        score_epsilon: What the comparison costs those who are held out.
        delta: Of the guarantee. That of fits adds up within it.
        loss_bound: For regressors: the absolute error that counts as entirely wrong; public.
        repetitions: The law of the number of fits; None: all settings once.
        held_out: The share of rows for the comparison.
        budget: What searches are charged to.
        source: Of coins and noise, for tests.
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
        held_out: float = 0.2,
        budget: Budget | None = None,
        source: Source | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.score_epsilon = score_epsilon
        self.delta = delta
        self.loss_bound = loss_bound
        self.repetitions = repetitions
        self.held_out = held_out
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        check_positive("score_epsilon", self.score_epsilon)
        check_delta("delta", self.delta)
        if not check_positive("held_out", self.held_out) < 1:
            raise InvalidArgument("held_out", self.held_out, "a number in (0, 1)")
        if self.loss_bound is not None:
            check_positive("loss_bound", self.loss_bound)
        elif not is_classifier(self.estimator):
            raise InvalidArgument("loss_bound", None, "a number > 0", "How far off is entirely wrong?")
        if self.repetitions is not None and not (self.delta > 0 and hasattr(self.repetitions, "draw")):
            raise InvalidArgument("repetitions", self.repetitions, "a law of their number, with delta > 0")
        if not len(ParameterGrid(self.param_grid)) >= 1:
            raise InvalidArgument("param_grid", self.param_grid, "at least one setting")

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy that charges the same budget."""
        given = self.get_params(deep=False)
        kept = ("budget", "source")
        return type(self)(**{k: v if k in kept else clone(v, safe=False) for k, v in given.items()})

    @silent
    def fit(self, X: Any, y: Any) -> Self:
        """Search, charge what it costs, and keep the best."""
        self._check()
        numeric = not is_classifier(self.estimator)
        rows, labels = check_X_y(X, y, ensure_all_finite=False, dtype=np.float64, y_numeric=numeric)
        source = source_or_default(self.source)
        coins = bernoulli(source, float(self.held_out), len(rows)).astype(bool)
        # Rows with NaN cannot be predicted: each by itself is no part of the comparison.
        tested = coins & np.isfinite(rows).all(axis=1)
        parts = (rows[~coins], labels[~coins], rows[tested], labels[tested])
        if not (~coins).any():  # nobody is left to train on: a row that is nobody's
            parts = (np.zeros((1, rows.shape[1])), np.zeros(1, dtype=labels.dtype), rows[tested], labels[tested])
        settings = list(ParameterGrid(self.param_grid))
        run = self._every if self.repetitions is None else self._some
        best, event, epsilon = run(settings, parts, source)
        if not epsilon < math.inf:
            raise InvalidArgument("delta", self.delta, "at least what the deltas of all fits add up to")
        self._charge(event, epsilon, source)
        self.best_params_, self.best_estimator_ = settings[best[0]], best[1]
        self.n_features_in_ = rows.shape[1]
        return self

    def _every(self, settings: Any, parts: Any, source: Source) -> tuple[tuple[int, Any], Event, float]:
        fitted = [self._fitted(setting, parts[0], parts[1]) for setting in settings]
        scores = [self._score(model, parts[2], parts[3]) for model in fitted]
        choice = ExponentialMechanism(epsilon=float(self.score_epsilon), monotone=True)
        chosen = choice.release(scores, source).value
        fits = Composed(tuple(self._plain(model) for model in fitted))
        event = ParallelByIndex((fits, events.ExponentialMechanism(float(self.score_epsilon))))
        return (chosen, fitted[chosen]), event, PldAccountant().compose(event).epsilon(float(self.delta))

    def _some(self, settings: Any, parts: Any, source: Source) -> tuple[tuple[int, Any], Event, float]:
        # Which settings are drawn is secret: their costs are those of fits to invented rows.
        invented = (np.zeros_like(parts[0]), np.zeros_like(parts[1]))
        costs = {self._plain(self._fitted(setting, *invented)) for setting in settings}
        comparison = Laplace(epsilon=float(self.score_epsilon), sensitivity=1.0)
        event = self.repetitions.event(ParallelByIndex((*sorted(costs, key=repr), comparison._event)))
        epsilon = RdpAccountant().compose(event).epsilon(float(self.delta))
        best: tuple[tuple[float, int], int, Any] | None = None
        for _ in range(self.repetitions.draw(source)):
            place = int(uniform_below(source, len(settings), 1)[0])
            model = self._fitted(settings[place], parts[0], parts[1])
            key = (comparison.release(self._score(model, parts[2], parts[3]), source).value, source.word())
            if best is None or key > best[0]:
                best = (key, place, model)
        if best is None:  # a number of fits may be 0: then nothing of the data leaves
            return (0, self._fitted(settings[0], *invented)), event, epsilon
        return (best[1], best[2]), event, epsilon

    def _fitted(self, setting: Any, rows: Any, labels: Any) -> Any:
        model = clone(self.estimator).set_params(**setting)
        if "budget" in model.get_params(deep=False):
            model.set_params(budget=None)  # the search is charged as a whole
        return model.fit(rows, labels)

    def _plain(self, model: Any) -> Event:
        check_instance("estimator.event_", getattr(model, "event_", None), Event, "It must be a private estimator")
        return plain_event(model.event_, _RELATION, _UNIT)[0]

    def _score(self, model: Any, rows: Any, labels: Any) -> float:
        """Return how many rows are right; each adds a number from 0 to 1, a multiple of 2^-18: the sum is exact."""
        if len(rows) == 0:
            return 0.0
        found = model.predict(rows)
        if is_classifier(self.estimator):
            return float(np.count_nonzero(found == labels))
        wrong = np.minimum(np.abs(found - labels) / self.loss_bound, 1.0)
        return float(truncated(np.nan_to_num(1.0 - wrong, nan=0.0)).sum())

    def _charge(self, event: Event, epsilon: float, source: Source) -> None:
        stated = ("fits cost what they state, whatever the data are", *assumptions_of(source))
        if self.repetitions is not None:
            stated += ("the number of fits, and how long they took, are kept secret",)
        qualified = events.Qualified(event, _RELATION.value, str(_UNIT), stated)
        if self.budget is not None:
            charge = Charge(event=qualified, purpose="PrivateGridSearch", delta=float(self.delta) or None)
            self.budget.reserve(charge).commit()
        self.event_ = qualified
        self.guarantee_ = Guarantee(
            epsilon=epsilon, delta=float(self.delta), method="private model selection", assumptions=stated
        )

    @_has("predict")  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict by the best estimator."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict(X))

    @property
    def classes_(self) -> NDArray[Any]:
        """The best estimator's classes."""
        return np.asarray(self.best_estimator_.classes_)

    def score(self, X: Any, y: Any) -> float:
        """Return the best estimator's score on rows that are given, which must be public, or charged for."""
        check_is_fitted(self)
        return float(self.best_estimator_.score(X, y))
