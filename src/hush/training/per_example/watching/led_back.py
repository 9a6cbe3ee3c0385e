"""Gradients of functions of parameters, led back to the parameters."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from hush.training.operations.recipes import Recipe, led_back
from hush.training.per_example.gradients import DenseGradient, Gradient, add_up_rows


class LedBack:
    """The form of a gradient that is led back to a parameter."""

    def __init__(self, form: Callable[..., Gradient], recipe: Recipe, param: Tensor) -> None:
        self.form, self.recipe, self.param = form, recipe, param

    def __call__(self, *values: Tensor) -> Gradient:
        gradients = self.form(*values)
        rows = _table_rows(self.recipe, self.param, gradients)
        if rows is not None:
            return rows
        return DenseGradient(led_back(self.recipe, self.param, gradients.materialize()))


def _table_rows(recipe: Recipe, param: Tensor, gradients: Gradient) -> Gradient | None:
    """Return the gradient of a table of which all examples looked up the same rows, without a table for each."""
    indices, table = recipe.args[:2] if recipe.name == "embedding" and len(recipe.args) > 1 else (None, None)
    if table is not param or not isinstance(indices, Tensor):
        return None
    padding = recipe.args[2] if len(recipe.args) > 2 else recipe.kwargs.get("padding_idx")
    values = gradients.materialize()
    values = values.reshape(len(values), -1, param.shape[1])
    rows = indices.reshape(1, -1)
    if padding is not None:
        values = values.masked_fill((rows == padding % len(param)).unsqueeze(-1), 0.0)
    return add_up_rows(rows.expand(len(values), -1), values, len(param))
