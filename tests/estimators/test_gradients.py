"""Noisy gradients: exact sums, their reach, the event; twins that sum in floating point or count one class only."""

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


def test_sums_do_not_depend_on_the_order_of_rows() -> None:
    chance = np.random.default_rng(1)
    rows = truncate(clip_rows(chance.normal(size=(70_001, 3)), 1.0, intercept=True))
    slopes = truncate(chance.uniform(-1, 1, size=(70_001, 2)))
    order = chance.permutation(len(rows))
    exact = exact_products(slopes, rows)
    assert (exact == exact_products(slopes[order], rows[order])).all()
    assert np.allclose(exact, slopes.T @ rows, rtol=1e-9, atol=1e-9)
    plain = chance.uniform(size=70_001)
    # Plain sums of two orders are equal by chance in less than half of the cases, and so in all of 40 with 1e-12.
    assert any(chance.permutation(plain).sum() != plain.sum() for _ in range(40)), "a twin that sums as it comes"


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberHinge()])
@pytest.mark.parametrize("outputs", [1, 3, 10])
def test_one_record_moves_a_gradient_by_the_stated_reach(loss: MarginLoss, outputs: int) -> None:
    made, worst = recipe(loss, outputs), 0.0
    chance = np.random.default_rng(outputs)
    row = truncate(clip_rows(np.array([[100.0]]), 1.0, intercept=True))
    for place in range(max(outputs, 2)):
        labels = label_signs(np.array([place]), outputs)
        # Wrong about every class, and sure of one that is wrong: one of them is the worst, of which loss it may be.
        wrong, sure = -1000 * labels.reshape(outputs, 1) * row, np.zeros((outputs, 2))
        sure[place % outputs], sure[(place + 1) % outputs] = -1000 * row, 1000 * row
        for weights in (wrong, sure, *(scale * chance.normal(size=(outputs, 2)) for scale in (0.0, 1.0, 1000.0))):
            worst = max(worst, float(np.linalg.norm(exact_products(made._slopes(row, labels, weights), row))))
    assert 0.99 * made._sensitivity() < worst <= made._sensitivity() + 1e-9
    if outputs > 1:
        assert worst > 1.0, "a twin that counts one class only has too little noise"


def test_the_event_is_within_epsilon_and_noise_is_as_stated() -> None:
    made = recipe(LogisticLoss(), 1)
    assert 0.99 < PldAccountant().compose(made.event).epsilon(1e-5) <= 1.0
    noise = _add_noise(np.zeros((2, 10_000)), 3.0, 2.0, TestSource("spread"))
    assert abs(noise.std() / 6.0 - 1) < 0.03


@pytest.mark.parametrize("num_steps", [None, 4])
def test_steps_together_have_the_noise_of_one(num_steps: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    made, seen = recipe(LogisticLoss(), 3, num_steps=num_steps), []

    def exact(values: Any, sensitivity: float, multiplier: float, source: Any) -> Any:
        seen.append(multiplier)
        return values

    monkeypatch.setattr(noisy_gradients, "_add_noise", exact)
    made.run(np.zeros((0, 2)), np.zeros(0, dtype=np.int64), TestSource(1))
    count, steps = seen[0], seen[1:]
    assert len(steps) == (num_steps or 20)
    assert sum(1 / each**2 for each in steps) == pytest.approx(1 / made.noise**2)
    whole = (sum(1 / each**2 for each in steps) + 1 / count**2) ** -0.5
    assert PldAccountant().compose(GaussianEvent(whole)).epsilon(1e-5) <= 1.0, (
        "a twin with the noise of one in each is not"
    )
    assert PldAccountant().compose(GaussianEvent(made.noise / math.sqrt(len(steps)))).epsilon(1e-5) > 1.5


def test_the_number_of_steps_grows_with_the_records() -> None:
    made = recipe(LogisticLoss(), 3)
    found = [made._num_steps(size) for size in (1.0, 1e3, 1e6)]
    assert found[0] == 20
    assert found == sorted(found)
    assert found[-1] == 400


@pytest.mark.parametrize("unclipped", [False, True])
def test_black_box(unclipped: bool) -> None:
    made = recipe(LogisticLoss(), 1, dimension=1, num_steps=4)
    row = np.array([[8e3]]) if unclipped else clip_rows(np.array([[8e3]]), 1.0, intercept=False)
    first = (np.zeros((0, 1)), np.zeros(0, dtype=np.int64))
    found = audit(
        lambda data, source: made.run(*data, source)[0],
        first,
        (np.repeat(row, 1, axis=0), np.ones(1, dtype=np.int64)),
        samples=300,
        search_samples=75,
        delta=1e-5,
        source=TestSource("descent"),
    )
    assert found.compare(1.0).violated is unclipped


def test_weights_stay_within_the_ball_and_classes_are_learned() -> None:
    X, y = np.eye(4).repeat(500, axis=0), np.arange(4).repeat(500)
    for kind in (PrivateLogisticRegression, PrivateLinearSVC):
        settings: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 1.0, "classes": [0, 1, 2, 3]}
        model = kind(**settings, method=NoisyGradients(), source=TestSource(2)).fit(X, y)
        assert model.score(X, y) > 0.95
        small = kind(**settings, method=NoisyGradients(radius=0.1), source=TestSource(2)).fit(X, y)
        whole = np.column_stack([small.coef_, small.intercept_]) * math.sqrt(2)
        assert (np.linalg.norm(whole, axis=1) <= 0.1 + 1e-9).all()


def test_a_delta_is_needed() -> None:
    with pytest.raises(InvalidArgument, match="delta=0"):
        PrivateLogisticRegression(epsilon=1.0, data_norm=1.0, classes=[0, 1], method=NoisyGradients())
    for wrong in ({"num_steps": 0}, {"radius": float("nan")}, {"momentum": 1.0}, {"momentum": float("nan")}):
        with pytest.raises(InvalidArgument):
            NoisyGradients(**wrong)  # type: ignore[arg-type]
