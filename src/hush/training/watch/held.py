"""What modules hold in plain attributes: tensors, also inside of lists, dictionaries and objects.

An attribute such as ``self.last_input = x`` is no parameter and no buffer, but it is pickled with the model. A cache
that was filled before the run began is no concern: only changes during a forward pass are.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from hush.errors import Unsupported

NamedModules = list[tuple[str, nn.Module]]

# Torch's own attributes: parameters, buffers and submodules are watched as such, and forwards hold code.
OF_TORCH = frozenset(nn.Module().__dict__) | {"forward", "_compiled_call_impl"}
# Hooks are pickled with a module, and so is what an object or a method that serves as a hook holds.
_HOOKS = tuple(name for name in nn.Module().__dict__ if name.endswith("_hooks"))
_NUMBERS = (int, float, complex, str, bytes, bytearray, bool, np.generic)
_CODE = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, torch.dtype, torch.device, type(None))
_SKIPPED = frozenset((*_NUMBERS, *_CODE, torch.Size)) - {MethodType}
_FOREIGN = frozenset({"torch", "hush", "random", "numpy", "threading", "logging"})  # whose objects are not entered
_CONTAINERS = (list, tuple, deque, set, frozenset)
_ITERATORS: Any = (type(iter([])), type(iter(())))
_MAX_OBJECTS = 100_000


class StoredData(Unsupported):
    """A forward pass has put something about the data into the model."""


def held_tensors(modules: NamedModules) -> Iterator[tuple[str, Tensor | np.ndarray[Any, Any]]]:
    """Yield the tensors and arrays that modules hold in plain attributes, each once, with a name.

    >>> module = nn.Linear(1, 1)
    >>> module.memory = {"rows": [torch.zeros(2)]}
    >>> [name for name, _ in held_tensors([("", module)])]
    ['memory.rows.0']
    """
    for name, value in _held(modules, frozenset((*_SKIPPED,))):
        if isinstance(value, (Tensor, np.ndarray)):
            yield name, value


def held_values(modules: NamedModules) -> dict[str, Any]:
    """Return copies of all that modules hold in plain attributes, numbers and text included."""
    values: dict[str, Any] = {}
    for name, value in _held(modules, frozenset((*_CODE, torch.Size)) - {MethodType}):
        if isinstance(value, Tensor):
            values[name] = value.detach().clone()
        else:
            values[name] = value.copy() if isinstance(value, (np.ndarray, bytearray)) else value
    return values


def differing(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Return the names under which two results of `held_values` differ."""
    names = [*first, *(name for name in second if name not in first)]
    return [name for name in names if name not in first or name not in second or _differ(first[name], second[name])]


class Attributes:
    """The plain attributes of modules, as they were: also the lists and dictionaries in them, but not what these hold.

    >>> module = nn.Linear(1, 1)
    >>> before = Attributes([("", module)])
    >>> module.memory = torch.zeros(2)
    >>> before.restore()
    >>> hasattr(module, "memory")
    False
    """

    def __init__(self, modules: NamedModules) -> None:
        """Remember the attributes as they are now."""
        self._attributes = [
            (module, {key: (value, _shallow(value)) for key, value in vars(module).items() if key not in OF_TORCH})
            for _, module in modules
        ]

    def restore(self) -> None:
        """Set the attributes as they were."""
        for module, before in self._attributes:
            attributes = vars(module)
            for key in [key for key in attributes if key not in OF_TORCH and key not in before]:
                del attributes[key]
            for key, (value, contents) in before.items():
                attributes[key] = value
                _refill(value, contents)


def _held(modules: NamedModules, skipped: frozenset[type]) -> Iterator[tuple[str, Any]]:
    # Registered modules and tensors are watched elsewhere, also if an attribute refers to them once more.
    seen = {id(module) for _, module in modules}
    stack: list[tuple[str, Any]] = []
    for prefix, module in modules:
        attributes = vars(module)
        for key in attributes.keys() - OF_TORCH:  # a difference of sets is faster than a loop
            if type(value := attributes[key]) not in skipped:
                stack.append((f"{prefix}.{key}" if prefix else key, value))
        stack.extend(_attached(prefix, module))
    registered: set[int] | None = None
    while stack and len(seen) < len(modules) + _MAX_OBJECTS:
        name, value = stack.pop()
        if isinstance(value, _NUMBERS):
            yield name, value
            continue
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (Tensor, np.ndarray)):
            registered = _registered(modules) if registered is None else registered
            if id(value) not in registered:
                yield name, value
        else:
            stack.extend((f"{name}.{key}", part) for key, part in _parts(value) if type(part) not in skipped)


def _attached(prefix: str, module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield what hooks of a module hold, and the attributes that somebody gave to its parameters and buffers."""
    attributes = vars(module)
    for key in _HOOKS:
        for number, hook in enumerate(list(attributes[key].values())) if attributes.get(key) else ():
            yield f"{prefix}.{key}.{number}" if prefix else f"{key}.{number}", hook
    for tensors in (module._parameters, module._buffers):
        for key, tensor in tensors.items():
            if tensor is not None and (notes := getattr(tensor, "__dict__", None)):
                yield f"{prefix}.{key}" if prefix else key, dict(notes)


def _registered(modules: NamedModules) -> set[int]:
    """Return the parameters and buffers of modules, by their ids."""
    held = (tensors for _, module in modules for tensors in (module._parameters, module._buffers))
    return {id(tensor) for tensors in held for tensor in tensors.values()}


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what an object holds."""
    if isinstance(value, Mapping):
        yield from list(value.items())
    elif isinstance(value, _CONTAINERS):
        yield from enumerate(list(value))
    elif isinstance(value, _ITERATORS):
        yield from enumerate(copy.copy(value))  # the copy is used up
    elif isinstance(value, MethodType):
        yield "self", value.__self__
    elif isinstance(value, partial):
        yield from (("func", value.func), ("args", value.args), ("keywords", value.keywords))
    elif not isinstance(value, _CODE) and (isinstance(value, (nn.Module, Distribution)) or not _is_foreign(value)):
        yield from list(getattr(value, "__dict__", {}).items())
        for slot in (slot for ancestor in type(value).__mro__ for slot in getattr(ancestor, "__slots__", ())):
            if isinstance(slot, str) and not slot.startswith("__") and hasattr(value, slot):
                yield slot, getattr(value, slot)


def _is_foreign(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in _FOREIGN


def _shallow(value: Any) -> Any:
    """Return a copy of a list or dictionary, to fill it again."""
    return copy.copy(value) if type(value) in (list, dict, deque, set) else None


def _refill(value: Any, contents: Any) -> None:
    if contents is None:
        return
    value.clear()
    if isinstance(value, (dict, set)):
        value.update(contents)
    else:
        value.extend(contents)


def _differ(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        if first.shape != second.shape or first.dtype != second.dtype:
            return True
        return not bool(((first == second) | ((first != first) & (second != second))).all())  # NaN is not itself
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return first.tobytes() != second.tobytes()
    return type(first) is not type(second) or repr(first) != repr(second)  # by its text, NaN is equal to itself
