"""How far one row moves what is compared, counted or summed, and that noise is for no less; each was broken once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hush.estimators as he
from estimators.neighbours import gaussian_distance, gaussian_releases
from hush.estimators.base.estimator import noise_multiplier
from hush.estimators.linear.output import PerturbedRecipe
from hush.mechanisms import DiscreteLaplace, ExponentialMechanism, IteratedTopK
from hush.randomness import TestSource

FEW = np.array([[0.0, 0.0], [0.0, 0.0]])
MORE = np.vstack([FEW, [[1.0, 1.0]]])
SHORT = np.array([[0.2, 0.0], [0.2, 0.0], [1.0, 0.0], [1.0, 0.0]])
LONGER = np.vstack([SHORT, [[1.0, 0.0]]])


def compared(monkeypatch: Any, kind: Any, fit: Any) -> tuple[Any, float]:
    """Return the first scores that a fit chooses by, and the sensitivity that the choice is for."""
    seen: list[tuple[Any, float]] = []
    original = kind.release

    def release(mechanism: Any, scores: Any, source: Any) -> Any:
        seen.append((np.array(scores, dtype=np.float64), float(mechanism.sensitivity)))
        return original(mechanism, scores, source)

    with monkeypatch.context() as patched:
        patched.setattr(kind, "release", release)
        fit()
    return seen[0]


CHOICES = {
    "Frank-Wolfe": (
        ExponentialMechanism,
        lambda: he.PrivateLinearSVC(epsilon=1.0, data_norm=1.0, classes=[0, 1], method=he.FrankWolfe()),
        (FEW, [0, 1], MORE, [0, 1, 1]),
    ),
    "features": (
        IteratedTopK,
        lambda: he.PrivateSelectBest(k=1, epsilon=1.0, data_bound=1.0, classes=[0, 1]),
        (FEW, [0, 1], MORE, [0, 1, 1]),
    ),
    "norm": (
        ExponentialMechanism,
        lambda: he.PrivateLogisticRegression(epsilon=1.0, data_norm=he.LearnBounds(), classes=[0, 1]),
        (SHORT, [0, 1, 0, 1], LONGER, [0, 1, 0, 1, 1]),
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices(monkeypatch, name):
    kind, make, (x, y, more_x, more_y) = CHOICES[name]
    one, reach = compared(monkeypatch, kind, lambda: make().set_params(source=TestSource(1)).fit(x, y))
    other, same = compared(monkeypatch, kind, lambda: make().set_params(source=TestSource(1)).fit(more_x, more_y))
    assert reach == same
    assert 0.99 * reach <= np.abs(one - other).max() <= reach  # no less, and for the worst row no more


@pytest.mark.parametrize("row", [[1.0, 0.0], [0.0, 0.0], [0.6, -0.8], [50.0, 0.0]])
def test_discriminant_analysis(monkeypatch, row):
    make = lambda: he.PrivateLDA(epsilon=1.0, delta=1e-6, data_norm=1.0, classes=[0, 1], source=TestSource(1))  # noqa: E731
    rows = np.array([[0.3, 0.1], [-0.2, 0.5]])
    one = gaussian_releases(monkeypatch, lambda: make().fit(rows, [0, 1]))
    other = gaussian_releases(monkeypatch, lambda: make().fit(np.vstack([rows, [row]]), [0, 1, 1]))
    distance = gaussian_distance(one, other) * noise_multiplier(1.0, 1e-6)
    assert distance <= 1 + 1e-9
    if np.linalg.norm(row) >= 1:
        assert distance > 0.99


@pytest.mark.parametrize("method", [he.OutputPerturbation(), he.BoltOnSGD()], ids=["output", "bolt-on"])
def test_a_reach_follows_from_the_noisy_count_alone(monkeypatch, method):
    reaches: list[float] = []

    def told(self: Any, found: Any, *, sensitivity: float, distance: float, source: Any) -> Any:
        reaches.append(sensitivity)
        return found

    monkeypatch.setattr(DiscreteLaplace, "release", lambda self, count, source: SimpleNamespace(value=700))
    monkeypatch.setattr(PerturbedRecipe, "release", told)
    for size in (2, 50):
        he.PrivateLogisticRegression(epsilon=1.0, data_norm=1.0, classes=[0, 1], method=method).fit(
            np.ones((size, 2)), np.arange(size) % 2
        )
    assert reaches[0] == reaches[1]


def test_trees_follow_from_the_noisy_count_alone(monkeypatch):
    shapes = []
    monkeypatch.setattr(DiscreteLaplace, "release", lambda self, count, source: SimpleNamespace(value=700))
    for size in (2, 5000):
        made = he.PrivateRandomForestClassifier(epsilon=1.0, bounds=(-1, 1), classes=[0, 1], source=TestSource(1))
        model = made.fit(np.zeros((size, 2)), np.arange(size) % 2)
        shapes.append((model.n_estimators_, model.max_depth_))
    assert shapes[0] == shapes[1]
