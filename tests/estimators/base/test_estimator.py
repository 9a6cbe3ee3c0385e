"""The base class: budgets that travel with estimators, and fits that are refused or fail."""

from __future__ import annotations

import copy
import inspect
import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

import hush.estimators as he
from estimators.purse import Purse
from estimators.table import CASES, LEARNS_FROM_FEW
from hush.errors import BudgetExceeded, HushError, InvalidArgument
from hush.estimators import pate
from hush.estimators.base.estimator import SharesBudget
from hush.randomness import TestSource

pytestmark = LEARNS_FROM_FEW
ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
OTHERS_FILES = ("PrivateKMeans", "PrivateRandomForest", "PrivateDecisionTree")


def fitted_attributes(model):
    return [name for name in vars(model) if name.endswith("_")]


def voted(**changes):
    settings = {"num_teachers": 2, "aggregator": pate.GNMax(sigma=20.0), "epsilon": 5.0, "delta": 1e-5}
    settings |= {"classes": [0, 1], "source": TestSource(1)}
    return pate.PATEClassifier(DecisionTreeClassifier(), LogisticRegression(), **settings | changes)


@ALL
def test_a_refused_or_failed_refit_leaves_nothing(case):
    model = case.make(epsilon=1.0, source=TestSource(1), budget=Purse(1)).fit(*case.first)
    wider = np.hstack([case.first[0]] * 2)
    with pytest.raises(BudgetExceeded):
        model.fit(wider, case.first[1])
    assert fitted_attributes(model) == []
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    model.set_params(budget=None).fit(*case.first)
    with pytest.raises(ValueError, match="."):
        model.fit(np.array([["a", "b"]]), case.first[1])
    assert fitted_attributes(model) == []


def test_a_fit_that_fails_after_its_charge_leaves_nothing(monkeypatch):
    model = CASES["PrivateGaussianNB"].make(epsilon=1.0).fit(*CASES["PrivateGaussianNB"].first)
    monkeypatch.setattr("hush.estimators.moments.naive_bayes.noisy_moments", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(*CASES["PrivateGaussianNB"].first)
    assert fitted_attributes(model) == []


def test_a_refused_refit_of_pate_leaves_nothing():
    x, y = np.linspace(-1, 1, 40)[:, None], np.arange(40) // 20
    model = voted(budget=Purse(1))
    model.fit(x, y, public=x)
    with pytest.raises(BudgetExceeded):
        model.fit(x, y, public=x)
    assert fitted_attributes(model) == []


def test_a_refused_refit_of_a_local_model_leaves_nothing():
    x = np.linspace(-1, 1, 20)[:, None]
    model = he.LocalNaiveBayes(epsilon=1.0, bounds=(-1, 1), classes=[0, 1], budget=Purse(1)).fit(x, np.arange(20) % 2)
    with pytest.raises(BudgetExceeded):
        model.fit(x, np.arange(20) % 2)
    assert fitted_attributes(model) == []
    assert model.get_params()["bounds"] == (-1, 1)


def test_output_settings_survive_a_refit():
    scaler = he.PrivateMinMaxScaler(epsilon=1.0, bounds=(0, 1)).set_output(transform="pandas")
    pytest.importorskip("pandas")
    assert hasattr(scaler.fit([[1.0]]).fit([[1.0]]).transform([[1.0]]), "columns")


def refusal(case, **settings):
    """Return the message with which a fit is refused, or nothing."""
    try:
        case.make(source=TestSource(1), **settings).fit(*case.first)
    except InvalidArgument as error:
        return str(error)
    return ""


@ALL
@pytest.mark.parametrize("epsilon", [1e-7, 1e-6, 1e-5, 1e-4, 1e6, 1e-300])
def test_refusals_name_epsilon_and_cost_nothing(case, epsilon):
    purse = Purse(1)
    why = refusal(case, epsilon=epsilon, budget=purse)
    assert len(purse.charged) == (not why)
    if not type(case.make(epsilon=1.0)).__name__.startswith(OTHERS_FILES):
        assert not why or why.startswith((f"epsilon={epsilon:.3g}:", "method="))


def test_an_epsilon_that_is_too_small_for_gaussian_noise_is_refused_at_once():
    norm = {"epsilon": 1e-5, "delta": 1e-6, "data_norm": 1.0}
    for make in (
        lambda: he.PrivateLDA(classes=[0, 1], **norm),
        lambda: he.PrivateLinearRegression(target_bounds=(0, 1), **norm),
        lambda: he.PrivatePCA(**norm),
        lambda: he.PrivateCovariance(**norm),
    ):
        with pytest.raises(InvalidArgument, match="epsilon=1e-05: expected a larger value"):
            make()


def test_parameters_that_change_after_fit_change_no_prediction():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, size=(60, 2)), np.arange(60) % 3
    settings = {"epsilon": 5.0, "classes": [0, 1, 2], "source": TestSource(1)}
    linear = he.PrivateLogisticRegression(delta=1e-5, data_norm=1.0, **settings).fit(x, y)
    bayes = he.LocalNaiveBayes(bounds=(-1, 1), **settings).fit(x, y)
    for model, changes in ((linear, {"method": he.ObjectivePerturbation()}), (bayes, {"bins": 7, "bounds": (5, 6)})):
        before = model.predict_proba(x)
        assert (model.set_params(**changes).predict_proba(x) == before).all()
    density = he.PrivateHistogramDensity(epsilon=1.0, bounds=(-1, 1), bins=3, source=TestSource(1)).fit(x)
    before = density.score_samples(x)
    assert (density.set_params(bins=5).score_samples(x) == before).all()


def test_every_estimator_with_a_budget_shares_it_with_its_clones():
    kinds = [getattr(he, name) for name in he.__all__]
    paying = [kind for kind in kinds if "budget" in inspect.signature(kind).parameters]
    assert len(paying) > 20
    assert all(issubclass(kind, SharesBudget) for kind in paying)


def bayes(**changes):
    return he.PrivateGaussianNB(
        **{"epsilon": 1.0, "bounds": (-1, 1), "classes": [0, 1], "source": TestSource(1)} | changes
    )


STEPS = (
    he.PrivateStandardScaler(epsilon=1.0, bounds=(-1, 1)),
    he.PrivateMinMaxScaler(epsilon=1.0, bounds=(-1, 1)),
    he.PrivatePCA(1, epsilon=1.0, delta=1e-6, data_norm=1.0),
    he.PrivateSelectBest(k=1, epsilon=1.0, data_bound=1.0, classes=[0, 1]),
)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
def test_rows_with_a_missing_value_pass_through_pipelines(step, strange):
    x, y = np.linspace(-1, 1, 40).reshape(20, 2), np.arange(20) % 2
    x[3, 0] = strange
    model = make_pipeline(step, he.PrivateLogisticRegression(epsilon=1.0, data_norm=1.0, classes=[0, 1]))
    assert np.isfinite(model.fit(x, y)[-1].coef_).all()


def test_copies_of_pate_charge_the_same_budget():
    purse = Purse(1)
    assert clone(voted(budget=purse)).budget is purse


def test_cross_validation_charges_every_fit():
    purse = Purse(10)
    cross_val_score(bayes(budget=purse), np.zeros((40, 1)), np.arange(40) % 2, cv=5)
    assert len(purse.charged) == 5


def test_a_fitted_model_is_stored_without_its_budget_and_cannot_be_fitted_without_one(tmp_path):
    from hush import Ledger

    budget = Ledger(f"sqlite:///{tmp_path}/b.db").budget("people", epsilon=3, delta=1e-6, unit="example")
    model = bayes(budget=budget, source=None).fit(np.zeros((4, 1)), [0, 1, 0, 1])
    for loaded in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert (loaded.theta_ == model.theta_).all()
        with pytest.raises(HushError, match="budget"):
            loaded.fit(np.zeros((4, 1)), [0, 1, 0, 1])
        with pytest.raises(HushError, match="budget"):
            clone(loaded).fit(np.zeros((4, 1)), [0, 1, 0, 1])


def test_a_wrong_budget_or_source_is_refused_at_once():
    for make in (bayes, voted):
        with pytest.raises(InvalidArgument, match="budget"):
            make(budget=3.0)
        with pytest.raises(InvalidArgument, match="source"):
            make(source=42)


def test_more_rows_than_sums_have_room_for_are_refused(monkeypatch):
    monkeypatch.setattr(he.PrivateLogisticRegression, "_max_rows", 3)
    purse = Purse(1)
    with pytest.raises(InvalidArgument, match="at most 3 rows"):
        he.PrivateLogisticRegression(epsilon=1.0, data_norm=1.0, classes=[0, 1], budget=purse).fit(
            np.zeros((4, 1)), [0, 1, 0, 1]
        )
    assert purse.charged == []
