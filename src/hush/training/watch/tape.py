"""A tape of everything that torch computes between the loader and the losses, to be played again on other rows.

The tape is recorded in the user's own loop, so it holds what the loop does before and after the model, too: mixing
rows, weighing classes. Operations are those below autograd, autocast and ``vmap``. Branches of Python are as they were.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

from hush.training.watch.seeds import same_seeds

_CALL = nn.Module._wrapped_call_impl.__code__


class _Slot:
    """The place of a tensor that the tape computes, or takes."""

    __slots__ = ("follows_data", "number")

    def __init__(self, number: int, *, follows_data: bool) -> None:
        self.number, self.follows_data = number, follows_data


# What takes numbers out of tensors: what Python or NumPy computes from them is a constant for the tape.
_READS = frozenset(
    getattr(Tensor, name)
    for name in ("item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__", "__array__", "__dlpack__")
)


class _Reads(TorchFunctionMode):
    """Notices reads while a tape records."""

    def __init__(self, notice: Callable[[Tensor], None]) -> None:
        super().__init__()
        self._notice = notice

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _READS and args:
            self._notice(args[0])
        return func(*args, **(kwargs or {}))


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records operations from `start` to `stop`, and plays them again.

    Attributes:
        has_reads: Whether numbers that depend on the inputs were read in Python, outside of calls of the model.
    """

    def __init__(self, inputs: Sequence[Tensor], model: nn.Module | None = None) -> None:
        """Take the tensors that will be replaced.

        Args:
            inputs: The tensors.
            model: A model whose own reads are no concern: its code is run again.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self._entries: list[tuple[Any, Any, Any, Any]] = []
        self._slots: Any = WeakIdKeyDictionary()  # no tensor is kept alive because it was recorded
        self._written: set[int] = set()  # memory that is written to, from outside or not
        self._count = 0
        self._is_recording = self._is_pushed = False
        self._inputs = [self._new_slot(tensor, follows_data=True) for tensor in inputs]
        self._model, self.has_reads = model, False
        self._reads = _Reads(self._notice_read)

    def start(self) -> None:
        """Record from now on."""
        self.__enter__()  # type: ignore[no-untyped-call]
        self._reads.__enter__()  # type: ignore[no-untyped-call]
        self._is_recording = self._is_pushed = True

    def stop(self) -> None:
        """Record no more."""
        self._is_recording = False
        # Another mode may lie on top, which the loop has not left yet; this one does nothing until it is.
        if self._is_pushed and _get_current_dispatch_mode() is self:
            self._is_pushed = False
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            if _get_current_function_mode() is self._reads:  # type: ignore[no-untyped-call]
                self._reads.__exit__(None, None, None)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and record it."""
        kwargs = kwargs or {}
        if not self._is_recording:
            return func(*args, **kwargs)
        # Before the call: afterwards, an argument may be the result.
        slotted = tree_map_only(Tensor, self._slot_or_itself, (args, kwargs))
        result = func(*args, **kwargs)
        if func._schema.is_mutable:
            self._written.update(map(_memory, _written_tensors(func, args, kwargs)))
        follows_data = any(isinstance(leaf, _Slot) and leaf.follows_data for leaf in tree_leaves(slotted))

        def slot_of(tensor: Tensor) -> _Slot:
            slot = self._slots.get(tensor)
            if slot is None:
                return self._new_slot(tensor, follows_data=follows_data)
            slot.follows_data |= follows_data  # written in place
            return slot  # type: ignore[no-any-return]

        self._entries.append((func, *slotted, tree_map_only(Tensor, slot_of, result)))
        return result

    def play(self, inputs: Sequence[Tensor], result: Tensor, seed: int) -> Tensor | None:
        """Return what the tape computes for ``result`` on other inputs; None if it cannot.

        Args:
            inputs: What replaces the inputs, in order.
            result: A tensor that was computed while the tape recorded.
            seed: The seed of torch's random numbers.
        """
        goal = self._slots.get(result)
        if goal is None:
            return None
        values = {slot.number: tensor.clone() for slot, tensor in zip(self._inputs, inputs, strict=True)}
        outside = self._copies_of_written()
        last_uses = self._last_uses(goal)

        def value(leaf: Any) -> Any:
            if isinstance(leaf, _Slot):
                return values[leaf.number]
            return outside.get(id(leaf), leaf)

        try:
            with same_seeds(seed), torch.no_grad():
                for position, (func, args, kwargs, output) in enumerate(self._entries):
                    used = _map(value, (args, kwargs))
                    made = func(*used[0], **used[1])
                    for slot, tensor in zip(tree_leaves(output), tree_leaves(made), strict=True):
                        if isinstance(slot, _Slot):
                            values[slot.number] = tensor
                    for number in last_uses.get(position, ()):
                        values.pop(number, None)
        except Exception:  # other values may need other shapes, and any operation may object to them
            return None
        return values.get(goal.number)

    def _new_slot(self, tensor: Tensor, *, follows_data: bool) -> _Slot:
        slot = self._slots[tensor] = _Slot(self._count, follows_data=follows_data)
        self._count += 1
        return slot

    def _notice_read(self, tensor: Tensor) -> None:
        """Note that numbers of a tensor leave the tape."""
        slot = self._slots.get(tensor) if self._is_recording and isinstance(tensor, Tensor) else None
        if slot is not None and slot.follows_data and not _is_within(self._model):
            self.has_reads = True

    def _slot_or_itself(self, tensor: Tensor) -> Any:
        slot = self._slots.get(tensor)
        return tensor if slot is None else slot

    def _copies_of_written(self) -> dict[int, Tensor]:
        """Return copies of the tensors from outside that the tape writes to, such as a running total of the loop."""
        leaves = (leaf for _, args, kwargs, _ in self._entries for leaf in tree_leaves((args, kwargs)))
        written = {id(leaf): leaf for leaf in leaves if isinstance(leaf, Tensor) and _memory(leaf) in self._written}
        return {key: tensor.detach().clone() for key, tensor in written.items()}

    def _last_uses(self, goal: _Slot) -> dict[int, list[int]]:
        """Return, for each position, the slots that are not needed after it."""
        last: dict[int, int] = {}
        for position, entry in enumerate(self._entries):
            for leaf in tree_leaves(entry[1:]):
                if isinstance(leaf, _Slot):
                    last[leaf.number] = position
        last.pop(goal.number, None)
        uses: dict[int, list[int]] = {}
        for number, position in last.items():
            uses.setdefault(position, []).append(number)
        return uses


def _is_within(model: nn.Module | None) -> bool:
    """Return whether a call of the model is under way."""
    frame = None if model is None else inspect.currentframe()
    while frame is not None:
        if frame.f_code is _CALL and frame.f_locals.get("self") is model:
            return True
        frame = frame.f_back
    return False


def _written_tensors(func: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """Return the arguments that an operation writes to."""
    parameters = [
        (argument, args[position] if position < len(args) else kwargs.get(argument.name))
        for position, argument in enumerate(func._schema.arguments)
    ]
    values = [value for argument, value in parameters if argument.alias_info and argument.alias_info.is_write]
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _memory(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _map(change: Any, tree: Any) -> Any:
    return torch.utils._pytree.tree_map(change, tree)
