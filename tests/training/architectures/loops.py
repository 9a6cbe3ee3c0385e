"""Per-example gradients by a plain loop, and in double precision throughout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from hush.training import Flat
from hush.training.per_example.engine import GradientEngine

SIZE = 3
# Losses have different weights, so that examples cannot be mistaken for each other.
WEIGHTS = (1.0, 0.5, 2.0)

Inputs = dict[str, Any]


class _AsDouble(TorchFunctionMode):
    """Replaces single precision, wherever a model asks for it by name, by double precision."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.float:
            return args[0].double()
        args, kwargs = tree_map(lambda value: torch.float64 if value is torch.float32 else value, (args, kwargs or {}))
        return func(*args, **kwargs)


@contextmanager
def precision(dtype: torch.dtype) -> Iterator[None]:
    """Let models be made and run in this precision; many compute norms and softmax in single precision otherwise."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        if dtype is torch.float64:
            with _AsDouble():
                yield
        else:
            yield
    finally:
        torch.set_default_dtype(before)


def losses(model: nn.Module, inputs: Inputs) -> Tensor:
    """A loss for each example that weighs every output differently, so that no gradient cancels out."""
    result = model(**inputs)
    outputs = [value for value in _outputs(result) if value.is_floating_point() and value.requires_grad]
    size = len(next(iter(inputs.values())))
    total = outputs[0].new_zeros(size)
    for output in outputs:
        values = output.reshape(size, -1)
        weights = torch.sin(torch.arange(values.shape[1]).to(values) + 1)
        total = total + (values * weights).mean(1) + 0.1 * values.square().mean(1)
    return total


def _outputs(result: Any) -> list[Tensor]:
    """Return what a model is for: logits or hidden states, not caches of keys and values."""
    if isinstance(result, Tensor):
        return [result]
    for name in ("logits", "last_hidden_state"):
        if getattr(result, name, None) is not None:
            return [getattr(result, name)]
    return [value for value in tree_leaves(result) if isinstance(value, Tensor)]


@torch.no_grad()
def disturb(model: nn.Module) -> None:
    """Move every parameter a little: many start at 0, or so small that nobody would see what is wrong with them."""
    generator = torch.Generator().manual_seed(3)
    for param in model.parameters():
        param.add_(0.05 * torch.randn(param.shape, generator=generator))


def example(inputs: Inputs, index: int) -> Inputs:
    return tree_map_only(Tensor, lambda value: value[index : index + 1], inputs)


def looped(model: nn.Module, inputs: Inputs) -> tuple[dict[str, Tensor], Tensor]:
    """Return the weighted sum of gradients, and their norms."""
    params = {name: param for name, param in model.named_parameters() if param.requires_grad}
    sums = {name: torch.zeros_like(param) for name, param in params.items()}
    norms = []
    for index, weight in enumerate(WEIGHTS):
        loss = losses(model, example(inputs, index)).sum() * weight
        gradients = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
        square = torch.zeros((), dtype=torch.float64)
        for name, gradient in zip(params, gradients, strict=True):
            if gradient is not None:
                sums[name] += gradient
                square += gradient.double().square().sum()
        norms.append(square.sqrt())
    return sums, torch.stack(norms)


def recorded(
    model: nn.Module, inputs: Inputs, *, backend: str | None = None, steps: int = 1
) -> tuple[dict[str, Tensor], Tensor]:
    """Return the same by one backward pass of the engine; the last one of several steps."""
    engine = GradientEngine(model, backend=backend)
    try:
        for _ in range(steps):
            with engine.batch(SIZE):
                engine.backward(losses(model, inputs), weights=torch.tensor(WEIGHTS))
                total = engine.clipped_sum(Flat(1e12))
    finally:
        engine.detach()
    return total.gradients, total.norms


def largest_error(model: nn.Module, inputs: Inputs, **options: Any) -> float:
    """Return the largest difference between both, relative to the norms and to each parameter's largest entry.

    A parameter whose gradient is far smaller than others is compared with these: it may be nothing but rounding, as
    that of a key's bias is, which softmax ignores.
    """
    sums, norms = looped(model, inputs)
    our_sums, our_norms = recorded(model, inputs, **options)
    assert not our_sums.keys() - sums.keys()
    largest = {name: float(value.abs().max()) for name, value in sums.items() if value.numel()}
    least = max(largest.values()) * (1e-4 if next(iter(sums.values())).dtype is torch.float64 else 1.0)
    errors = [float(((our_norms - norms).abs() / norms).max())]
    for name, scale in largest.items():
        ours = our_sums.get(name, torch.zeros_like(sums[name]))
        errors.append(float((ours - sums[name]).abs().max()) / max(scale, least))
    # NaN would compare as no error.
    return max(error if error == error else float("inf") for error in errors)
