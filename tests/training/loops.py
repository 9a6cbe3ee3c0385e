"""Small models and datasets, and the loop that trains them privately, for tests of training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.randomness import TestSource
from hush.training import PrivateTraining, privatize


def data(count: int = 300) -> tuple[Tensor, Tensor]:
    """Examples of six numbers, with three random classes."""
    torch.manual_seed(1)
    return torch.randn(count, 6), torch.randint(0, 3, (count,))


def network(width: int = 8) -> nn.Sequential:
    """A network for `data`, the same one at every call."""
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))


def run(
    seed: int = 5, model: nn.Module | None = None, count: int = 300, lr: float = 0.1, **settings: Any
) -> PrivateTraining:
    """Start a run on `data`: six steps of batches of 40, unless the settings say otherwise."""
    model = network() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    chosen = {"noise_multiplier": 1.0, "delta": 1e-5, "num_steps": 6, "batch_size": 40} | settings
    return privatize(model, optimizer, data(count), source=TestSource(seed), **chosen)


def start(model: nn.Module, dataset: Any, lr: float = 0.1, **settings: Any) -> PrivateTraining:
    """Start a run of three steps on a dataset of your own; on all examples, unless the settings have a batch size."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    chosen: dict[str, Any] = {"delta": 1e-5, "noise_multiplier": 1.0, "num_steps": 3, "source": TestSource(1)}
    return privatize(model, optimizer, dataset, **(chosen | settings))


def quiet_run(model: nn.Module, dataset: Any, lr: float = 1.0, **settings: Any) -> PrivateTraining:
    """Start a run with hardly any noise, so that a test sees the sums."""
    return start(model, dataset, lr, **({"noise_multiplier": 1e-3} | settings))


def batch_run(model: nn.Module, dataset: Any = None, **settings: Any) -> PrivateTraining:
    """Start a run on random batches of 20 out of 60 random examples, or of your own dataset."""
    dataset = (torch.randn(60, 6), torch.randint(0, 3, (60,))) if dataset is None else dataset
    return start(model, dataset, **({"batch_size": 20} | settings))


def train(
    private: PrivateTraining, steps: int | None = None, after_step: Callable[[], None] = lambda: None
) -> PrivateTraining:
    """Train a classifier to the end of its run, or to a number of steps."""
    for x, y in private.loader:
        if private.step(F.cross_entropy(private.model(x), y, reduction="none")).complete:
            after_step()
        if steps is not None and private.steps_taken >= steps:
            break
    return private


def answered(private: PrivateTraining) -> Iterator[Tensor]:
    """Train a classifier, and yield the inputs of each physical batch."""
    for x, y in private.loader:
        assert len(x) == private.plan.physical_batch_size, "all batches have the same size"
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
        yield x


def weights(trained: PrivateTraining | nn.Module) -> Tensor:
    """All parameters, one after the other."""
    model = trained.model if isinstance(trained, PrivateTraining) else trained
    return torch.cat([param.detach().flatten() for param in model.parameters()])


LINEAR_COUNT = 60


def linear_data() -> tuple[Tensor, Tensor]:
    """Sixty examples of four numbers, with two random classes."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(LINEAR_COUNT, 4, generator=generator)
    return x, torch.randint(0, 2, (LINEAR_COUNT,), generator=generator)


def linear_run(dataset: Any = None, model: nn.Module | None = None, **settings: Any) -> PrivateTraining:
    """Start a run of a linear model on `linear_data`: four steps of batches of 12, unless settings say otherwise."""
    model = nn.Linear(4, 2) if model is None else model
    settings = {"noise_multiplier": 1.0, "delta": 1e-3, "num_steps": 4, "batch_size": 12} | settings
    if "sampling" in settings:
        del settings["batch_size"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return privatize(model, optimizer, linear_data() if dataset is None else dataset, **settings)


def noisy_gradients(optimizer: torch.optim.Optimizer) -> list[list[Tensor]]:
    """Return a list to which every step of an optimizer adds the gradients that it got."""
    steps: list[list[Tensor]] = []

    def add(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        params = [param for group in optimizer.param_groups for param in group["params"]]
        steps.append([param.grad.clone() for param in params if param.grad is not None])

    optimizer.register_step_pre_hook(add)
    return steps
