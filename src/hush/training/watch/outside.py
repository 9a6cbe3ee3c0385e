"""What changes outside of forward passes and private steps, other than parameters: buffers, attributes, optimizers.

A run of its own keeps all of it as it was: a forward pass that changes a buffer or an attribute is refused, and the
state of an optimizer moves in private steps only. So what differs was written by the loop, by a hook or in a backward
pass, and holds no noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from hush.training.watch.held import StoredData, held_tensors

_Version = tuple[Any, int, int]  # a tensor, torch's count of writes in place, and the address


class OutsideWatch:
    """Compares buffers, plain attributes and optimizer states with those that a run left.

    >>> model = nn.BatchNorm1d(1)
    >>> watch = OutsideWatch(model, [])
    >>> watch.changed()
    []
    >>> _ = model.running_mean.add_(1.0)
    >>> watch.changed()
    ['running_mean']
    >>> _ = model.running_mean.sub_(1.0)  # the same contents are no change
    >>> watch.changed()
    []
    """

    def __init__(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        """Remember everything as it is now."""
        self._modules, self._optimizers = list(model.named_modules()), optimizers
        self.remember()

    def remember(self) -> None:
        """Take everything as it is now for unchanged."""
        self._buffers = {name: (_version(tensor), tensor.detach().clone()) for name, tensor in self._named_buffers()}
        self._held = {name: _version(value) for name, value in held_tensors(self._modules)}
        self.remember_states()

    def remember_states(self) -> None:
        """Take the states of the optimizers as they are now for unchanged."""
        self._states = {name: _version(tensor) for name, tensor in _state_tensors(self._optimizers)}

    def changed(self) -> list[str]:
        """Return the names of what has changed."""
        names = [name for name, tensor in self._named_buffers() if self._is_other(name, tensor)]
        held = ((name, _version(value)) for name, value in held_tensors(self._modules))
        names += [name for name, version in held if _differ(self._held.get(name), version)]
        states = ((name, _version(tensor)) for name, tensor in _state_tensors(self._optimizers))
        return names + [name for name, version in states if _differ(self._states.get(name), version)]

    def _is_other(self, name: str, buffer: Tensor) -> bool:
        """Return whether a buffer has other contents than before. Weights may be swapped, and put back."""
        if name not in self._buffers:
            return True
        version, contents = self._buffers[name]
        return _differ(version, _version(buffer)) and not are_equal(contents, buffer)

    def _named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        for prefix, module in self._modules:
            for name, tensor in module._buffers.items():
                if tensor is not None:
                    yield f"{prefix}.{name}" if prefix else name, tensor


def has_hooks(optimizer: Optimizer) -> bool:
    """Return whether anything else runs with an optimizer's steps."""
    hooks = (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks)
    return any((*hooks, _global_optimizer_pre_hooks, _global_optimizer_post_hooks))


def step_with_hooks(optimizer: Optimizer) -> None:
    """Let an optimizer step, and refuse hooks of others that change gradients, weights or the optimizer's state.

    What hooks only read, or put back, is no concern. An optimizer without hooks steps as it is.
    """
    if not has_hooks(optimizer):
        optimizer.step()
        return
    before, after = _contents(optimizer), list[list[Tensor]]()
    # The last hook before the step, and the first one after it.
    first = optimizer.register_step_pre_hook(_refuse_changes_since(before))
    last = optimizer.register_step_post_hook(lambda optimizer, *_: after.append(_contents(optimizer)))
    optimizer._optimizer_step_post_hooks.move_to_end(last.id, last=False)  # type: ignore[attr-defined]
    try:
        optimizer.step()
    finally:
        first.remove()
        last.remove()
    for contents in after:
        _refuse_changes_since(contents)(optimizer)


def _refuse_changes_since(before: list[Tensor]) -> Callable[..., None]:
    def refuse(optimizer: Optimizer, *_: Any) -> None:
        now = _contents(optimizer, copy=False)
        if len(now) != len(before) or not all(map(are_equal, before, now)):
            raise StoredData(
                f"a hook of {type(optimizer).__name__} that changes gradients, weights or the optimizer's state: the "
                f"guarantee covers what private steps do",
                "Clip weights by projection=, average them by MovingAverage, and only read in hooks",
            )

    return refuse


def _contents(optimizer: Optimizer, *, copy: bool = True) -> list[Tensor]:
    """Return the parameters, the gradients and the state of an optimizer."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    gradients = [param.grad for param in params if param.grad is not None]
    tensors = [*params, *gradients, *(tensor for _, tensor in _state_tensors([optimizer]))]
    return [tensor.detach().clone() if copy else tensor.detach() for tensor in tensors]


def are_equal(first: Tensor, second: Tensor) -> bool:
    """Return whether two tensors have the same type, shape, device and values; NaN is equal to itself."""
    if (first.dtype, first.shape, first.device) != (second.dtype, second.shape, second.device):
        return False
    return bool(((first == second) | ((first != first) & (second != second))).all())


def _state_tensors(optimizers: Sequence[Optimizer]) -> Iterator[tuple[str, Tensor]]:
    for optimizer in optimizers:
        params = [param for group in optimizer.param_groups for param in group["params"]]
        for number, param in enumerate(params):
            for key, value in optimizer.state[param].items() if param in optimizer.state else ():
                if isinstance(value, Tensor):
                    yield f"{type(optimizer).__name__}.state[{number}].{key}", value


def _version(value: Tensor | np.ndarray[Any, Any]) -> _Version:
    if isinstance(value, np.ndarray):
        return value, 0, 0
    return value, value._version, value.data_ptr() if type(value) in (Tensor, nn.Parameter) else 0


def _differ(before: _Version | None, now: _Version) -> bool:
    return before is None or before[0] is not now[0] or before[1:] != now[1:]
