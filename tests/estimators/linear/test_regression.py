"""Regression from noisy sufficient statistics: sensitivities, guarantees, accuracy, black boxes and twins."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from black_box.certainty import audit
from estimators.checks import unexpected_failures
from estimators.neighbours import EXTREMES, gaussian_distance, gaussian_releases
from estimators.purse import Purse
from hush.accounting import GdpAccountant, PldAccountant, gaussian_multiplier
from hush.errors import BudgetExceeded, InvalidArgument
from hush.estimators import PrivateLinearRegression, PrivateMinMaxScaler, PrivateRidge
from hush.randomness import TestSource

ARGUMENTS = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 1.0, "target_bounds": (-1, 1)}
MODELS = [PrivateLinearRegression, PrivateRidge]


@pytest.mark.parametrize("model", MODELS)
def test_scikit_learn_checks(model):
    assert unexpected_failures(model(epsilon=900.0, delta=1e-5, data_norm=10, target_bounds=(-100, 100))) == []


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("model", MODELS)
def test_one_row_moves_the_release_by_the_stated_sensitivity(model, intercept, monkeypatch):
    x = np.random.default_rng(0).normal(size=(6, 2))
    y = np.linspace(-1, 1, 6)
    multiplier = gaussian_multiplier(1.0, 1e-6)

    def released(rows, targets):
        estimator = model(**ARGUMENTS, fit_intercept=intercept)
        return gaussian_releases(monkeypatch, lambda: estimator.fit(rows, targets))

    before, largest = released(x, y), 0.0
    for row in itertools.product(EXTREMES, EXTREMES, [0.0, 1.0, -1e300, math.nan, math.inf]):
        after = released(np.vstack([x, row[:2]]), np.append(y, row[2]))
        largest = max(largest, gaussian_distance(before, after) * multiplier)
    assert largest <= 1
    # The rest is the share of the smallest eigenvalue, which no row of two features moves by 1.
    assert largest > 0.9


def test_rows_with_a_missing_value_are_dropped():
    x, y = np.array([[0.5], [np.nan], [np.inf], [0.5]]), np.array([0.5, 0.5, 0.5, np.nan])
    with_missing = PrivateLinearRegression(**ARGUMENTS, source=TestSource(3)).fit(x, y)
    without = PrivateLinearRegression(**ARGUMENTS, source=TestSource(3)).fit(x[:1], y[:1])
    assert with_missing.coef_ == without.coef_
    assert with_missing.intercept_ == without.intercept_


def fitted_numbers(model, data, source):
    fitted = model(**ARGUMENTS, source=source).fit(*data)
    return [float(fitted.coef_[0]), float(fitted.intercept_)]


class BoundsFromTheData:
    """A broken twin: it takes the norm and the bounds from the data."""

    def fit(self, X, y):
        self.data_norm = float(np.abs(X).max())
        self.target_bounds = (float(np.min(y)), float(np.max(y)))
        return super().fit(X, y)


class BrokenRegression(BoundsFromTheData, PrivateLinearRegression):
    pass


class BrokenRidge(BoundsFromTheData, PrivateRidge):
    pass


@pytest.mark.parametrize(
    ("model", "violated"),
    [(PrivateLinearRegression, False), (BrokenRegression, True), (PrivateRidge, False), (BrokenRidge, True)],
)
def test_black_box(model, violated):
    first = np.array([[0.01], [0.01]]), np.array([0.01, -0.01])
    second = np.vstack([first[0], [[100.0]]]), np.append(first[1], 100.0)

    def run(data, source):
        return fitted_numbers(model, data, source)

    result = audit(run, first, second, samples=150, search_samples=75, delta=1e-6, source=TestSource(1))
    assert result.compare(1.0).violated is violated


def test_guarantee_event_and_budget():
    x, y = np.ones((20, 1)), np.ones(20)
    purse = Purse(6)
    model = PrivateLinearRegression(**ARGUMENTS, budget=purse)
    assert clone(model).budget is purse
    cross_val_score(make_pipeline(PrivateMinMaxScaler(epsilon=1.0, bounds=(0, 1)), model), x, y, cv=5)
    assert len(purse.charged) == 5
    model.fit(x, y)
    assert purse.charged[-1].event == model.event_
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1.0, 1e-6)
    assert PldAccountant().compose(model.event_).epsilon(1e-6) <= 1.0
    assert GdpAccountant().compose(model.event_).epsilon(1e-6) == pytest.approx(1.0, rel=1e-4)
    with pytest.raises(BudgetExceeded):
        model.fit(x, y)
    assert not hasattr(model, "guarantee_")


def test_the_guarantee_names_test_randomness():
    model = PrivateLinearRegression(**ARGUMENTS, source=TestSource(1)).fit([[1.0]], [1.0])
    assert model.guarantee_.assumptions


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"delta": 0.0},
        {"data_norm": None},
        {"data_norm": math.inf},
        {"target_bounds": None},
        {"target_bounds": (1, 1)},
        {"target_bounds": (0, math.nan)},
        {"fit_intercept": "no"},
    ],
)
def test_wrong_parameters_are_refused_at_once(wrong):
    with pytest.raises(InvalidArgument):
        PrivateLinearRegression(**{**ARGUMENTS, **wrong})
    model = PrivateLinearRegression(**ARGUMENTS).set_params(**wrong)
    with pytest.raises(InvalidArgument):
        model.fit([[1.0]], [1.0])


def test_published_level():
    """AdaSSP's published regime: close to least squares for a large epsilon, and never much worse than the mean."""
    x, y = load_diabetes(return_X_y=True)
    x = x / np.linalg.norm(x, axis=1).max()
    y = (y - 25) / 321 * 2 - 1
    best = np.mean((LinearRegression().fit(x, y).predict(x) - y) ** 2)
    errors = {}
    for epsilon in (0.1, 1.0, 10.0):
        model = PrivateLinearRegression(**{**ARGUMENTS, "epsilon": epsilon}, source=TestSource(5))
        errors[epsilon] = np.mean([np.mean((model.fit(x, y).predict(x) - y) ** 2) for _ in range(20)])
    # Over 20 other seeds 1.07 +- 0.025, 0.82 +- 0.01 and 1.175 +- 0.007: seven standard deviations below, or more.
    assert errors[0.1] < 1.25 * np.var(y)
    assert errors[1.0] < 0.9 * np.var(y)
    assert errors[10.0] < 1.25 * best
