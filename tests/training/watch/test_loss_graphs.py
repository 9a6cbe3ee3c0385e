"""The graph of the losses: another loss, a scaled one, and parameters that nobody trains."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hush.errors import Unsupported
from hush.training.watch.loss_graphs import kind_of, refuse_outside_parameters, refuse_scaled


def test_another_loss_is_another_kind() -> None:
    model, x = nn.Linear(2, 2), torch.randn(4, 2)
    outputs = model(x)
    plain, contrastive = outputs.square().sum(1), torch.logsumexp(outputs @ outputs.T, 1)
    assert kind_of(plain) == kind_of(model(2 * x).square().sum(1))
    assert kind_of(plain) != kind_of(contrastive)
    assert kind_of(torch.zeros(2)) == ()


def test_scaled_losses_are_told_from_weighted_ones() -> None:
    model, x = nn.Linear(2, 2), torch.randn(4, 2)
    scaler, losses = torch.amp.GradScaler("cpu", init_scale=1024.0), model(x).sum(1)
    scaled = scaler.scale(losses)
    refuse_scaled(losses)
    refuse_scaled(losses * torch.tensor(1024.0))
    refuse_scaled(losses * torch.rand(4))
    refuse_scaled(losses * 2)
    refuse_scaled(torch.amp.GradScaler("cpu", enabled=False).scale(losses))
    with pytest.raises(Unsupported, match="^losses: scaled"):
        refuse_scaled(scaled)  # type: ignore[arg-type]


def test_parameters_of_others_are_named_by_their_shape() -> None:
    model, scale, x = nn.Linear(2, 2), nn.Parameter(torch.ones(4)), torch.randn(4, 2)
    adversarial = torch.zeros(4, 2, requires_grad=True)  # an input that is searched for is no parameter
    refuse_outside_parameters(model(x + adversarial).sum(1), model)
    with pytest.raises(Unsupported, match=r"a parameter of shape \(4,\)"):
        refuse_outside_parameters(model(x).sum(1) * scale, model)
