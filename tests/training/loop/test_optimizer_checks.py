"""Optimizers that a private run refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from hush.errors import InvalidArgument, Unsupported
from hush.training import privatize
from training.loops import batch_run, data, linear_data, network, train


def test_parameter_groups_added_later_are_checked() -> None:
    model = nn.Linear(6, 3)
    private = batch_run(model)
    assert isinstance(private.optimizer, torch.optim.Optimizer)
    private.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    with pytest.raises(InvalidArgument, match="^optimizer="):
        train(private)
    assert private.steps_taken == 0


def test_parameters_that_came_after_the_run_began_are_refused() -> None:
    """A gradient of your own for such a parameter would reach the optimizer without noise."""
    model = nn.Linear(6, 3)
    private = batch_run(model)
    model.register_parameter("later", nn.Parameter(torch.zeros(6)))
    assert isinstance(private.optimizer, torch.optim.Optimizer)
    private.optimizer.add_param_group({"params": [model.get_parameter("later")]})
    for x, y in private.loader:
        (x @ model.get_parameter("later")).sum().backward()
        with pytest.raises(Unsupported, match="parameters that the model did not have when the run began"):
            private.step(nn.functional.cross_entropy(private.model(x), y, reduction="none"))
        break
    assert private.steps_taken == 0
    assert not model.get_parameter("later").any()


def test_parameters_without_an_optimizer_are_refused() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.append(nn.Linear(2, 2))  # such as an adapter, added after the optimizer was built
    with pytest.raises(InvalidArgument, match=r"^optimizer='2\.weight, 2\.bias'"):
        privatize(model, optimizer, linear_data(), noise_multiplier=1.0, delta=1e-3, num_steps=1)


def test_unsuitable_optimizers_are_refused() -> None:
    model = network()
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "num_steps": 3}
    with pytest.raises(Unsupported, match="LBFGS"):
        privatize(model, torch.optim.LBFGS(model.parameters()), data(), **settings)
    with pytest.raises(InvalidArgument, match="^optimizer="):
        privatize(model, torch.optim.SGD(network().parameters(), lr=0.1), data(), **settings)
