"""The end of a step: noise on the sum, the optimizer, and the ball that weights are projected onto."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import hush
from hush.errors import InvalidArgument, Unsupported
from hush.training import Ball, Banded, InOrder
from hush.training.loop.update import Updater
from hush.training.noise.integer_gaussian import integer_gaussian
from hush.training.noise.noise_grid import NoiseGrid
from training.loops import network, weights
from training.sums import data as sums_data
from training.sums import model as sums_model

KEY = bytes(range(32))


def test_weights_stay_in_the_ball() -> None:
    x, y = sums_data()
    model = sums_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    private = hush.privatize(
        model, optimizer, (x, y), noise_multiplier=1.0, delta=1e-3, num_steps=4, projection=Ball(0.7)
    )
    for inputs, targets in private.loader:
        private.step(nn.functional.cross_entropy(private.model(inputs), targets, reduction="none"))
        assert float(weights(model).norm()) <= 0.7 + 1e-5


def test_weights_inside_the_ball_are_left_alone() -> None:
    params = [nn.Parameter(torch.tensor([0.3, 0.4])), nn.Parameter(torch.zeros(3))]
    Ball(0.6).project(params)
    assert torch.equal(params[0], torch.tensor([0.3, 0.4]))
    frozen = nn.Parameter(torch.full((2,), 9.0), requires_grad=False)
    Ball(0.25).project([*params, frozen])
    assert torch.allclose(params[0], torch.tensor([0.15, 0.2]))
    assert torch.equal(frozen, torch.full((2,), 9.0))
    with pytest.raises(InvalidArgument, match="^radius="):
        Ball(0.0)


def test_gradients_are_sum_plus_noise_over_the_divisor() -> None:
    model = network()
    sizes = [param.numel() for param in model.parameters()]
    totals = {name: torch.randn_like(param) for name, param in model.named_parameters() if name != "2.bias"}
    updater = Updater(model, [torch.optim.SGD(model.parameters(), lr=0.0)])
    grid = NoiseGrid.of_sum(clip_norm=1.0, stddev=2.0, size=sum(sizes))
    updater(KEY, 3, totals, grid, divisor=8.0)
    noise = torch.split(integer_gaussian(KEY, 3, sum(sizes), stddev=grid.stddev), sizes)
    for (name, param), part in zip(model.named_parameters(), noise, strict=True):
        total = totals.get(name, torch.zeros_like(param))  # a parameter without a gradient gets noise all the same
        assert param.grad is not None
        integers = torch.round(total.double() / grid.spacing) + part.view_as(param)
        assert torch.equal(param.grad, (integers * (grid.spacing / 8.0)).float())


class Failing(torch.optim.SGD):
    """An optimizer that fails."""

    def step(self, closure: Any = None) -> None:
        raise RuntimeError("no step")


def test_memory_of_the_noise_is_not_used_again_before_a_failed_step_has_read_it() -> None:
    """On a GPU, noise is drawn on another stream. It waits for the last use that was stated."""
    model = network()
    released = []

    class Side:
        def release(self) -> None:
            released.append([param.grad is not None for param in model.parameters()])

    updater = Updater(model, [Failing(model.parameters(), lr=1.0)])
    updater._side = Side()  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="no step"):
        updater(KEY, 0, {}, NoiseGrid.of_sum(clip_norm=1.0, stddev=1.0, size=9), divisor=1.0)
    assert released == [[True] * 4]


def test_frozen_parameters_get_neither_noise_nor_an_old_gradient() -> None:
    model = network()
    frozen = model[0].weight.requires_grad_(False)
    frozen.grad = torch.ones_like(frozen)
    before = frozen.clone()
    updater = Updater(model, [torch.optim.SGD(model.parameters(), lr=1.0)])
    updater(KEY, 0, {}, NoiseGrid.of_sum(clip_norm=1.0, stddev=1.0, size=9), divisor=1.0)
    assert frozen.grad is None
    assert torch.equal(frozen, before)


def test_correlated_noise_needs_the_same_parameters_in_all_steps() -> None:
    model = sums_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-3, "num_steps": 2, "correlated": Banded(bands=2)}
    private = hush.privatize(model, optimizer, sums_data(), sampling=InOrder(20), **settings)
    for step, (inputs, targets) in enumerate(private.loader):
        losses = nn.functional.cross_entropy(private.model(inputs), targets, reduction="none")
        if step == 0:
            private.step(losses)
            model[0].weight.requires_grad_(False)  # type: ignore[index, union-attr]
        else:
            with pytest.raises(Unsupported, match="frozen or unfrozen"):
                private.step(losses)
            break
