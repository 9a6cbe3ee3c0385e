"""The models of `hush attack demo`: what their training depends on, and what it guarantees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from hush.cli.commands import attack_models
from hush.cli.commands.attack_models import PrivateNetwork, network, one_thread, plain


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_models, "PLAIN_STEPS", 300)
    monkeypatch.setattr(attack_models, "STEPS", 5)


def data(num_people: int = 60) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(num_people, 8)).astype(np.float32), rng.integers(0, 3, num_people)


def test_the_step_does_not_depend_on_the_number_of_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member with a zero gradient must not move anything: the sum is divided by a fixed number."""
    rates: list[float] = []

    def spied(model: Any, dataset: Any, **settings: Any) -> Any:
        rates.append(settings["optimizer"].param_groups[0]["lr"] / len(dataset[1]))
        raise _Enough

    class _Enough(Exception):
        pass

    monkeypatch.setattr(attack_models, "fit", spied)
    train = PrivateNetwork(3, epsilon=1.0, expected=10.0)
    for size in (5, 12):
        with pytest.raises(_Enough):
            train(np.zeros((size, 4), np.float32), np.zeros(size, np.int64))
    assert rates[0] == pytest.approx(rates[1])


def test_the_private_model_states_its_guarantee() -> None:
    x, labels = data()
    private = PrivateNetwork(3, epsilon=2.0, expected=60.0)
    assert private.guarantee is None
    probabilities = private(x, labels)(x)
    assert private.guarantee is not None
    assert 1.99 < private.guarantee.epsilon <= 2
    assert private.guarantee.delta == attack_models.DELTA
    assert probabilities.shape == (60, 3)
    assert np.allclose(probabilities.sum(1), 1)


def test_the_ordinary_model_memorises() -> None:
    """Random labels can only be memorised. With 10 seeds of torch, accuracy was 1."""
    torch.manual_seed(0)
    x, labels = data()
    assert (plain(3)(x, labels)(x).argmax(1) == labels).mean() > 0.9


def test_probabilities_keep_their_precision() -> None:
    model = network(8, 3)
    with torch.no_grad():
        model[-1].weight.zero_()  # type: ignore[index, union-attr, operator]
        model[-1].bias.copy_(torch.tensor([20.0, 0.0, 0.0]))  # type: ignore[index, union-attr, operator]
    certainty = attack_models._predict(model)(data()[0])[:, 0]
    assert np.all(certainty < 1)  # 1 - 4e-9, which single precision would round to 1


def test_one_thread_is_for_a_while() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
