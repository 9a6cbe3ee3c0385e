"""Training a part of a model: the fewer weights are trained, the less noise a step takes in all.

Call these before the optimizer is built and before `privatize`; both look at the parameters as they are then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from hush.errors import InvalidArgument, Unsupported, check_count, check_instance

# What libraries of models call the part that gives the answers.
_HEADS = frozenset({"classifier", "fc", "head", "heads", "score"})
_KINDS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_SHOWN = 40


def freeze_except(model: nn.Module, *patterns: str) -> tuple[str, ...]:
    """Freeze all parameters but those that match; return the names of those that are trained.

    Args:
        model: The model.
        patterns: Names of parameters or of modules, with ``*`` and ``?`` as in file names: ``"fc"``, ``"*.bias"``,
            ``"layer4.*"``. Each must match something. A parameter with two names is trained if either matches.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> freeze_except(model, "2", "*.bias")
    ('0.bias', '2.weight', '2.bias')
    """
    check_instance("model", model, nn.Module)
    refuse_private(model)
    for pattern in patterns:
        check_instance("patterns", pattern, str, "Names one by one: freeze_except(model, 'fc', '*.bias')")
    if not patterns:
        raise InvalidArgument("patterns", patterns, "at least one name, such as 'fc' or '*.bias'")
    names = dict(model.named_parameters(remove_duplicate=False))
    chosen: set[int] = set()
    for pattern in patterns:
        found = {id(param) for name, param in names.items() if _is_in(name, pattern)}
        if not found:
            raise InvalidArgument(
                "patterns", pattern, "a pattern that matches a parameter", f"There are {listed(names)}"
            )
        chosen |= found
    for param in model.parameters():
        param.requires_grad_(id(param) in chosen)
    return tuple(name for name, param in model.named_parameters() if id(param) in chosen)


def replace_head(model: nn.Module, num_outputs: int, *, name: str | None = None) -> str:
    """Put a new layer, all zeros, in the place of the one that gives the answers; return its name.

    It is the last linear or convolutional layer of the part that is called ``fc``, ``classifier``, ``head``, ``heads``
    or ``score``; without such a part, the model's last one. The new layer has its own weights, also where the old one
    shared them with an embedding, which keeps them. It starts from zero, so that the first step's gradient is that of
    the features alone, and no noise is spent on getting rid of a random guess.

    Args:
        model: A model that contains its head.
        num_outputs: How many outputs the new one has.
        name: Which layer it is, to decide it yourself.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1000))
    >>> replace_head(model, 10)
    '2'
    """
    check_instance("model", model, nn.Module)
    refuse_private(model)
    check_count("num_outputs", num_outputs)
    layers = {path: module for path, module in model.named_modules(remove_duplicate=False) if _is_layer(path, module)}
    if not layers:
        raise InvalidArgument("model", type(model).__name__, "a model that contains a linear layer, or a convolution")
    if name is None:
        name = _found(model, layers)
    elif name not in layers:
        raise InvalidArgument(
            "name", name, "the name of a linear layer, or a convolution", f"There are {listed(layers)}"
        )
    old = layers[name]
    shared = [path for path, module in layers.items() if module is old]
    if len(shared) > 1:
        raise Unsupported(f"{' and '.join(shared)}: one layer in two places", "Replace it yourself, in both")
    parent, _, own = name.rpartition(".")
    _refuse_dead(model.get_submodule(parent), own, name)
    setattr(model.get_submodule(parent), own, _blank(old, num_outputs))
    return name


def refuse_private(model: nn.Module) -> None:
    """Refuse a model that is in a private run: its layers are known to the run as they are."""
    if any(getattr(module.__dict__.get("forward"), "engine", None) is not None for module in model.modules()):
        raise Unsupported("the model is in a private run", "Change it before privatize, or after private.close()")


def listed(names: Iterable[str]) -> str:
    """Write names for a message; not all of a large model's."""
    every = list(names)
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return ", ".join(every[:_SHOWN]) + more


def _is_in(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")


def _is_layer(path: str, module: nn.Module) -> bool:
    # An attention layer reads the weights of its output projection, and never calls it.
    hidden = isinstance(module, nn.modules.linear.NonDynamicallyQuantizableLinear)
    return bool(path) and isinstance(module, _KINDS) and not hidden


def _found(model: nn.Module, layers: dict[str, nn.Module]) -> str:
    """Return the head's name, by what its part is called or by being the last; refuse where that is a guess."""
    parts: dict[str, str] = {}  # of each part that is called a head: the last layer
    for path in layers:
        steps = path.split(".")
        for depth, step in enumerate(steps):
            if step in _HEADS:
                parts[".".join(steps[: depth + 1])] = path
                break
    if parts:
        outermost = min(part.count(".") for part in parts)
        return _only([path for part, path in parts.items() if part.count(".") == outermost])
    *_, last = layers
    linear = [path for path, module in layers.items() if isinstance(module, nn.Linear)]
    if linear and last != linear[-1]:
        return _only([linear[-1], last])
    parents = [".".join(last.split(".")[:depth]) for depth in range(last.count(".") + 1)]
    if any(isinstance(model.get_submodule(parent), nn.ModuleList) for parent in parents):
        raise InvalidArgument("name", None, "the head's name", f"The last layer is one of a list of blocks: {last}")
    return _only([*_beside(model, layers, last), last])


def _beside(model: nn.Module, layers: dict[str, nn.Module], last: str) -> list[str]:
    """Return another head of the same model: on the same inputs as the last one, and not before it in a chain."""
    parent = last.rpartition(".")[0]
    others = [path for path in layers if path.rpartition(".")[0] == parent and path != last]
    if not others or isinstance(model.get_submodule(parent), nn.Sequential):
        return []
    (one_in, one_out), (inputs, _) = _shape(layers[others[-1]]), _shape(layers[last])
    return [others[-1]] if one_in == inputs and one_out != inputs else []


def _only(candidates: Sequence[str]) -> str:
    if len(candidates) > 1:
        raise InvalidArgument("name", None, "the head's name", f"It may be {' or '.join(candidates)}")
    return candidates[0]


def _shape(layer: Any) -> tuple[int, int]:
    if isinstance(layer, nn.Linear):
        return layer.in_features, layer.out_features
    return layer.in_channels, layer.out_channels


def _refuse_dead(parent: nn.Module, own: str, name: str) -> None:
    if not isinstance(parent, nn.Sequential):
        return
    names = list(parent._modules)
    if any(isinstance(parent._modules[after], (nn.ReLU, nn.ReLU6)) for after in names[names.index(own) + 1 :]):
        raise Unsupported(f"{name}: a ReLU after a layer of zeros never learns", "Put nn.Identity() in its place")


def _blank(old: Any, num_outputs: int) -> nn.Module:
    """Return a layer like an old one, with other outputs, and zeros for weights."""
    settings: dict[str, Any] = {
        "bias": old.bias is not None,
        "device": old.weight.device,
        "dtype": old.weight.dtype,
    }
    new: Any
    if isinstance(old, nn.Linear):
        new = nn.Linear(old.in_features, num_outputs, **settings)
    else:
        kind = next(kind for kind in _KINDS if isinstance(old, kind))
        same = ("kernel_size", "stride", "padding", "dilation", "padding_mode")
        settings |= {key: getattr(old, key) for key in same}
        new = kind(old.in_channels, num_outputs, **settings)
    with torch.no_grad():
        for param in new.parameters():
            param.zero_()
    trained: nn.Module = new.train(old.training)
    return trained
