"""Private Frank-Wolfe: the event, sparse problems, and a twin with unbounded entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from black_box.certainty import audit
from hush.accounting import PldAccountant
from hush.estimators import FrankWolfe, PrivateLogisticRegression
from hush.estimators.linear.losses import LogisticLoss
from hush.estimators.linear.method import Problem
from hush.estimators.linear.sums import clip_rows
from hush.randomness import TestSource


def recipe(epsilon: float = 1.0, delta: float = 0.0, num_steps: int = 3, dimension: int = 2, outputs: int = 1) -> Any:
    problem = Problem(
        loss=LogisticLoss(),
        dimension=dimension,
        outputs=outputs,
        softmax=True,
        epsilon=epsilon,
        delta=delta,
        regularization=None,
    )
    return FrankWolfe(num_steps=num_steps).prepare(problem)


@pytest.mark.parametrize(("delta", "outputs"), [(0.0, 1), (1e-6, 1), (1e-6, 5)])
def test_the_event_is_within_epsilon(delta: float, outputs: int) -> None:
    prepared = recipe(delta=delta, num_steps=40, outputs=outputs)
    assert 0.9 < PldAccountant().compose(prepared.event).epsilon(delta) <= 1 + 1e-9
    assert prepared.epsilon >= 0.999 / (40 * outputs)


@pytest.mark.parametrize("unbounded", [False, True])
def test_black_box(unbounded: bool) -> None:
    prepared = recipe(num_steps=2, dimension=100)
    entries = np.eye(1, 100) * 1e3
    row = entries if unbounded else clip_rows(entries, 1.0, intercept=False, order=np.inf)
    assert unbounded or np.abs(row).max() <= 1
    first = (np.zeros((0, 100)), np.zeros(0, dtype=np.int64))
    result = audit(
        lambda data, source: prepared.run(*data, source)[0],
        first,
        (row, np.ones(1, dtype=np.int64)),
        samples=150,
        search_samples=75,
        source=TestSource("corners"),
    )
    assert result.compare(1.0).violated is unbounded


def test_few_of_many_features_are_found() -> None:
    chance = np.random.default_rng(1)
    X = chance.choice([-1.0, 1.0], size=(4000, 300))
    y = (X[:, 7] + 0.5 * X[:, 11] > 0).astype(int)
    model = PrivateLogisticRegression(
        epsilon=2.0,
        delta=1e-6,
        data_norm=1.0,
        classes=[0, 1],
        method=FrankWolfe(num_steps=20, radius=5.0),
        source=TestSource(5),
    ).fit(X, y)
    assert model.score(X, y) > 0.95
    assert np.abs(model.coef_).sum() + np.abs(model.intercept_).sum() <= 5.0 + 1e-9
    assert np.abs(model.coef_[0]).argmax() == 7
