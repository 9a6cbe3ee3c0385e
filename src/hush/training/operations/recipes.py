"""Recipes: how a tensor was computed from parameters alone, so that gradients can be led back to these.

Where such a tensor meets the batch, every example has a gradient of its own for it. The recipe is run again in the
backward direction, for all examples at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """A result of an operation on parameters, on constants and on other recipes.

    Attributes:
        func: The operation.
        args: Its positional arguments; parameters stay as they are, and what was computed from them is a recipe.
        kwargs: Its keyword arguments.
        name: Its name.
        key: Which operation it was in the forward pass.
        part: Which of several results it is.
        shape: The shape of the result.
    """

    func: Any
    args: Any
    kwargs: Any
    name: str
    key: Any
    part: int | None
    shape: tuple[int, ...]

    def inputs(self) -> list[Any]:
        """Return all arguments, without their structure."""
        return tree_leaves((self.args, self.kwargs), is_leaf=is_recipe)


def is_recipe(value: Any) -> bool:
    """Return whether a value is a recipe."""
    return isinstance(value, Recipe)


def steps(recipe: Recipe) -> Iterator[Recipe]:
    """Yield the recipe and those that it needs, the last operation first."""
    seen: set[int] = set()
    waiting = [recipe]
    while waiting:
        step = waiting.pop(0)
        if id(step) in seen:
            continue
        seen.add(id(step))
        yield step
        waiting.extend(value for value in step.inputs() if isinstance(value, Recipe))


def parameters(recipe: Recipe, trained: dict[int, str]) -> list[Tensor]:
    """Return the trained parameters that a recipe starts from."""
    params: dict[int, Tensor] = {}
    for step in steps(recipe):
        params.update((id(value), value) for value in step.inputs() if id(value) in trained)
    return list(params.values())


def evaluated(recipe: Recipe, values: dict[int, Tensor]) -> Tensor:
    """Return the result for other values of the parameters.

    Args:
        recipe: The recipe.
        values: The values, by the identity of the parameter.
    """
    done: dict[int, Any] = {}

    def value_of(argument: Any) -> Any:
        if isinstance(argument, Recipe):
            if id(argument) not in done:
                inner = tree_map(value_of, (argument.args, argument.kwargs), is_leaf=is_recipe)
                result = argument.func(*inner[0], **inner[1])
                done[id(argument)] = result if argument.part is None else result[argument.part]
            return done[id(argument)]
        return values.get(id(argument), argument)

    result: Tensor = value_of(recipe)
    return result


def led_back(recipe: Recipe, param: Tensor, gradients: Tensor) -> Tensor:
    """Return every example's gradient of a parameter, [B, *shape], from those of what was computed from it.

    Args:
        recipe: How it was computed.
        param: The parameter.
        gradients: The gradients of the result, [B, *shape of the result].
    """
    base = param.detach()
    dtype = gradients.dtype if gradients.dtype is torch.float64 else torch.promote_types(gradients.dtype, base.dtype)

    def result(value: Tensor) -> Tensor:
        return evaluated(recipe, {id(param): value})

    with torch.enable_grad(), quiet_fallbacks():
        output, backward = torch.func.vjp(result, base)  # type: ignore[misc]
        gradients = gradients.to(output.dtype).reshape(len(gradients), *output.shape)
        total: Tensor = torch.func.vmap(lambda gradient: backward(gradient)[0])(gradients)
    return total.detach().to(dtype)


@contextmanager
def quiet_fallbacks() -> Iterator[None]:
    """Let ``vmap`` run an operation one example at a time, without a warning that it is slow."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
        yield
