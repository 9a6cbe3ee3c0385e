"""Noiseless sums of private runs, for tests that compare what neighbouring datasets do to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import hush
from hush.randomness import TestSource
from hush.training import (
    BallsInBins,
    CyclicPoisson,
    FixedSize,
    Full,
    InOrder,
    Poisson,
    PrivateTraining,
    Projected,
    ShuffledEpochs,
)
from hush.training.noise.noise_grid import NoiseGrid

COUNT = 40
IDS = np.arange(COUNT) // 4
SAMPLINGS = [
    Poisson(8),
    Poisson(8, max_batch_size=36),
    Full(),
    FixedSize(8),
    ShuffledEpochs(8),
    InOrder(8),
    BallsInBins(8),
    CyclicPoisson(3, parts=3),
]


def model() -> nn.Module:
    """A network in which an input of zeros has gradient 0."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 6, bias=False), nn.Tanh(), nn.Linear(6, 3, bias=False))


def run(x: Tensor, y: Tensor, **settings: Any) -> PrivateTraining:
    """Start a run of three steps whose optimizer leaves the weights alone."""
    network = model()
    settings = {"noise_multiplier": 2.0, "delta": 1e-3, "num_steps": 3} | settings
    optimizer = torch.optim.SGD(network.parameters(), lr=0.0)
    return hush.privatize(network, optimizer, (x, y), source=TestSource(5), **settings)


def sums(private: PrivateTraining) -> list[tuple[Tensor, float, float]]:
    """Return each step's noiseless sum, its noise and its divisor."""
    recorded: list[tuple[Tensor, float, float]] = []

    def record(key: bytes, step: int, totals: dict[str, Tensor], grid: NoiseGrid, divisor: float, stream: Any) -> None:
        shapes = {name: param.shape for name, param in private.model.named_parameters()}
        parts = [totals.get(name, torch.zeros(shape)).flatten().double() for name, shape in shapes.items()]
        recorded.append((torch.cat(parts), grid.stddev * grid.spacing, divisor))

    private._updater = record  # type: ignore[assignment]
    for x, y in private.loader:

        def losses(x: Tensor = x, y: Tensor = y) -> Tensor:
            return nn.functional.cross_entropy(private.model(x), y, reduction="none")

        private.step(losses if isinstance(private.plan.contribution, Projected) else losses())
    return recorded


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(COUNT, 5, generator=generator), torch.randint(0, 3, (COUNT,), generator=generator)
