"""Rules for operations in which a parameter, or a function of parameters alone, meets the batch.

A rule takes the mode, the operation and its arguments, and returns the result with taps for the gradients of the
parameters. There are four ways:

efficient     linear layers, convolutions and tables, by the same functions as the modules' rules
written out   norms, recurrent cells and other products, in terms of the above and of products and sums
copies        whatever is broadcast: each example gets a copy of the parameter, of which none is stored
one example   any other operation, under ``vmap`` with a copy of the parameter for each example: that one, and no more

Shapes: B examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hush.errors import Unsupported
from hush.training.operations.layouts import ANYWHERE, Layout, by_example, repeated
from hush.training.operations.names import is_pointwise
from hush.training.operations.recipes import Recipe
from hush.training.per_example.autograd import LinearFunction
from hush.training.per_example.convolution import ConvShape
from hush.training.per_example.gradients import DenseGradient
from hush.training.per_example.operation_mode import OperationMode
from hush.training.per_example.rules import autocast, convolve, embed, linear

Rule = Callable[..., Any]
_RULES: dict[str, Rule] = {}
_BROADCAST = ("expand_as", "scaled_dot_product_attention")


def operation(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of these operations."""

    def register(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, function))
        return function

    return register


def meet(mode: OperationMode, func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Run an operation in which a parameter meets the batch."""
    rule = _RULES.get(name)
    if rule is not None:
        return rule(mode, func, *args, **kwargs)
    if mode.decide(lambda: is_pointwise(name) or name in _BROADCAST):
        return _broadcast(mode, func, name, args, kwargs)
    return _one_example(mode, func, name, args, kwargs)


# Copies


def _copies(mode: OperationMode, source: Tensor, layout: Layout, position: int, length: int) -> Tensor:
    """Return a source with a row for each entry along the batch.

    Args:
        mode: The mode.
        source: The parameter, or function of parameters.
        layout: The layout of the batch that it meets.
        position: The dimension of the batch, counted from the end: 1 is the last.
        length: How long that is.
    """
    if layout.dim == ANYWHERE:
        return source.detach() + mode.tap_of(source).squeeze(0)
    if source.dim() >= position and source.shape[-position] != 1:
        mode.promote(source, -position, length, layout)
    padded = source.detach().reshape((1,) * max(position - source.dim(), 0) + tuple(source.shape))
    dim = padded.dim() - position
    tap = mode.tap_of(source).reshape(mode.size, *padded.shape[:dim], *padded.shape[dim + 1 :])
    return padded + repeated(tap, layout, length, mode.size).movedim(0, dim)


def _broadcast(mode: OperationMode, func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Run an operation whose arguments are broadcast."""
    values = [*args, *kwargs.values()]
    batch = mode.decide(lambda: _batch_among(mode, values))
    x = values[batch]
    layout = mode.layout_to_use(x, name)
    position, length = x.dim() - layout.dim, 1 if layout.dim == ANYWHERE else x.shape[layout.dim]

    def with_copies(value: Any) -> Any:
        return _copies(mode, value, layout, position, length) if mode.is_source(value) else value

    return func(*[with_copies(value) for value in args], **{key: with_copies(value) for key, value in kwargs.items()})


def _batch_among(mode: OperationMode, values: list[Any]) -> int:
    """Return the number of the value that depends on the batch and has most dimensions."""
    numbers = [number for number, value in enumerate(values) if mode.layout(value) is not None]
    return max(numbers, key=lambda number: values[number].dim())


@operation("setitem")
def _set_item(mode: OperationMode, func: Any, target: Tensor, index: Any, value: Tensor) -> None:
    """Write a parameter into the batch."""
    layout = mode.decide(lambda: _layout_of_item(mode, target, index))
    if layout is None:
        raise Unsupported(f"{mode.name_of_use(value)}: written into places that cannot be told apart by example")
    item = target.detach()[index]
    position = item.dim() - layout.dim
    func(target, index, _copies(mode, value, layout, position, 1 if layout.dim == ANYWHERE else item.shape[layout.dim]))


def _layout_of_item(mode: OperationMode, target: Tensor, index: Any) -> Layout | None:
    from hush.training.operations.following import Follower

    layout = mode.layout(target)
    if layout is None or not layout.is_known or layout.dim == ANYWHERE:
        return layout if layout is not None and layout.is_known else None
    item = target.detach()[index]
    found = Follower(mode.size, mode.layout).results(torch.Tensor.__getitem__, "getitem", (target, index), {}, [target], item)
    return found if isinstance(found, Layout) and found.is_known else None


@operation("cat", "concat", "concatenate", "stack", "hstack", "vstack", "column_stack", "dstack")
def _join(mode: OperationMode, func: Any, *args: Any, **kwargs: Any) -> Any:
    """Join a batch and parameters, which must have been expanded to it."""
    parts = args[0]
    number = mode.decide(lambda: _batch_among(mode, list(parts)))
    layout = mode.layout_to_use(parts[number], "cat")
    new = []
    for part in parts:
        if not mode.is_source(part):
            new.append(part)
        elif layout.dim == ANYWHERE:
            new.append(part.detach() + mode.tap_of(part).squeeze(0))
        else:
            mode.promote(part, layout.dim, parts[number].shape[layout.dim], layout)
    return func(new, *args[1:], **kwargs)


# Linear layers


@operation("linear")
def _linear(mode: OperationMode, func: Any, input: Any, weight: Any, bias: Any = None) -> Any:  # noqa: A002
    """Run a linear layer."""
    if mode.decide(lambda: mode.is_source(input)):
        return mode.call(torch.matmul, input, mode.call(torch.Tensor.t, weight)) if bias is None else mode.call(
            torch.add, mode.call(torch.matmul, input, mode.call(torch.Tensor.t, weight)), bias
        )
    layout = mode.layout_to_use(input, "linear")
    if layout.dim == input.dim() - 1:
        raise Unsupported(f"{mode.name_of_use(weight, bias)}: a linear layer that adds up examples")
    if weight.dim() != 2:
        product = mode.call(torch.matmul, input, weight)
        return product if bias is None else mode.call(torch.add, product, bias)
    kind = mode.decide(lambda: _weight_kind(mode, weight))
    bias_kind, bias_name = mode.decide(lambda: _bias_kind(mode, bias))
    x, back = by_example(input, layout, mode.size)
    # A bias that is no parameter itself is added afterwards.
    inside = bias if bias_kind != "derived" and kind[0] != "derived" else None
    y = back(_project(mode, kind, x, weight, inside, bias_name))
    if bias is None or inside is not None:
        return y
    if not mode.is_replaying:
        mode.tag(y, layout)
    return mode.call(torch.add, y, bias)


def _project(mode: OperationMode, kind: Any, x: Tensor, weight: Tensor, bias: Tensor | None, bias_name: str) -> Tensor:
    """Multiply examples [B, ..., d] with a weight, with taps for its gradients."""
    engine = mode.engine
    if kind[0] == "derived":
        x, plain = autocast(x, weight.detach())
        tap = engine.tap((mode.size, *plain.shape), plain)
        mode.use(weight, DenseGradient, num_taps=1)
        result: Tensor = LinearFunction.apply("linear", x, plain, None, None, None, tap, None)  # type: ignore[no-untyped-call]
        return result
    _, name, rows = kind
    params = {} if not name else {"weight": engine.parameter(name)}
    if bias_name and bias is not None:
        params["bias"] = engine.parameter(bias_name)
    layer = (name or bias_name).rpartition(".")[0] or "the model"
    if kind[0] == "transposed":
        return linear(engine, layer, x, weight.t(), bias, params=params, transposed=True)
    return linear(engine, layer, x, weight, bias, params=params, rows={} if rows is None else {"weight": rows})


def _weight_kind(mode: OperationMode, weight: Tensor) -> tuple[Any, ...]:
    """Return how a weight comes from a parameter: kind, its name, its rows."""
    if not mode.is_source(weight):
        return "constant", "", None
    name = mode.trained.get(id(weight))
    if name is not None:
        return "parameter", name, None
    recipe = mode.recipe(weight)
    assert recipe is not None
    param = recipe.args[0] if recipe.args else None
    name = mode.trained.get(id(param))
    if name is not None and recipe.name in ("t", "T", "mT", "transpose", "permute", "adjoint") and weight.dim() == 2:
        if recipe.name not in ("transpose", "permute") or recipe.args[1:] not in ((0, 0), (1, 1), (-1, -1)):
            return "transposed", name, None
    if name is not None and recipe.name == "getitem" and isinstance(recipe.args[1], int) and param.dim() == 3:
        row = recipe.args[1] % len(param)
        return "rows", name, (row, row + 1)
    return "derived", "", None


def _bias_kind(mode: OperationMode, bias: Any) -> tuple[str, str]:
    """Return how a bias comes from a parameter, and its name."""
    if bias is None or not mode.is_source(bias):
        return "constant", ""
    name = mode.trained.get(id(bias), "")
    return "parameter" if name else "derived", name


@operation("matmul", "mm", "bmm", "mv")
def _matmul(mode: OperationMode, func: Any, left: Any, right: Any) -> Any:
    """Run a matrix product: as a linear layer, where one factor is a matrix that all examples share."""
    source_on_right = mode.decide(lambda: mode.is_source(right))
    x, source = (left, right) if source_on_right else (right, left)
    if source.dim() == 1:
        if source_on_right:
            return mode.call(torch.sum, mode.call(torch.mul, x, source), -1)
        if x.dim() == 1:
            return mode.call(torch.sum, mode.call(torch.mul, x, source), -1)
        return mode.call(torch.sum, mode.call(torch.mul, mode.call(torch.transpose, x, -1, -2), source), -1)
    if source.dim() == 2:
        if source_on_right:
            return mode.call(F.linear, x, mode.call(torch.Tensor.t, source))
        if x.dim() == 1:
            return mode.call(F.linear, x, source)
        turned = mode.call(F.linear, mode.call(torch.transpose, x, -1, -2), source)
        return mode.call(torch.transpose, turned, -1, -2)
    layout = mode.layout_to_use(x, "matmul")
    position = x.dim() - layout.dim
    if layout.dim != ANYWHERE and position <= 2:
        return _one_example(mode, func, "matmul", (left, right), {})
    copies = _copies(mode, source, layout, position, 1 if layout.dim == ANYWHERE else x.shape[layout.dim])
    product = torch.matmul(x, copies) if source_on_right else torch.matmul(copies, x)
    return product


@operation("addmm", "baddbmm")
def _add_product(
    mode: OperationMode, func: Any, input: Any, left: Any, right: Any, *, beta: Any = 1, alpha: Any = 1  # noqa: A002
) -> Any:
    """Write beta input + alpha left right out."""
    product = mode.call(torch.matmul, left, right)
    product = product if alpha == 1 else mode.call(torch.mul, product, alpha)
    return mode.call(torch.add, product, input if beta == 1 else mode.call(torch.mul, input, beta))


@operation("grouped_mm", "grouped_mm_fallback")
def _grouped_product(mode: OperationMode, func: Any, x: Any, weight: Any, offs: Any, **others: Any) -> Any:
    """Multiply rows that are sorted by expert with the weight of their expert, one expert after the other."""
    if any(value is not None for value in others.values()) or x.dim() != 2 or weight.dim() != 3:
        raise Unsupported(f"{mode.name_of_use(weight)}: grouped_mm in another form than rows times experts")
    mode.plan.is_static = False
    recipe = mode.recipe(weight)
    turned = recipe is not None and recipe.name == "transpose" and {dim % 3 for dim in recipe.args[1:]} == {1, 2}
    base = recipe.args[0] if recipe is not None and turned and isinstance(recipe.args[0], Tensor) else None
    parts, start = [], 0
    for expert, end in enumerate(offs.tolist()):
        if end > start:
            rows = mode.call(torch.Tensor.__getitem__, x, slice(start, end))
            matrix = mode.call(torch.Tensor.__getitem__, weight if base is None else base, expert)
            parts.append(mode.call(F.linear, rows, mode.call(torch.Tensor.t, matrix) if base is None else matrix))
        start = end
    if start < len(x):  # rows without an expert
        rows = mode.call(torch.Tensor.__getitem__, x, slice(start, None))
        parts.append(mode.call(torch.mul, mode.call(torch.narrow, rows, 1, 0, 1), weight.new_zeros(weight.shape[2])))
    return mode.call(torch.cat, parts, 0)


# Convolutions and tables


@operation("conv1d", "conv2d", "conv3d")
def _convolution(
    mode: OperationMode,
    func: Any,
    input: Any,  # noqa: A002
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Run a convolution."""
    dims = weight.dim() - 2
    name = f"conv{dims}d"
    layout = mode.layout_to_use(input, name)
    kinds = mode.decide(lambda: (_weight_kind(mode, weight), _bias_kind(mode, bias)))
    usual = layout.dim in (0, ANYWHERE) and input.dim() == weight.dim() and input.shape[0] == mode.size
    if not usual or isinstance(padding, str) or kinds[0][0] not in ("constant", "parameter") or kinds[1][0] == "derived":
        args = (input, weight, bias, stride, padding, dilation, groups)
        return _one_example(mode, func, name, args, {})
    tuples = [(value,) * dims if isinstance(value, int) else tuple(value) for value in (stride, padding, dilation)]
    tuples = [values * dims if len(values) == 1 else values for values in tuples]
    layer = (kinds[0][1] or kinds[1][1]).rpartition(".")[0] or "the model"
    params = {
        key: mode.engine.parameter(kind[1]) for key, kind in zip(("weight", "bias"), kinds, strict=True) if kind[1]
    }
    shape = ConvShape(*tuples, groups, tuple(weight.shape))
    return convolve(mode.engine, layer, input, weight, bias, shape, params=params)


@operation("embedding")
def _embedding(
    mode: OperationMode,
    func: Any,
    input: Any,  # noqa: A002
    weight: Any,
    padding_idx: int | None = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Look rows of a table up."""
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise Unsupported(
            f"{mode.name_of_use(weight)}: max_norm, scale_grad_by_freq and sparse depend on the whole batch"
        )
    layout = mode.layout_to_use(input, "embedding")
    kind = mode.decide(lambda: _weight_kind(mode, weight))
    if kind[0] != "parameter" or layout.owners is not None:
        return _one_example(mode, func, "embedding", (input, weight, padding_idx), {})
    padding = None if padding_idx is None else padding_idx % len(weight)
    indices, back = by_example(input, layout, mode.size)
    return back(embed(mode.engine, kind[1].rpartition(".")[0] or "the model", indices, weight, padding))


@operation("getitem", "index_select")
def _item(mode: OperationMode, func: Any, source: Any, *index: Any) -> Any:
    """Look rows of a parameter up, at places that depend on the example."""
    indices = index[-1]
    is_table = mode.decide(
        lambda: mode.is_source(source) and isinstance(indices, Tensor) and indices.dtype in (torch.int64, torch.int32)
    )
    if not is_table or (len(index) == 2 and index[0] != 0):
        return _one_example(mode, func, "getitem", (source, *index), {})
    table = source
    if source.dim() == 1:
        table = mode.call(torch.unsqueeze, source, 1)
    elif source.dim() > 2:
        table = mode.call(torch.flatten, source, 1)
    # Negative indices count from the end.
    wrapped = mode.call(torch.remainder, indices, len(source))
    rows = mode.call(F.embedding, wrapped, table)
    if source.dim() == 2:
        return rows
    return mode.call(torch.reshape, rows, (*indices.shape, *source.shape[1:]))


# Written out


@operation("layer_norm")
def _layer_norm(
    mode: OperationMode, func: Any, input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5  # noqa: A002
) -> Any:
    """Normalise, which no parameter takes part in; then scale and shift."""
    return _affine(mode, mode.call(F.layer_norm, input, normalized_shape, None, None, eps), weight, bias)


@operation("rms_norm")
def _rms_norm(mode: OperationMode, func: Any, input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:  # noqa: A002
    return _affine(mode, mode.call(F.rms_norm, input, normalized_shape, None, eps), weight, None)


@operation("group_norm")
def _group_norm(
    mode: OperationMode, func: Any, input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: Any = 1e-5  # noqa: A002
) -> Any:
    return _by_channel(mode, mode.call(F.group_norm, input, num_groups, None, None, eps), weight, bias)


@operation("batch_norm")
def _batch_norm(
    mode: OperationMode,
    func: Any,
    input: Any,  # noqa: A002
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if training or running_mean is None:
        raise Unsupported(f"{mode.name_of_use(weight, bias)}: batch statistics mix examples", "Use GroupNorm")
    y = mode.call(F.batch_norm, input, running_mean, running_var, None, None, False, momentum, eps)
    return _by_channel(mode, y, weight, bias)


@operation("instance_norm")
def _instance_norm(
    mode: OperationMode,
    func: Any,
    input: Any,  # noqa: A002
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if running_mean is not None:
        raise Unsupported(f"{mode.name_of_use(weight, bias)}: running statistics mix examples")
    return _by_channel(mode, mode.call(F.instance_norm, input, eps=eps), weight, bias)


def _by_channel(mode: OperationMode, y: Tensor, weight: Any, bias: Any) -> Tensor:
    """Scale and shift [B, channels, ...] by channel."""
    moved = mode.call(torch.movedim, y, 1, -1)
    result: Tensor = mode.call(torch.movedim, _affine(mode, moved, weight, bias), -1, 1)
    return result


def _affine(mode: OperationMode, y: Tensor, weight: Any, bias: Any) -> Tensor:
    y = y if weight is None else mode.call(torch.mul, y, weight)
    return y if bias is None else mode.call(torch.add, y, bias)


@operation("prelu")
def _prelu(mode: OperationMode, func: Any, input: Any, weight: Any) -> Any:  # noqa: A002
    """Write max(x, 0) + a min(x, 0) out, with a slope for each channel."""
    positive, negative = mode.call(F.relu, input), mode.call(torch.clamp, input, max=0)
    if weight.numel() > 1 and input.dim() > 1:
        negative = mode.call(torch.movedim, negative, 1, -1)
        scaled = mode.call(torch.movedim, mode.call(torch.mul, negative, weight), -1, 1)
    else:
        scaled = mode.call(torch.mul, negative, weight)
    return mode.call(torch.add, positive, scaled)


@operation("lstm_cell")
def _lstm_cell(
    mode: OperationMode, func: Any, x: Any, states: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """Write one step of an LSTM out, with the gates in torch's order."""
    hidden, cell = states
    gates = mode.call(torch.add, mode.call(F.linear, x, w_ih, b_ih), mode.call(F.linear, hidden, w_hh, b_hh))
    i, f, g, o = mode.call(torch.chunk, gates, 4, -1)
    kept = mode.call(torch.mul, mode.call(torch.sigmoid, f), cell)
    added = mode.call(torch.mul, mode.call(torch.sigmoid, i), mode.call(torch.tanh, g))
    cell = mode.call(torch.add, kept, added)
    return mode.call(torch.mul, mode.call(torch.sigmoid, o), mode.call(torch.tanh, cell)), cell


@operation("gru_cell")
def _gru_cell(
    mode: OperationMode, func: Any, x: Any, hidden: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """Write one step of a GRU out: n = tanh(x_n + r h_n), then h = (1 - z) n + z h."""
    x_r, x_z, x_n = mode.call(torch.chunk, mode.call(F.linear, x, w_ih, b_ih), 3, -1)
    h_r, h_z, h_n = mode.call(torch.chunk, mode.call(F.linear, hidden, w_hh, b_hh), 3, -1)
    r = mode.call(torch.sigmoid, mode.call(torch.add, x_r, h_r))
    z = mode.call(torch.sigmoid, mode.call(torch.add, x_z, h_z))
    n = mode.call(torch.tanh, mode.call(torch.add, x_n, mode.call(torch.mul, r, h_n)))
    change = mode.call(torch.mul, z, mode.call(torch.sub, hidden, n))
    return mode.call(torch.add, n, change)


def _rnn_cell(
    activation: Any,
    mode: OperationMode,
    func: Any,
    x: Any,
    hidden: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any = None,
    b_hh: Any = None,
) -> Any:
    """Write one step of a simple recurrent layer out."""
    total = mode.call(torch.add, mode.call(F.linear, x, w_ih, b_ih), mode.call(F.linear, hidden, w_hh, b_hh))
    return mode.call(activation, total)


operation("rnn_tanh_cell")(partial(_rnn_cell, torch.tanh))
operation("rnn_relu_cell")(partial(_rnn_cell, torch.relu))


# One example at a time


def _one_example(mode: OperationMode, func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Run an operation under ``vmap``: each example in a batch of its own, with a copy of the parameters."""
    flat, structure = torch.utils._pytree.tree_flatten((args, kwargs))
    layouts = mode.decide(lambda: [mode.layout(value) for value in flat])
    of_result = mode.decide(lambda: _layout_of_result(mode, func, name, args, kwargs))
    known = [layout for layout in layouts if layout is not None]
    usable = all(layout.is_known and layout.owners is None for layout in [*known, of_result] if layout is not None)
    if of_result is None or not usable:
        raise Unsupported(
            f"{mode.name_of_use(*flat)}: {name} has no rule, and its result cannot be told apart by example",
            "Keep examples in the first dimension, or use operations that have a rule",
        )
    inputs, dims = [], []
    for value, layout in zip(flat, layouts, strict=True):
        source = mode.is_source(value)
        copy = value.detach() + mode.tap_of(value) if source else value
        inputs.append(copy if layout is None else _apart(value, layout, mode.size))
        dims.append(0 if source or layout is not None else None)

    def run(*values: Any) -> Any:
        inner_args, inner_kwargs = torch.utils._pytree.tree_unflatten(values, structure)
        return func(*inner_args, **inner_kwargs)

    try:
        result = torch.func.vmap(run, in_dims=tuple(dims), randomness="different")(*inputs)
    except (RuntimeError, ValueError) as error:
        raise Unsupported(
            f"{mode.name_of_use(*flat)}: {name} has no rule, and vmap cannot run it on one example"
        ) from error
    return _together(result, of_result, mode.size)


def _layout_of_result(mode: OperationMode, func: Any, name: str, args: Any, kwargs: Any) -> Layout | None:
    from hush.training.operations.following import Follower

    values = torch.utils._pytree.tree_leaves((args, kwargs))
    batched = [value for value in values if mode.layout(value) is not None]
    with torch.no_grad():
        result = func(*args, **kwargs)
    layout = Follower(mode.size, mode.layout).results(func, name, args, kwargs, batched, result)
    if not isinstance(layout, Layout) or not layout.is_known:
        return None
    return layout


def _apart(value: Tensor, layout: Layout, size: int) -> Tensor:
    """Return [B, ...], in which the dimension of the batch is still there, and as long as one example's part of it."""
    if layout.dim == ANYWHERE:
        return value.unsqueeze(0)
    split = (value.shape[layout.dim] // (size * layout.inner), size, layout.inner)
    return value.unflatten(layout.dim, split).movedim(layout.dim + 1, 0).flatten(layout.dim + 1, layout.dim + 2)


def _together(value: Tensor, layout: Layout, size: int) -> Tensor:
    """Return what `_apart` has taken apart."""
    if layout.dim == ANYWHERE:
        return value.squeeze(0)
    dim = layout.dim
    rows = value.unflatten(dim + 1, (value.shape[dim + 1] // layout.inner, layout.inner))
    return rows.movedim(0, dim + 1).flatten(dim, dim + 2)
