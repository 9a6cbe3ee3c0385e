"""Rules: how each type of layer runs in a private step.

A rule is a function with the signature of the layer's forward, preceded by the engine and the module. It computes the
layer's output by one of the functions in `autograd`, asks the engine for taps, and reports which parameter they belong
to. `attach` finds the rule of every module and replaces the module's forward on the instance. Of a module that has
parameters but no rule, every operation on these is watched (`watching`).

Layers that use their parameters several times, such as attention and recurrent layers, are in `sequence_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

from hush.errors import Unsupported
from hush.training.per_example.autograd import Affine, Convolution, LinearFunction, Lookup
from hush.training.per_example.convolution import ConvPatches, ConvShape
from hush.training.per_example.gradients import DenseGradient, OuterProducts, add_up_rows, prefers_products

if TYPE_CHECKING:
    from hush.training.per_example.engine import GradientEngine

Rule = Callable[..., Any]
RULES: dict[type[nn.Module], Rule] = {}

_TRAINED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Batch statistics mix examples: the output for one depends on all.
_MIXING = (nn.modules.batchnorm._BatchNorm, nn.LazyBatchNorm1d, nn.LazyBatchNorm2d, nn.LazyBatchNorm3d)


def rule(*kinds: type[nn.Module]) -> Callable[[Rule], Rule]:
    """Register a function as the rule of these types of modules. Subclasses need rules of their own."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, function))
        return function

    return register


class _Forward:
    """The private forward of a module. As an object, it is pickled and copied along with the module.

    A copy has no engine, and runs the ordinary forward.
    """

    def __init__(self, module: nn.Module, engine: GradientEngine | None, rule: Callable[..., Any]) -> None:
        self.module, self.engine, self.rule = module, engine, rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        engine = self.engine
        # Outside a private step, and in copies, a module does what its class does.
        if engine is None or not engine.recording:
            return type(self.module).forward(self.module, *args, **kwargs)
        if engine.mode.active and self.rule is by_operations:
            return type(self.module).forward(self.module, *args, **kwargs)
        if engine.mode.active and not engine.mode.paused:
            return engine.mode.module(self.module, self.rule, args, kwargs)
        return self.rule(engine, self.module, *args, **kwargs)


def attach(model: nn.Module, engine: GradientEngine) -> list[nn.Module]:
    """Give modules their private forward; return the modules that got one.

    Raises `Unsupported` for modules that mix examples, naming all of them, and for a forward that was replaced before.
    """
    # Refused before any forward is replaced, so that a refusal leaves the model as it was.
    refuse_mixing(model)
    _refuse_types(model)
    attached: list[nn.Module] = []
    for module, module_rule in _rules_of(model):
        present = module.__dict__.get("forward")
        if present is not None and not (isinstance(present, _Forward) and present.engine is None):
            raise Unsupported(f"{engine.name(module)}: its forward was replaced already", "Privatize a model once")
        # On the instance only: other instances, and the class itself, stay as they are.
        object.__setattr__(module, "forward", _Forward(module, engine, module_rule))
        attached.append(module)
    return attached


def refuse_mixing(model: nn.Module) -> None:
    """Refuse modules that mix examples, naming all of them."""
    offenders = [f"{name or 'the model'} ({type(module).__name__})" for name, module in _mixing(model)]
    if offenders:
        raise Unsupported(
            f"{', '.join(offenders)}: batch statistics mix examples, so an example has no gradient of its own",
            "Call hush.training.replace_batchnorm(model): it puts in GroupNorm and keeps the affine weights",
        )


def _refuse_types(model: nn.Module) -> None:
    """Refuse trained parameters whose noise would be none: that of a complex number would leave its imaginary part."""
    offenders = [
        f"{name} ({param.dtype})"
        for name, param in model.named_parameters()
        if param.requires_grad and param.dtype not in _TRAINED
    ]
    if offenders:
        raise Unsupported(
            f"{', '.join(offenders)}: gradients of this type are not clipped",
            "Use real numbers: two parameters for the two parts of a complex one",
        )


def _mixing(model: nn.Module) -> list[tuple[str, nn.Module]]:
    def mixes(module: nn.Module) -> bool:
        if isinstance(module, nn.modules.instancenorm._InstanceNorm):
            # Running statistics of instance norm are means over examples.
            return bool(module.track_running_stats)
        # In evaluation mode, batch norm uses stored statistics and treats examples independently.
        is_fixed = type(module) in RULES and not module.training and getattr(module, "running_var", None) is not None
        return isinstance(module, _MIXING) and not is_fixed

    return [(name, module) for name, module in model.named_modules() if mixes(module)]


def _rules_of(model: nn.Module) -> list[tuple[nn.Module, Rule]]:
    """Return the modules to attach to, outermost first, with their rules."""
    chosen: list[tuple[nn.Module, Rule]] = []
    covered: set[int] = set()
    for module in model.modules():
        if id(module) in covered:
            continue
        module_rule = RULES.get(type(module)) or _rule_by_name(module)
        if module_rule is not None and not is_parametrized(module):
            chosen.append((module, module_rule))
            covered.update(id(child) for child in module.modules())  # such as an attention layer's output projection
        elif next(module.parameters(recurse=False), None) is not None and not isinstance(module, ParametrizationList):
            chosen.append((module, by_operations))
    return chosen


def by_operations(engine: GradientEngine, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Run a module without a rule that is called by itself, not by the model: every operation is watched."""
    return engine.watched(partial(type(module).forward, module), args, kwargs)


def _rule_by_name(module: nn.Module) -> Rule | None:
    """Return the rule of a layer from a package that hush does not import."""
    cls = type(module)
    if cls.__name__ == "Conv1D" and cls.__module__.startswith("transformers."):
        return transposed_linear
    return None


def trained(**params: Tensor | None) -> dict[str, Tensor]:
    """Return the parameters that exist and require a gradient."""
    return {name: param for name, param in params.items() if param is not None and param.requires_grad}


def _dense(values: Tensor, *, transposed: bool) -> DenseGradient:
    return DenseGradient(values.mT if transposed else values)


def autocast(*values: Tensor | None) -> tuple[Any, ...]:
    """Convert to the type that autocast would convert to, so that saved tensors are the ones that were multiplied."""
    first = values[0]
    assert first is not None
    device = first.device.type
    if not torch.is_autocast_enabled(device) or first.dtype is torch.float64:
        return values
    dtype = torch.get_autocast_dtype(device)
    return tuple(None if value is None else value.to(dtype) for value in values)


def linear(
    engine: GradientEngine,
    name: str,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    params: dict[str, Tensor] | None = None,
    rows: dict[str, tuple[int, int]] | None = None,
    transposed: bool = False,
) -> Tensor:
    """Return x W^T + b, recorded.

    Args:
        engine: The engine.
        name: The layer's name.
        x: The input, [B, ..., d].
        weight: W, [p, d].
        bias: b, [p].
        params: The trained parameters that W ("weight") and b ("bias") are parts of, if they are not parameters.
        rows: Which rows of these parameters W and b are.
        transposed: Whether W is stored as [d, p].
    """
    used = trained(weight=weight, bias=bias) if params is None else params
    plain = weight.T if transposed else weight
    if not used:
        return F.linear(x, plain, bias)
    x = engine.batched(x, name)
    inputs, outputs, size = plain.shape[1], plain.shape[0], len(x)
    # Detached, so that any gradient that autograd finds for a parameter comes from outside of its layer
    # (`refuse_outside_use`).
    x, plain, bias = autocast(x, plain.detach(), None if bias is None else bias.detach())
    taps: list[Tensor | None] = [None] * 4
    rows = rows or {}
    if "weight" in used:
        # All dimensions between the batch and the features count as positions.
        folded = (size, x.numel() // (size * inputs), inputs)
        if prefers_products(folded, outputs, x, engine.memory):
            taps[0] = engine.tap(folded, x, of_input=True)
            taps[1] = engine.tap((*folded[:2], outputs), x)
            form: Any = partial(OuterProducts, transposed=transposed)
            engine.record_use(name, used["weight"], form, num_taps=2, rows=rows.get("weight"))
        else:
            taps[2] = engine.tap((size, outputs, inputs), x)
            form = partial(_dense, transposed=transposed)
            engine.record_use(name, used["weight"], form, rows=rows.get("weight"))
    if "bias" in used:
        taps[3] = engine.tap((size, outputs), x)
        engine.record_use(name, used["bias"], DenseGradient, rows=rows.get("bias"))
    result: Tensor = LinearFunction.apply(name, x, plain, bias, *taps)  # type: ignore[no-untyped-call]
    return result


@rule(nn.Linear)
def _linear(engine: GradientEngine, module: nn.Linear, input: Tensor) -> Tensor:  # noqa: A002
    """Run a linear layer: products if `prefers_products` says so, dense gradients otherwise."""
    return linear(engine, engine.name(module), input, module.weight, module.bias)


def transposed_linear(engine: GradientEngine, module: Any, x: Tensor) -> Tensor:
    """Run Hugging Face's Conv1D: a linear layer whose weight is stored transposed."""
    return linear(engine, engine.name(module), x, module.weight, module.bias, transposed=True)


@rule(nn.Conv1d, nn.Conv2d, nn.Conv3d)
def _conv(engine: GradientEngine, module: Any, input: Tensor) -> Tensor:  # noqa: A002
    """Run a convolution. Padding by other modes than zeros, or by a name, is done on the input first."""
    used = trained(weight=module.weight, bias=module.bias)
    if not used:
        return type(module).forward(module, input)  # type: ignore[no-any-return]
    name = engine.name(module)
    x = engine.batched(input, name)
    if x.dim() != module.weight.dim():
        raise Unsupported(f"{name}: an input without a batch dimension")
    padding = module.padding
    if module.padding_mode != "zeros" or isinstance(padding, str):
        # Other padding repeats inputs, so it must come before the patches are cut.
        mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
        x = F.pad(x, module._reversed_padding_repeated_twice, mode=mode)
        padding = (0,) * len(module.stride)
    shape = ConvShape(module.stride, padding, module.dilation, module.groups, tuple(module.weight.shape))
    return convolve(engine, name, x, module.weight, module.bias, shape, params=used)


def convolve(
    engine: GradientEngine,
    name: str,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    shape: ConvShape,
    *,
    params: dict[str, Tensor],
) -> Tensor:
    """Return a convolution, recorded.

    Args:
        engine: The engine.
        name: The layer's name.
        x: The input, [B, channels, ...].
        weight: The weight.
        bias: The bias.
        shape: What defines the convolution.
        params: Which of "weight" and "bias" are trained parameters, and which these are.
    """
    x, weight, bias = autocast(x, weight.detach(), None if bias is None else bias.detach())
    taps: list[Tensor | None] = [None] * 4
    size, outputs = len(x), len(weight)
    if "weight" in params:
        output_size = shape.output(x)
        folded = (size * shape.groups, math.prod(output_size), weight[0].numel())
        # Products of patches pay off on GPUs only; patches of three-dimensional inputs are not implemented.
        if x.is_cuda and len(output_size) < 3 and prefers_products(folded, outputs // shape.groups, x, engine.memory):
            taps[0] = engine.tap(tuple(x.shape), x, of_input=True)
            taps[1] = engine.tap((size, outputs, *output_size), x)
            engine.record_use(name, params["weight"], partial(ConvPatches, shape=shape), num_taps=2)
        else:
            taps[2] = engine.tap((size, *weight.shape), x)
            engine.record_use(name, params["weight"], DenseGradient)
    if "bias" in params:
        taps[3] = engine.tap((size, outputs), x)
        engine.record_use(name, params["bias"], DenseGradient)
    result: Tensor = Convolution.apply(name, shape, x, weight, bias, *taps)  # type: ignore[no-untyped-call]
    return result


@rule(nn.Embedding)
def _embedding(engine: GradientEngine, module: nn.Embedding, input: Tensor) -> Tensor:  # noqa: A002
    """Run an embedding; indices without a batch dimension, such as positions, are those of every example."""
    if not module.weight.requires_grad:
        return type(module).forward(module, input)
    name = engine.name(module)
    if module.max_norm is not None or module.scale_grad_by_freq or module.sparse:
        raise Unsupported(f"{name}: max_norm, scale_grad_by_freq and sparse depend on the whole batch")
    indices = engine.batched(input, name, vectors=input.dim() == 1 and len(input) != engine.batch_size)
    return embed(engine, name, indices, module.weight, module.padding_idx)


def embed(engine: GradientEngine, name: str, indices: Tensor, weight: Tensor, padding_idx: int | None) -> Tensor:
    """Return rows of a table, recorded. Lookups of one row by one example are added up before norms are taken."""
    folded = (len(indices), indices.numel() // len(indices))
    # Indices pass through a tap as doubles, which hold them exactly up to 2^53.
    exact = torch.empty((), device=weight.device, dtype=torch.float64)
    wide = exact if weight.dtype is torch.float64 else exact.float()
    taps = [engine.tap(folded, exact, of_input=True), engine.tap((*folded, weight.shape[1]), wide)]
    engine.record_use(name, weight, partial(add_up_rows, num_rows=len(weight)), num_taps=2)
    result: Tensor = Lookup.apply(name, indices, weight.detach(), padding_idx, *taps)  # type: ignore[no-untyped-call]
    return result


@rule(nn.EmbeddingBag)
def _embedding_bag(
    engine: GradientEngine,
    module: nn.EmbeddingBag,
    input: Tensor,  # noqa: A002
    offsets: Tensor | None = None,
    per_sample_weights: Tensor | None = None,
) -> Tensor:
    """Run bags of equal size: look all rows up, then sum or average them as the layer does, without padding."""
    if not module.weight.requires_grad:
        return type(module).forward(module, input, offsets, per_sample_weights)
    name = engine.name(module)
    if offsets is not None or input.dim() != 2 or module.mode == "max":
        raise Unsupported(f"{name}: offsets and mode='max'", "Pass bags of equal size as a matrix, and use sum or mean")
    if module.max_norm is not None or module.scale_grad_by_freq or module.sparse:
        raise Unsupported(f"{name}: max_norm, scale_grad_by_freq and sparse depend on the whole batch")
    rows = embed(engine, name, engine.batched(input, name), module.weight, module.padding_idx)
    real = (
        torch.ones_like(input, dtype=rows.dtype)
        if module.padding_idx is None
        else (input != module.padding_idx).to(rows)
    )
    weights = real if per_sample_weights is None else real * per_sample_weights
    total = (rows * weights.unsqueeze(-1)).sum(1)
    # A bag of padding only has the mean 0, as in torch.
    return total if module.mode == "sum" else total / real.sum(1, keepdim=True).clamp_min(1)


def affine(
    engine: GradientEngine,
    name: str,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    shape: tuple[int, ...],
    dims: tuple[int, ...],
) -> Tensor:
    """Return x w + b, recorded.

    Args:
        engine: The engine.
        name: The layer's name.
        x: The normalised input.
        weight: w; none, if None.
        bias: b; none, if None.
        shape: The shape that makes w and b fit x.
        dims: The dimensions of x, after the batch, over which w and b are shared.
    """
    if weight is None and bias is None:
        return x
    used = trained(weight=weight, bias=bias)
    plain = [None if param is None else param.detach().view(shape) for param in (weight, bias)]
    if used:
        x = engine.batched(x, name)
    # Sums over positions would be too coarse in half precision.
    wide = torch.empty((), device=x.device, dtype=torch.float64 if x.dtype is torch.float64 else torch.float32)
    taps: list[Tensor | None] = []
    for key, param in (("weight", weight), ("bias", bias)):
        if key not in used or param is None:
            taps.append(None)
            continue
        taps.append(engine.tap((len(x), param.numel()), wide))
        engine.record_use(name, param, DenseGradient)
    result: Tensor = Affine.apply(name, dims, x, *plain, *taps)  # type: ignore[no-untyped-call]
    return result


@rule(nn.LayerNorm)
def _layer_norm(engine: GradientEngine, module: nn.LayerNorm, input: Tensor) -> Tensor:  # noqa: A002
    """Normalise each example's last dimensions, which no parameter takes part in; then scale and shift."""
    x = F.layer_norm(input, module.normalized_shape, None, None, module.eps)
    middle = tuple(range(1, x.dim() - len(module.normalized_shape)))
    name = engine.name(module)
    return affine(engine, name, x, module.weight, module.bias, tuple(module.normalized_shape), middle)


@rule(nn.RMSNorm)
def _rms_norm(engine: GradientEngine, module: nn.RMSNorm, input: Tensor) -> Tensor:  # noqa: A002
    """Divide by the root mean square of each example's last dimensions; then scale."""
    x = F.rms_norm(input, module.normalized_shape, None, module.eps)
    middle = tuple(range(1, x.dim() - len(module.normalized_shape)))
    return affine(engine, engine.name(module), x, module.weight, None, tuple(module.normalized_shape), middle)


@rule(nn.GroupNorm)
def _group_norm(engine: GradientEngine, module: nn.GroupNorm, input: Tensor) -> Tensor:  # noqa: A002
    """Normalise groups of each example's channels; then scale and shift by channel."""
    x = F.group_norm(input, module.num_groups, None, None, module.eps)
    return _by_channel(engine, module, x)


@rule(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
def _fixed_batch_norm(engine: GradientEngine, module: Any, input: Tensor) -> Tensor:  # noqa: A002
    """Run a batch norm in evaluation mode: its statistics are fixed, and mix no examples."""
    if module.training or module.running_var is None:
        raise Unsupported(f"{engine.name(module)}: batch statistics mix examples", "Keep the layer in evaluation mode")
    return _by_channel(engine, module, F.batch_norm(input, module.running_mean, module.running_var, eps=module.eps))


@rule(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
def _instance_norm(engine: GradientEngine, module: Any, input: Tensor) -> Tensor:  # noqa: A002
    """Normalise each channel of each example; then scale and shift by channel."""
    return _by_channel(engine, module, F.instance_norm(input, eps=module.eps))


def _by_channel(engine: GradientEngine, module: Any, x: Tensor) -> Tensor:
    """Scale and shift x [B, channels, ...] by channel."""
    shape = (-1, *([1] * (x.dim() - 2)))
    dims = tuple(range(2, x.dim()))
    return affine(engine, engine.name(module), x, module.weight, module.bias, shape, dims)
