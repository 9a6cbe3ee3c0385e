"""Networks over hush.training: what they learn, what they cost, and that torch is loaded by fit alone."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import hush.estimators as he
from estimators.checks import unexpected_failures
from hush.accounting import PldAccountant
from hush.errors import BudgetExceeded, InvalidArgument
from hush.estimators import PrivateClassifier, PrivateRegressor
from hush.randomness import TestSource

torch = pytest.importorskip("torch")

X = np.random.default_rng(1).uniform(-1, 1, size=(600, 2))
SETTINGS: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-4, "data_norm": 1.0, "epochs": 10, "batch_size": 100}


def test_a_classifier_learns_and_states_what_it_cost() -> None:
    y = np.where(X[:, 0] > 0, "up", "down")
    model = PrivateClassifier(torch.nn.Linear, classes=["down", "up"], source=TestSource(1), **SETTINGS).fit(X, y)
    assert model.score(X, y) > 0.9  # over 12 seeds 0.993 +- 0.004
    assert 2.9 < model.guarantee_.epsilon <= 3.0
    assert PldAccountant().compose(model.event_).epsilon(1e-4) <= 3.0 + 1e-6
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)
    assert ((model.decision_function(X) > 0) == (model.predict(X) == "up")).all()


def test_a_regressor_learns_within_its_bounds() -> None:
    y = 5 + 4 * X[:, 0]
    model = PrivateRegressor(torch.nn.Linear, target_bounds=(0.0, 10.0), source=TestSource(1), **SETTINGS)
    bad = y.copy()
    bad[:3] = np.nan, np.inf, -1e30
    assert model.fit(X, bad).score(X, y) > 0.8  # over 12 seeds 0.996 +- 0.004
    assert (model.predict(X * 1e6) >= 0).all()
    assert (model.predict(X * 1e6) <= 10).all()


def test_odd_rows_and_labels_raise_no_errors() -> None:
    rows = X.copy()
    rows[0], rows[1] = np.nan, np.inf
    model = PrivateClassifier(torch.nn.Linear, classes=[0, 1], source=TestSource(1), **SETTINGS)
    model.fit(rows, np.arange(600) % 3)
    assert all(bool(torch.isfinite(weight).all()) for weight in model.module_.parameters())
    model.fit(rows, np.full(600, 7))
    assert model.predict(X).shape == (600,)


def test_a_budget_that_refuses_ends_it_before_the_first_step() -> None:
    class Refusing:
        def reserve(self, charge: Any) -> Any:
            raise BudgetExceeded("nothing is left")

    model = PrivateClassifier(torch.nn.Linear, classes=[0, 1], budget=Refusing(), **SETTINGS)
    with pytest.raises(BudgetExceeded):
        model.fit(X, np.arange(600) % 2)
    assert not hasattr(model, "module_")


@pytest.mark.parametrize(
    "wrong", [{"delta": 0.0}, {"epsilon": float("nan")}, {"clip_norm": 0}, {"batch_size": 0.5}, {"module": "linear"}]
)
def test_wrong_parameters_are_refused_at_construction(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        PrivateClassifier(**({"module": torch.nn.Linear, "classes": [0, 1]} | SETTINGS | wrong))
    with pytest.raises(InvalidArgument):
        PrivateRegressor(torch.nn.Linear, target_bounds=(1.0, float("nan")), **SETTINGS)


def test_torch_is_loaded_by_fit_alone() -> None:
    code = "import sys, hush.estimators; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "model",
    [
        PrivateClassifier(torch.nn.Linear, epsilon=900.0, delta=1e-4, data_norm=10.0, classes=[0, 1, 2], epochs=2),
        PrivateRegressor(torch.nn.Linear, epsilon=900.0, delta=1e-4, data_norm=10.0, target_bounds=(-9, 9), epochs=2),
    ],
    ids=["classifier", "regressor"],
)
def test_scikit_learn_checks(model: Any) -> None:
    assert unexpected_failures(model) == []


def test_undeclared_labels_have_zero_gradients_and_change_no_sampling_rate() -> None:
    """The number of undeclared labels is private: neither the noise nor the guarantee may reveal it."""
    event_of = {}
    for name, labels in (("all", np.zeros(600)), ("half", np.arange(600) % 2 * 7), ("none", np.full(600, 7))):
        model = PrivateClassifier(torch.nn.Linear, classes=[0, 1], source=TestSource(1), **SETTINGS)
        event_of[name] = model.fit(X, labels).event_
    assert event_of["all"] == event_of["half"] == event_of["none"]
    outputs = torch.ones(2, 2, requires_grad=True)
    model._loss(outputs, torch.tensor([1, -1])).sum().backward()
    assert outputs.grad is not None
    assert outputs.grad[0].any()
    assert not outputs.grad[1].any()
    regressor = PrivateRegressor(torch.nn.Linear, target_bounds=(0.0, 1.0), **SETTINGS)
    outputs = torch.ones(2, 1, requires_grad=True)
    regressor._loss(outputs, torch.tensor([0.0, float("nan")])).sum().backward()
    assert outputs.grad is not None
    assert outputs.grad.flatten().tolist() == [2.0, 0.0]


def test_undeclared_labels_do_not_change_how_a_network_is_trained():
    torch = pytest.importorskip("torch")

    x, y = np.zeros((20, 2)), np.arange(20) % 2
    model = he.PrivateClassifier(torch.nn.Linear, epsilon=3.0, delta=1e-5, data_norm=1.0, classes=[0, 1], epochs=1)
    events = [clone(model).fit(x, np.where(np.arange(20) < odd, 7, y)).event_ for odd in (0, 1, 20)]
    assert events[0] == events[1] == events[2]
