"""Models with a body and a head, for tests that train a part of a model."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.randomness import TestSource
from hush.training import PrivateTraining, privatize


class Tower(nn.Module):
    """A body, followed by the modules that you pass, under the names that you give them."""

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> Tensor:
        for part in self.children():
            x = part(x)
        return x


class Tied(nn.Module):
    """A language model's embedding and output layer, which share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.lm_head = nn.Linear(6, 11, bias=False)
        self.lm_head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.lm_head(torch.tanh(self.embedding(x)))


def with_shared_layer() -> nn.Module:
    """A model that uses one layer in two places."""
    layer = nn.Linear(8, 8)
    return Tower(fc=layer, again=layer)


def data(count: int = 120) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    x = torch.randn(count, 6)
    return x, (x[:, 0] > 0).long()


def few() -> tuple[Tensor, Tensor]:
    x, y = data()
    return x[:5], y[:5]


def losses(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def train(model: nn.Module, num_steps: int = 3, **settings: Any) -> PrivateTraining:
    """Train a model privately on `data`, and return the run, not yet closed."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    chosen = {"noise_multiplier": 1.0, "delta": 1e-5, "batch_size": 30, "source": TestSource(3)} | settings
    private = privatize(model, optimizer, data(), num_steps=num_steps, **chosen)
    for batch in private.loader:
        private.step(losses(private.model, batch))
    return private


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    return {name: param.detach().clone() for name, param in model.named_parameters()}


def changed(model: nn.Module, before: dict[str, Tensor]) -> set[str]:
    """Names of the parameters that differ from a snapshot."""
    return {name for name, param in model.named_parameters() if not torch.equal(param, before[name])}
