"""Private model selection: the cost of all fits, frames and pipelines, black boxes and twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier, is_regressor
from sklearn.model_selection import ParameterGrid, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import hush.estimators as he
from black_box.certainty import audit
from estimators.checks import unexpected_failures
from estimators.neighbours import check_blocks, planned_releases
from estimators.purse import Purse
from hush.accounting import ApproximateDPEvent, ComposedEvent, PldAccountant
from hush.errors import BudgetExceeded, InvalidArgument
from hush.estimators import (
    Folds,
    HeldOut,
    PrivateGaussianNB,
    PrivateGridSearch,
    PrivateLogisticRegression,
    PrivateRidge,
    PrivateStandardScaler,
    PublicOneHotEncoder,
)
from hush.estimators.selection.grid_table import build_table
from hush.randomness import TestSource

pd = pytest.importorskip("pandas")

X, Y = np.tile([[1.0], [-1.0]], (200, 1)), np.tile([1, 0], 200)
FRAME = pd.DataFrame({"size": X[:, 0], "colour": np.tile(["red", "green"], 200)})


def logistic(epsilon: float = 2.0, **changes: Any) -> Any:
    return PrivateLogisticRegression(
        epsilon=epsilon, **({"data_norm": 2.0, "classes": [0, 1], "source": TestSource(1)} | changes)
    )


def search(estimator: Any, grid: Any = None, **settings: Any) -> PrivateGridSearch:
    return PrivateGridSearch(estimator, grid or {}, **({"score_epsilon": 1.0, "source": TestSource(2)} | settings))


def ridge() -> Any:
    return PrivateRidge(epsilon=900.0, delta=1e-6, data_norm=9.0, target_bounds=(-9, 9))


def test_scikit_learn_checks() -> None:
    inner = PrivateLogisticRegression(epsilon=900.0, data_norm=10.0, classes=[0, 1, 2])
    assert unexpected_failures(PrivateGridSearch(inner, {"regularization": [1.0, 2.0]}, score_epsilon=900.0)) == []
    failures = unexpected_failures(PrivateGridSearch(ridge(), {}, score_epsilon=900.0, loss_bound=9.0, delta=1e-4))
    # A regressor needs a public bound on the loss, for which there is no default.
    assert [failure for failure in failures if not failure.startswith("check_parameters_default_constructible")] == []


class InsteadOfNobody(PrivateGridSearch):
    """A broken twin: the first row replaces the placeholder."""

    def _fit_setting(self, setting: Any, table: Any, train: Any) -> Any:
        rows, labels = table.training(train)
        training = (rows[:-1], labels[:-1]) if len(labels) > 1 else (np.zeros((1, 1)), np.zeros(1, dtype=int))
        return self.estimator.fit(*training)


@pytest.mark.parametrize("kind", [PrivateGridSearch, InsteadOfNobody])
@pytest.mark.parametrize("cv", [HeldOut(1e-9), Folds(2)])
def test_the_first_row_adds_one_row_to_a_training_set(kind: Any, cv: Any, monkeypatch: Any) -> None:
    def released(rows: Any, labels: Any) -> Any:
        inner = PrivateGaussianNB(epsilon=1.0, bounds=(-1, 1), classes=[0, 1], source=TestSource(1))
        searcher = kind(inner, {}, score_epsilon=1.0, cv=cv, source=TestSource(3))
        return planned_releases(monkeypatch, lambda: searcher.fit(rows, labels))

    before = released([[np.nan]], [1])
    after = released([[np.nan], [1.0]], [1, 1])
    changed = 0
    for (plan, earlier), (_, later) in zip(before, after, strict=True):
        changed += bool((earlier != later).any())
        if kind is PrivateGridSearch:
            check_blocks(plan, earlier, later)
    assert changed > 0
    if kind is InsteadOfNobody:
        with pytest.raises(AssertionError):
            [check_blocks(plan, earlier, later) for (plan, earlier), (_, later) in zip(before, after, strict=True)]


def test_a_frame_keeps_its_names() -> None:
    numbers = FRAME[["size"]]
    fitted = search(logistic(), {"regularization": [1.0, 2.0]}).fit(numbers, Y)
    assert fitted.feature_names_in_.tolist() == ["size"]
    assert fitted.score(numbers, Y) == 1.0, "and no warning"
    assert fitted.predict_log_proba(numbers).shape == (400, 2) if hasattr(logistic(), "predict_log_proba") else True
    assert not hasattr(fitted, "transform")


@pytest.mark.parametrize("text", [FRAME[["colour"]], FRAME[["colour"]].to_numpy(), FRAME[["colour"]].values.tolist()])
def test_text_reaches_its_encoder(text: Any) -> None:
    inner = make_pipeline(PublicOneHotEncoder(categories=[["red", "green"]]), logistic())
    assert search(inner, cv=Folds(2)).fit(text, Y).score(text, Y) == 1.0


def test_tags_follow_the_estimator() -> None:
    assert is_classifier(search(logistic()))
    assert is_classifier(search(make_pipeline(FunctionTransformer(), logistic())))
    assert is_regressor(search(ridge(), loss_bound=1.0))


def test_without_labels() -> None:
    with pytest.raises(ValueError, match="requires y"):
        search(logistic()).fit(X, None)
    with pytest.raises(ValueError, match=r"^y: expected numbers\.$"):
        search(ridge(), loss_bound=1.0).fit(X[:2], ["1", "secret"])


@pytest.mark.parametrize("strange", [1e305, 1e308, np.nan, np.inf])
def test_no_row_raises_an_error(strange: float) -> None:
    rows = X.copy()
    rows[3] = strange
    scaler = PrivateStandardScaler(epsilon=0.5, bounds=(-1, 1), source=TestSource(4))
    assert search(make_pipeline(scaler, logistic()), cv=Folds(2)).fit(rows, Y).score(X, Y) == 1.0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cell", [{"a": "b"}, "secret", 10**400, [1]], ids=["dict", "text", "large", "list"])
def test_cells_that_are_not_numbers_are_missing_whichever_rows_are_held_out(cell: Any, seed: int) -> None:
    def fitted(rows: Any) -> Any:
        inner = ridge().set_params(source=TestSource(1))
        searched = search(inner, loss_bound=1.0, delta=1e-4, cv=HeldOut(0.5), source=TestSource(seed))
        return searched.fit(rows, Y).best_estimator_.coef_.tolist()

    rows, missing = X.astype(object), X.copy()
    rows[0, 0], missing[0, 0] = cell, np.nan
    assert fitted(rows) == fitted(pd.DataFrame(rows)) == fitted(missing)


class Picky(ClassifierMixin, BaseEstimator):
    """An estimator without cost that refuses to predict negative rows."""

    def fit(self, rows: Any, labels: Any) -> Picky:
        self.event_, self.classes_ = ComposedEvent(()), np.arange(2)
        return self

    def predict(self, rows: Any) -> Any:
        if (rows < 0).any():
            raise ValueError("negative")
        return np.ones(len(rows))


def test_rows_that_a_model_refuses_count_as_wrong() -> None:
    table = build_table(X, Y, classes=True)
    everyone = np.ones(400, dtype=bool)
    assert search(Picky())._score(Picky(), table, everyone) == 200


class Coin:
    """A geometric distribution of the number of fits, like those of hush.training."""

    mean = 3.0

    def event(self, run: Any) -> Any:
        from hush.accounting.events import RepeatNegativeBinomialEvent

        return RepeatNegativeBinomialEvent(run, 1 / 3, 1.0)

    def draw(self, source: Any) -> int:
        return 3


PLANE, SIGNS = np.array([[1.0, 0.0], [-1.0, 0.0]] * 300), np.array([1, 0] * 300)
GRID = {"regularization": [1.0, 1e6], "fit_intercept": [True, False]}


def logistic_search(**settings: Any) -> PrivateGridSearch:
    inner = PrivateLogisticRegression(epsilon=0.5, data_norm=1.0, classes=[0, 1], budget=Purse(0), source=TestSource(2))
    return PrivateGridSearch(inner, GRID, **({"score_epsilon": 1.0, "source": TestSource(3)} | settings))


def test_all_fits_are_paid_for_once_and_together() -> None:
    purse = Purse(99)
    fitted = logistic_search(budget=purse).fit(PLANE, SIGNS)
    # With a ridge of 1e6 noise decides, and it is right half of the time. The chosen setting gets all rows right. A
    # setting that is wrong about half is chosen with probability exp(-score_epsilon / 2 * 90 held-out rows) < 1e-19.
    assert fitted.best_params_ in list(ParameterGrid(GRID))
    assert fitted.score(PLANE, SIGNS) > 0.95
    assert len(purse.charged) == 1, "fits are charged with the search, not each to its own budget"
    assert fitted.guarantee_.epsilon == pytest.approx(4 * 0.5), "four fits; those held out pay less, and only that"
    assert purse.charged[0].event == fitted.event_
    naive = PldAccountant().compose(ComposedEvent((ApproximateDPEvent(0.5),))).epsilon(0.0)
    assert fitted.guarantee_.epsilon > naive, "a twin that charges the best fit only"
    assert logistic_search(score_epsilon=9.0).fit(PLANE, SIGNS).guarantee_.epsilon == pytest.approx(9.0)


def test_a_refused_search_leaves_nothing() -> None:
    refused = logistic_search(budget=Purse(0))
    with pytest.raises(BudgetExceeded):
        refused.fit(PLANE, SIGNS)
    assert not hasattr(refused, "best_estimator_")


def test_a_secret_number_of_fits_costs_the_same_for_any_draw() -> None:
    fitted = logistic_search(repetitions=Coin(), delta=1e-6).fit(PLANE, SIGNS)
    again = logistic_search(repetitions=Coin(), delta=1e-6, source=TestSource(9)).fit(PLANE, SIGNS)
    assert fitted.event_ == again.event_
    assert 0.5 < fitted.guarantee_.epsilon < 3.1, "Liu & Talwar 2019: three times the epsilon of one, which is 1 here"
    assert fitted.score(PLANE, SIGNS) > 0.9


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
        logistic_search(**wrong)


def test_deltas_of_fits_must_fit_into_that_of_the_search() -> None:
    inner = PrivateLogisticRegression(epsilon=0.5, delta=1e-5, data_norm=1.0, classes=[0, 1], source=TestSource(2))
    settings: dict[str, Any] = {"score_epsilon": 1.0, "source": TestSource(3)}
    with pytest.raises(InvalidArgument, match="delta"):
        PrivateGridSearch(inner, GRID, delta=1e-6, **settings).fit(PLANE, SIGNS)
    assert PrivateGridSearch(inner, GRID, delta=1e-4, **settings).fit(PLANE, SIGNS).guarantee_.epsilon <= 2.0


def test_settings_of_different_cost_are_all_paid_for_in_the_last_fit() -> None:
    fitted = logistic_search(cv=Folds(2), score_epsilon=0.1)
    fitted.set_params(param_grid={"epsilon": [0.5, 1.0]}).fit(PLANE, SIGNS)
    assert fitted.guarantee_.epsilon == pytest.approx(1.5 + 0.1 + 1.5)


def test_repetitions_with_folds() -> None:
    fitted = logistic_search(cv=Folds(2), repetitions=Coin(), delta=1e-6).fit(PLANE, SIGNS)
    held = logistic_search(repetitions=Coin(), delta=1e-6).fit(PLANE, SIGNS)
    assert fitted.guarantee_.epsilon > held.guarantee_.epsilon + 0.1, "fit and comparison, and the last fit"
    assert fitted.score(PLANE, SIGNS) > 0.9


def pipeline(purse: Any = None) -> Any:
    scaler = PrivateStandardScaler(epsilon=0.25, bounds=(-1, 1), budget=purse, source=TestSource(4))
    inner = PrivateLogisticRegression(epsilon=0.5, data_norm=1.0, classes=[0, 1], budget=purse, source=TestSource(5))
    return make_pipeline(FunctionTransformer(), scaler, inner)


def test_all_steps_of_a_pipeline_are_paid_for_once() -> None:
    purse, step_purse = Purse(99), Purse(99)
    grid = {"privatelogisticregression__regularization": [1.0, 10.0]}
    settings: dict[str, Any] = {"score_epsilon": 0.5, "budget": purse, "source": TestSource(3)}
    fitted = PrivateGridSearch(pipeline(step_purse), grid, **settings).fit(PLANE, SIGNS)
    assert fitted.guarantee_.epsilon == pytest.approx(2 * 0.75)
    assert len(purse.charged) == 1
    assert step_purse.charged == [], "steps are charged with the search"
    assert fitted.score(PLANE, SIGNS) > 0.9
    assert fitted.predict_proba(PLANE).shape == (600, 2)
    assert any("test" in sentence.lower() for sentence in fitted.guarantee_.assumptions)


def test_every_fit_of_a_pipeline_in_a_cross_validation_is_charged() -> None:
    purse = Purse(99)
    assert len(cross_val_score(pipeline(purse), PLANE, SIGNS, cv=3)) == 3
    assert [charge.purpose for charge in purse.charged] == [
        "fit PrivateStandardScaler",
        "fit PrivateLogisticRegression",
    ] * 3


def test_rows_that_are_not_finite_are_dropped() -> None:
    odd = PLANE.copy()
    odd[3], odd[5] = np.nan, np.inf
    assert (
        PrivateGridSearch(pipeline(), {}, score_epsilon=0.5, source=TestSource(3)).fit(odd, SIGNS).score(PLANE, SIGNS)
        > 0.9
    )
    with pytest.raises(ValueError):
        logistic_search().fit(PLANE, SIGNS[:-1])


class Constant(ClassifierMixin, BaseEstimator):
    """An estimator that learns nothing and has no cost."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def fit(self, rows: Any, labels: Any) -> Constant:
        self.event_, self.classes_ = ComposedEvent(()), np.arange(2)
        return self

    def predict(self, rows: Any) -> Any:
        return np.full(len(rows), self.value)


class Weighty(PrivateGridSearch):
    """A broken twin: a row counts more than the noise of the comparison assumes."""

    def _score(self, *arguments: Any) -> float:
        return 30 * super()._score(*arguments)


@pytest.mark.parametrize("kind", [PrivateGridSearch, Weighty])
@pytest.mark.parametrize("cv", [HeldOut(0.99), pytest.param(Folds(2), marks=pytest.mark.slow)])
def test_a_search_as_a_black_box(kind: Any, cv: Any) -> None:
    def run(data: Any, source: Any) -> int:
        fitted = kind(Constant(), {"value": range(4)}, score_epsilon=1.0, cv=cv, source=source).fit(*data)
        return int(fitted.best_params_["value"])

    first, second = (np.zeros((1, 1)), np.array([-1])), (np.zeros((2, 1)), np.array([-1, 1]))
    result = audit(run, first, second, samples=250, search_samples=50, source=TestSource("search"))
    assert result.compare(1.0).violated is (kind is Weighty)


def bayes(**changes):
    return he.PrivateGaussianNB(
        **{"epsilon": 1.0, "bounds": (-1, 1), "classes": [0, 1], "source": TestSource(1)} | changes
    )


def test_copies_of_a_search_charge_the_same_budget():
    purse = Purse(1)
    search = he.PrivateGridSearch(bayes(source=None), {"priors": [None]}, score_epsilon=1.0, budget=purse)
    assert clone(search).budget is purse


def test_the_best_estimator_states_the_cost_of_the_whole_search():
    search = he.PrivateGridSearch(bayes(source=None), {"priors": [None, [0.5, 0.5]]}, score_epsilon=1.0)
    search.fit(np.zeros((50, 1)), np.arange(50) % 2)
    assert search.best_estimator_.guarantee_ == search.guarantee_
    assert search.guarantee_.epsilon == pytest.approx(2)


def test_huge_rows_are_in_no_comparison():
    search = he.PrivateGridSearch(
        make_pipeline(he.PrivateStandardScaler(epsilon=1.0, bounds=(-1, 1)), bayes(source=None)),
        {"privategaussiannb__priors": [None]},
        score_epsilon=1.0,
    )
    rows = np.zeros((50, 1))
    rows[3] = 1e305
    search.fit(rows, np.arange(50) % 2)
