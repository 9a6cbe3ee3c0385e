"""`hush.fit`: private training without a loop of your own; and `replace_batchnorm`, which makes models fit for it."""

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
from hush.training.per_example.invented_calls import Modes
from hush.training.plan.contributions import Projected

_BAR_WIDTH = 24
_NUM_UPDATES = 40  # of the progress bar, during a run
_MAX_GROUPS = 32  # of GroupNorm


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
    """Train a model privately, and return the finished run.

    Args:
        model: The model.
        dataset: Examples and targets; or columns by name, with ``inputs`` and ``target``.
        delta: The delta of the guarantee.
        optimizer: By default, SGD with learning rate 0.5 and momentum 0.9.
        loss: From (outputs, targets) to one loss per example. By default, cross entropy.
        test: Public examples and targets, on which the progress bar shows the accuracy.
        inputs: The column that the model takes, if the dataset has columns.
        target: The column that the loss takes.
        progress: Whether to show a progress bar on the error stream.
        settings: More arguments of `privatize`: epsilon, noise_multiplier, epochs, batch_size, clip_norm, ...

    Returns:
        The run, with the trained model as ``private.model``.

    >>> x, y = torch.randn(100, 4), torch.randint(0, 2, (100,))
    >>> private = fit(nn.Linear(4, 2), (x, y), epsilon=3.0, delta=1e-5, num_steps=2, progress=False)
    >>> print(private.guarantee())
    epsilon <= 3, delta = 1e-05 per example (add-or-remove), by DP-GD, privacy loss distribution
    """
    if optimizer is None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    per_example_loss = _cross_entropy if loss is None else loss
    private = privatize(model, optimizer, dataset, delta=delta, **settings)
    bar = _ProgressBar(private, test) if progress else None
    model.train()
    runs_several_times = isinstance(private.plan.contribution, Projected)
    for number, batch in enumerate(private.loader):
        x, y = _inputs_and_targets(batch, inputs, target)
        if number == 0:
            _refuse_coupled(per_example_loss, model, x, y)
        if number == 0 and bar is not None:
            bar.show(0.0)

        def losses(x: Any = x, y: Any = y) -> Tensor:
            return per_example_loss(private.model(x), y)

        if private.step(losses if runs_several_times else losses()).complete and bar is not None:
            bar.update()
    if bar is not None:
        bar.close()
    model.eval()
    return private


def _inputs_and_targets(batch: Any, inputs: str | None, target: str | None) -> tuple[Any, Any]:
    """Return the parts of a batch that the model and the loss take."""
    if isinstance(batch, Mapping):
        if inputs not in batch or target not in batch:
            raise InvalidArgument(
                "inputs", inputs, f"one of the columns {', '.join(map(str, batch))}", "Pass another one as target="
            )
        return batch[inputs], batch[target]
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise InvalidArgument(
            "dataset", type(batch).__name__, "examples and targets", "For other data, write a loop with privatize"
        )
    return batch[0], batch[1]


def _refuse_coupled(loss: Callable[..., Tensor], model: nn.Module, x: Any, y: Any) -> None:
    """Refuse a loss that depends on the other examples of a batch.

    The losses of two examples, computed alone, are compared with those within the batch. Inputs are random, so that the
    data has no influence on whether a run is refused.
    """
    if not isinstance(y, Tensor) or not isinstance(x, Tensor) or len(y) < 3:
        return
    size, modes = len(y), Modes(model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad(), torch.random.fork_rng(devices=[y.device] if y.is_cuda else []):
        try:
            model.eval()
            outputs = model(torch.randn(x.shape, generator=generator).to(x) if x.is_floating_point() else x)
            first_two = tree_map(
                lambda part: part[:2] if isinstance(part, Tensor) and len(part) == size else part, outputs
            )
            together, again, alone = loss(outputs, y), loss(outputs, y), loss(first_two, y[:2])
        except Exception:  # the real losses will raise the same error, where it is easier to understand
            return
        finally:
            modes.restore()
    if together.shape != (size,) or alone.shape != (2,):
        return  # private.step refuses these shapes
    if not torch.equal(together.nan_to_num(), again.nan_to_num()):
        return  # a random loss cannot be compared
    if not torch.allclose(together[:2], alone, rtol=1e-3, atol=1e-5, equal_nan=True):
        raise Unsupported(
            "loss: that of an example depends on the others of its batch",
            "It must not contain sums over the batch, such as the number of all tokens",
        )


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


class _ProgressBar:
    """A line on the error stream with the progress, the accuracy on public data and the epsilon so far."""

    def __init__(self, private: PrivateTraining, test: tuple[Tensor, Tensor] | None) -> None:
        self._private, self._test = private, test
        self._started = time.monotonic()
        self._steps_per_update = max(private.plan.num_steps // _NUM_UPDATES, 1)
        self._is_terminal = sys.stderr.isatty()

    def update(self) -> None:
        """Show the progress after a step, if it is time to."""
        taken = self._private.steps_taken
        if taken % self._steps_per_update == 0 or taken == self._private.plan.num_steps:
            self.show(taken / self._private.plan.num_steps)

    def show(self, fraction: float) -> None:
        """Write the line over the previous one; where that is impossible, only at the beginning and the end."""
        if not self._is_terminal and 0 < fraction < 1:
            return
        filled = math.floor(_BAR_WIDTH * fraction)
        bar = "#" * filled + "." * (_BAR_WIDTH - filled)
        parts = [f"[{bar}] {self._private.steps_taken}/{self._private.plan.num_steps}"]
        if self._test is not None:
            parts.append(f"accuracy {self._accuracy(*self._test):.1%}")
        parts.append(f"epsilon {self._private.guarantee().epsilon:.2f}")
        parts.append(f"{time.monotonic() - self._started:.0f} s")
        end = "" if self._is_terminal else "\n"
        sys.stderr.write(("\r" if self._is_terminal else "") + "  ".join(parts) + "   " + end)
        sys.stderr.flush()

    def close(self) -> None:
        """End the line."""
        if self._is_terminal:
            sys.stderr.write("\n")

    def _accuracy(self, x: Tensor, y: Tensor) -> float:
        model = self._private.model
        modes = Modes(model)
        model.eval()
        with torch.no_grad():
            accuracy = (model(x).argmax(-1) == y).float().mean()
        modes.restore()
        return float(accuracy)


def replace_batchnorm(model: nn.Module) -> nn.Module:
    """Replace every BatchNorm by a GroupNorm with its affine weights, and return the model.

    Batch norm mixes the examples of a batch, so it cannot be trained privately. The number of groups is the largest
    divisor of the channels up to 32; after `nn.BatchNorm1d`, where a group would have only a few entries, it is 1. The
    running statistics of batch norm are lost.

    >>> model = replace_batchnorm(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))
    >>> type(model[1]).__name__, model[1].num_groups
    ('GroupNorm', 8)
    """
    if isinstance(model, nn.modules.batchnorm._BatchNorm):
        return _group_norm(model)
    for name, child in model.named_children():
        setattr(model, name, replace_batchnorm(child))
    return model


def _group_norm(norm: nn.modules.batchnorm._BatchNorm) -> nn.GroupNorm:
    channels = norm.num_features
    is_flat = isinstance(norm, nn.BatchNorm1d)
    groups = 1 if is_flat else max(count for count in range(1, _MAX_GROUPS + 1) if channels % count == 0)
    device = norm.weight.device if norm.affine else None
    replacement = nn.GroupNorm(groups, channels, eps=norm.eps, affine=norm.affine, device=device)
    if norm.affine:
        replacement.weight, replacement.bias = norm.weight, norm.bias
    return replacement.train(norm.training)
