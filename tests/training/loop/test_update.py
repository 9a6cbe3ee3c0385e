"""The end of a step: noise on the sum, the optimizer, and the ball that weights are projected onto."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import hush
from hush.errors import InvalidArgument, Unsupported
from hush.training import Ball, Banded
from hush.training.loop.update import Updater
from hush.training.noise.gaussian import gaussian
from training.loops import network, weights
from training.sums import data as sums_data
from training.sums import model as sums_model


def test_weights_stay_in_their_ball() -> None:
    x, y = sums_data()
    network = sums_model()
    optimizer = torch.optim.SGD(network.parameters(), lr=5.0)
    private = hush.privatize(
        network, optimizer, (x, y), noise_multiplier=1.0, delta=1e-3, num_steps=4, projection=Ball(0.7)
    )
    for inputs, targets in private.loader:
        private.step(nn.functional.cross_entropy(private.model(inputs), targets, reduction="none"))
        assert float(torch.cat([each.detach().flatten() for each in network.parameters()]).norm()) <= 0.7 + 1e-5
