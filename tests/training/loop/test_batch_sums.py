"""Clipped sums of physical batches: losses that are refused, and checks that recur."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported
from hush.training import Full, Projected
from training.loops import linear_data, linear_run, run


def test_losses_are_one_per_example() -> None:
    private = run()
    x, y = next(iter(private.loader))
    for wrong in (F.cross_entropy(private.model(x), y), F.cross_entropy(private.model(x), y, reduction="none")[:-1]):
        with pytest.raises(InvalidArgument, match="^losses.shape="):
            private.step(wrong)
    with pytest.raises(InvalidArgument, match="^losses="), torch.no_grad():
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))


@pytest.mark.parametrize("kind", ["mean", "contrastive", "normalised"])
def test_coupled_losses_are_refused(kind: str) -> None:
    private = run()
    x, y = next(iter(private.loader))
    outputs = private.model(x)
    losses = {
        "mean": lambda: F.cross_entropy(outputs, y, reduction="none") - outputs.mean(),
        "contrastive": lambda: torch.logsumexp(outputs @ outputs.T, 1),
        "normalised": lambda: ((outputs - outputs.mean(0)) / outputs.std(0)).square().sum(1),
    }[kind]()
    with pytest.raises(Unsupported, match="depends on another example"):
        private.step(losses)


def test_parameters_used_outside_of_the_model_are_refused() -> None:
    """Within it, a parameter may be used anywhere."""

    class Sneaky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 6)
            self.outer = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.outer(F.linear(self.inner(x), self.inner.weight))

    private = run(model=Sneaky())
    x, y = next(iter(private.loader))
    losses = F.cross_entropy(private.model(x), y, reduction="none")
    with pytest.raises(Unsupported, match=r"^inner\.weight: used outside"):
        private.step(losses + private.model.inner.weight.square().sum())
    private = run(model=Sneaky())
    x, y = next(iter(private.loader))
    private.step(F.cross_entropy(private.model(x), y, reduction="none"))


def test_projected_losses_are_checked_again() -> None:
    x, y = linear_data()
    private = linear_run((x, y), sampling=Full(), contribution=Projected(6))

    def train_all() -> None:
        for inputs, targets in private.loader:

            def losses(inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
                plain = F.cross_entropy(private.model(inputs), targets, reduction="none")
                return plain if private.steps_taken < 1 else plain + plain.mean()

            private.step(losses)

    with pytest.raises(Unsupported, match="depends on another example"):
        train_all()
