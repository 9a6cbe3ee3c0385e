from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from estimators.checks import unexpected_failures
from estimators.neighbours import EXTREMES, check_blocks, planned_releases
from hush.accounting import PldAccountant
from hush.audit.testers import audit_mechanism
from hush.estimators import PrivateKMeans
from hush.randomness import TestSource


def test_scikit_learn_checks():
    assert unexpected_failures(PrivateKMeans(3, epsilon=50.0, bounds=(-10, 10))) == []


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_one_row_moves_an_iteration_by_the_stated_sensitivity(delta, monkeypatch):
    x = np.random.default_rng(0).normal(size=(9, 2))

    def first(rows):
        model = PrivateKMeans(3, epsilon=1.0, delta=delta, bounds=(-1, 1), n_iter=2, source=TestSource(1))
        return planned_releases(monkeypatch, lambda: model.fit(rows))[0]

    plan, before = first(x)
    for a in EXTREMES:
        check_blocks(plan, before, first(np.vstack([x, [a, 1.0]]))[1])


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_all_iterations_are_accounted_for(delta):
    model = PrivateKMeans(2, epsilon=1.0, delta=delta, bounds=(-1, 1), n_iter=20).fit(np.zeros((3, 4)))
    assert PldAccountant().compose(model.event_).epsilon(delta) == pytest.approx(1.0, rel=1e-3)
    assert PldAccountant().compose(model.event_).epsilon(delta) <= 1.0


def test_nothing_exact_is_stored():
    model = PrivateKMeans(2, epsilon=1.0, bounds=(-1, 1)).fit(np.zeros((3, 1)))
    assert not hasattr(model, "labels_")
    assert not hasattr(model, "inertia_")


class OneIterationPaid(PrivateKMeans):
    """A broken twin: each iteration has all of epsilon."""

    def _plan(self):
        paid = PrivateKMeans(1, epsilon=self.epsilon * self.n_iter, bounds=self.bounds, n_iter=self.n_iter)
        paid.n_features_in_ = self.n_features_in_
        return paid._plan()


@pytest.mark.parametrize(("model", "violated"), [(PrivateKMeans, False), (OneIterationPaid, True)])
def test_black_box(model, violated, monkeypatch):
    from hush.estimators import _kmeans

    seen = []
    release = _kmeans.NoisePlan.release

    def kept(plan, totals, source):
        noisy = release(plan, totals, source)
        seen.append(noisy)
        return noisy

    monkeypatch.setattr(_kmeans.NoisePlan, "release", kept)

    def run(data, source):
        seen.clear()
        model(1, epsilon=2.0, bounds=(-1, 1), n_iter=6, source=source).fit(data)
        # Noise on the count is twice that on the sum.
        return [sum(float(noisy[0] @ [1, 4]) for noisy in seen)]

    first, second = np.full((5, 1), 1.0), np.full((6, 1), 1.0)
    result = audit_mechanism(run, first, second, samples=1000, source=TestSource(1))
    assert (result.epsilon_lower > 2.0) is violated


def test_finds_blobs():
    """diffprivlib 0.6.6 has a median of 3.77 at epsilon 1 on the same data; without noise it is about 0.71."""
    spreads = []
    for seed in range(6):
        x, _ = make_blobs(5000, 2, centers=5, cluster_std=0.6, center_box=(-8, 8), random_state=seed)
        model = PrivateKMeans(5, epsilon=1.0, bounds=(-10, 10), source=TestSource(seed)).fit(x)
        spreads.append((model.transform(x).min(axis=1) ** 2).mean())
    assert np.median(spreads) < 1.8
