"""A public phase before the private one: it trains as usual, costs nothing, and is stated."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from hush.errors import InvalidArgument
from hush.training import AdamBC, PublicPhase, freeze_except, pretrain, privatize, replace_head
from training.towers import Tower, changed, data, losses, snapshot, train

WHY = "drawn at random, from nobody"


def public_phase(model: nn.Module, optimizer: Any = None, **settings: Any) -> PublicPhase:
    chosen: Any = torch.optim.SGD(model.parameters(), lr=0.2) if optimizer is None else optimizer
    return pretrain(model, chosen, data(70), **({"public": WHY, "epochs": 4, "batch_size": 20} | settings))


def test_a_public_phase_trains_and_is_stated() -> None:
    torch.manual_seed(2)
    model = Tower(fc=nn.Linear(8, 2))
    before = losses(model, data()).mean().item()
    phase = public_phase(model, epochs=20)
    # From 60 starts, the loss falls to 0.10 +- 0.01 of its first value: 80 standard deviations below 1.
    assert losses(model, data()).mean().item() < before
    assert phase == PublicPhase(WHY, 80)
    replace_head(model, 2)
    freeze_except(model, "fc")
    private, plain = train(model, starts_from=phase), train(Tower(fc=nn.Linear(8, 2)))
    assert private.guarantee().epsilon == plain.guarantee().epsilon, "only the private phase is accounted for"
    assert private.plan._event() == plain.plan._event()
    assert any(WHY in assumption for assumption in private.guarantee().assumptions)
    assert WHY in " ".join(private.guarantee().explain().split())
    assert not any("public" in assumption for assumption in plain.guarantee().assumptions)


@pytest.mark.parametrize("rng", [lambda: 3, lambda: torch.Generator().manual_seed(3)], ids=["seed", "generator"])
def test_the_public_phase_is_an_ordinary_loop(rng: Callable[[], int | torch.Generator]) -> None:
    model = Tower(fc=nn.Linear(8, 2))
    models = [model, copy.deepcopy(model)]
    public_phase(models[0], epochs=1, rng=rng())
    optimizer = torch.optim.SGD(models[1].parameters(), lr=0.2)
    x, y = data(70)
    order = torch.randperm(70, generator=torch.Generator().manual_seed(3))
    for indices in order.split(20):
        optimizer.zero_grad()
        F.cross_entropy(models[1](x[indices]), y[indices]).backward()
        optimizer.step()
    for param, expected in zip(*(model.parameters() for model in models), strict=True):
        assert torch.allclose(param, expected, atol=1e-6)


def test_one_optimizer_for_both_phases() -> None:
    """AdamBC subtracts only the noise of the private steps: the public phase has none."""
    model = Tower(fc=nn.Linear(8, 2))
    optimizer = AdamBC(model.parameters(), lr=0.01, betas=(0.9, 0.5))
    phase = public_phase(model, optimizer)
    assert optimizer.noise_stddev == 0
    private = privatize(
        model,
        optimizer,
        data(),
        noise_multiplier=1.0,
        delta=1e-5,
        num_steps=1,
        batch_size=30,
        starts_from=phase,
    )
    for x, y in private.loader:
        private.step(F.cross_entropy(model(x), y, reduction="none"))
    assert optimizer.state[model.fc.weight]["noise_variance"] == pytest.approx(0.5 / 30**2)  # type: ignore[index, union-attr]


@pytest.mark.parametrize("why", ["", "  ", None, 3])
def test_a_public_phase_needs_a_reason(why: Any) -> None:
    model = Tower(fc=nn.Linear(8, 2))
    before = snapshot(model)
    with pytest.raises(InvalidArgument, match="^public="):
        public_phase(model, public=why)
    assert not changed(model, before)
