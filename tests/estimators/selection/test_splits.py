"""Splits of rows: independent coins, the cost of comparing settings, and steps that must be paid for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import hush.estimators as he
from estimators.purse import Purse
from hush.accounting import ApproximateDPEvent, ComposedEvent, PldAccountant
from hush.errors import InvalidArgument
from hush.estimators import (
    Folds,
    HeldOut,
    PrivateGridSearch,
    PrivateLogisticRegression,
    PrivateStandardScaler,
    PublicOneHotEncoder,
)
from hush.randomness import TestSource

PLANE, SIGNS = np.array([[1.0, 0.0], [-1.0, 0.0]] * 300), np.array([1, 0] * 300)
GRID = {"regularization": [1.0, 1e6], "fit_intercept": [True, False]}


def logistic_search(**settings: Any) -> PrivateGridSearch:
    inner = PrivateLogisticRegression(epsilon=0.5, data_norm=1.0, classes=[0, 1], budget=Purse(0), source=TestSource(2))
    return PrivateGridSearch(inner, GRID, **({"score_epsilon": 1.0, "source": TestSource(3)} | settings))


def test_folds_pay_for_all_fits_but_one_the_comparison_and_the_last_fit() -> None:
    fitted = logistic_search(cv=Folds(3), score_epsilon=0.25).fit(PLANE, SIGNS)
    assert fitted.guarantee_.epsilon == pytest.approx(4 * 2 * 0.5 + 0.25 + 0.5)
    assert fitted.score(PLANE, SIGNS) > 0.95
    assert fitted.guarantee_.epsilon > 4 * 0.5 + 0.25, "a twin that counts a setting once"
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


def pipeline(purse: Any = None) -> Any:
    scaler = PrivateStandardScaler(epsilon=0.25, bounds=(-1, 1), budget=purse, source=TestSource(4))
    inner = PrivateLogisticRegression(epsilon=0.5, data_norm=1.0, classes=[0, 1], budget=purse, source=TestSource(5))
    return make_pipeline(FunctionTransformer(), scaler, inner)


def test_a_step_that_learns_without_paying_is_refused() -> None:
    leaking = make_pipeline(StandardScaler(), pipeline()[-1])
    with pytest.raises(InvalidArgument, match="StandardScaler"):
        PrivateGridSearch(leaking, {}, score_epsilon=0.5, source=TestSource(3)).fit(PLANE, SIGNS)
    with pytest.raises(InvalidArgument, match="LogisticRegression"):
        PrivateGridSearch(LogisticRegression(), {}, score_epsilon=0.5, source=TestSource(3)).fit(PLANE, SIGNS)


def test_an_estimator_that_keeps_all_rows_is_not_free():
    from sklearn.gaussian_process import GaussianProcessRegressor

    x = np.linspace(-1, 1, 40)[:, None]
    search = he.PrivateGridSearch(
        GaussianProcessRegressor(), {"alpha": [1e-6, 1e-3]}, score_epsilon=0.5, loss_bound=1.0, cv=he.Folds(2)
    )
    with pytest.raises(InvalidArgument, match="not accounted for"):
        search.fit(x, x[:, 0])


pd = pytest.importorskip("pandas")

X, Y = np.tile([[1.0], [-1.0]], (200, 1)), np.tile([1, 0], 200)
FRAME = pd.DataFrame({"size": X[:, 0], "colour": np.tile(["red", "green"], 200)})


def logistic(epsilon: float = 2.0, **changes: Any) -> Any:
    return PrivateLogisticRegression(
        epsilon=epsilon, **({"data_norm": 2.0, "classes": [0, 1], "source": TestSource(1)} | changes)
    )


def search(estimator: Any, grid: Any = None, **settings: Any) -> PrivateGridSearch:
    return PrivateGridSearch(estimator, grid or {}, **({"score_epsilon": 1.0, "source": TestSource(2)} | settings))


def both(**settings: Any) -> Any:
    encoder = PublicOneHotEncoder(categories=[["red", "green"]])
    scaler = PrivateStandardScaler(epsilon=0.5, bounds=(-1, 1), source=TestSource(4))
    return make_column_transformer((encoder, ["colour"]), (scaler, ["size"]), **settings)


def test_columns_with_steps_of_their_own_are_all_paid_for() -> None:
    fitted = search(make_pipeline(both(), logistic())).fit(FRAME, Y)
    assert fitted.guarantee_.epsilon == pytest.approx(2.5)
    assert fitted.score(FRAME, Y) == 1.0
    nothing = both(remainder=StandardScaler())
    leaking = make_column_transformer((StandardScaler(), ["size"]))
    for wrong in (nothing, leaking, make_union(StandardScaler())):
        with pytest.raises(InvalidArgument, match="StandardScaler"):
            search(make_pipeline(wrong, logistic())).fit(FRAME, Y)
    by_type = make_column_transformer((both(), make_column_selector(dtype_include=object)))
    with pytest.raises(InvalidArgument, match="columns"):
        search(make_pipeline(by_type, logistic())).fit(FRAME, Y)
    united = make_union(FunctionTransformer(), PrivateStandardScaler(epsilon=0.5, bounds=(-1, 1), source=TestSource(4)))
    assert search(make_pipeline(united, logistic())).fit(X, Y).guarantee_.epsilon == pytest.approx(2.5)
