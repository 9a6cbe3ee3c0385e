"""`hush.fit`: private training without writing a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

from hush.errors import InvalidArgument, Unsupported
from hush.training.loop.entry_points import privatize
from hush.training.loop.progress import ProgressBar
from hush.training.loop.session import PrivateTraining
from hush.training.per_example.invented_calls import Modes
from hush.training.plan.contributions import Projected


def fit(
    model: nn.Module,
    data: Any,
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
        data: Examples and targets; or columns by name, with ``inputs`` and ``target``.
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
    private = privatize(model, optimizer, data, delta=delta, **settings)
    bar = ProgressBar(private, test) if progress else None
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
                "inputs", inputs, f"one of the columns {', '.join(map(str, batch))}", "Pass a different one as target="
            )
        return batch[inputs], batch[target]
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise InvalidArgument(
            "data", type(batch).__name__, "examples and targets", "For other data, write a loop with privatize"
        )
    return batch[0], batch[1]


def _refuse_coupled(loss: Callable[..., Tensor], model: nn.Module, x: Any, y: Any) -> None:
    """Refuse a loss that depends on the other examples of a batch.

    The losses of two examples, computed alone, are compared with those within the batch. Inputs are random, so that the
    data have no influence on whether a run is refused.
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
            "loss: the loss of an example depends on other examples of its batch",
            "It must not contain sums over the batch, such as the number of all tokens",
        )


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")
