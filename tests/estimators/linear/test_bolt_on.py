"""Bolt-on SGD: how far one row moves the weights, with noise removed; the event; black boxes and twins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from black_box.certainty import audit
from hush.accounting import PldAccountant
from hush.errors import InvalidArgument
from hush.estimators import BoltOnSGD, PrivateLinearSVC, PrivateLogisticRegression
from hush.estimators.linear.bolt_on import LearningRates, _BoltOnRecipe
from hush.estimators.linear.losses import HuberHinge, LogisticLoss, MarginLoss
from hush.estimators.linear.method import Problem
from hush.estimators.linear.sums import clip_rows
from hush.randomness import TestSource


def problem(loss: MarginLoss, **changes: Any) -> Problem:
    usual = Problem(loss=loss, dimension=1, outputs=1, softmax=False, epsilon=1.0, delta=0.0, regularization=None)
    return replace(usual, **changes)


def moved(recipe: _BoltOnRecipe, schedule: LearningRates, parts: list[Any], batch: int, record: Any) -> float:
    """Return the distance by which one row in a batch moves the weights, all else being equal."""
    ends = []
    for joined in (False, True):
        weights = np.zeros((1, recipe.problem.dimension))
        for step, rate in enumerate(schedule.rates):
            rows, labels = parts[step % schedule.batches]
            if joined and step % schedule.batches == batch:
                rows, labels = np.vstack([rows, record[0]]), np.vstack([labels, record[1]])
            weights = recipe._step(weights, rows, labels, float(rate), schedule.decay)
        ends.append(weights)
    return float(np.linalg.norm(ends[0] - ends[1]))


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberHinge()])
@pytest.mark.parametrize("ridge", [None, 0.5, 20.0])
@pytest.mark.parametrize("learning_rate", [None, 1e9])
def test_one_row_moves_the_weights_by_the_sensitivity_at_most(
    loss: MarginLoss, ridge: float | None, learning_rate: float | None
) -> None:
    chance = np.random.default_rng(3)
    method = BoltOnSGD(num_passes=3, batch_size=5, learning_rate=learning_rate)
    recipe: Any = method.prepare(problem(loss, dimension=2, regularization=ridge))
    schedule = LearningRates.choose(method, recipe.problem, 20)
    assert schedule.batches == 4
    for size in (0, 4, 5, 30):  # below, at and above the batch size
        rows = clip_rows(chance.normal(size=(size, 2)) * 9, 1.0, intercept=False)
        part = (rows, np.where(rows[:, :1] > 0, 1.0, -1.0))
        for batch in range(4):
            record = clip_rows(np.array([[50.0, 20.0]]), 1.0, intercept=False), np.array([[-1.0]])
            assert moved(recipe, schedule, [part] * 4, batch, record) <= schedule.sensitivity()


def test_the_sensitivity_is_nearly_attained_by_a_full_batch() -> None:
    method = BoltOnSGD(num_passes=1, batch_size=50, learning_rate=1e-3)
    recipe: Any = method.prepare(problem(HuberHinge()))
    schedule = LearningRates.choose(method, recipe.problem, 50)
    full = np.ones((50, 1)), np.ones((50, 1))
    distance = moved(recipe, schedule, [full], 0, (np.ones((1, 1)), -np.ones((1, 1))))
    assert 0.95 * schedule.sensitivity() < distance <= schedule.sensitivity(), (
        "a twin that counts one gradient only has half"
    )


@pytest.mark.parametrize("batch_size", [1, 50])
def test_sensitivities_match_the_theorems(batch_size: int) -> None:
    constant = BoltOnSGD(num_passes=4, batch_size=batch_size, learning_rate=1e-4)
    sensitivity = LearningRates.choose(constant, problem(LogisticLoss()), 1000).sensitivity()
    assert sensitivity == pytest.approx(2 * 4 * 1e-4), "2 k L eta"
    falling = LearningRates.choose(BoltOnSGD(batch_size=batch_size), problem(LogisticLoss(), regularization=2.0), 1000)
    assert 0.5 < falling.sensitivity() <= 1.0 + 1e-12, (
        "2 L / lambda, of a sum; a twin that divides by the batch has 1/50"
    )


@pytest.mark.parametrize(("delta", "ridge"), [(0.0, None), (0.0, 1.0), (1e-6, None), (1e-6, 1.0)])
def test_the_event_is_within_epsilon_and_classes_are_learned(delta: float, ridge: float | None) -> None:
    X, y = np.eye(3).repeat(3000, axis=0), np.arange(3).repeat(3000)
    for kind in (PrivateLogisticRegression, PrivateLinearSVC):
        model = kind(
            epsilon=3.0,
            delta=delta,
            data_norm=1.0,
            classes=[0, 1, 2],
            method=BoltOnSGD(),
            regularization=ridge,
            source=TestSource(1),
        ).fit(X, y)
        assert 2.8 < PldAccountant().compose(model.event_).epsilon(delta) <= 3 + 1e-9
        assert model.score(X, y) > 0.95


class Divided(_BoltOnRecipe):
    """A broken twin: it uses the sensitivity of a mean over the batch for a sum."""

    def _sensitivity(self, schedule: LearningRates) -> float:
        return schedule.sensitivity() / self.method.batch_size


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_black_box(broken: bool, delta: float) -> None:
    prepared: Any = BoltOnSGD(num_passes=2).prepare(problem(HuberHinge(), delta=delta))
    kind = Divided if broken else _BoltOnRecipe
    recipe = kind(
        problem=prepared.problem,
        method=prepared.method,
        count_epsilon=prepared.count_epsilon,
        weights_epsilon=prepared.weights_epsilon,
    )
    first = (np.zeros((0, 1)), np.zeros(0, dtype=np.int64))
    result = audit(
        lambda data, source: recipe.run(*data, source)[0],
        first,
        (clip_rows(np.array([[9.0]]), 1.0, intercept=False), np.ones(1, dtype=np.int64)),
        samples=150,
        search_samples=75,
        delta=delta,
        source=TestSource("bolt-on"),
    )
    assert result.compare(1.0).violated is broken


def test_wrong_settings() -> None:
    for wrong in ({"num_passes": 0}, {"batch_size": 1.5}, {"learning_rate": float("nan")}, {"radius": 0}):
        with pytest.raises(InvalidArgument):
            BoltOnSGD(**wrong)  # type: ignore[arg-type]
