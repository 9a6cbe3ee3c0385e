"""What an operation on parameters was given, so that a pass that follows an earlier one is compared with it.

A pass that follows a plan must credit the same parameters by the same functions of them. Parameters, results of earlier
operations, numbers and words are compared. Other tensors in a function of parameters, such as masks and positions, may
differ from pass to pass: recipes hold copies of them, which every pass brings up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hush.training.per_example.taps import StaleLayout

if TYPE_CHECKING:
    from hush.training.per_example.watching.mode import OperationMode

Note = tuple[str, Any, str | None]  # what is known, what it is, and under which name it was given

_PLAIN = (int, float, complex, str, type(None), type(...), torch.dtype, torch.device, torch.memory_format, torch.layout)
_PARAMETERS = {
    "linear": ("input", "weight", "bias"),
    "matmul": ("input", "other"),
    "mm": ("input", "mat2"),
    "bmm": ("input", "mat2"),
    "mv": ("input", "vec"),
    "addmm": ("input", "mat1", "mat2"),
    "baddbmm": ("input", "batch1", "batch2"),
    "index_select": ("input", "dim", "index"),
    "embedding": ("input", "weight"),
}


def positional(name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return arguments of which those that rules know by position are not given by name."""
    names = _PARAMETERS.get(name)
    if names is None or not kwargs:
        return args, kwargs
    values, rest = list(args), dict(kwargs)
    for parameter in names[len(args) :]:
        if parameter not in rest:
            break
        values.append(rest.pop(parameter))
    return tuple(values), rest


def flat(args: Any) -> list[Any]:
    """Return all arguments in order. Dynamo traces this: it is written in the open."""
    values: list[Any] = []
    for value in args:
        if isinstance(value, (tuple, list)):
            values.append(len(value))
            values.extend(flat(value))
        elif isinstance(value, slice):
            values.extend(flat((value.start, value.stop, value.step)))
        else:
            values.append(value)
    return values


def named(args: Any, kwargs: Any) -> tuple[list[str | None], list[Any]]:
    """Return the names under which arguments were given, and the arguments."""
    values = flat(args)
    keys: list[str | None] = [None] * len(values)
    if kwargs:
        for key, value in kwargs.items():
            more = flat((value,))
            values.extend(more)
            keys.extend([key] * len(more))
    return keys, values


def noted(mode: OperationMode, args: Any, kwargs: Any, *, derives: bool) -> tuple[Note, ...]:
    """Return what to compare.

    Args:
        mode: The mode.
        args: The positional arguments.
        kwargs: The keyword arguments.
        derives: Whether the result is a function of parameters alone, so that all arguments enter its recipe. Otherwise
            the operation is run on the arguments of each pass.
    """
    keys, values = named(args, kwargs)
    return tuple(
        (*_note(mode, value, derives), key)
        for key, value in zip(keys, values, strict=True)
        if derives or isinstance(value, Tensor)
    )


def _note(mode: OperationMode, value: Any, derives: bool) -> tuple[str, Any]:
    if isinstance(value, Tensor):
        name = mode.trained.get(id(value))
        number = mode.number_of(value)
        if name is not None:
            return "parameter", name
        if number is not None and mode.is_source(value):
            return "derived", number
        if not derives or mode.layout(value) is not None:
            return "batch", None
        mode.keep_constant(value)
        return "constant", None
    if not derives:
        return "any", None
    if not isinstance(value, _PLAIN):
        mode.plan.is_static = False  # an object that may have changed
        return "any", None
    return "plain", value


def compare(mode: OperationMode, notes: tuple[Note, ...], args: Any, kwargs: Any, *, derives: bool) -> None:
    """Raise `StaleLayout` if an operation is given something else; collect constants that may differ."""
    is_compiling = torch.compiler.is_compiling()
    keys, values = named(args, kwargs)
    place = 0
    for key, value in zip(keys, values, strict=True):
        if not derives and not isinstance(value, Tensor):
            continue
        # Dynamo shows functions as they were called. Otherwise torch adds defaults, and names what was by position.
        while is_compiling and key is not None and place < len(notes) and notes[place][2] not in (None, key):
            if notes[place][0] != "plain":
                raise StaleLayout
            place += 1
        if place >= len(notes):
            raise StaleLayout
        kind, content, known_key = notes[place]
        place += 1
        if key != known_key and kind not in ("batch", "any") and not (key is None and is_compiling):
            raise StaleLayout
        if kind == "any":
            if isinstance(value, Tensor):
                raise StaleLayout
        elif kind == "plain":
            if isinstance(value, Tensor) or type(value) is not type(content) or value != content:
                raise StaleLayout
        elif not isinstance(value, Tensor):
            raise StaleLayout
        elif kind == "parameter":
            if value is not mode.engine.parameter(content):
                raise StaleLayout
        elif kind == "derived":
            if value is not mode.derived[content]:
                raise StaleLayout
        elif isinstance(value, nn.Parameter) and value.requires_grad:
            raise StaleLayout
        elif kind == "constant":
            mode.constants.append(value.detach().clone())
    for kind, _, _ in notes[place:]:
        if kind not in ("plain", "any") or not is_compiling:
            raise StaleLayout
