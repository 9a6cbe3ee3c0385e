"""Fits that are refused, or fail: what they leave, what they cost, and what they say."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

import hush.estimators as he
from estimators.purse import Purse
from estimators.table import CASES
from hush.errors import BudgetExceeded, InvalidArgument
from hush.estimators import pate
from hush.estimators.base.estimator import SharesBudget
from hush.randomness import TestSource

ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
OTHERS_FILES = ("PrivateKMeans", "PrivateRandomForest", "PrivateDecisionTree")


def left_over(model):
    return [name for name in vars(model) if name.endswith("_")]


def voted(**given):
    settings = {"num_teachers": 2, "aggregator": pate.GNMax(sigma=20.0), "epsilon": 5.0, "delta": 1e-5}
    settings |= {"classes": [0, 1], "source": TestSource(1)}
    return pate.PATEClassifier(DecisionTreeClassifier(), LogisticRegression(), **settings | given)


@ALL
def test_a_refused_or_failed_refit_leaves_nothing(case):
    model = case.make(epsilon=1.0, source=TestSource(1), budget=Purse(1)).fit(*case.first)
    wider = np.hstack([case.first[0]] * 2)
    with pytest.raises(BudgetExceeded):
        model.fit(wider, case.first[1])
    assert left_over(model) == []
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    model.set_params(budget=None).fit(*case.first)
    with pytest.raises(ValueError, match="."):
        model.fit([["a", "b"]], case.first[1])
    assert left_over(model) == []


def test_a_fit_that_fails_after_it_was_paid_leaves_nothing(monkeypatch):
    model = CASES["PrivateGaussianNB"].make(epsilon=1.0).fit(*CASES["PrivateGaussianNB"].first)
    monkeypatch.setattr("hush.estimators.moments.naive_bayes.noisy_moments", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(*CASES["PrivateGaussianNB"].first)
    assert left_over(model) == []


def test_teachers_are_forgotten_too():
    x, y = np.linspace(-1, 1, 40)[:, None], np.arange(40) // 20
    model = voted(budget=Purse(1))
    model.fit(x, y, public=x)
    with pytest.raises(BudgetExceeded):
        model.fit(x, y, public=x)
    assert left_over(model) == []


def test_local_models_are_forgotten_too():
    x = np.linspace(-1, 1, 20)[:, None]
    model = he.LocalNaiveBayes(epsilon=1.0, bounds=(-1, 1), classes=[0, 1], budget=Purse(1)).fit(x, np.arange(20) % 2)
    with pytest.raises(BudgetExceeded):
        model.fit(x, np.arange(20) % 2)
    assert left_over(model) == []
    assert model.get_params()["bounds"] == (-1, 1)


def test_what_scikit_learn_was_told_stays():
    scaler = he.PrivateMinMaxScaler(epsilon=1.0, bounds=(0, 1)).set_output(transform="pandas")
    pytest.importorskip("pandas")
    assert hasattr(scaler.fit([[1.0]]).fit([[1.0]]).transform([[1.0]]), "columns")


def refused(case, **given):
    """Return why a fit is refused, or nothing."""
    try:
        case.make(source=TestSource(1), **given).fit(*case.first)
    except InvalidArgument as error:
        return str(error)
    return ""


@ALL
@pytest.mark.parametrize("epsilon", [1e-7, 1e-6, 1e-5, 1e-4, 1e6, 1e-300])
def test_what_is_refused_is_said_of_epsilon_and_costs_nothing(case, epsilon):
    purse = Purse(1)
    why = refused(case, epsilon=epsilon, budget=purse)
    assert len(purse.charged) == (not why)
    if not type(case.make(epsilon=1.0)).__name__.startswith(OTHERS_FILES):
        assert not why or why.startswith((f"epsilon={epsilon:.3g}:", "method="))


@pytest.mark.parametrize("bounds", [([0, 0, 0], [1, 1, 1]), ([0], [1])])
@pytest.mark.parametrize("kind", [he.PrivateStandardScaler, he.PrivateMinMaxScaler])
def test_bounds_of_other_features_cost_nothing(kind, bounds):
    purse = Purse(1)
    with pytest.raises(InvalidArgument, match="bounds"):
        kind(epsilon=1.0, bounds=bounds, budget=purse).fit(np.zeros((4, 2)))
    assert purse.charged == []


def test_an_epsilon_that_is_too_small_for_gaussian_noise_is_refused_at_once():
    norm = {"epsilon": 1e-5, "delta": 1e-6, "data_norm": 1.0}
    for make in (
        lambda: he.PrivateLDA(classes=[0, 1], **norm),
        lambda: he.PrivateLinearRegression(target_bounds=(0, 1), **norm),
        lambda: he.PrivatePCA(**norm),
        lambda: he.PrivateCovariance(**norm),
    ):
        with pytest.raises(InvalidArgument, match="epsilon=1e-05: expected larger"):
            make()


def test_parameters_that_change_after_fit_change_no_prediction():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, size=(60, 2)), np.arange(60) % 3
    settings = {"epsilon": 5.0, "classes": [0, 1, 2], "source": TestSource(1)}
    linear = he.PrivateLogisticRegression(delta=1e-5, data_norm=1.0, **settings).fit(x, y)
    bayes = he.LocalNaiveBayes(bounds=(-1, 1), **settings).fit(x, y)
    for model, other in ((linear, {"method": he.ObjectivePerturbation()}), (bayes, {"bins": 7, "bounds": (5, 6)})):
        before = model.predict_proba(x)
        assert (model.set_params(**other).predict_proba(x) == before).all()
    density = he.PrivateHistogramDensity(epsilon=1.0, bounds=(-1, 1), bins=3, source=TestSource(1)).fit(x)
    before = density.score_samples(x)
    assert (density.set_params(bins=5).score_samples(x) == before).all()


def test_whatever_has_a_budget_keeps_it():
    kinds = [getattr(he, name) for name in he.__all__]
    paying = [kind for kind in kinds if "budget" in inspect.signature(kind).parameters]
    assert len(paying) > 20
    assert all(issubclass(kind, SharesBudget) for kind in paying)


def test_words_have_a_budget_or_none():
    with pytest.raises(InvalidArgument, match="budget"):
        he.Rappor(budget=3.0)
