"""Rules for linear layers and other products, convolutions and look-ups in tables.

They put the same taps as the rules of modules do (`rules`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hush.errors import Unsupported
from hush.training.operations.layouts import ANYWHERE, by_example
from hush.training.per_example.autograd import LinearFunction
from hush.training.per_example.convolution import ConvShape
from hush.training.per_example.gradients import DenseGradient
from hush.training.per_example.rules import autocast, convolve, embed, linear
from hush.training.per_example.watching.copies import copies_of
from hush.training.per_example.watching.one_example import one_example
from hush.training.per_example.watching.registry import operation

if TYPE_CHECKING:
    from hush.training.per_example.watching.mode import OperationMode


@operation("linear")
def _linear(mode: OperationMode, func: Any, input: Any, weight: Any, bias: Any = None) -> Any:  # noqa: A002
    """Run a linear layer."""
    if mode.decide(lambda: mode.is_source(input)):
        return (
            mode.call(torch.matmul, input, mode.call(torch.Tensor.t, weight))
            if bias is None
            else mode.call(torch.add, mode.call(torch.matmul, input, mode.call(torch.Tensor.t, weight)), bias)
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
    param: Any = recipe.args[0] if recipe.args else None
    name = mode.trained.get(id(param))
    turns = recipe.name in ("t", "T", "mT", "adjoint") or (
        recipe.name in ("transpose", "permute") and recipe.args[1:] in ((0, 1), (1, 0), (-1, -2), (-2, -1))
    )
    if name is not None and turns and weight.dim() == 2:
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
        return one_example(mode, func, "matmul", (left, right), {})
    copies = copies_of(mode, source, layout, position, 1 if layout.dim == ANYWHERE else x.shape[layout.dim])
    product = torch.matmul(x, copies) if source_on_right else torch.matmul(copies, x)
    return product


@operation("addmm", "baddbmm")
def _add_product(
    mode: OperationMode,
    func: Any,
    input: Any,  # noqa: A002
    left: Any,
    right: Any,
    *,
    beta: Any = 1,
    alpha: Any = 1,
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
    if (
        not usual
        or isinstance(padding, str)
        or kinds[0][0] not in ("constant", "parameter")
        or kinds[1][0] == "derived"
    ):
        args = (input, weight, bias, stride, padding, dilation, groups)
        return one_example(mode, func, name, args, {})
    tuples = [(value,) * dims if isinstance(value, int) else tuple(value) for value in (stride, padding, dilation)]
    tuples = [values * dims if len(values) == 1 else values for values in tuples]
    layer = (kinds[0][1] or kinds[1][1]).rpartition(".")[0] or "the model"
    params = {
        key: mode.engine.parameter(kind[1]) for key, kind in zip(("weight", "bias"), kinds, strict=True) if kind[1]
    }
    shape = ConvShape(tuples[0], tuples[1], tuples[2], groups, tuple(weight.shape))
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
        return one_example(mode, func, "embedding", (input, weight, padding_idx), {})
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
        return one_example(mode, func, "getitem", (source, *index), {})
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
