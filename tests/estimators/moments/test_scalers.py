"""Private scalers: sensitivity, learned bounds, attributes as in scikit-learn, black boxes and twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler

import hush.estimators as he
from black_box.certainty import audit
from estimators.checks import unexpected_failures
from estimators.neighbours import EXTREMES, check_blocks, planned_releases
from estimators.table import LEARNS_FROM_FEW
from hush.accounting import PldAccountant
from hush.estimators import LearnBounds, PrivateHistogramDensity, PrivateMinMaxScaler, PrivateStandardScaler
from hush.randomness import TestSource


@pytest.mark.parametrize(
    "model",
    [
        PrivateStandardScaler(epsilon=900.0, bounds=(-10, 10)),
        PrivateStandardScaler(epsilon=900.0, bounds=LearnBounds()),
        PrivateMinMaxScaler(epsilon=900.0, bounds=(-10, 10)),
        PrivateHistogramDensity(epsilon=900.0, bounds=(-10, 10), bins=2),
    ],
    ids=["standard", "learned", "minmax", "density"],
)
def test_scikit_learn_checks(model):
    assert unexpected_failures(model) == []


@pytest.mark.parametrize(
    "model",
    [
        PrivateStandardScaler(epsilon=1.0, delta=1e-6, bounds=(-1, 1)),
        PrivateHistogramDensity(epsilon=1.0, bounds=(-1, 1), bins=3),
    ],
    ids=["standard", "density"],
)
def test_one_row_moves_the_release_by_the_stated_sensitivity(model, monkeypatch):
    x = np.random.default_rng(0).normal(size=(5, 2))
    ((plan, before),) = planned_releases(monkeypatch, lambda: model.fit(x))
    for a in EXTREMES:
        ((_, after),) = planned_releases(monkeypatch, lambda a=a: model.fit(np.vstack([x, [a, -1.0]])))
        check_blocks(plan, before, after)
        assert math.isnan(a) or (before != after).any()


def test_learned_bounds():
    x = np.random.default_rng(0).normal(3.0, 0.5, size=(20_000, 2))
    model = PrivateStandardScaler(epsilon=1.0, bounds=LearnBounds(share=0.2), source=TestSource(1)).fit(x)
    assert model.mean_ == pytest.approx(x.mean(axis=0), abs=0.05)
    # Over 12 seeds they are off by 0.008 and by 4 % at most, on average. The tolerance is more than 6 times as much.
    assert model.scale_ == pytest.approx(x.std(axis=0), rel=0.25)
    assert PldAccountant().compose(model.event_).epsilon(0.0) <= 1.0
    minmax = PrivateMinMaxScaler(epsilon=1.0, bounds=LearnBounds(), source=TestSource(1)).fit(x)
    assert minmax.guarantee_.epsilon == 1.0
    assert PldAccountant().compose(minmax.event_).epsilon(0.0) == pytest.approx(1.0)
    assert (minmax.data_min_ <= 3).all()
    assert (minmax.data_max_ >= 3).all()


def test_nothing_is_learned_from_one_row():
    # False alarms: the limit is such that noise of 123 empty bins is above it with 1e-6.
    with pytest.warns(UserWarning, match="the bounds of 1 of 1 features are lost in noise"):
        model = PrivateMinMaxScaler(epsilon=1.0, bounds=LearnBounds(), source=TestSource(1)).fit([[1e6]])
    assert (model.data_min_[0], model.data_max_[0]) == (-1.0, 1.0)


class BoundsFromTheData(PrivateStandardScaler):
    """A broken twin."""

    def fit(self, X, y=None):
        self.bounds = (float(np.min(X)), float(np.max(X)) + 1e-9)
        return super().fit(X)


class RangeOfTheData(PrivateMinMaxScaler):
    """A broken twin: it learns the bounds almost without noise."""

    def fit(self, X, y=None):
        self.epsilon = 900.0
        return super().fit(X)


SMALL, LARGE = np.array([[0.5], [0.5]]), np.array([[0.5], [0.5], [1e6]])
MANY = np.full((200, 1), 0.75)  # enough for bounds to be found, most of the time
FOUND = np.full((26, 1), 0.75)


@pytest.mark.parametrize(
    ("model", "bounds", "first", "second", "violated"),
    [
        (PrivateStandardScaler, (-1, 1), SMALL, LARGE, False),
        (BoundsFromTheData, (-1, 1), SMALL, LARGE, True),
        (PrivateStandardScaler, LearnBounds(), MANY, np.vstack([MANY, [[1e6]]]), False),
        (PrivateMinMaxScaler, LearnBounds(), FOUND[1:], FOUND, False),
        (RangeOfTheData, LearnBounds(), SMALL, LARGE, True),
    ],
)
@LEARNS_FROM_FEW
def test_black_box(model, bounds, first, second, violated):
    def run(rows, source):
        fitted = model(epsilon=1.0, bounds=bounds, source=source).fit(rows)
        shown = (fitted.scale_, fitted.bounds_) if hasattr(fitted, "bounds_") else (fitted.data_min_, fitted.data_max_)
        return [float(number) for part in (fitted.transform([[0.0]]), *shown) for number in np.ravel(part)]

    result = audit(run, first, second, samples=150, search_samples=75, source=TestSource(1))
    assert result.compare(1.0).violated is violated


def test_bounds_that_are_lost_in_noise_raise_a_warning():
    # False alarms: there is no warning only if each of 30 features finds a bound. One does with 1.1e-6 at most: 1e-6 if
    # one of its empty bins passes, 5e-8 if the bin with its 50 rows does. All of them do with 1e-178.
    rows = np.full((50, 30), 655.0)
    with pytest.warns(UserWarning, match="of 30 features are lost in noise"):
        he.PrivateStandardScaler(epsilon=1.0, bounds=he.LearnBounds(), source=TestSource(1)).fit(rows)


TABLE = np.random.default_rng(0).uniform(-1, 1, size=(300, 3))


def test_min_max_attributes():
    ours = he.PrivateMinMaxScaler(epsilon=1.0, bounds=([-4, 0, 1], [6, 2, 9])).fit(TABLE)
    theirs = MinMaxScaler().fit([[-4, 0, 1], [6, 2, 9]])
    for name in ("scale_", "min_", "data_min_", "data_max_", "data_range_"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name))
    assert ours.transform(TABLE) == pytest.approx(theirs.transform(TABLE))
    assert ours.inverse_transform(ours.transform(TABLE)) == pytest.approx(TABLE)


@pytest.mark.parametrize(
    "model",
    [
        he.PrivateMinMaxScaler(epsilon=1.0, bounds=(-1, 1)),
        he.PrivateStandardScaler(epsilon=1.0, bounds=(-1, 1)),
        he.PrivatePCA(2, epsilon=1.0, delta=1e-5, data_norm=1.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_inverse_transform_takes_what_transform_returns(model):
    transformed = model.fit(TABLE).transform(TABLE)
    assert model.inverse_transform(transformed).shape == TABLE.shape
    assert np.isnan(model.inverse_transform(np.full_like(transformed, math.nan))).all()
    for wrong in (
        transformed[:, :1],
        np.hstack([transformed, transformed]),
        transformed[0],
        [["a"] * transformed.shape[1]],
    ):
        with pytest.raises(ValueError, match="."):
            model.inverse_transform(wrong)
