"""Copies: where a parameter is broadcast to the batch, each example gets a copy of it, of which none is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hush.errors import Unsupported
from hush.training.operations.following import Follower
from hush.training.operations.layouts import ANYWHERE, Layout, repeated
from hush.training.per_example.watching.registry import operation
from hush.training.per_example.watching.sources import promote

if TYPE_CHECKING:
    from hush.training.per_example.watching.mode import OperationMode


def copies_of(mode: OperationMode, source: Tensor, layout: Layout, position: int, length: int) -> Tensor:
    """Return a source with a row for each entry along the batch.

    Args:
        mode: The mode.
        source: The parameter, or function of parameters.
        layout: The layout of the batch that it meets.
        position: The dimension of the batch, counted from the end: 1 is the last.
        length: How long that is.
    """
    if layout.dim == ANYWHERE:
        return source.detach() + mode.tap_of(source).squeeze(0)
    if source.dim() >= position and source.shape[-position] != 1:
        promote(mode, source, -position, length, layout)
    padded = source.detach().reshape((1,) * max(position - source.dim(), 0) + tuple(source.shape))
    dim = padded.dim() - position
    tap = mode.tap_of(source).reshape(mode.size, *padded.shape[:dim], *padded.shape[dim + 1 :])
    return padded + repeated(tap, layout, length, mode.size).movedim(0, dim)


def broadcast(mode: OperationMode, func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Run an operation whose arguments are broadcast."""
    values = [*args, *kwargs.values()]
    batch = mode.decide(lambda: _batch_among(mode, values))
    x = values[batch]
    layout = mode.layout_to_use(x, name)
    position, length = x.dim() - layout.dim, 1 if layout.dim == ANYWHERE else x.shape[layout.dim]

    def with_copies(value: Any) -> Any:
        return copies_of(mode, value, layout, position, length) if mode.is_source(value) else value

    return func(*[with_copies(value) for value in args], **{key: with_copies(value) for key, value in kwargs.items()})


def _batch_among(mode: OperationMode, values: list[Any]) -> int:
    """Return the number of the value that depends on the batch and has most dimensions."""
    numbers = [number for number, value in enumerate(values) if mode.layout(value) is not None]
    return max(numbers, key=lambda number: values[number].dim())


@operation("setitem")
def _set_item(mode: OperationMode, func: Any, target: Tensor, index: Any, value: Tensor) -> None:
    """Write a parameter into the batch."""
    layout = mode.decide(lambda: _layout_of_item(mode, target, index))
    if layout is None:
        raise Unsupported(f"{mode.name_of_use(value)}: written into places that cannot be told apart by example")
    item = target.detach()[index]
    position = item.dim() - layout.dim
    func(
        target, index, copies_of(mode, value, layout, position, 1 if layout.dim == ANYWHERE else item.shape[layout.dim])
    )


def _layout_of_item(mode: OperationMode, target: Tensor, index: Any) -> Layout | None:
    layout = mode.layout(target)
    if layout is None or not layout.is_known or layout.dim == ANYWHERE:
        return layout if layout is not None and layout.is_known else None
    item = target.detach()[index]
    follower = Follower(mode.size, mode.layout)
    found = follower.results(torch.Tensor.__getitem__, "getitem", (target, index), {}, [target], item)
    mode.plan.is_static = mode.plan.is_static and not follower.is_decided_by_data
    return found if isinstance(found, Layout) and found.is_known else None


@operation("cat", "concat", "concatenate", "stack", "hstack", "vstack", "column_stack", "dstack")
def _join(mode: OperationMode, func: Any, *args: Any, **kwargs: Any) -> Any:
    """Join a batch and parameters, which must have been expanded to it."""
    parts = args[0]
    number = mode.decide(lambda: _batch_among(mode, list(parts)))
    layout = mode.layout_to_use(parts[number], "cat")
    new = []
    for part in parts:
        if not mode.is_source(part):
            new.append(part)
        elif layout.dim == ANYWHERE:
            new.append(part.detach() + mode.tap_of(part).squeeze(0))
        else:
            promote(mode, part, layout.dim, parts[number].shape[layout.dim], layout)
    return func(new, *args[1:], **kwargs)
