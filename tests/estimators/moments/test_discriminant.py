"""Private LDA: sensitivity, weights, a black box and a twin without noise on counts."""

from __future__ import annotations

import numpy as np
import pytest

import hush.estimators as he
from black_box.certainty import audit
from estimators.neighbours import EXTREMES, gaussian_distance, gaussian_releases
from hush.accounting import gaussian_multiplier
from hush.estimators import PrivateLDA
from hush.estimators.moments import discriminant
from hush.estimators.moments.gram import UNIT, add_noise
from hush.randomness import TestSource


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
    assert 0.999 < max(distances) * gaussian_multiplier(1.0, 1e-6) <= 1


def exact_counts(totals, stddev, source):
    """A broken twin: counts of classes have no noise."""
    return totals / UNIT if totals.ndim == 1 else add_noise(totals, stddev, source)


@pytest.mark.parametrize("twin", [None, exact_counts])
def test_lda_black_box(twin, monkeypatch):
    if twin is not None:
        monkeypatch.setattr(discriminant, "add_noise", twin)

    def run(data, source):
        fitted = PrivateLDA(epsilon=1.0, delta=1e-6, data_norm=1.0, classes=[0, 1], source=source).fit(*data)
        return [*fitted.means_.ravel().tolist(), *fitted.priors_.tolist(), float(fitted.covariance_[0, 0])]

    first = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), np.array([0, 1, 1])
    second = np.vstack([first[0], [[1e9, 1e9]]]), np.append(first[1], 1)
    result = audit(run, first, second, samples=150, search_samples=75, delta=1e-6, source=TestSource(1))
    assert result.compare(1.0).violated is (twin is not None)


TABLE = np.random.default_rng(0).uniform(-1, 1, size=(300, 3))


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2]])
def test_scores_of_lda_are_those_of_its_weights(classes):
    y = np.arange(300) % len(classes)
    model = he.PrivateLDA(epsilon=5.0, delta=1e-5, data_norm=2.0, classes=classes, source=TestSource(1)).fit(TABLE, y)
    rows = 1 if len(classes) == 2 else 3
    assert (model.coef_.shape, model.intercept_.shape) == ((rows, 3), (rows,))
    scores = TABLE @ model.coef_.T + model.intercept_
    assert model.decision_function(TABLE) == pytest.approx(scores[:, 0] if rows == 1 else scores)
    assert np.exp(model.predict_log_proba(TABLE)) == pytest.approx(model.predict_proba(TABLE))
    assert (model.predict_proba(TABLE).argmax(axis=1) == model.predict(TABLE)).all()
    # The discriminant from means, covariance and priors.
    inner = np.linalg.solve(model.covariance_, model.means_.T)
    joint = TABLE @ inner - 0.5 * np.einsum("ij,ji->i", model.means_, inner) + np.log(model.priors_)
    assert model.predict_proba(TABLE) == pytest.approx(np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("row", [[1.0, 0.0], [0.0, 0.0], [0.6, -0.8], [50.0, 0.0]])
def test_discriminant_analysis(monkeypatch, row):
    make = lambda: he.PrivateLDA(epsilon=1.0, delta=1e-6, data_norm=1.0, classes=[0, 1], source=TestSource(1))  # noqa: E731
    rows = np.array([[0.3, 0.1], [-0.2, 0.5]])
    before = gaussian_releases(monkeypatch, lambda: make().fit(rows, [0, 1]))
    after = gaussian_releases(monkeypatch, lambda: make().fit(np.vstack([rows, [row]]), [0, 1, 1]))
    distance = gaussian_distance(before, after) * gaussian_multiplier(1.0, 1e-6)
    assert distance <= 1 + 1e-9
    if np.linalg.norm(row) >= 1:
        assert distance > 0.99
