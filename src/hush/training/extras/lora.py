"""Low-rank adaptation: the weights of large layers stay, and a product of two thin matrices is learnt beside them.

The two are ordinary linear layers, so that norms and clipped sums are exact and cheap as for any linear layer. PEFT's
own layers are made in the same way, and work as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported, check_count, check_instance, check_positive
from hush.training.plan.transfer import freeze_except, listed, refuse_private


class LoraLinear(nn.Module):
    """A linear layer of frozen weight W with a trained product beside it: x W^T + b + (alpha / rank) x A^T B^T.

    ``lora_down`` is A, random at first; ``lora_up`` is B, zero at first: the layer begins as what it was.
    ``weight`` is W + (alpha / rank) B A, computed when it is asked for, for code that reads a layer's weight.

    References:
        Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1; without dropout.
    """

    def __init__(self, base: nn.Module, *, rank: int, alpha: float) -> None:
        """Wrap a layer, and freeze its weight; its bias stays as it is."""
        super().__init__()
        self.base: Any = base
        self.base.weight.requires_grad_(False)
        inputs, outputs = _shape(base)
        kind: dict[str, Any] = {"bias": False, "device": self.base.weight.device, "dtype": self.base.weight.dtype}
        self.lora_down = nn.Linear(inputs, check_count("rank", rank), **kind)
        self.lora_up = nn.Linear(rank, outputs, **kind)
        nn.init.zeros_(self.lora_up.weight)
        self.scale = check_positive("alpha", alpha) / rank
        self.train(base.training)

    def forward(self, x: Tensor) -> Tensor:
        """Return the base layer's output and the product's."""
        result: Tensor = self.base(x) + self.lora_up(self.lora_down(x)) * self.scale
        return result

    @property
    def weight(self) -> Tensor:
        """The weight of the plain layer that does the same."""
        product = self.lora_up.weight @ self.lora_down.weight * self.scale
        total: Tensor = self.base.weight + (product.T if _is_transposed(self.base) else product)
        return total

    @property
    def bias(self) -> Tensor | None:
        """The base layer's."""
        found: Tensor | None = self.base.bias
        return found


def add_lora(
    model: nn.Module,
    *,
    rank: int,
    targets: str | Sequence[str],
    alpha: float | None = None,
    also_train: str | Sequence[str] = (),
) -> tuple[str, ...]:
    """Freeze a model, and put a trained product of rank ``rank`` beside some of its layers; return their names.

    Args:
        model: The model; it is changed in place.
        rank: The rank r of each product.
        targets: Names of linear layers, or the ends of their names, with ``*`` and ``?`` as in file names:
            ``"q_proj"``, ``"encoder.*.linear?"``. Each must match something. Hugging Face's ``Conv1D`` is linear, too.
        alpha: The product counts alpha / rank times; as much as the rank, if nothing is said.
        also_train: What else is trained, as for `freeze_except`: a new head, or ``"*.bias"``.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> add_lora(model, rank=2, targets="0", also_train="2")
    ('0',)
    >>> [name for name, param in model.named_parameters() if param.requires_grad]
    ['0.lora_down.weight', '0.lora_up.weight', '2.weight', '2.bias']
    """
    check_instance("model", model, nn.Module)
    refuse_private(model)
    alpha = check_positive("alpha", check_count("rank", rank) if alpha is None else alpha)
    if any(isinstance(module, LoraLinear) for module in model.modules()):
        raise Unsupported("the model has such layers already", "merge_lora(model) turns them into plain ones")
    layers = {name: module for name, module in model.named_modules() if name and _is_linear(module)}
    chosen: dict[str, nn.Module] = {}
    for pattern in (targets,) if isinstance(targets, str) else targets:
        found = {name: layer for name, layer in layers.items() if _ends_in(name, pattern)}
        if not found:
            raise InvalidArgument(
                "targets", pattern, "a pattern that matches a linear layer", f"There are {listed(layers)}"
            )
        chosen |= found
    if not chosen:
        raise InvalidArgument("targets", targets, "at least one name of a layer", f"There are {listed(layers)}")
    others = (also_train,) if isinstance(also_train, str) else tuple(also_train)
    if others:
        freeze_except(model, *others)
    else:
        model.requires_grad_(False)
    _put(model, {id(layer): LoraLinear(layer, rank=rank, alpha=alpha) for layer in chosen.values()})
    return tuple(name for name in layers if name in chosen)


def merge_lora(model: nn.Module) -> tuple[str, ...]:
    """Turn `add_lora`'s layers back into plain ones that do the same; return their names.

    Their weights are new parameters, frozen; a weight that was shared with another layer is shared no longer.
    """
    check_instance("model", model, nn.Module)
    refuse_private(model)
    found = {name: module for name, module in model.named_modules() if isinstance(module, LoraLinear)}
    if not found or "" in found:
        raise InvalidArgument("model", type(model).__name__, "a model that contains layers made by add_lora")
    merged: dict[int, nn.Module] = {}
    for layer in found.values():
        layer.base.weight = nn.Parameter(layer.weight.detach(), requires_grad=False)
        merged[id(layer)] = layer.base
    _put(model, merged)
    return tuple(found)


@torch.no_grad()
def _put(model: nn.Module, replacements: dict[int, nn.Module]) -> None:
    """Put modules in the places of others, wherever they occur."""
    places = [
        (parent, name, replacements[id(child)])
        for parent in model.modules()
        for name, child in parent._modules.items()
        if child is not None and id(child) in replacements
    ]
    for parent, name, new in places:
        setattr(parent, name, new)


def _is_transposed(layer: nn.Module) -> bool:
    return type(layer).__name__ == "Conv1D" and type(layer).__module__.startswith("transformers.")


def _is_linear(layer: nn.Module) -> bool:
    # Subclasses are something else: an attention layer, for one, never calls its output projection.
    return type(layer) is nn.Linear or _is_transposed(layer)


def _shape(layer: Any) -> tuple[int, int]:
    outputs, inputs = layer.weight.shape
    return (outputs, inputs) if _is_transposed(layer) else (inputs, outputs)


def _ends_in(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"*.{pattern}")
