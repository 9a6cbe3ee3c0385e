"""Output perturbation: how far one row moves the minimum, with noise removed; black boxes and a twin."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hush.estimators as he
from black_box.certainty import audit
from hush.accounting import PldAccountant
from hush.estimators import OutputPerturbation, PrivateLogisticRegression
from hush.estimators.linear.losses import HuberHinge, LogisticLoss, MarginLoss
from hush.estimators.linear.method import Problem
from hush.estimators.linear.minimum import minimise
from hush.estimators.linear.objective import TOLERANCE
from hush.estimators.linear.output import PerturbedRecipe
from hush.estimators.linear.sums import clip_rows
from hush.mechanisms import DiscreteLaplace
from hush.randomness import TestSource


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberHinge()])
@pytest.mark.parametrize("ridge", [0.1, 5.0])
def test_one_row_moves_the_minimum_by_the_sensitivity_at_most(loss: MarginLoss, ridge: float) -> None:
    chance = np.random.default_rng(2)
    reach, worst, unclipped = (1 + 2 * TOLERANCE) / ridge, 0.0, 0.0
    pull = 20 * np.array([0.6, 0.0, 0.8])  # many tiny rows: the margin is low, and the slope near its maximum
    for count in (0, 1, 20):
        rows = clip_rows(chance.normal(size=(count, 3)), 1.0, intercept=False)
        base = minimise(loss, rows, ridge=ridge, tilt=pull, tolerance=TOLERANCE / 2)
        for scale in (1.0, 50.0):
            record = scale * np.array([[0.6, 0.0, 0.8]])
            neighbour = np.vstack([rows, clip_rows(record, 1.0, intercept=False)])
            moved = minimise(loss, neighbour, ridge=ridge, tilt=pull, tolerance=TOLERANCE / 2)
            worst = max(worst, float(np.linalg.norm(base - moved)))
            twin = minimise(loss, np.vstack([rows, record]), ridge=ridge, tilt=pull, tolerance=TOLERANCE / 2)
            unclipped = max(unclipped, float(np.linalg.norm(base - twin)))
    assert 0.9 * reach < worst <= reach
    assert unclipped > 2 * reach, "a twin that does not clip moves further"


@pytest.mark.parametrize(("delta", "ridge"), [(0.0, 1.0), (0.0, None), (1e-6, 1.0), (1e-6, None)])
def test_the_event_is_within_epsilon(delta: float, ridge: float | None) -> None:
    X, y = np.eye(3).repeat(30, axis=0), np.arange(3).repeat(30)
    model = PrivateLogisticRegression(
        epsilon=1.0,
        delta=delta,
        data_norm=1.0,
        classes=[0, 1, 2],
        method=OutputPerturbation(),
        regularization=ridge,
        source=TestSource(1),
    ).fit(X, y)
    assert 0.9 < PldAccountant().compose(model.event_).epsilon(delta) <= 1 + 1e-9


@pytest.mark.parametrize("short", [False, True])
def test_black_box(short: bool) -> None:
    problem = Problem(
        loss=LogisticLoss(), dimension=1, outputs=1, softmax=False, epsilon=1.0, delta=0.0, regularization=10.0
    )
    recipe: Any = OutputPerturbation().prepare(problem)
    # Far from the minimum a slope is near 1: the worst case. The twin gets rows that are too long.
    row = clip_rows(np.array([[9.0]]), 1.0, intercept=False) * (600.0 if short else 1.0)
    others = np.full((60, 1), 1.0)
    first = (others, np.zeros(60, dtype=np.int64))
    result = audit(
        lambda data, source: recipe.run(*data, source)[0],
        first,
        (np.vstack([others, row]), np.array([0] * 60 + [1])),
        samples=150,
        search_samples=75,
        source=TestSource("output"),
    )
    assert result.compare(1.0).violated is short


def test_gaussian_noise_covers_all_classes_together() -> None:
    problem = Problem(
        loss=LogisticLoss(), dimension=2, outputs=4, softmax=True, epsilon=1.0, delta=1e-6, regularization=2.0
    )
    recipe: Any = OutputPerturbation().prepare(problem)
    empty = (np.zeros((0, 2)), np.zeros(0, dtype=np.int64))
    source = TestSource("spread")
    values = np.array([recipe.run(*empty, source) for _ in range(500)])
    from hush.accounting import calibrate_noise

    stated = calibrate_noise(epsilon=1.0, delta=1e-6) * math.sqrt(4) / 2.0
    assert abs(values.std() / stated - 1) < 0.06


@pytest.mark.parametrize("method", [he.OutputPerturbation(), he.BoltOnSGD()], ids=["output", "bolt-on"])
def test_the_sensitivity_follows_from_the_noisy_count_alone(monkeypatch, method):
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
