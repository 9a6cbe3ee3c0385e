"""Noisy gradients: their sensitivity and their event; a twin that counts one class only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from black_box.certainty import audit
from hush.accounting import GaussianEvent, PldAccountant
from hush.errors import InvalidArgument
from hush.estimators import NoisyGradients, PrivateLinearSVC, PrivateLogisticRegression
from hush.estimators.linear import noisy_gradients
from hush.estimators.linear.losses import HuberHinge, LogisticLoss, MarginLoss
from hush.estimators.linear.method import Problem, label_signs
from hush.estimators.linear.noisy_gradients import _add_noise
from hush.estimators.linear.sums import clip_rows, exact_products, truncate
from hush.randomness import TestSource


def recipe(loss: MarginLoss, outputs: int, dimension: int = 2, **settings: Any) -> Any:
    problem = Problem(
        loss=loss,
        dimension=dimension,
        outputs=outputs,
        softmax=isinstance(loss, LogisticLoss),
        epsilon=1.0,
        delta=1e-5,
        regularization=None,
    )
    return NoisyGradients(**settings).prepare(problem)


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberHinge()])
@pytest.mark.parametrize("outputs", [1, 3, 10])
def test_one_row_moves_a_gradient_by_the_sensitivity_at_most(loss: MarginLoss, outputs: int) -> None:
    prepared, worst = recipe(loss, outputs), 0.0
    chance = np.random.default_rng(outputs)
    row = truncate(clip_rows(np.array([[100.0]]), 1.0, intercept=True))
    for index in range(max(outputs, 2)):
        labels = label_signs(np.array([index]), outputs)
        # Wrong about every class, or certain of a wrong one: one of these is the worst case, depending on the loss.
        wrong, sure = -1000 * labels.reshape(outputs, 1) * row, np.zeros((outputs, 2))
        sure[index % outputs], sure[(index + 1) % outputs] = -1000 * row, 1000 * row
        for weights in (wrong, sure, *(scale * chance.normal(size=(outputs, 2)) for scale in (0.0, 1.0, 1000.0))):
            worst = max(worst, float(np.linalg.norm(exact_products(prepared._slopes(row, labels, weights), row))))
    assert 0.99 * prepared._sensitivity() < worst <= prepared._sensitivity() + 1e-9
    if outputs > 1:
        assert worst > 1.0, "a twin that counts one class only has too little noise"


def test_the_event_is_within_epsilon_and_noise_is_as_stated() -> None:
    prepared = recipe(LogisticLoss(), 1)
    assert 0.99 < PldAccountant().compose(prepared.event).epsilon(1e-5) <= 1.0
    noise = _add_noise(np.zeros((2, 10_000)), 3.0, 2.0, TestSource("spread"))
    assert abs(noise.std() / 6.0 - 1) < 0.03


@pytest.mark.parametrize("num_steps", [None, 4])
def test_steps_together_have_the_noise_of_one(num_steps: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared, multipliers = recipe(LogisticLoss(), 3, num_steps=num_steps), []

    def exact(values: Any, sensitivity: float, multiplier: float, source: Any) -> Any:
        multipliers.append(multiplier)
        return values

    monkeypatch.setattr(noisy_gradients, "_add_noise", exact)
    prepared.run(np.zeros((0, 2)), np.zeros(0, dtype=np.int64), TestSource(1))
    count, steps = multipliers[0], multipliers[1:]
    assert len(steps) == (num_steps or 20)
    assert sum(1 / noise**2 for noise in steps) == pytest.approx(1 / prepared.noise**2)
    composed = (sum(1 / noise**2 for noise in steps) + 1 / count**2) ** -0.5
    assert PldAccountant().compose(GaussianEvent(composed)).epsilon(1e-5) <= 1.0, (
        "a twin with the noise of one in each is not"
    )
    assert PldAccountant().compose(GaussianEvent(prepared.noise / math.sqrt(len(steps)))).epsilon(1e-5) > 1.5


def test_the_number_of_steps_grows_with_the_records() -> None:
    prepared = recipe(LogisticLoss(), 3)
    numbers = [prepared._num_steps(size) for size in (1.0, 1e3, 1e6)]
    assert numbers[0] == 20
    assert numbers == sorted(numbers)
    assert numbers[-1] == 400


@pytest.mark.parametrize("unclipped", [False, True])
def test_black_box(unclipped: bool) -> None:
    prepared = recipe(LogisticLoss(), 1, dimension=1, num_steps=4)
    row = np.array([[8e3]]) if unclipped else clip_rows(np.array([[8e3]]), 1.0, intercept=False)
    first = (np.zeros((0, 1)), np.zeros(0, dtype=np.int64))
    result = audit(
        lambda data, source: prepared.run(*data, source)[0],
        first,
        (np.repeat(row, 1, axis=0), np.ones(1, dtype=np.int64)),
        samples=300,
        search_samples=75,
        delta=1e-5,
        source=TestSource("descent"),
    )
    assert result.compare(1.0).violated is unclipped


def test_weights_stay_within_the_ball_and_classes_are_learned() -> None:
    X, y = np.eye(4).repeat(500, axis=0), np.arange(4).repeat(500)
    for kind in (PrivateLogisticRegression, PrivateLinearSVC):
        settings: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 1.0, "classes": [0, 1, 2, 3]}
        model = kind(**settings, method=NoisyGradients(), source=TestSource(2)).fit(X, y)
        assert model.score(X, y) > 0.95
        small = kind(**settings, method=NoisyGradients(radius=0.1), source=TestSource(2)).fit(X, y)
        unprojected = np.column_stack([small.coef_, small.intercept_]) * math.sqrt(2)
        assert (np.linalg.norm(unprojected, axis=1) <= 0.1 + 1e-9).all()


def test_a_delta_is_needed() -> None:
    with pytest.raises(InvalidArgument, match="delta=0"):
        PrivateLogisticRegression(epsilon=1.0, data_norm=1.0, classes=[0, 1], method=NoisyGradients())
    for wrong in ({"num_steps": 0}, {"radius": float("nan")}, {"momentum": 1.0}, {"momentum": float("nan")}):
        with pytest.raises(InvalidArgument):
            NoisyGradients(**wrong)  # type: ignore[arg-type]
