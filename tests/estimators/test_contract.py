"""The contract of every estimator. A table enrols them, and none may be missing."""

from __future__ import annotations

import inspect
import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

import hush.estimators as he
from black_box.certainty import audit
from estimators.purse import Purse
from estimators.table import CASES, LEARNS_FROM_FEW, Case
from hush.accounting import PldAccountant
from hush.accounting.events import plain_event
from hush.errors import BudgetExceeded
from hush.guarantee import Unit
from hush.randomness import TestSource

pytestmark = LEARNS_FROM_FEW
ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
# Estimators that other files audit as black boxes, with broken twins. The audit of the table is among the slow tests.
AUDITED = {
    "PrivateLinearRegression",
    "PrivateRidge",
    "PrivateGaussianNB",
    "PrivateLDA",
    "PrivatePCA",
    "PrivatePCA, Wishart",
    "PrivatePCA, exponential",
    "PrivateCovariance",
    "PrivateHistogramDensity",
    "PrivateStandardScaler",
    "PrivateStandardScaler, learned",
    "PrivateMinMaxScaler, learned",
    "PrivateRandomForestClassifier",
    "PrivateDecisionTreeClassifier",
    "PrivateSelectBest",
    "PrivateLogisticRegression",
    "PrivateLogisticRegression, output",
    "PrivateLogisticRegression, gradients",
    "PrivateLogisticRegression, Frank-Wolfe",
    "PrivateLogisticRegression, bolt-on",
}


def fitted(case: Case, data: Any, **settings: Any) -> Any:
    return case.make(**{"epsilon": 1.0, "source": TestSource(1)} | settings).fit(*data)


def visible_numbers(model: Any, X: Any) -> list[float]:
    """Return everything that an owner of the model can see: its numbers, and its predictions for some rows."""
    state = {k: v for k, v in vars(model).items() if k.endswith("_") or k.startswith("_")}
    parts = []
    for name in sorted(state):
        if isinstance(state[name], (float, int, np.ndarray, tuple)) and name not in ("n_features_in_",):
            numbers = np.asarray(state[name])
            if numbers.dtype.kind in "fiub":
                parts.append(numbers.astype(np.float64).ravel())
    for ask in ("predict_proba", "predict", "transform"):
        if hasattr(model, ask):
            answers = np.asarray(getattr(model, ask)(X))
            parts.append(answers.astype(np.float64).ravel())
            break
    return np.concatenate(parts).tolist()


def test_all_are_enrolled():
    kinds = {
        name
        for name in he.__all__
        if inspect.isclass(getattr(he, name)) and issubclass(getattr(he, name), BaseEstimator)
    }
    learns_nothing = {"PublicOneHotEncoder"}  # it does not look at the data
    own_files = {
        "PATEClassifier",
        "PrivateGridSearch",
        "PrivateClassifier",
        "PrivateRegressor",
    }  # tested in files of their own
    local = {
        "LocalRandomizer",
        "Rappor",
        "LocalNaiveBayes",
        "LocalLinearRegression",
    }  # the local model, also in files of their own
    assert kinds - learns_nothing - own_files - local == {name.split(",")[0] for name in CASES}


@ALL
@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, "1", None])
def test_a_wrong_epsilon_is_refused_in_the_constructor_and_in_fit(case, epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        case.make(epsilon=epsilon)
    later = case.make(epsilon=1.0).set_params(epsilon=epsilon)
    with pytest.raises(ValueError, match="epsilon"):
        later.fit(*case.first)


@ALL
def test_the_cost_is_within_epsilon(case):
    model = fitted(case, case.second)
    plain = plain_event(model.event_, model.guarantee_.relation, Unit.example())[0]
    composed = PldAccountant(relation=model.guarantee_.relation).compose(plain)
    assert model.guarantee_.epsilon <= 1.0
    assert composed.epsilon(model.guarantee_.delta) <= 1.0 + 1e-9


@ALL
def test_each_fit_is_charged_once_and_before_anything_is_released(case):
    purse = Purse(2)
    model = fitted(case, case.second, budget=purse)
    again = clone(model).fit(*case.second)
    assert [charge.event for charge in purse.charged] == [model.event_, again.event_]
    assert purse.committed == 2
    third = clone(model)
    with pytest.raises(BudgetExceeded):
        third.fit(*case.second)
    assert not [name for name in vars(third) if name.endswith("_")]


@ALL
def test_strange_rows_raise_no_errors(case):
    X, y = case.second
    for strange in (math.nan, math.inf, -math.inf, 1e308, -1e308, 1e-320):
        single, every = X.copy(), np.full_like(X, strange)
        single[-1] = strange
        for rows in (single, every):
            probes = visible_numbers(fitted(case, (rows, y)), np.array([[0.1, 0.2]]))
            assert not np.isnan(probes).any()


ODD_CELLS = ("Ann", pd.NA, None, 10**400, [1], {}, 1j, np.datetime64("2020"), np.zeros(2), math.nan)


def with_odd_cells(case: Case) -> tuple[Any, Any, Any]:
    """Return rows of which some have a cell that is no number, the same with NaN there, and the labels."""
    X, y = case.second
    rows = np.vstack([X, np.repeat(X[-1:], len(ODD_CELLS) + 1, axis=0)])
    rows[-1, 0] = math.inf  # a number, which some estimators clamp
    odd = rows.astype(object)
    for position, cell in enumerate(ODD_CELLS, start=len(X)):
        rows[position, 0] = math.nan
        odd[position, 0] = cell
    return odd, rows, None if y is None else np.append(y, np.repeat(y[-1:], len(ODD_CELLS) + 1))


@ALL
def test_odd_cells_are_missing_ones(case):
    """A fit that fails, or that reads other cells otherwise, would tell of a row. Fixed key."""
    odd, missing, y = with_odd_cells(case)
    probes = np.array([[0.1, 0.2]])
    expected = visible_numbers(fitted(case, (missing, y)), probes)
    assert visible_numbers(fitted(case, (odd, y)), probes) == expected
    assert visible_numbers(fitted(case, ([list(row) for row in odd], y)), probes) == expected
    frame = pd.DataFrame(odd, columns=["first", "second"])
    assert visible_numbers(fitted(case, (frame, y)), pd.DataFrame(probes, columns=frame.columns)) == expected


class ReadsTheWholeTable(he.PrivateGaussianNB):
    """A broken twin: NumPy reads the table where it can, and a cell that is no number has another meaning then."""

    def _rows(self, X, **how):
        try:
            return super()._rows(np.asarray(X, dtype=np.float64), **how)
        except (TypeError, ValueError, OverflowError):
            return super()._rows(X, **how)


class ReadsNumbersOnly(he.PrivateGaussianNB):
    """A broken twin: a cell that is no number makes its fit fail."""

    def _rows(self, X, **how):
        return super()._rows(np.asarray(X, dtype=np.float64), **how)


def test_twins_that_read_the_table_as_a_whole_are_caught():
    odd, missing, y = with_odd_cells(CASES["PrivateGaussianNB"])

    def fit(kind, rows, labels):
        settings = {"epsilon": 1.0, "bounds": (-1, 1), "classes": [0, 1], "source": TestSource(1)}
        return visible_numbers(kind(**settings).fit(rows, labels), np.zeros((1, 2)))

    with pytest.raises((TypeError, ValueError, OverflowError)):
        fit(ReadsNumbersOnly, odd, y)
    # With a date as the only odd cell, this twin reads a year. One text more, and the date is missing.
    dates = [position for position, cell in enumerate(odd[:, 0]) if isinstance(cell, np.datetime64)]
    alone = [*range(4), *dates]
    for kind, differs in ((ReadsTheWholeTable, True), (he.PrivateGaussianNB, False)):
        assert (fit(kind, odd[alone], y[alone]) != fit(kind, missing[alone], y[alone])) is differs


@ALL
def test_bad_input_is_a_value_error_and_costs_nothing(case):
    purse = Purse(1)
    y = case.first[1]
    for wrong in (np.zeros((0, 2)), np.zeros((3, 2, 2)), np.zeros(3), None):  # cells of text are missing ones
        with pytest.raises((ValueError, TypeError)):
            fitted(case, (wrong, y), budget=purse)
    if y is not None:
        foreign = [] if np.asarray(y).dtype.kind == "f" else [["0"] * len(y), np.array(["0"] * len(y), dtype=object)]
        for labels in (y[:1], None, *foreign):
            with pytest.raises(ValueError, match="."):
                fitted(case, (case.first[0], labels), budget=purse)
    assert purse.charged == []
    with pytest.raises(NotFittedError):
        getattr(*query_method(case.make(epsilon=1.0)))([[0.0, 0.0]])


def query_method(model: Any) -> tuple[Any, str]:
    return model, next(
        name for name in ("predict", "transform", "score_samples", "mahalanobis") if hasattr(model, name)
    )


@ALL
def test_a_model_survives_pickling(case):
    model = fitted(case, case.second, source=None)
    copy = pickle.loads(pickle.dumps(model))
    assert visible_numbers(copy, case.first[0]) == visible_numbers(model, case.first[0])
    assert copy.guarantee_ == model.guarantee_


def lower_bound(case: Case, epsilon: float) -> float:
    def run(data: Any, source: Any) -> Any:
        return visible_numbers(fitted(case, data, epsilon=epsilon, source=source), np.array([[0.5, 0.5], [-0.5, 0.1]]))

    result = audit(
        run, case.first, case.second, samples=case.samples, search_samples=75, delta=1e-6, source=TestSource(3)
    )
    return result.epsilon_lower


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=name, marks=[pytest.mark.slow] * (name in AUDITED)) for name, case in CASES.items()],
)
def test_black_box(case):
    """No attack exceeds the claimed epsilon. The same attack does detect a leak where epsilon is many times larger."""
    assert lower_bound(case, 1.0) <= 1.0
    if case.caught is not None:
        assert lower_bound(case, case.caught) > 1.0
