"""Functions of parameters alone: how they are noted, and what happens if they turn out to have rows for examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from hush.errors import Unsupported
from hush.training.operations.layouts import Layout
from hush.training.operations.names import RANDOM, writes_in_place
from hush.training.operations.recipes import Recipe, is_recipe, steps
from hush.training.per_example.taps import StaleLayout
from hush.training.per_example.watching.arguments import tensors_in
from hush.training.per_example.watching.plan import Restart

if TYPE_CHECKING:
    from hush.training.per_example.watching.mode import OperationMode

_EXPANDING = ("expand", "expand_as", "broadcast_to", "repeat", "tile", "repeat_interleave")


def derive(mode: OperationMode, func: Any, name: str, args: Any, kwargs: Any, key: Any) -> Any:
    """Run an operation on parameters and constants, and write down its recipe."""
    if name in RANDOM and "dropout" in name:
        if _is_training(args, kwargs):
            return _dropped(mode, func, args, kwargs)
    elif name in RANDOM:
        raise Unsupported(f"{mode.named(args, kwargs)}: a random function of parameters ({name})")
    stored = tree_map(mode.stored, (args, kwargs), is_leaf=is_recipe)
    if name == "setitem":
        target = args[0]
        before = stored[0][0] if isinstance(stored[0][0], Recipe) else target.detach().clone()
        func(*args, **kwargs)
        recipe = Recipe(_with_item, (before, *stored[0][1:]), {}, name, key, None, tuple(target.shape))
        mode.tag(target, recipe)
        return None
    pure = func
    if writes_in_place(func):
        pure = _on_a_copy(func)
        if not isinstance(stored[0][0], Recipe):
            stored = ((args[0].detach().clone(), *stored[0][1:]), stored[1])
    result = func(*args, **kwargs)
    parts = tensors_in((result,), {})
    single = isinstance(result, Tensor)
    for number, part in enumerate(parts):
        if part.is_floating_point() and part.requires_grad:
            shape = tuple(part.shape)
            mode.tag(part, Recipe(pure, stored[0], stored[1], name, key, None if single else number, shape))
    return result


def _dropped(mode: OperationMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Drop some entries of a function of parameters, for all examples alike: it is multiplied with a mask."""
    mask = func(torch.ones_like(args[0].detach()), *args[1:], **kwargs)
    mode.plan.is_static = False
    mode.plan.decisions.pop()
    return mode.call(torch.mul, args[0], mask)


def _is_training(args: Any, kwargs: Any) -> bool:
    """Return whether dropout drops anything."""
    return bool(args[2] if len(args) > 2 else kwargs.get("training", kwargs.get("train", True)))


def promote(mode: OperationMode, source: Tensor, dim: int, length: int, layout: Layout) -> None:
    """Start again, as a function of parameters alone has turned out to have a row for each example.

    Args:
        mode: The mode.
        source: The tensor.
        dim: Its dimension that lies along the examples.
        length: How long that is.
        layout: The layout of the batch that it meets.
    """
    if mode.is_replaying:
        raise StaleLayout
    recipe = mode.recipe(source)
    candidates: list[tuple[bool, Any, tuple[Any, ...]]] = []
    for step in () if recipe is None else steps(recipe):
        candidates.extend(_candidates(mode, step, dim % source.dim(), length, layout))
    for _, key, promotion in sorted(candidates, key=lambda candidate: candidate[0]):
        if key not in mode.plan.promoted:
            mode.plan.promoted[key] = promotion
            raise Restart
    raise Unsupported(
        f"{mode.named((source,), {})}: its entries are used by one example each",
        "A parameter cannot have a row for each example of a batch",
    )


def _candidates(
    mode: OperationMode, step: Recipe, dim: int, length: int, layout: Layout
) -> Iterator[tuple[bool, Any, tuple[Any, ...]]]:
    """Yield what may have brought rows for examples into a recipe; later what is of another dimension."""
    if step.name in _EXPANDING:
        source = step.inputs()[0]
        before = tuple(source.shape)
        before = (1,) * (len(step.shape) - len(before)) + before
        for number, (old, new) in enumerate(zip(before, step.shape, strict=True)):
            if new == old * mode.size:
                yield number != dim, step.key, ("copies", number)
        return
    for position, value in enumerate(tensors_in(step.args, step.kwargs, is_recipe)):
        if isinstance(value, Recipe) or id(value) in mode.trained:
            continue
        for number, size in enumerate(value.shape):
            if size == length:
                yield number != dim, step.key, ("constant", position, layout.at(number))
            elif size == mode.size:
                yield True, step.key, ("constant", position, Layout(number))


def expanded(mode: OperationMode, func: Any, name: str, args: Any, kwargs: Any, dim: int) -> Tensor:
    """Expand a source to the batch along a dimension: every example gets a copy with a tap of its own."""
    source = args[0]
    shape = tuple(func(source.detach(), *args[1:], **kwargs).shape)
    padded = source.detach().reshape((1,) * (len(shape) - source.dim()) + tuple(source.shape))
    copies = padded + mode.tap_of(source).reshape(mode.size, *padded.shape)
    # The whole is repeated for every example, or each entry is.
    interleaved = name == "repeat_interleave"
    if not mode.is_replaying:
        mode.expanded_layout = Layout(dim, 1 if interleaved else padded.shape[dim])
    copies = copies.movedim(0, dim + interleaved).flatten(dim, dim + 1)
    times = [new // old for new, old in zip(shape, copies.shape, strict=True)]
    result: Tensor = copies.repeat(times) if name in ("repeat", "tile", "repeat_interleave") else copies.expand(shape)
    return result


def _on_a_copy(func: Any) -> Any:
    def pure(target: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        copy = target.clone()
        func(copy, *args, **kwargs)
        return copy

    return pure


def _with_item(target: Tensor, index: Any, value: Any) -> Tensor:
    result = target.clone()
    result[index] = value
    return result
