"""Training part of a model: freeze layers, or replace the output layer.

The noise of a step has one entry per trained parameter, so training fewer parameters means less noise in total. Call
these functions before you build the optimizer and before `privatize`; both read the parameters at that time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from hush.errors import InvalidArgument, Unsupported, check_count, check_instance

# Common names for the part of a model that computes its outputs.
_HEADS = frozenset({"classifier", "fc", "head", "heads", "score"})
_KINDS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_MOST_NAMES = 40


def freeze_except(model: nn.Module, *patterns: str) -> tuple[str, ...]:
    """Freeze all parameters except those that match a pattern. Return the names of the trained ones.

    Args:
        model: The model.
        patterns: Names of parameters or modules, with ``*`` and ``?`` as in file names: ``"fc"``, ``"*.bias"``,
            ``"layer4.*"``. Each must match something. A parameter with two names is trained if either matches.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> freeze_except(model, "2", "*.bias")
    ('0.bias', '2.weight', '2.bias')
    """
    check_instance("model", model, nn.Module)
    refuse_private(model)
    for pattern in patterns:
        check_instance("patterns", pattern, str, "Pass names one by one: freeze_except(model, 'fc', '*.bias')")
    if not patterns:
        raise InvalidArgument("patterns", patterns, "at least one name, such as 'fc' or '*.bias'")
    params_by_name = dict(model.named_parameters(remove_duplicate=False))
    chosen: set[int] = set()
    for pattern in patterns:
        matching = {id(param) for name, param in params_by_name.items() if _matches(name, pattern)}
        if not matching:
            raise InvalidArgument(
                "patterns", pattern, "a pattern that matches a parameter", f"The model has {listed(params_by_name)}"
            )
        chosen |= matching
    for param in model.parameters():
        param.requires_grad_(id(param) in chosen)
    return tuple(name for name, param in model.named_parameters() if id(param) in chosen)


def replace_head(model: nn.Module, num_outputs: int, *, name: str | None = None) -> str:
    """Replace the output layer by a new, zero-initialised one. Return its name.

    The output layer is the last linear or convolutional layer of the part that is called ``fc``, ``classifier``,
    ``head``, ``heads`` or ``score``; without such a part, the last one of the model. The new layer has its own weights,
    even if the old one shared them with an embedding. It starts from zero, so the first gradient depends on the
    features alone, and no noisy step is wasted on undoing a random start.

    Args:
        model: A model that contains its head.
        num_outputs: The number of outputs of the new layer.
        name: The name of the layer to replace, if you want to choose it.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1000))
    >>> replace_head(model, 10)
    '2'
    """
    check_instance("model", model, nn.Module)
    refuse_private(model)
    check_count("num_outputs", num_outputs)
    layers = {path: module for path, module in model.named_modules(remove_duplicate=False) if _is_layer(path, module)}
    if not layers:
        raise InvalidArgument("model", type(model).__name__, "a model that contains a linear or convolutional layer")
    if name is None:
        name = _find_head(model, layers)
    elif name not in layers:
        raise InvalidArgument(
            "name", name, "the name of a linear or convolutional layer", f"The model has {listed(layers)}"
        )
    old = layers[name]
    aliases = [path for path, module in layers.items() if module is old]
    if len(aliases) > 1:
        raise Unsupported(
            f"{' and '.join(aliases)}: one layer that is used in two places", "Replace it in both yourself"
        )
    parent_path, _, attribute = name.rpartition(".")
    parent = model.get_submodule(parent_path)
    _refuse_dead(parent, attribute, name)
    setattr(parent, attribute, _zero_layer(old, num_outputs))
    return name


def refuse_private(model: nn.Module) -> None:
    """Refuse a model that is attached to a private run, which relies on its layers as they are."""
    if any(getattr(module.__dict__.get("forward"), "engine", None) is not None for module in model.modules()):
        raise Unsupported("the model is in a private run", "Change it before privatize, or after private.close()")


def listed(names: Iterable[str]) -> str:
    """Join names for a message, but not all of a large model's."""
    all_names = list(names)
    more = f" and {len(all_names) - _MOST_NAMES} more" if len(all_names) > _MOST_NAMES else ""
    return ", ".join(all_names[:_MOST_NAMES]) + more


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")


def _is_layer(path: str, module: nn.Module) -> bool:
    # Attention reads the weight of its output projection and never calls it, so that one cannot be replaced.
    is_read = isinstance(module, nn.modules.linear.NonDynamicallyQuantizableLinear)
    return bool(path) and isinstance(module, _KINDS) and not is_read


def _find_head(model: nn.Module, layers: dict[str, nn.Module]) -> str:
    """Return the name of the output layer, by the name of its part or because it is last. Refuse to guess."""
    heads: dict[str, str] = {}  # from the path of a part that is called a head to its last layer
    for path in layers:
        steps = path.split(".")
        for depth, step in enumerate(steps):
            if step in _HEADS:
                heads[".".join(steps[: depth + 1])] = path
                break
    if heads:
        outermost = min(part.count(".") for part in heads)
        return _the_only([path for part, path in heads.items() if part.count(".") == outermost])
    last = list(layers)[-1]
    linear = [path for path, module in layers.items() if isinstance(module, nn.Linear)]
    if linear and last != linear[-1]:
        return _the_only([linear[-1], last])
    ancestors = [".".join(last.split(".")[:depth]) for depth in range(last.count(".") + 1)]
    if any(isinstance(model.get_submodule(ancestor), nn.ModuleList) for ancestor in ancestors):
        raise InvalidArgument(
            "name", None, "the head's name", f"The last layer, {last}, is one of a list of blocks. Pass name="
        )
    return _the_only([*_parallel_heads(model, layers, last), last])


def _parallel_heads(model: nn.Module, layers: dict[str, nn.Module], last: str) -> list[str]:
    """Return a layer that looks like a second head: it has the inputs of the last one, and neither feeds the other."""
    parent = last.rpartition(".")[0]
    siblings = [path for path in layers if path.rpartition(".")[0] == parent and path != last]
    if not siblings or isinstance(model.get_submodule(parent), nn.Sequential):
        return []
    (sibling_inputs, sibling_outputs), (inputs, _) = _shape(layers[siblings[-1]]), _shape(layers[last])
    return [siblings[-1]] if sibling_inputs == inputs and sibling_outputs != inputs else []


def _the_only(candidates: Sequence[str]) -> str:
    if len(candidates) > 1:
        raise InvalidArgument("name", None, "the head's name", f"It may be {' or '.join(candidates)}")
    return candidates[0]


def _shape(layer: Any) -> tuple[int, int]:
    if isinstance(layer, nn.Linear):
        return layer.in_features, layer.out_features
    return layer.in_channels, layer.out_channels


def _refuse_dead(parent: nn.Module, attribute: str, name: str) -> None:
    """Refuse a layer of zeros before a ReLU, whose gradient at zero is zero."""
    if not isinstance(parent, nn.Sequential):
        return
    names = list(parent._modules)
    if any(isinstance(parent._modules[after], (nn.ReLU, nn.ReLU6)) for after in names[names.index(attribute) + 1 :]):
        raise Unsupported(
            f"{name}: a zero-initialised layer before a ReLU never learns", "Replace the ReLU by nn.Identity()"
        )


def _zero_layer(old: Any, num_outputs: int) -> nn.Module:
    """Return a zero-initialised layer like an old one, with another number of outputs."""
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
    layer: nn.Module = new.train(old.training)
    return layer
