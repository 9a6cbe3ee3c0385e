"""The three methods behind PCA and covariance: accuracy, costs, black boxes and twins."""

from __future__ import annotations

import numpy as np
import pytest

from black_box.certainty import audit
from hush.accounting import PldAccountant
from hush.estimators import AnalyzeGauss, ExponentialPCA, PrivatePCA, Wishart
from hush.estimators.moments import second_moments
from hush.estimators.moments.gram import UNIT, add_symmetric_noise, clipped_gram
from hush.randomness import TestSource

METHODS = {"gauss": AnalyzeGauss(), "wishart": Wishart(), "exponential": ExponentialPCA()}


@pytest.mark.parametrize("name", METHODS)
def test_other_methods_find_the_components(name):
    x = np.random.default_rng(0).normal(size=(50_000, 4)) * [3.0, 2.0, 1.0, 0.5]
    model = PrivatePCA(
        2, epsilon=2.0, delta=1e-6, data_norm=10.0, center=0.0, method=METHODS[name], source=TestSource(1)
    ).fit(x)
    # Over 12 seeds the largest of these errors, in the components of the exponential mechanism, deviate by an eighth of
    # the tolerance.
    assert np.abs(model.components_) == pytest.approx(np.eye(4)[:2], abs=0.1)
    assert model.explained_variance_ == pytest.approx([9, 4], rel=0.1)
    assert model.explained_variance_ratio_.sum() == pytest.approx(13 / 14.25, rel=0.05)
    assert model.noise_variance_ == pytest.approx(0.625, rel=0.3)
    assert PldAccountant().compose(model.event_).epsilon(1e-6) <= 2.0
    assert model.guarantee_.delta == (0.0 if name == "exponential" else 1e-6)


def test_wishart_learns_a_mean_in_the_same_release():
    x = np.random.default_rng(0).normal([1.0, 2.0, -1.0], size=(50_000, 3))
    model = PrivatePCA(epsilon=2.0, delta=1e-6, data_norm=8.0, method=Wishart(), source=TestSource(1)).fit(x)
    assert model.mean_ == pytest.approx([1.0, 2.0, -1.0], abs=0.05)  # over 12 seeds +- 0.006
    assert model.explained_variance_ == pytest.approx([1, 1, 1], abs=0.2)


def one_triangle(totals, stddev, source):
    """A broken twin: no noise below the diagonal."""
    upper = np.triu(add_symmetric_noise(totals, stddev, source))
    return upper + np.tril(totals / UNIT, -1)


def unclipped(rows, norm, *others, **named):
    """A broken twin: rows are not clipped."""
    return clipped_gram(rows, norm * 2**10, *others, **named) * 2**20


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("gauss", {}),
        ("gauss", {"add_symmetric_noise": one_triangle}),
        ("wishart", {}),  # its twin is in test_wishart.py
        ("exponential", {}),
        ("exponential", {"clipped_gram": unclipped}),
    ],
)
def test_black_box(name, twin, monkeypatch):
    for function, broken in twin.items():
        monkeypatch.setattr(second_moments, function, broken)
    arguments = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 1.0, "center": 0.0, "method": METHODS[name]}

    def run(rows, source):
        model = PrivatePCA(**arguments, source=source).fit(rows)
        return [*model.components_.ravel().tolist(), *model.explained_variance_.tolist()]

    first, second = np.array([[500.0, 0.0]]), np.array([[500.0, 0.0], [0.0, 500.0]])
    if name == "gauss":
        second[1] = 500.0  # the row that noise on one triangle does not hide
    result = audit(run, first, second, samples=150, search_samples=75, delta=1e-6, source=TestSource(1))
    assert result.compare(1.0).violated is bool(twin)
