"""Training without a loop, and what makes ordinary models fit for it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

from hush.errors import InvalidArgument, Unsupported
from hush.training.loop.privatize import privatize
from hush.training.loop.session import PrivateTraining
from hush.training.per_example.check import Modes
from hush.training.plan.contributions import Projected


def fit(
    model: nn.Module,
    dataset: Any,
    *,
    delta: float,
    optimizer: Optimizer | None = None,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    test: tuple[Tensor, Tensor] | None = None,
    inputs: str | None = None,
    target: str | None = None,
    progress: bool = True,
    **settings: Any,
) -> PrivateTraining:
    """Train privately and return the finished run; further settings are those of `privatize`.

    Args:
        model: The model.
        dataset: Examples and targets; or columns by name, see ``inputs`` and ``target``.
        delta: The delta of the guarantee.
        optimizer: SGD with momentum 0.9 and learning rate 0.5, if none is given.
        loss: From (outputs, targets) to one loss per example; cross entropy, if none is given.
        test: Public examples and targets, on which accuracy is shown while training goes on.
        inputs: Which column the model is given, if examples have names.
        target: And which one the loss is given.
        progress: Whether to show a bar, on a terminal's error stream.
        settings: epsilon, noise_multiplier, epochs, batch_size, clip_norm, ...
    """
    chosen = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9) if optimizer is None else optimizer
    per_example = _cross_entropy if loss is None else loss
    private = privatize(model, chosen, dataset, delta=delta, **settings)
    bar = _Bar(private, test) if progress else None
    model.train()
    several = isinstance(private.plan.contribution, Projected)
    for number, batch in enumerate(private.loader):
        x, y = _parts(batch, inputs, target)
        if number == 0:
            _refuse_coupled(per_example, model, x, y)
        if number == 0 and bar is not None:
            bar.show(0.0)

        def losses(x: Any = x, y: Any = y) -> Tensor:
            return per_example(private.model(x), y)

        if private.step(losses if several else losses()).complete and bar is not None:
            bar.update()
    if bar is not None:
        bar.close()
    model.eval()
    return private


def _parts(batch: Any, inputs: str | None, target: str | None) -> tuple[Any, Any]:
    """Return what the model is given, and what the loss is."""
    if isinstance(batch, Mapping):
        if inputs not in batch or target not in batch:
            raise InvalidArgument(
                "inputs", inputs, f"one of the columns {', '.join(map(str, batch))}", "And target=... another"
            )
        return batch[inputs], batch[target]
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise InvalidArgument("dataset", type(batch).__name__, "examples and targets", "Else write the loop yourself")
    return batch[0], batch[1]


def _refuse_coupled(loss: Callable[..., Tensor], model: nn.Module, x: Any, y: Any) -> None:
    """Refuse a loss that says something else of two examples alone than among others, for inputs that are invented."""
    if not isinstance(y, Tensor) or not isinstance(x, Tensor) or len(y) < 3:
        return
    size, modes = len(y), Modes(model)
    chance = torch.Generator().manual_seed(0)
    with torch.no_grad(), torch.random.fork_rng(devices=[y.device] if y.is_cuda else []):
        try:
            model.eval()
            outputs = model(torch.randn(x.shape, generator=chance).to(x) if x.is_floating_point() else x)
            some = tree_map(lambda each: each[:2] if isinstance(each, Tensor) and len(each) == size else each, outputs)
            together, again, alone = loss(outputs, y), loss(outputs, y), loss(some, y[:2])
        except Exception:  # whatever it is, it is said where the loss is really computed
            return
        finally:
            modes.restore()
    if together.shape != (size,) or alone.shape != (2,) or not torch.equal(together.nan_to_num(), again.nan_to_num()):
        return  # refused elsewhere, or random
    if not torch.allclose(together[:2], alone, rtol=1e-3, atol=1e-5, equal_nan=True):
        raise Unsupported(
            "loss: that of an example depends on the others of its batch",
            "Sums over the batch, such as the number of all tokens, must not be in it",
        )


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
        model = self._private.model
        modes = Modes(model)
        model.eval()
        with torch.no_grad():
            right = (model(x).argmax(-1) == y).float().mean()
        modes.restore()
        return float(right)


def replace_batchnorm(model: nn.Module) -> nn.Module:
    """Put GroupNorm in the place of every BatchNorm, with its affine weights, and return the model.

    Groups are as many as divide the channels, 32 at most; in one dimension, where a group may be no more than a few
    numbers, one. The statistics that batch norm had collected are gone.
    """
    if isinstance(model, nn.modules.batchnorm._BatchNorm):
        return _group_norm(model)
    for name, child in model.named_children():
        setattr(model, name, replace_batchnorm(child))
    return model


def _group_norm(norm: nn.modules.batchnorm._BatchNorm) -> nn.GroupNorm:
    channels = norm.num_features
    flat = isinstance(norm, nn.BatchNorm1d)
    groups = 1 if flat else max(count for count in range(1, 33) if channels % count == 0)
    device = norm.weight.device if norm.affine else None
    replacement = nn.GroupNorm(groups, channels, eps=norm.eps, affine=norm.affine, device=device)
    if norm.affine:
        replacement.weight, replacement.bias = norm.weight, norm.bias
    return replacement.train(norm.training)
