"""What the graph of the losses shows: its kind, a scaled loss, and parameters that belong to no model."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from hush.errors import Unsupported

_NODES_OF_KIND = 24  # what a loop computes itself lies near the losses


def kind_of(losses: Tensor) -> tuple[str, ...]:
    """Return the names of the operations next to the losses: another loss is another kind of batch.

    >>> import torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> kind_of(x * 2), kind_of(x.exp() * 2)
    (('MulBackward0', 'AccumulateGrad'), ('MulBackward0', 'ExpBackward0', 'AccumulateGrad'))
    """
    return tuple(type(node).__name__ for node in _nodes(losses, _NODES_OF_KIND))


def refuse_scaled(losses: Tensor) -> None:
    """Refuse losses that a `GradScaler` has multiplied: what is clipped would be the scaled gradient."""
    node: Any = losses.grad_fn
    if type(node).__name__ != "MulBackward0":
        return
    factors = [factor for factor in (node._saved_other, node._saved_self) if factor is not None and factor.dim() == 0]
    scales = [value for value in gc.get_objects() if issubclass(type(value), GradScaler)] if factors else []
    addresses = {scaler._scale.data_ptr() for scaler in scales if scaler._scale is not None}
    if any(factor.data_ptr() in addresses for factor in factors):
        raise Unsupported(
            "losses: scaled by a GradScaler, so that scaled gradients would be clipped",
            "Pass the losses as they are: half precision is scaled here, and clip factors scale back",
        )


def refuse_outside_parameters(losses: Tensor, model: nn.Module) -> None:
    """Refuse losses that lead to trained parameters outside of the model, such as those of a criterion."""
    inside = {id(param) for param in model.parameters()}
    for node in _nodes(losses, 10**6):
        variable = getattr(node, "variable", None)
        if isinstance(variable, nn.Parameter) and id(variable) not in inside:
            raise Unsupported(
                f"losses: they use a parameter of shape {tuple(variable.shape)} that is not the model's, and would "
                f"never be trained",
                "Make a criterion with parameters a part of the model, or freeze them",
            )


def _nodes(losses: Tensor, limit: int) -> Iterator[Any]:
    """Yield the nodes of the graph, the losses' own first."""
    queue: deque[Any] = deque([losses.grad_fn] if losses.grad_fn is not None else [])
    seen: set[Any] = set()
    while queue and len(seen) < limit:
        node = queue.popleft()
        if node in seen:
            continue
        seen.add(node)
        yield node
        queue.extend(following for following, _ in node.next_functions if following is not None)
