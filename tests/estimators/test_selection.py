"""Private selection of features and settings: reach of scores, costs of all fits, one charge, secrets kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from black_box.certainty import audit
from estimators.checks import unexpected_failures
from estimators.purse import Purse
from hush.accounting import ApproximateDPEvent, ComposedEvent, PldAccountant
from hush.errors import BudgetExceeded, InvalidArgument
from hush.estimators import (
    Folds,
    HeldOut,
    PrivateGridSearch,
    PrivateLogisticRegression,
    PrivateSelectBest,
    PrivateStandardScaler,
)
from hush.estimators.selection.select_best import class_contrasts
from hush.randomness import TestSource


def test_scikit_learn() -> None:
    assert unexpected_failures(PrivateSelectBest(k=1, epsilon=900.0, data_bound=10.0, classes=[0, 1, 2])) == []


@pytest.mark.parametrize("num_classes", [2, 3, 7])
def test_one_record_moves_every_score_by_one_at_most(num_classes: int) -> None:
    chance = np.random.default_rng(num_classes)
    worst = 0.0
    for _ in range(50):
        values, places = chance.choice([-1.0, 1.0, 0.5], (6, 4)), chance.integers(0, num_classes, 6)
        moved = class_contrasts(values, places, num_classes) - class_contrasts(values[1:], places[1:], num_classes)
        worst = max(worst, float(np.abs(moved).max()))
    assert 0.9 < worst <= 1


class BoundFromData(PrivateSelectBest):
    """A broken twin: the largest value is the bound."""

    def fit(self, X: Any, y: Any) -> Any:
        self.data_bound = np.abs(X).max()
        return super().fit(X, y)


@pytest.mark.parametrize("kind", [PrivateSelectBest, BoundFromData])
def test_features_as_a_black_box(kind: Any) -> None:
    def choose(data: Any, source: Any) -> int:
        selector = kind(k=1, epsilon=1.0, data_bound=1.0, classes=[0, 1], source=source).fit(*data)
        return int(selector.get_support(indices=True)[0])

    X, y = np.zeros((30, 200)), np.ones(30)
    X[:, 0], new = 1.0, np.zeros(200)
    new[1] = 1e6
    first, second = (X, y), (np.vstack([X, new]), np.append(y, 1))
    found = audit(choose, first, second, samples=150, search_samples=75, source=TestSource("features"))
    assert found.compare(1.0).violated is (kind is BoundFromData)


def test_the_selector_spends_its_epsilon_and_finds_features() -> None:
    X = np.zeros((400, 6))
    y = np.arange(400) % 2
    X[:, 2], X[:, 5] = 2 * y - 1, 0.8 * (1 - 2 * y)
    selector = PrivateSelectBest(k=2, epsilon=1.0, data_bound=1.0, classes=[0, 1], source=TestSource(1)).fit(X, y)
    assert selector.get_support(indices=True).tolist() == [2, 5]
    assert selector.transform(X).shape == (400, 2)
    assert 0.99 < PldAccountant().compose(selector.event_).epsilon(0.0) <= 1 + 1e-9
    with pytest.raises(InvalidArgument, match="k=9"):
        PrivateSelectBest(k=9, epsilon=1.0, data_bound=1.0, classes=[0, 1]).fit(X, y)


class Coin:
    """A law of the number of fits, as those of hush.training: geometric."""

    mean = 3.0

    def event(self, run: Any) -> Any:
        from hush.accounting import RepeatNegativeBinomialEvent

        return RepeatNegativeBinomialEvent(run, 1 / 3, 1.0)

    def draw(self, source: Any) -> int:
        return 3


X, Y = np.array([[1.0, 0.0], [-1.0, 0.0]] * 300), np.array([1, 0] * 300)
GRID = {"regularization": [1.0, 1e6], "fit_intercept": [True, False]}


def search(**settings: Any) -> PrivateGridSearch:
    inner = PrivateLogisticRegression(epsilon=0.5, data_norm=1.0, classes=[0, 1], budget=Purse(0), source=TestSource(2))
    return PrivateGridSearch(inner, GRID, **({"score_epsilon": 1.0, "source": TestSource(3)} | settings))


def test_all_fits_are_paid_for_once_and_together() -> None:
    purse = Purse(99)
    found = search(budget=purse).fit(X, Y)
    # With a ridge of 1e6 noise decides, and half of the time rightly. What is chosen has all of X right: to choose what
    # has half of it wrong has a probability of exp(-score_epsilon / 2 * 90 rows that are held out), below 1e-19.
    assert found.best_params_ in list(ParameterGrid(GRID))
    assert found.score(X, Y) > 0.95
    assert len(purse.charged) == 1, "fits are charged with the search, not each to its own budget"
    assert found.guarantee_.epsilon == pytest.approx(4 * 0.5), "four fits; those held out pay less, and only that"
    assert purse.charged[0].event == found.event_
    naive = PldAccountant().compose(ComposedEvent((ApproximateDPEvent(0.5),))).epsilon(0.0)
    assert found.guarantee_.epsilon > naive, "a twin that charges the best fit only"
    assert search(score_epsilon=9.0).fit(X, Y).guarantee_.epsilon == pytest.approx(9.0)


def test_a_refused_search_leaves_nothing() -> None:
    refused = search(budget=Purse(0))
    with pytest.raises(BudgetExceeded):
        refused.fit(X, Y)
    assert not hasattr(refused, "best_estimator_")


def test_a_secret_number_of_fits_costs_the_same_whatever_was_drawn() -> None:
    found = search(repetitions=Coin(), delta=1e-6).fit(X, Y)
    again = search(repetitions=Coin(), delta=1e-6, source=TestSource(9)).fit(X, Y)
    assert found.event_ == again.event_
    assert 0.5 < found.guarantee_.epsilon < 3.1, "Liu & Talwar 2019: three times the epsilon of one, which is 1 here"
    assert found.score(X, Y) > 0.9


@pytest.mark.parametrize(
    "wrong",
    [
        {"score_epsilon": 0},
        {"delta": float("nan")},
        {"cv": 5},
        {"repetitions": Coin()},
        {"loss_bound": -1},
    ],
)
def test_wrong_parameters_are_refused_at_construction(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        search(**wrong)


def test_deltas_of_fits_must_fit_into_that_of_the_search() -> None:
    inner = PrivateLogisticRegression(epsilon=0.5, delta=1e-5, data_norm=1.0, classes=[0, 1], source=TestSource(2))
    settings: dict[str, Any] = {"score_epsilon": 1.0, "source": TestSource(3)}
    with pytest.raises(InvalidArgument, match="delta"):
        PrivateGridSearch(inner, GRID, delta=1e-6, **settings).fit(X, Y)
    assert PrivateGridSearch(inner, GRID, delta=1e-4, **settings).fit(X, Y).guarantee_.epsilon <= 2.0


def test_folds_pay_for_all_fits_but_one_the_comparison_and_the_last_fit() -> None:
    found = search(cv=Folds(3), score_epsilon=0.25).fit(X, Y)
    assert found.guarantee_.epsilon == pytest.approx(4 * 2 * 0.5 + 0.25 + 0.5)
    assert found.score(X, Y) > 0.95
    assert found.guarantee_.epsilon > 4 * 0.5 + 0.25, "a twin that counts a setting once"
    claims = ComposedEvent((ApproximateDPEvent(1.0), ApproximateDPEvent(2.0)))
    dear = Folds(2).event([[ApproximateDPEvent(1.0), ApproximateDPEvent(2.0)]], claims)
    assert PldAccountant().compose(dear).epsilon(0.0) == pytest.approx(2.0 + 3.0), "the dearer of two folds"


def test_every_row_is_trained_on_or_compared_on_by_coins_of_its_own() -> None:
    for split in (HeldOut(0.3), Folds(4)):
        masks = split.masks(4000, TestSource("coins"))
        assert all((train ^ test).all() for train, test in masks)
        tested = sum(test.astype(int) for _, test in masks)
        if isinstance(split, Folds):
            assert (tested == 1).all()
        assert all(abs(test.mean() - (0.25 if isinstance(split, Folds) else 0.3)) < 0.05 for _, test in masks)
        assert split.masks(0, TestSource(1))[0][0].shape == (0,)


def test_settings_of_different_cost_are_all_paid_for_in_the_last_fit() -> None:
    found = search(cv=Folds(2), score_epsilon=0.1)
    found.set_params(param_grid={"epsilon": [0.5, 1.0]}).fit(X, Y)
    assert found.guarantee_.epsilon == pytest.approx(1.5 + 0.1 + 1.5)


def test_repetitions_with_folds() -> None:
    found = search(cv=Folds(2), repetitions=Coin(), delta=1e-6).fit(X, Y)
    held = search(repetitions=Coin(), delta=1e-6).fit(X, Y)
    assert found.guarantee_.epsilon > held.guarantee_.epsilon + 0.1, "fit and comparison, and the last fit"
    assert found.score(X, Y) > 0.9


def pipeline(purse: Any = None) -> Any:
    scaler = PrivateStandardScaler(epsilon=0.25, bounds=(-1, 1), budget=purse, source=TestSource(4))
    inner = PrivateLogisticRegression(epsilon=0.5, data_norm=1.0, classes=[0, 1], budget=purse, source=TestSource(5))
    return make_pipeline(FunctionTransformer(), scaler, inner)


def test_all_steps_of_a_pipeline_are_paid_for_once() -> None:
    purse, own = Purse(99), Purse(99)
    grid = {"privatelogisticregression__regularization": [1.0, 10.0]}
    settings: dict[str, Any] = {"score_epsilon": 0.5, "budget": purse, "source": TestSource(3)}
    found = PrivateGridSearch(pipeline(own), grid, **settings).fit(X, Y)
    assert found.guarantee_.epsilon == pytest.approx(2 * 0.75)
    assert len(purse.charged) == 1
    assert own.charged == [], "steps are charged with the search"
    assert found.score(X, Y) > 0.9
    assert found.predict_proba(X).shape == (600, 2)
    assert any("test" in sentence.lower() for sentence in found.guarantee_.assumptions)


def test_a_step_that_learns_without_paying_is_refused() -> None:
    leaking = make_pipeline(StandardScaler(), pipeline()[-1])
    with pytest.raises(InvalidArgument, match="StandardScaler"):
        PrivateGridSearch(leaking, {}, score_epsilon=0.5, source=TestSource(3)).fit(X, Y)
    with pytest.raises(InvalidArgument, match="LogisticRegression"):
        PrivateGridSearch(LogisticRegression(), {}, score_epsilon=0.5, source=TestSource(3)).fit(X, Y)


def test_every_fit_of_a_pipeline_in_a_cross_validation_is_charged() -> None:
    purse = Purse(99)
    assert len(cross_val_score(pipeline(purse), X, Y, cv=3)) == 3
    assert [charge.purpose for charge in purse.charged] == [
        "fit PrivateStandardScaler",
        "fit PrivateLogisticRegression",
    ] * 3


def test_rows_that_are_no_numbers_are_left_out() -> None:
    odd = X.copy()
    odd[3], odd[5] = np.nan, np.inf
    assert PrivateGridSearch(pipeline(), {}, score_epsilon=0.5, source=TestSource(3)).fit(odd, Y).score(X, Y) > 0.9
    with pytest.raises(ValueError):
        search().fit(X, Y[:-1])


class Constant(ClassifierMixin, BaseEstimator):
    """An estimator that learns nothing and costs nothing."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def fit(self, rows: Any, labels: Any) -> Constant:
        self.event_, self.classes_ = ComposedEvent(()), np.arange(2)
        return self

    def predict(self, rows: Any) -> Any:
        return np.full(len(rows), self.value)


class Weighty(PrivateGridSearch):
    """A broken twin: a row counts more in the comparison than the comparison's noise is for."""

    def _score(self, *arguments: Any) -> float:
        return 30 * super()._score(*arguments)


@pytest.mark.parametrize("kind", [PrivateGridSearch, Weighty])
@pytest.mark.parametrize("cv", [HeldOut(0.99), Folds(2)])
def test_a_search_as_a_black_box(kind: Any, cv: Any) -> None:
    def run(data: Any, source: Any) -> int:
        found = kind(Constant(), {"value": range(4)}, score_epsilon=1.0, cv=cv, source=source).fit(*data)
        return int(found.best_params_["value"])

    first, second = (np.zeros((1, 1)), np.array([-1])), (np.zeros((2, 1)), np.array([-1, 1]))
    found = audit(run, first, second, samples=250, search_samples=50, source=TestSource("search"))
    assert found.compare(1.0).violated is (kind is Weighty)
