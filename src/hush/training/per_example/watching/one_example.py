"""The last resort: one operation under ``vmap``, with a copy of its parameters for each example."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hush.errors import Unsupported
from hush.training.operations.following import Follower
from hush.training.operations.layouts import ANYWHERE, Layout
from hush.training.operations.recipes import quiet_fallbacks

if TYPE_CHECKING:
    from hush.training.per_example.watching.mode import OperationMode


def one_example(mode: OperationMode, func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Run an operation under ``vmap``: each example in a batch of its own, with a copy of the parameters."""
    flat, structure = torch.utils._pytree.tree_flatten((args, kwargs))
    layouts = mode.decide(lambda: [mode.layout(value) for value in flat])
    of_result = mode.decide(lambda: _layout_of_result(mode, func, name, args, kwargs))
    known = [layout for layout in layouts if layout is not None]
    usable = all(layout.is_known and layout.owners is None for layout in [*known, of_result] if layout is not None)
    if of_result is None or not usable:
        raise Unsupported(
            f"{mode.name_of_use(*flat)}: {name} has no rule, and its result cannot be told apart by example",
            "Keep examples in the first dimension, or use operations that have a rule",
        )
    inputs, dims = [], []
    for value, layout in zip(flat, layouts, strict=True):
        source = mode.is_source(value)
        copy = value.detach() + mode.tap_of(value) if source else value
        inputs.append(copy if layout is None else _apart(value, layout, mode.size))
        dims.append(0 if source or layout is not None else None)

    def run(*values: Any) -> Any:
        inner_args, inner_kwargs = torch.utils._pytree.tree_unflatten(values, structure)
        return func(*inner_args, **inner_kwargs)

    try:
        with nullcontext() if torch.compiler.is_compiling() else quiet_fallbacks():
            result = torch.func.vmap(run, in_dims=tuple(dims), randomness="different")(*inputs)
    except (RuntimeError, ValueError) as error:
        raise Unsupported(
            f"{mode.name_of_use(*flat)}: {name} has no rule, and vmap cannot run it on one example"
        ) from error
    return _together(result, of_result, mode.size)


def _layout_of_result(mode: OperationMode, func: Any, name: str, args: Any, kwargs: Any) -> Layout | None:
    values = torch.utils._pytree.tree_leaves((args, kwargs))
    batched = [value for value in values if mode.layout(value) is not None]
    with torch.no_grad():
        result = func(*args, **kwargs)
    layout = Follower(mode.size, mode.layout).results(func, name, args, kwargs, batched, result)
    if not isinstance(layout, Layout) or not layout.is_known:
        return None
    return layout


def _apart(value: Tensor, layout: Layout, size: int) -> Tensor:
    """Return [B, ...], in which the dimension of the batch is still there, and as long as one example's part of it."""
    if layout.dim == ANYWHERE:
        return value.unsqueeze(0)
    split = (value.shape[layout.dim] // (size * layout.inner), size, layout.inner)
    rows: Tensor = value.unflatten(layout.dim, split)  # type: ignore[no-untyped-call]
    return rows.movedim(layout.dim + 1, 0).flatten(layout.dim + 1, layout.dim + 2)


def _together(value: Tensor, layout: Layout, size: int) -> Tensor:
    """Return what `_apart` has taken apart."""
    if layout.dim == ANYWHERE:
        return value.squeeze(0)
    dim = layout.dim
    split = (value.shape[dim + 1] // layout.inner, layout.inner)
    rows: Tensor = value.unflatten(dim + 1, split)  # type: ignore[no-untyped-call]
    return rows.movedim(0, dim + 1).flatten(dim, dim + 2)
