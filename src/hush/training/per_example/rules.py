"""Which module goes which way: a rule for each kind of layer, `vmap` for other modules with parameters of their own."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from hush.errors import Unsupported
from hush.training.per_example.autograd import Affine, Convolution, LinearFunction, Lookup
from hush.training.per_example.convolution import ConvShape, Patches
from hush.training.per_example.gradients import Products, Whole, add_up_rows, prefers_products

if TYPE_CHECKING:
    from hush.training.per_example.engine import GradientEngine

Rule = Callable[..., Any]
RULES: dict[type[nn.Module], Rule] = {}

_MIXING = (nn.modules.batchnorm._BatchNorm, nn.LazyBatchNorm1d, nn.LazyBatchNorm2d, nn.LazyBatchNorm3d)


def rule(*kinds: type[nn.Module]) -> Callable[[Rule], Rule]:
    """Register the way forward of some kinds of modules; subclasses are other kinds."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, function))
        return function

    return register


class _Forward:
    """A module's forward. As an object it can be pickled and copied along with the module."""

    def __init__(self, module: nn.Module, engine: GradientEngine | None, rule: Callable[..., Any]) -> None:
        self.module, self.engine, self.rule = module, engine, rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        engine = self.engine
        if engine is None or not engine.recording:
            return type(self.module).forward(self.module, *args, **kwargs)
        return self.rule(engine, self.module, *args, **kwargs)


def attach(model: nn.Module, engine: GradientEngine) -> list[nn.Module]:
    """Give modules their private way forward; return those that got one.

    Raises `Unsupported`, with all offenders named, for modules that mix examples.
    """
    refuse_mixing(model)
    attached: list[nn.Module] = []
    for module, way in _ways(model):
        present = module.__dict__.get("forward")
        if present is not None and not (isinstance(present, _Forward) and present.engine is None):
            raise Unsupported(f"{engine.name(module)}: its forward was replaced already", "Privatize a model once")
        object.__setattr__(module, "forward", _Forward(module, engine, way))
        attached.append(module)

    return attached


def refuse_mixing(model: nn.Module) -> None:
    """Refuse modules that mix examples, with all of them named."""
    offenders = [f"{name or 'the model'} ({type(module).__name__})" for name, module in _mixing(model)]
    if offenders:
        raise Unsupported(
            f"{', '.join(offenders)}: batch statistics mix examples, so no example's gradient is its own",
            "hush.training.replace_batchnorm(model) puts GroupNorm in their place and keeps the affine weights",
        )


def _mixing(model: nn.Module) -> list[tuple[str, nn.Module]]:
    def mixes(module: nn.Module) -> bool:
        if isinstance(module, nn.modules.instancenorm._InstanceNorm):
            return bool(module.track_running_stats)
        fixed = type(module) in RULES and not module.training and getattr(module, "running_var", None) is not None
        return isinstance(module, _MIXING) and not fixed

    return [(name, module) for name, module in model.named_modules() if mixes(module)]


def _ways(model: nn.Module) -> list[tuple[nn.Module, Rule]]:
    """Return the modules to attach to, outermost first; those below a module that goes as a whole are left alone."""
    found: list[tuple[nn.Module, Rule]] = []
    whole: list[nn.Module] = []
    covered: set[int] = set()
    for module in model.modules():
        if id(module) in covered:
            continue
        known = RULES.get(type(module)) or _by_name(module)
        if known is not None and not is_parametrized(module):
            found.append((module, known))
            covered.update(id(child) for child in module.modules())  # such as an attention layer's output projection
        elif is_parametrized(module) or next(module.parameters(recurse=False), None) is not None:
            whole.append(module)
            covered.update(id(child) for child in module.modules())
    return found + [(module, expand) for module in whole]


def _by_name(module: nn.Module) -> Rule | None:
    """Recognise layers of packages that hush does not import."""
    kind = type(module)
    if kind.__name__ == "Conv1D" and kind.__module__.startswith("transformers."):
        return transposed_linear
    return None


def trained(**params: Tensor | None) -> dict[str, Tensor]:
    """Return the parameters that exist and are trained."""
    return {name: param for name, param in params.items() if param is not None and param.requires_grad}


def _turned(each: Tensor, *, by: bool) -> Whole:
    return Whole(each.mT if by else each)


def _cast(*values: Tensor | None) -> tuple[Any, ...]:
    """Convert to the precision that autocast wants, as it would do itself: what is kept is what was used."""
    first = values[0]
    assert first is not None
    kind = first.device.type
    if not torch.is_autocast_enabled(kind) or first.dtype is torch.float64:
        return values
    wanted = torch.get_autocast_dtype(kind)
    return tuple(None if value is None else value.to(wanted) for value in values)


def _is_tied_table(engine: GradientEngine, weight: Tensor, shape: tuple[int, ...]) -> bool:
    """Say whether a weight may be an embedding's table, too: then whole gradients are needed, to add rows to them."""
    return id(weight) in engine.tied and shape[1] > 1


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
    """Return x W^T + b, recorded; ``params`` are the whole parameters if W and b are parts of them."""
    used = trained(weight=weight, bias=bias) if params is None else params
    plain = weight.T if transposed else weight
    if not used:
        return F.linear(x, plain, bias)
    x = engine.batched(x, name)
    inputs, outputs, size = plain.shape[1], plain.shape[0], len(x)
    x, plain, bias = _cast(x, plain.detach(), None if bias is None else bias.detach())
    taps: list[Tensor | None] = [None] * 4
    places = rows or {}
    if "weight" in used:
        folded = (size, x.numel() // (size * inputs), inputs)
        if prefers_products(folded, outputs, x, engine.memory) and not _is_tied_table(engine, used["weight"], folded):
            taps[0] = engine.tap(folded, x, of_input=True)
            taps[1] = engine.tap((*folded[:2], outputs), x)
            engine.used(name, used["weight"], 2, partial(Products, transposed=transposed), places.get("weight"))
        else:
            taps[2] = engine.tap((size, outputs, inputs), x)
            engine.used(name, used["weight"], 1, partial(_turned, by=transposed), places.get("weight"))
    if "bias" in used:
        taps[3] = engine.tap((size, outputs), x)
        engine.used(name, used["bias"], 1, Whole, places.get("bias"))
    result: Tensor = LinearFunction.apply(name, x, plain, bias, *taps)  # type: ignore[no-untyped-call]
    return result


@rule(nn.Linear)
def _linear(engine: GradientEngine, module: nn.Linear, input: Tensor) -> Tensor:  # noqa: A002
    return linear(engine, engine.name(module), input, module.weight, module.bias)


def transposed_linear(engine: GradientEngine, module: Any, x: Tensor) -> Tensor:
    """Hugging Face's Conv1D: a linear layer whose weight is stored the other way round."""
    return linear(engine, engine.name(module), x, module.weight, module.bias, transposed=True)


@rule(nn.Conv1d, nn.Conv2d, nn.Conv3d)
def _conv(engine: GradientEngine, module: Any, input: Tensor) -> Tensor:  # noqa: A002
    used = trained(weight=module.weight, bias=module.bias)
    if not used:
        return type(module).forward(module, input)  # type: ignore[no-any-return]
    name = engine.name(module)
    x = engine.batched(input, name)
    if x.dim() != module.weight.dim():
        raise Unsupported(f"{name}: an input without a batch dimension")
    padding = module.padding
    if module.padding_mode != "zeros" or isinstance(padding, str):
        mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
        x = F.pad(x, module._reversed_padding_repeated_twice, mode=mode)
        padding = (0,) * len(module.stride)
    shape = ConvShape(module.stride, padding, module.dilation, module.groups, tuple(module.weight.shape))
    bias = None if module.bias is None else module.bias.detach()
    x, weight, bias = _cast(x, module.weight.detach(), bias)
    taps: list[Tensor | None] = [None] * 4
    size, outputs = len(x), len(weight)
    if "weight" in used:
        after = shape.output(x)
        folded = (size * shape.groups, math.prod(after), weight[0].numel())
        if x.is_cuda and len(after) < 3 and prefers_products(folded, outputs // shape.groups, x, engine.memory):
            taps[0] = engine.tap(tuple(x.shape), x, of_input=True)
            taps[1] = engine.tap((size, outputs, *after), x)
            engine.used(name, used["weight"], 2, partial(Patches, shape=shape))
        else:
            taps[2] = engine.tap((size, *weight.shape), x)
            engine.used(name, used["weight"], 1, Whole)
    if "bias" in used:
        taps[3] = engine.tap((size, outputs), x)
        engine.used(name, used["bias"], 1, Whole)
    result: Tensor = Convolution.apply(name, shape, x, weight, bias, *taps)  # type: ignore[no-untyped-call]
    return result


@rule(nn.Embedding)
def _embedding(engine: GradientEngine, module: nn.Embedding, input: Tensor) -> Tensor:  # noqa: A002
    if not module.weight.requires_grad:
        return type(module).forward(module, input)
    name = engine.name(module)
    if module.max_norm is not None or module.scale_grad_by_freq or module.sparse:
        raise Unsupported(f"{name}: max_norm, scale_grad_by_freq and sparse depend on the whole batch")
    indices = engine.batched(input, name, vectors=input.dim() == 1 and len(input) != engine.batch_size)
    return embed(engine, name, indices, module.weight, module.padding_idx)


def embed(engine: GradientEngine, name: str, indices: Tensor, weight: Tensor, padding_idx: int | None) -> Tensor:
    """Return rows of a table, recorded."""
    folded = (len(indices), indices.numel() // len(indices))
    exact = torch.empty((), device=weight.device, dtype=torch.float64)
    wide = exact if weight.dtype is torch.float64 else exact.float()
    taps = [engine.tap(folded, exact, of_input=True), engine.tap((*folded, weight.shape[1]), wide)]
    engine.used(name, weight, 2, partial(add_up_rows, num_rows=len(weight)))
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
    if not module.weight.requires_grad:
        return type(module).forward(module, input, offsets, per_sample_weights)
    name = engine.name(module)
    if offsets is not None or input.dim() != 2 or module.mode == "max":
        raise Unsupported(f"{name}: offsets and mode='max'", "Pass bags of one size as a matrix, with sum or mean")
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
    """Return x w + b, recorded, with w and b of this shape, shared over these dimensions."""
    if weight is None and bias is None:
        return x
    used = trained(weight=weight, bias=bias)
    plain = [None if param is None else param.detach().view(shape) for param in (weight, bias)]
    if used:
        x = engine.batched(x, name)
    wide = torch.empty((), device=x.device, dtype=torch.float32)
    taps: list[Tensor | None] = []
    for key, param in (("weight", weight), ("bias", bias)):
        if key not in used or param is None:
            taps.append(None)
            continue
        taps.append(engine.tap((len(x), param.numel()), wide))
        engine.used(name, param, 1, Whole)
    result: Tensor = Affine.apply(name, dims, x, *plain, *taps)  # type: ignore[no-untyped-call]
    return result


@rule(nn.LayerNorm)
def _layer_norm(engine: GradientEngine, module: nn.LayerNorm, input: Tensor) -> Tensor:  # noqa: A002
    x = F.layer_norm(input, module.normalized_shape, None, None, module.eps)
    middle = tuple(range(1, x.dim() - len(module.normalized_shape)))
    name = engine.name(module)
    return affine(engine, name, x, module.weight, module.bias, tuple(module.normalized_shape), middle)


@rule(nn.RMSNorm)
def _rms_norm(engine: GradientEngine, module: nn.RMSNorm, input: Tensor) -> Tensor:  # noqa: A002
    x = F.rms_norm(input, module.normalized_shape, None, module.eps)
    middle = tuple(range(1, x.dim() - len(module.normalized_shape)))
    return affine(engine, engine.name(module), x, module.weight, None, tuple(module.normalized_shape), middle)


@rule(nn.GroupNorm)
def _group_norm(engine: GradientEngine, module: nn.GroupNorm, input: Tensor) -> Tensor:  # noqa: A002
    x = F.group_norm(input, module.num_groups, None, None, module.eps)
    return _by_channel(engine, module, x)


@rule(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
def _fixed_batch_norm(engine: GradientEngine, module: Any, input: Tensor) -> Tensor:  # noqa: A002
    """A batch norm in evaluation mode: its statistics are numbers from elsewhere, and mix nothing."""
    if module.training or module.running_var is None:
        raise Unsupported(f"{engine.name(module)}: batch statistics mix examples", "Keep it in evaluation mode")
    return _by_channel(engine, module, F.batch_norm(input, module.running_mean, module.running_var, eps=module.eps))


@rule(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
def _instance_norm(engine: GradientEngine, module: Any, input: Tensor) -> Tensor:  # noqa: A002
    return _by_channel(engine, module, F.instance_norm(input, eps=module.eps))


def _by_channel(engine: GradientEngine, module: Any, x: Tensor) -> Tensor:
    shape = (-1, *([1] * (x.dim() - 2)))
    dims = tuple(range(2, x.dim()))
    return affine(engine, engine.name(module), x, module.weight, module.bias, shape, dims)


@torch.compiler.disable  # type: ignore[untyped-decorator]  # it would break the graph half-way
def expand(engine: GradientEngine, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Run any module by `vmap`, with a copy of its parameters for every example."""
    own: dict[str, Tensor] = dict(module.named_parameters())
    used = {name: param for name, param in own.items() if param.requires_grad}
    with engine.suspended():
        if not used:
            return type(module).forward(module, *args, **kwargs)
    size = engine.batch_size
    assert size is not None
    name = engine.name(module)
    copies = {}
    for key, param in used.items():
        copies[key] = engine.tap((size, *param.shape), param, base=param)
        engine.used(name, param, 1, Whole)
    fixed = {key: param for key, param in own.items() if key not in used} | dict(module.named_buffers())
    flat, structure = torch.utils._pytree.tree_flatten((args, kwargs))
    mapped = [isinstance(value, Tensor) and value.dim() > 0 and len(value) == size for value in flat]
    if not any(mapped):
        raise Unsupported(f"{name}: none of its inputs has the batch's {size} examples in its first dimension")

    def one(params: dict[str, Tensor], *values: Any) -> Any:
        example = [value.unsqueeze(0) if own_ else value for value, own_ in zip(values, mapped, strict=True)]
        inner_args, inner_kwargs = torch.utils._pytree.tree_unflatten(example, structure)
        output = torch.func.functional_call(module, params | fixed, inner_args, inner_kwargs)
        return torch.utils._pytree.tree_map(lambda part: part.squeeze(0) if isinstance(part, Tensor) else part, output)

    dims = tuple(0 if own_ else None for own_ in mapped)
    with engine.suspended():
        try:
            result = torch.func.vmap(one, in_dims=(0, *dims), randomness="different")(copies, *flat)
        except RuntimeError as error:
            kind = type(module).__name__
            raise Unsupported(
                f"{name} ({kind}): it has no rule, and vmap cannot run it on one example", "Use layers that have a rule"
            ) from error
    return result
