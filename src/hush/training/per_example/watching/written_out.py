"""Rules that write operations out: norms, recurrent cells and others, in terms of linear layers, products and sums."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hush.errors import Unsupported
from hush.training.per_example.watching.registry import operation

if TYPE_CHECKING:
    from hush.training.per_example.watching.mode import OperationMode


@operation("layer_norm")
def _layer_norm(
    mode: OperationMode,
    func: Any,
    input: Any,  # noqa: A002
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: Any = 1e-5,
) -> Any:
    """Normalise, which no parameter takes part in; then scale and shift."""
    return _affine(mode, mode.call(F.layer_norm, input, normalized_shape, None, None, eps), weight, bias)


@operation("rms_norm")
def _rms_norm(
    mode: OperationMode,
    func: Any,
    input: Any,  # noqa: A002
    normalized_shape: Any,
    weight: Any = None,
    eps: Any = None,
) -> Any:
    return _affine(mode, mode.call(F.rms_norm, input, normalized_shape, None, eps), weight, None)


@operation("group_norm")
def _group_norm(
    mode: OperationMode,
    func: Any,
    input: Any,  # noqa: A002
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: Any = 1e-5,
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


@operation("bilinear")
def _bilinear(mode: OperationMode, func: Any, left: Any, right: Any, weight: Any, bias: Any = None) -> Any:
    """Run x^T W_o y as a linear layer of all products of entries."""
    products = mode.call(torch.mul, mode.call(torch.unsqueeze, left, -1), mode.call(torch.unsqueeze, right, -2))
    return mode.call(F.linear, mode.call(torch.flatten, products, -2), mode.call(torch.flatten, weight, 1), bias)


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
