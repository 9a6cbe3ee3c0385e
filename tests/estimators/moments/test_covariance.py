"""Private covariance: sensitivity, accuracy, a black box and a twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.covariance import EmpiricalCovariance

from black_box.certainty import audit
from estimators.checks import unexpected_failures
from estimators.neighbours import EXTREMES, gaussian_distance, gaussian_releases
from hush.accounting import gaussian_multiplier
from hush.errors import InvalidArgument
from hush.estimators import ExponentialPCA, PrivateCovariance, Wishart
from hush.randomness import TestSource


@pytest.mark.parametrize("method", [None, Wishart()], ids=["gauss", "wishart"])
def test_scikit_learn_checks(method):
    epsilon = 900.0 if method is None else 2.0  # larger ones Wishart noise refuses: fixed key
    assert unexpected_failures(PrivateCovariance(epsilon=epsilon, delta=1e-5, data_norm=10, method=method)) == []


@pytest.mark.parametrize("center", [None, 0.25])
def test_one_row_moves_the_release_by_the_stated_sensitivity(center, monkeypatch):
    x = np.random.default_rng(0).normal(size=(5, 2))

    def released(rows):
        model = PrivateCovariance(epsilon=1.0, delta=1e-6, data_norm=1.0, center=center)
        return gaussian_releases(monkeypatch, lambda: model.fit(rows))

    before = released(x)
    largest = max(gaussian_distance(before, released(np.vstack([x, [a, b]]))) for a in EXTREMES for b in EXTREMES)
    assert 0.999 < largest * gaussian_multiplier(1.0, 1e-6) <= 1


@pytest.mark.parametrize("method", [None, Wishart()], ids=["gauss", "wishart"])
@pytest.mark.parametrize("center", [None, [1.0, 0.0, -1.0]])
def test_close_to_the_matrix_without_noise(method, center):
    x = np.random.default_rng(0).multivariate_normal([1, 0, -1], [[2, 0.5, 0], [0.5, 1, 0.3], [0, 0.3, 1]], size=50_000)
    model = PrivateCovariance(
        epsilon=2.0, delta=1e-6, data_norm=10.0, center=center, method=method, source=TestSource(1)
    ).fit(x)
    exact = EmpiricalCovariance().fit(x)
    # Over 10 seeds all errors are below a ninth of the tolerance, on average.
    assert model.location_ == pytest.approx(exact.location_, abs=0.05)
    assert model.covariance_ == pytest.approx(exact.covariance_, abs=0.1)
    assert model.covariance_ @ model.get_precision() == pytest.approx(np.eye(3))
    assert model.score(x) == pytest.approx(exact.score(x), abs=0.01)
    assert np.mean(model.mahalanobis(x)) == pytest.approx(3, rel=0.1)
    assert model.error_norm(exact.covariance_) < 0.1


def test_the_matrix_is_positive_when_rows_are_few():
    model = PrivateCovariance(epsilon=0.1, delta=1e-6, data_norm=1.0, source=TestSource(1)).fit(np.zeros((1, 4)))
    assert (np.linalg.eigvalsh(model.covariance_) > 0).all()
    assert np.isfinite(model.precision_).all()


class BoundsFromTheData(PrivateCovariance):
    """A broken twin."""

    def fit(self, X, y=None):
        self.data_norm = float(np.linalg.norm(X, axis=1).max())
        return super().fit(X)


@pytest.mark.parametrize(("model", "violated"), [(PrivateCovariance, False), (BoundsFromTheData, True)])
def test_black_box(model, violated):
    def run(rows, source):
        fitted = model(epsilon=1.0, delta=1e-6, data_norm=1.0, source=source).fit(rows)
        return [*fitted.covariance_.ravel().tolist(), *fitted.location_.tolist()]

    first, second = np.array([[0.1, 0.0]]), np.array([[0.1, 0.0], [1e4, 1e4]])
    result = audit(run, first, second, samples=150, search_samples=75, delta=1e-6, source=TestSource(1))
    assert result.compare(1.0).violated is violated


def test_wrong_parameters():
    with pytest.raises(InvalidArgument):
        PrivateCovariance(epsilon=1.0, delta=0.0, data_norm=1.0)
    with pytest.raises(InvalidArgument):
        PrivateCovariance(epsilon=1.0, delta=1e-6, data_norm=math.inf)
    with pytest.raises(InvalidArgument):
        PrivateCovariance(epsilon=1.0, delta=1e-6, data_norm=1.0, method=ExponentialPCA())
    with pytest.raises(InvalidArgument):  # too many features for the rounding errors of Wishart noise
        PrivateCovariance(epsilon=1.0, delta=1e-9, data_norm=1.0, method=Wishart()).fit(np.zeros((1, 300)))
