from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from black_box.certainty import audit
from estimators.checks import unexpected_failures
from estimators.neighbours import EXTREMES, gaussian_distance, gaussian_releases
from hush.accounting import PldAccountant
from hush.errors import InvalidArgument
from hush.estimators import AnalyzeGauss, ExponentialPCA, PrivateLDA, PrivatePCA, Wishart
from hush.estimators.base.estimator import noise_multiplier
from hush.estimators.moments import second_moments
from hush.estimators.moments.gram import STEPS, UNIT, add_symmetric_noise, clipped_gram
from hush.randomness import TestSource


@pytest.mark.parametrize(
    "model",
    [
        PrivatePCA(epsilon=900.0, delta=1e-5, data_norm=10),
        PrivatePCA(epsilon=2.0, delta=1e-5, data_norm=10, method=Wishart()),
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
    with pytest.raises(InvalidArgument):
        PrivatePCA(epsilon=1.0, delta=0.0, data_norm=1.0, method=Wishart())
    with pytest.raises(InvalidArgument):
        PrivatePCA(epsilon=1.0, delta=1e-6, data_norm=1.0, method=ExponentialPCA())
    with pytest.raises(InvalidArgument):
        PrivatePCA(epsilon=1.0, delta=1e-6, data_norm=1.0, method="wishart")
    with pytest.raises(InvalidArgument):
        PrivatePCA(epsilon=1.0, delta=1e-6, data_norm=1.0, center=math.nan).fit([[1.0, 2.0]])


def test_a_row_counts_the_same_wherever_it_is():
    """Blocks and products must not round by place: a row's part of the sums would else be more than its own."""
    x = np.random.default_rng(0).normal(size=(5000, 7))

    def totals(rows):
        return clipped_gram(rows, 1.0, 1, lambda out, part: out.fill(STEPS))

    whole = totals(x)
    assert (totals(x[::-1]) == whole).all()
    assert (totals(np.asfortranarray(x)) == whole).all()
    assert (totals(x[:1]) + totals(x[1:]) == whole).all()


METHODS = {"gauss": AnalyzeGauss(), "wishart": Wishart(), "exponential": ExponentialPCA()}


@pytest.mark.parametrize("name", METHODS)
def test_other_methods_find_the_components(name):
    x = np.random.default_rng(0).normal(size=(50_000, 4)) * [3.0, 2.0, 1.0, 0.5]
    model = PrivatePCA(
        2, epsilon=2.0, delta=1e-6, data_norm=10.0, center=0.0, method=METHODS[name], source=TestSource(1)
    ).fit(x)
    # Over 12 seeds the worst of these errors, those of the exponential mechanism's components, are +- an eighth of what
    # is allowed.
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
    """A broken twin: rows are in units of the norm, and as long as they are."""
    return clipped_gram(rows, norm * 2**10, *others, **named) * 2**20


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("gauss", {}),
        ("gauss", {"add_symmetric_noise": one_triangle}),
        ("wishart", {}),  # its twin is in test_covariance.py
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
        second[1] = 500.0  # what one triangle hides
    result = audit(run, first, second, samples=150, search_samples=75, delta=1e-6, source=TestSource(1))
    assert result.compare(1.0).violated is bool(twin)
