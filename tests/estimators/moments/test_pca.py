"""Private PCA: sensitivity, accuracy, whitening, and refused parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import hush.estimators as he
from estimators.checks import unexpected_failures
from estimators.neighbours import EXTREMES, gaussian_distance, gaussian_releases
from hush.accounting import gaussian_multiplier
from hush.errors import InvalidArgument
from hush.estimators import ExponentialPCA, PrivatePCA, Wishart
from hush.randomness import TestSource


@pytest.mark.parametrize(
    "model",
    [
        PrivatePCA(epsilon=900.0, delta=1e-5, data_norm=10),
        PrivatePCA(epsilon=2.0, delta=1e-5, data_norm=10, method=Wishart()),  # larger ones it refuses: fixed key
        PrivatePCA(epsilon=900.0, delta=1e-5, data_norm=10, center=0.0, method=ExponentialPCA()),
    ],
    ids=["gauss", "wishart", "exponential"],
)
def test_scikit_learn_checks(model):
    assert unexpected_failures(model) == []


@pytest.mark.parametrize("center", [None, 0.25])
def test_one_row_moves_the_release_by_the_stated_sensitivity(center, monkeypatch):
    x = np.random.default_rng(0).normal(size=(5, 2))

    def released(rows):
        model = PrivatePCA(epsilon=1.0, delta=1e-6, data_norm=1.0, center=center)
        return gaussian_releases(monkeypatch, lambda: model.fit(rows))

    before = released(x)
    distances = [
        gaussian_distance(before, released(np.vstack([x, [a, b]]))) * gaussian_multiplier(1.0, 1e-6)
        for a in EXTREMES
        for b in EXTREMES
    ]
    assert 0.999 < max(distances) <= 1
    assert min(distances) == 0  # rows with a missing value


def test_close_to_the_components_without_noise():
    x, _ = load_digits(return_X_y=True)
    covariance = np.cov(x.T)

    def captured(directions):
        return np.trace(directions @ covariance @ directions.T) / np.trace(covariance)

    best = captured(PCA(5).fit(x).components_)
    private = [
        captured(PrivatePCA(5, epsilon=e, delta=1e-6, data_norm=80, source=TestSource(1)).fit(x).components_)
        for e in (1.0, 10.0)
    ]
    assert private[0] > 0.4 * best
    assert private[1] > 0.95 * best


def test_whitening_and_back():
    x = np.random.default_rng(0).normal(size=(20_000, 3)) * [2.0, 1.0, 0.5]
    model = PrivatePCA(epsilon=5.0, delta=1e-6, data_norm=8.0, whiten=True, source=TestSource(1)).fit(x)
    assert model.transform(x).std(axis=0) == pytest.approx([1, 1, 1], rel=0.1)
    assert model.inverse_transform(model.transform(x)) == pytest.approx(x)
    assert model.explained_variance_ratio_.sum() == pytest.approx(1)


def test_wrong_parameters():
    with pytest.raises(InvalidArgument):
        PrivatePCA(epsilon=1.0, delta=1e-6, data_norm=math.nan)
    with pytest.raises(InvalidArgument):
        PrivatePCA(3, epsilon=1.0, delta=1e-6, data_norm=1.0).fit([[1.0, 2.0]])
    with pytest.raises(InvalidArgument):
        PrivatePCA(epsilon=1.0, delta=0.0, data_norm=1.0, method=Wishart())
    with pytest.raises(InvalidArgument):
        PrivatePCA(epsilon=1.0, delta=1e-6, data_norm=1.0, method=ExponentialPCA())
    with pytest.raises(InvalidArgument):
        PrivatePCA(epsilon=1.0, delta=1e-6, data_norm=1.0, method="wishart")
    with pytest.raises(InvalidArgument):
        PrivatePCA(epsilon=1.0, delta=1e-6, data_norm=1.0, center=math.nan).fit([[1.0, 2.0]])


@pytest.mark.parametrize("wrong", ["x", math.nan, [[0.0]], he.LearnBounds()])
def test_wrong_center(wrong):
    for kind in (he.PrivatePCA, he.PrivateCovariance):
        with pytest.raises(InvalidArgument, match="center"):
            kind(epsilon=1, delta=1e-6, data_norm=1, center=wrong)
    with pytest.raises(InvalidArgument, match="center"):
        he.PrivatePCA(epsilon=1, delta=1e-6, data_norm=1, center=[0, 0, 0]).fit(np.zeros((3, 2)))
