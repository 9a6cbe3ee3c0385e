"""Attributes and methods mean what they mean in scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import hush.estimators as he
from hush.errors import InvalidArgument
from hush.estimators import pate
from hush.estimators.moments.log_bins import BINS, bins_plan, learned_bounds
from hush.randomness import TestSource
from hush.statistics import EachRow, LaplaceNoise, approximate_bounds

X = np.random.default_rng(0).uniform(-1, 1, size=(300, 3))


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2]])
def test_scores_of_lda_are_those_of_its_weights(classes):
    y = np.arange(300) % len(classes)
    model = he.PrivateLDA(epsilon=5.0, delta=1e-5, data_norm=2.0, classes=classes, source=TestSource(1)).fit(X, y)
    rows = 1 if len(classes) == 2 else 3
    assert (model.coef_.shape, model.intercept_.shape) == ((rows, 3), (rows,))
    scores = X @ model.coef_.T + model.intercept_
    assert model.decision_function(X) == pytest.approx(scores[:, 0] if rows == 1 else scores)
    assert np.exp(model.predict_log_proba(X)) == pytest.approx(model.predict_proba(X))
    assert (model.predict_proba(X).argmax(axis=1) == model.predict(X)).all()
    # The discriminant that means, covariance and priors stand for.
    inner = np.linalg.solve(model.covariance_, model.means_.T)
    joint = X @ inner - 0.5 * np.einsum("ij,ji->i", model.means_, inner) + np.log(model.priors_)
    assert model.predict_proba(X) == pytest.approx(np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True))


def test_min_max_attributes():
    ours = he.PrivateMinMaxScaler(epsilon=1.0, bounds=([-4, 0, 1], [6, 2, 9])).fit(X)
    theirs = MinMaxScaler().fit([[-4, 0, 1], [6, 2, 9]])
    for name in ("scale_", "min_", "data_min_", "data_max_", "data_range_"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name))
    assert ours.transform(X) == pytest.approx(theirs.transform(X))
    assert ours.inverse_transform(ours.transform(X)) == pytest.approx(X)


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
    told = model.fit(X).transform(X)
    assert model.inverse_transform(told).shape == X.shape
    assert np.isnan(model.inverse_transform(np.full_like(told, math.nan))).all()
    for wrong in (told[:, :1], np.hstack([told, told]), told[0], [["a"] * told.shape[1]]):
        with pytest.raises(ValueError, match="."):
            model.inverse_transform(wrong)


class TestTeachers:
    def fitted(self, rows, public, student=None):
        return pate.PATEClassifier(
            DecisionTreeClassifier(),
            student or LogisticRegression(),
            num_teachers=3,
            aggregator=pate.GNMax(sigma=2.0),
            epsilon=500.0,
            delta=1e-5,
            classes=[0, 1],
            source=TestSource(1),
        ).fit(rows, (X[:, 0] > 0).astype(int), public=public)

    def test_log_probabilities(self):
        model = self.fitted(X, X)
        assert np.exp(model.predict_log_proba(X)) == pytest.approx(model.predict_proba(X))

    def test_names(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(X, columns=["a", "b", "c"])
        model = self.fitted(frame, frame)
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        for wrong in (
            lambda: model.predict(frame[["b", "a", "c"]]),
            lambda: self.fitted(frame, frame[["b", "a", "c"]]),
        ):
            with pytest.raises(ValueError, match="names"):
                wrong()

    def test_a_cell_is_not_quoted(self):
        rows = X.astype(object)
        rows[3, 1] = "secret"
        with pytest.raises(ValueError, match="numbers") as caught:
            self.fitted(rows, X)
        assert "secret" not in str(caught.value)


class TestOneHot:
    @pytest.mark.parametrize("wrong", ["ab", ["ab"], [["a"], "bc"], [b"ab"], [[]], [], 3, None, [["a", "a"]]])
    def test_what_is_no_list_of_categories(self, wrong):
        with pytest.raises(InvalidArgument, match="categories"):
            he.PublicOneHotEncoder(categories=wrong)

    @pytest.mark.parametrize(
        ("known", "cells"),
        [
            ([3, 1, 2], np.array([1, 2, 3, 4, 0, -1, 1])),
            ([0.5, -1.0], np.array([0.5, -1.0, math.nan, math.inf])),
            (["b", "a"], np.array(["a", "b", "", "c", "aa"])),
            (["b", "a"], np.array(["a", "b", None, 3], dtype=object)),
            ([True, False], np.array([True, False])),
            ([1, "1"], np.array([1, "1", 2], dtype=object)),
        ],
    )
    def test_like_scikit_learn(self, known, cells):
        ours = he.PublicOneHotEncoder(categories=[known]).fit(cells[:, None])
        expected = [[float(c == k) for k in known] for c in cells.tolist()]
        found = ours.transform(cells[:, None])
        assert found.tolist() == expected
        back = ours.inverse_transform(found)[:, 0].tolist()
        assert back == [c if c in known else None for c in cells.tolist()]

    def test_inverse_of_several_features(self):
        known = [["a", "b"], [1, 2, 3]]
        rows = np.array([["a", 3], ["b", 1], ["c", 2]], dtype=object)
        ours = he.PublicOneHotEncoder(categories=known).fit(rows)
        theirs = OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=False).fit(rows[:2])
        columns = ours.transform(rows)
        assert columns.tolist() == theirs.transform(rows).tolist()
        assert ours.inverse_transform(columns).tolist() == theirs.inverse_transform(columns).tolist()
        with pytest.raises(InvalidArgument):
            ours.inverse_transform(columns[:, 1:])


class TestBins:
    def test_counts(self):
        powers = 2.0 ** np.arange(-40, 60)
        odd = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-320, 1e308]
        values = np.concatenate([powers, -powers, np.nextafter(powers, 0), np.nextafter(powers, math.inf), odd])
        ends = 2.0 ** np.arange(-20, 42)
        for column, counts in zip(
            np.stack([values, -values]), BINS.counts(np.stack([values, -values], 1)), strict=True
        ):
            known = column[~np.isnan(column)]
            places = np.searchsorted(ends[:-1], np.abs(known))
            assert counts.tolist() == np.bincount(np.where(known < 0, 61 - places, 62 + places), minlength=124).tolist()

    def test_bounds_are_those_of_statistics(self):
        rows = np.random.default_rng(0).normal(size=(4000, 3)) * [1e-3, 1.0, 1e6] + [0, 5, 0]
        lower, upper = learned_bounds(rows, bins_plan(5.0), TestSource(1))
        for column, low, high in zip(rows.T, lower, upper, strict=True):
            alone = approximate_bounds(column, units=EachRow(), epsilon=5.0, noise=LaplaceNoise(), source=TestSource(2))
            assert alone.noise_scale == bins_plan(5.0).block_scales[0]
            assert alone.bounds[1] == high or abs(math.log2(alone.bounds[1] / high)) == 1
            assert np.sign(alone.bounds[0]) == np.sign(low)
