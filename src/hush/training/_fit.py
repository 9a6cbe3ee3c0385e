"""Training without a loop, and what makes ordinary models fit for it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from hush.training._session import PrivateTraining, privatize


def fit(
    model: nn.Module,
    dataset: Any,
    *,
    delta: float,
    optimizer: Optimizer | None = None,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    test: tuple[Tensor, Tensor] | None = None,
    progress: bool = True,
    **settings: Any,
) -> PrivateTraining:
    """Train privately and return the finished run; further settings are those of `privatize`.

    Args:
        model: The model.
        dataset: Examples and targets.
        delta: The delta of the guarantee.
        optimizer: SGD with momentum 0.9 and learning rate 0.5, if none is given.
        loss: From (outputs, targets) to one loss per example; cross entropy, if none is given.
        test: Public examples and targets, on which accuracy is shown while training goes on.
        progress: Whether to show a bar, on a terminal's error stream.
        settings: epsilon, noise_multiplier, epochs, batch_size, clip_norm, ...
    """
    chosen = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9) if optimizer is None else optimizer
    per_example = _cross_entropy if loss is None else loss
    private = privatize(model, chosen, dataset, delta=delta, **settings)
    bar = _Bar(private, test) if progress else None
    model.train()
    for x, y in private.loader:
        if private.steps_taken == 0 and bar is not None:
            bar.show(0.0)
        if private.step(per_example(private.model(x), y)).complete and bar is not None:
            bar.update()
    if bar is not None:
        bar.close()
    model.eval()
    return private


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


class _Bar:
    """A line that is written over: how far, how accurate, how much is spent."""

    def __init__(self, private: PrivateTraining, test: tuple[Tensor, Tensor] | None) -> None:
        self._private, self._test = private, test
        self._started = self._shown = time.monotonic()
        self._every = max(private.plan.num_steps // 40, 1)
        self._terminal = sys.stderr.isatty()

    def update(self) -> None:
        taken = self._private.steps_taken
        if taken % self._every == 0 or taken == self._private.plan.num_steps:
            self.show(taken / self._private.plan.num_steps)

    def show(self, share: float) -> None:
        if not self._terminal and 0 < share < 1:
            return
        filled = math.floor(24 * share)
        seconds = time.monotonic() - self._started
        parts = [f"[{'#' * filled}{'.' * (24 - filled)}] {self._private.steps_taken}/{self._private.plan.num_steps}"]
        if self._test is not None:
            parts.append(f"accuracy {self._accuracy():.1%}")
        parts.append(f"epsilon {self._private.guarantee().epsilon:.2f}")
        parts.append(f"{seconds:.0f} s")
        end = "" if self._terminal else "\n"
        sys.stderr.write(("\r" if self._terminal else "") + "  ".join(parts) + "   " + end)
        sys.stderr.flush()

    def close(self) -> None:
        if self._terminal:
            sys.stderr.write("\n")

    def _accuracy(self) -> float:
        assert self._test is not None
        x, y = self._test
        model, mode = self._private.model, self._private.model.training
        model.eval()
        with torch.no_grad():
            right = (model(x).argmax(-1) == y).float().mean()
        model.train(mode)
        return float(right)


def replace_batchnorm(model: nn.Module) -> nn.Module:
    """Put GroupNorm in the place of every BatchNorm, with its affine weights, and return the model.

    Groups are as many as divide the channels, 32 at most. The statistics that batch norm had collected are gone.
    """
    if isinstance(model, nn.modules.batchnorm._BatchNorm):
        return _group_norm(model)
    for name, child in model.named_children():
        setattr(model, name, replace_batchnorm(child))
    return model


def _group_norm(norm: nn.modules.batchnorm._BatchNorm) -> nn.GroupNorm:
    channels = norm.num_features
    groups = max(count for count in range(1, 33) if channels % count == 0)
    device = norm.weight.device if norm.affine else None
    replacement = nn.GroupNorm(groups, channels, eps=norm.eps, affine=norm.affine, device=device)
    if norm.affine:
        replacement.weight, replacement.bias = norm.weight, norm.bias
    return replacement.train(norm.training)
