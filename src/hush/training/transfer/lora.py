"""LoRA: train low-rank updates to frozen linear layers, with the library peft.

`add_lora` asks peft to wrap linear layers in place. A wrapped layer computes

    x W^T + b + (alpha / rank) (x A^T) B^T

where W and b are the frozen base layer, A (``lora_A``, random) and B (``lora_B``, zeros) are two thin linear layers.
The model starts as the function it was. A and B are ordinary linear modules, so the rules for linear layers measure and
clip their per-example gradients exactly, and the noise is added to far fewer numbers.

You can also build the adapters with peft itself (``peft.get_peft_model``) and pass that model to `privatize`. Its
per-example gradients are exact, and tested against a plain loop, for LoRA on linear and convolutional layers,
rank-stabilised scaling, trained biases, ``modules_to_save``, and dropout inside the adapters (each example draws its
own mask); for DoRA and adapters of embeddings; and for IA3, VeRA, prompt, prefix and p-tuning.

Needs the extra ``hush[lora]``. peft is imported when one of these functions is called.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported, check_count, check_instance, check_positive
from hush.training.transfer.trained_part import freeze_except, listed, refuse_private


def add_lora(
    model: nn.Module,
    *,
    rank: int,
    targets: str | Sequence[str] = "*",
    alpha: float | None = None,
    also_train: str | Sequence[str] = (),
) -> tuple[str, ...]:
    """Freeze a model, and add LoRA adapters to some of its linear layers. Return the names of those layers.

    Call it before you build the optimizer::

        add_lora(model, rank=8, targets=("q_proj", "v_proj"), also_train="classifier")
        optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
        private = privatize(model, optimizer, data, epsilon=3.0, delta=1e-5, epochs=5, batch_size=512)

    Args:
        model: The model; it is changed in place.
        rank: The rank of each adapter: the number of rows of A, and of columns of B.
        targets: Names of linear layers, or the ends of their names, with ``*`` and ``?`` as in file names:
            ``"q_proj"``, ``"encoder.*.linear?"``. By default, all of them. Each pattern must match a layer.
            Hugging Face's ``Conv1D`` counts as linear.
        alpha: The adapter's output is multiplied by alpha / rank. By default alpha is the rank.
        also_train: Other parameters to train, as in `freeze_except`: a new head, or ``"*.bias"``. The weight beside an
            adapter stays frozen.

    Returns:
        The names of the adapted layers.

    References:
        Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1; without dropout.
    """
    check_instance("model", model, nn.Module)
    refuse_private(model)
    alpha = check_positive("alpha", check_count("rank", rank) if alpha is None else alpha)
    peft = _peft()
    if _adapters(model):
        raise Unsupported("the model has adapters already", "merge_lora(model) turns them into plain layers")
    names = _target_names(model, targets)
    other_patterns = (also_train,) if isinstance(also_train, str) else tuple(also_train)
    if other_patterns:
        freeze_except(model, *other_patterns)
    else:
        model.requires_grad_(False)
    also_trained = [param for param in model.parameters() if param.requires_grad]
    config = peft.LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules="|".join(map(re.escape, names)),  # a string is a pattern for whole names; a list, for their ends
        lora_dropout=0.0,
        bias="none",
    )
    with warnings.catch_warnings():
        # For a Conv1D, whose weight is stored transposed, peft changes this setting itself, and says so.
        warnings.filterwarnings("ignore", message="fan_in_fan_out")
        peft.inject_adapter_in_model(config, model)
    adapters = _adapters(model)
    # peft replaces a layer under its first name only. A layer that the model uses twice must be the same layer in both.
    _replace(model, {id(adapter.get_base_layer()): adapter for adapter in adapters.values()})
    _keep_torch_from_reading_weights(model)
    for param in also_trained:
        param.requires_grad_(True)  # peft has frozen everything but the adapters
    for adapter in adapters.values():
        adapter.get_base_layer().weight.requires_grad_(False)
    return names


def merge_lora(model: nn.Module) -> tuple[str, ...]:
    """Add each adapter to its frozen weight, so that plain layers compute the same. Return the names of the layers.

    The new weights are frozen parameters. A weight that was tied to another layer is tied no longer: the other layer
    keeps the old values. The result needs no peft.
    """
    check_instance("model", model, nn.Module)
    refuse_private(model)
    adapters = _adapters(model)
    if not adapters or "" in adapters or isinstance(model, _peft().PeftModel):
        raise InvalidArgument(
            "model",
            type(model).__name__,
            "a model that contains layers made by add_lora",
            "For a model that you built with peft, call model.merge_and_unload()",
        )
    for adapter in adapters.values():
        base = adapter.get_base_layer()
        # merge() writes into the weight in place, which would change every layer that is tied to it.
        base.weight = nn.Parameter(base.weight.detach().clone(), requires_grad=False)
        adapter.merge()
    _replace(model, {id(adapter): adapter.get_base_layer() for adapter in adapters.values()})
    vars(model).pop("peft_config", None)
    return tuple(adapters)


def _peft() -> Any:
    try:
        import peft
    except ModuleNotFoundError as error:
        raise Unsupported(f"LoRA needs {error.name}, which is not installed", "pip install 'hush[lora]'") from None
    return peft


def _adapters(model: nn.Module) -> dict[str, Any]:
    """Return the layers of a model that have LoRA adapters, by name."""
    lora_layer = _peft().tuners.lora.LoraLayer
    return {name: module for name, module in model.named_modules() if isinstance(module, lora_layer)}


def _target_names(model: nn.Module, targets: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the linear layers that match the patterns, in the model's order."""
    layers = [name for name, module in model.named_modules() if name and _is_linear(module)]
    chosen: set[str] = set()
    for pattern in (targets,) if isinstance(targets, str) else targets:
        matching = {name for name in layers if fnmatchcase(name, pattern) or fnmatchcase(name, f"*.{pattern}")}
        if not matching:
            raise InvalidArgument(
                "targets", pattern, "a pattern that matches a linear layer", f"The model has {listed(layers)}"
            )
        chosen |= matching
    if not chosen:
        raise InvalidArgument("targets", targets, "at least one name of a layer", f"The model has {listed(layers)}")
    return tuple(name for name in layers if name in chosen)


def _is_linear(layer: nn.Module) -> bool:
    from transformers.pytorch_utils import Conv1D

    # Not subclasses of nn.Linear: attention never calls its output projection, for example, but reads its weight.
    return type(layer) is nn.Linear or isinstance(layer, Conv1D)


def _replace(model: nn.Module, replacements: dict[int, nn.Module]) -> None:
    """Put new modules where old ones are, wherever the model refers to them."""
    references = [
        (parent, name, replacements[id(child)])
        for parent in model.modules()
        for name, child in parent._modules.items()
        if child is not None and id(child) in replacements and parent is not replacements[id(child)]
    ]
    for parent, name, replacement in references:
        setattr(parent, name, replacement)


def _keep_torch_from_reading_weights(model: nn.Module) -> None:
    """Keep torch's encoder layers on the path that calls their linear layers.

    In evaluation mode, `nn.TransformerEncoderLayer` has a fast path that reads the weights of its linear layers and
    would skip the adapters. It does not take that path if any of its modules has a forward hook.
    """
    for layer in model.modules():
        if isinstance(layer, nn.TransformerEncoderLayer):
            for adapter in _adapters(layer).values():
                adapter.register_forward_hook(_unchanged)


def _unchanged(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
    """Leave the output of a layer as it is."""
