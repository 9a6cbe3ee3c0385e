"""Bounds and clip norms: what is refused, and norms that are learned, with a twin that takes the largest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import hush.estimators as he
from black_box.certainty import audit
from estimators.checks import unexpected_failures
from estimators.purse import Purse
from hush.accounting import PldAccountant
from hush.errors import InvalidArgument
from hush.estimators import FrankWolfe, FunctionalRegression, LearnBounds, PrivateLogisticRegression
from hush.estimators.base.bounds import _NORMS, norm_scores, resolve_norm
from hush.randomness import TestSource


def scores(norms: Any) -> Any:
    return norm_scores(np.searchsorted(np.sort(norms), _NORMS, side="right"), len(norms))


def test_one_row_changes_every_score_by_at_most_a_half() -> None:
    chance, worst = np.random.default_rng(1), 0.0
    for size in (0, 1, 2, 7, 30):
        norms = chance.choice([0.0, 1e-9, 1.0, 1.0, 3.0, 1e20, math.inf], size)
        for record in (0.0, 1.0, 2.0, 1e300, math.inf):
            worst = max(worst, float(np.abs(scores(norms) - scores(np.append(norms, record))).max()))
    assert worst == 0.5


def learn(rows: Any, **settings: Any) -> float:
    return resolve_norm(LearnBounds(share=0.5), rows, **({"epsilon": 2.0, "source": TestSource(1)} | settings))


def test_a_little_above_the_median_is_found() -> None:
    chance = np.random.default_rng(2)
    for scale in (1e-4, 1.0, 3e7):
        rows = chance.normal(size=(400, 20)) * scale
        median = float(np.median(np.linalg.norm(rows, axis=1)))
        assert 1.0 <= learn(rows) / median <= 1.6
    assert learn(np.full((300, 1), 3.0)) == pytest.approx(4.0), "many rows of one norm: those above are no medians"
    assert learn(np.full((300, 4), 3.0), order=math.inf) == pytest.approx(4.0)
    assert resolve_norm(1.5, rows, epsilon=1.0, source=TestSource(1)) == 1.5
    assert math.isfinite(learn(np.zeros((0, 2))))


@pytest.mark.parametrize("largest", [False, True])
def test_black_box(largest: bool) -> None:
    def run(rows: Any, source: Any) -> float:
        if largest:  # the twin
            return float(np.linalg.norm(rows, axis=1).max(initial=0.0))
        return learn(rows, source=source)

    result = audit(
        run, np.zeros((0, 1)), np.full((1, 1), 1e9), samples=150, search_samples=75, source=TestSource("norm")
    )
    assert result.compare(1.0).violated is largest


X = np.random.default_rng(3).normal(size=(4000, 3)) * 50
Y = (X[:, 0] > 0).astype(int)


def test_what_is_learned_is_paid_for_from_epsilon() -> None:
    settings: dict[str, Any] = {"data_norm": LearnBounds(share=0.2), "source": TestSource(1)}
    models = [
        PrivateLogisticRegression(epsilon=1.0, classes=[0, 1], **settings),
        PrivateLogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1], method=FrankWolfe(), **settings),
        FunctionalRegression(epsilon=1.0, target_bounds=(0, 1), **settings),
    ]
    for model in models:
        model.fit(X, Y)
        assert 60 < model.data_norm_ < 200
        assert 0.9 < PldAccountant().compose(model.event_).epsilon(float(model.delta)) <= 1 + 1e-9
        assert model.guarantee_.epsilon == 1.0
    assert models[0].score(X, Y) > 0.95
    with pytest.raises(InvalidArgument, match="data_norm"):
        PrivateLogisticRegression(epsilon=1.0, classes=[0, 1], data_norm=None)


def test_scikit_learn() -> None:
    assert (
        unexpected_failures(PrivateLogisticRegression(epsilon=900.0, data_norm=LearnBounds(), classes=[0, 1, 2])) == []
    )


def bayes(**changes):
    return he.PrivateGaussianNB(
        **{"epsilon": 1.0, "bounds": (-1, 1), "classes": [0, 1], "source": TestSource(1)} | changes
    )


@pytest.mark.parametrize("norm", [1e-160, 1e-300, 5e-324, 1e200, math.inf, math.nan])
def test_norms_whose_squares_overflow_are_refused(norm):
    for make in (
        lambda: he.PrivateRidge(epsilon=1, delta=1e-6, data_norm=norm, target_bounds=(0, 1)),
        lambda: he.PrivatePCA(epsilon=1, delta=1e-6, data_norm=norm),
        lambda: he.PrivateCovariance(epsilon=1, delta=1e-6, data_norm=norm),
        lambda: he.PrivateLDA(epsilon=1, delta=1e-6, data_norm=norm, classes=[0, 1]),
        lambda: he.PrivateSelectBest(k=1, epsilon=1, data_bound=norm, classes=[0, 1]),
    ):
        with pytest.raises(InvalidArgument):
            make()


def test_bounds_that_cannot_be_learned_name_the_scaler():
    for make in (lambda b: bayes(bounds=b), lambda b: he.PrivatePCA(epsilon=1, delta=1e-6, data_norm=b)):
        with pytest.raises(InvalidArgument, match="PrivateMinMaxScaler"):
            make(he.LearnBounds())


@pytest.mark.parametrize("bounds", [([0, 0, 0], [1, 1, 1]), ([0], [1])])
@pytest.mark.parametrize("kind", [he.PrivateStandardScaler, he.PrivateMinMaxScaler])
def test_bounds_of_other_features_cost_nothing(kind, bounds):
    purse = Purse(1)
    with pytest.raises(InvalidArgument, match="bounds"):
        kind(epsilon=1.0, bounds=bounds, budget=purse).fit(np.zeros((4, 2)))
    assert purse.charged == []


@pytest.mark.parametrize("share", [0.0, 1.0, math.nan])
def test_wrong_share(share):
    with pytest.raises(InvalidArgument):
        LearnBounds(share=share)
