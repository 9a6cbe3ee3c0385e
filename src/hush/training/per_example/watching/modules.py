"""Where modules with rules take and return examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from hush.training.operations.layouts import ANYWHERE, Layout
from hush.training.per_example.watching.arguments import tensors_in

if TYPE_CHECKING:
    from hush.training.per_example.watching.mode import OperationMode


def fits(mode: OperationMode, module: nn.Module, args: Any, kwargs: Any) -> bool:
    """Return whether a module's rule can take these inputs: examples are where it expects them."""
    tensors = tensors_in(args, kwargs)
    if any(mode.is_source(value) for value in tensors):
        return False
    dim = _batch_dim(module)
    layouts = [(value, layout) for value in tensors if (layout := mode.layout(value)) is not None]
    first = mode.layout(tensors[0]) if tensors else None
    if first is None or not first.is_known:
        # These rules know packed sequences, and refuse what they do not know by name.
        return isinstance(module, (nn.RNNBase, nn.MultiheadAttention))
    return all(
        value.dim() > dim and value.shape[dim] == mode.size and layout.owners is None and layout.dim in (dim, ANYWHERE)
        for value, layout in layouts
        if value is tensors[0]
    )


def tag_outputs(mode: OperationMode, module: nn.Module, args: Any, result: Any) -> None:
    """Note where the results of a module's rule hold the examples."""
    dim = _batch_dim(module)
    first = result[0] if isinstance(result, tuple) else result
    if isinstance(first, PackedSequence):
        packed = mode.tag_of(args[0].data)
        if packed is not None:
            mode.tag(first.data, packed)
    elif isinstance(first, Tensor):
        mode.tag(first, Layout(ANYWHERE if mode.size == 1 else dim))
    for part in tensors_in(result[1:] if isinstance(result, tuple) else (), {}):
        mode.tag(part, Layout(ANYWHERE if mode.size == 1 else _batch_dim_of_states(module)))


def _batch_dim(module: nn.Module) -> int:
    """Return the dimension in which a module expects the examples."""
    return 0 if getattr(module, "batch_first", True) else 1


def _batch_dim_of_states(module: nn.Module) -> int:
    """Return the dimension of the examples in other results than the first."""
    return 1 if isinstance(module, nn.RNNBase) else 0
