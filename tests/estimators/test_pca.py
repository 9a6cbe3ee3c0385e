from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from estimators.checks import unexpected_failures
from estimators.neighbours import EXTREMES, gaussian_distance, gaussian_releases
from hush.errors import InvalidArgument
from hush.estimators import PrivateLDA, PrivatePCA
from hush.estimators._private import noise_multiplier
from hush.randomness import TestSource


def test_scikit_learn_checks():
    assert unexpected_failures(PrivatePCA(epsilon=50.0, delta=1e-5, data_norm=10)) == []


@pytest.mark.parametrize("center", [None, 0.25])
def test_one_row_moves_the_release_by_the_stated_sensitivity(center, monkeypatch):
    x = np.random.default_rng(0).normal(size=(5, 2))

    def released(rows):
        model = PrivatePCA(epsilon=1.0, delta=1e-6, data_norm=1.0, center=center)
        return gaussian_releases(monkeypatch, lambda: model.fit(rows))

    before = released(x)
    distances = [
        gaussian_distance(before, released(np.vstack([x, [a, b]]))) * noise_multiplier(1.0, 1e-6)
        for a in EXTREMES
        for b in EXTREMES
    ]
    assert 0.999 < max(distances) <= 1
    assert min(distances) == 0  # those with something missing


def test_lda_has_the_stated_sensitivity(monkeypatch):
    x, y = np.random.default_rng(0).normal(size=(5, 2)), np.array([0, 1, 0, 1, 7])

    def released(rows, labels):
        model = PrivateLDA(epsilon=1.0, delta=1e-6, data_norm=1.0, classes=[0, 1])
        return gaussian_releases(monkeypatch, lambda: model.fit(rows, labels))

    before = released(x, y)
    distances = [
        gaussian_distance(before, released(np.vstack([x, [a, 1.0]]), np.append(y, label)))
        for a in EXTREMES
        for label in (0, 1, 7)
    ]
    assert 0.999 < max(distances) * noise_multiplier(1.0, 1e-6) <= 1


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
