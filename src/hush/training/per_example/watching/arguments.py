"""The tensors among the arguments of an operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor


def tensors_in(args: Any, kwargs: Any, also: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the tensors among the arguments, also within lists."""
    values: list[Any] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) or (also is not None and also(value)):
            values.append(value)
        elif isinstance(value, (tuple, list)):
            values.extend(tensors_in(value, {}, also))
    return values
