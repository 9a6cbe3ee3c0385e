"""Rules for attention and recurrent layers, which use a parameter several times or in parts.

Attention projects queries, keys and values with three parts of one weight. Recurrent layers use the same weights at
every step of a sequence. Each use is recorded separately; `gradients.merged` adds them up before norms are taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from hush.errors import Unsupported
from hush.training.per_example.rules import linear, rule, trained

if TYPE_CHECKING:
    from hush.training.per_example.engine import GradientEngine


@rule(nn.MultiheadAttention)
def _attention(
    engine: GradientEngine,
    module: nn.MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Run multi-head attention: softmax(Q K^T / sqrt(width / heads) + mask) V, with recorded projections.

    Written out, as torch's fused kernels would read the projections' weights directly. ``is_causal`` is a hint about
    ``attn_mask``, and not needed.
    """
    name = engine.name(module)
    if module.bias_k is not None or module.bias_v is not None or module.add_zero_attn or query.dim() != 3:
        raise Unsupported(f"{name}: bias_k, bias_v, add_zero_attn and inputs without a batch dimension")
    # Identity is decided before the transposes below, which make new objects.
    is_self_attention = query is key and key is value
    if not module.batch_first:
        query, key, value = (part.transpose(0, 1) for part in (query, key, value))
    q, k, v = _projections(engine, module, name, query, key, value, is_self_attention=is_self_attention)
    size, length, width = q.shape
    heads = module.num_heads
    q, k, v = (part.view(size, -1, heads, width // heads).transpose(1, 2) for part in (q, k, v))
    # Scores have one entry per pair of positions; a mask is added, so that softmax gives masked ones weight 0.
    mask = _mask(module, key_padding_mask, attn_mask, q)
    scores = q @ k.mT / (width // heads) ** 0.5
    weights = torch.softmax(scores if mask is None else scores + mask, dim=-1)
    # Dropout draws independently for each example, so it couples none.
    weights = F.dropout(weights, module.dropout, module.training)
    merged = (weights @ v).transpose(1, 2).reshape(size, length, width)
    projection = module.out_proj
    output = linear(engine, f"{name}.out_proj", merged, projection.weight, projection.bias)
    output = output if module.batch_first else output.transpose(0, 1)
    if not need_weights:
        return output, None
    return output, weights.mean(1) if average_attn_weights else weights


def _projections(
    engine: GradientEngine,
    module: Any,
    name: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    is_self_attention: bool,
) -> list[Tensor]:
    """Project queries, keys and values: by one product, by three parts of one weight, or by three weights."""
    width, bias, shared = module.embed_dim, module.in_proj_bias, module.in_proj_weight
    name = f"{name}.in_proj"
    if is_self_attention and shared is not None:
        # One product with the rows of W_q, W_k and W_v, one below the other.
        return list(linear(engine, name, query, shared, bias).chunk(3, dim=-1))
    # Keys and values may be wider than queries: then torch keeps three weights, but one bias.
    separate = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    projected = []
    for number, x in enumerate((query, key, value)):
        rows = (number * width, (number + 1) * width)
        # A slice is not a parameter. `rows` says which rows of the parameter its gradient belongs to.
        weight = separate[number] if shared is None else shared[rows[0] : rows[1]]
        projected.append(
            linear(
                engine,
                name,
                x,
                weight,
                None if bias is None else bias[rows[0] : rows[1]],
                params=trained(weight=separate[number] if shared is None else shared, bias=bias),
                rows={"bias": rows} if shared is None else {"weight": rows, "bias": rows},
            )
        )
    return projected


def _mask(module: Any, padding: Tensor | None, attention: Tensor | None, like: Tensor) -> Tensor | None:
    """Return the mask to add to the scores [B, heads, length, length]: minus infinity where a position is masked."""
    total = None
    for mask, kind in ((padding, "padding"), (attention, "attention")):
        if mask is None:
            continue
        if mask.dtype is torch.bool:
            mask = torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, float("-inf"))
        if kind == "padding":
            mask = mask[:, None, None, :]
        elif mask.dim() == 3:
            mask = mask.view(len(like), module.num_heads, *mask.shape[1:])
        total = mask if total is None else total + mask
    return total


@rule(nn.LSTM, nn.GRU, nn.RNN)
@torch.compiler.disable  # type: ignore[untyped-decorator]  # dynamo does not trace recurrent layers
def _recurrent(engine: GradientEngine, module: Any, input: Any, hx: Any = None) -> Any:  # noqa: A002
    """Run a recurrent layer, layer by layer and direction by direction.

    States are stacked as torch does: layer 0 forwards, layer 0 backwards, layer 1 forwards, and so on.
    """
    name = engine.name(module)
    if isinstance(input, PackedSequence) or module.proj_size or input.dim() != 3:
        raise Unsupported(
            f"{name}: packed sequences, proj_size and inputs without a batch dimension",
            "Pad sequences, and mask the loss",
        )
    x = input if module.batch_first else input.transpose(0, 1)
    # An input that all examples share is repeated, so that each example has rows of its own.
    x = engine.batched(x, name)
    directions = 2 if module.bidirectional else 1
    states = [] if hx is None else list(hx) if isinstance(hx, tuple) else [hx]
    finals: list[tuple[Tensor, ...]] = []
    for layer in range(module.num_layers):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            start = tuple(state[number] for state in states) or None
            suffix = f"_l{layer}" + ("_reverse" if direction else "")
            sequence = x.flip(1) if direction else x
            output, final = _run_direction(engine, module, name, suffix, sequence, start)
            outputs.append(output.flip(1) if direction else output)
            finals.append(final)
        # The next layer reads both directions side by side.
        x = torch.cat(outputs, dim=-1) if directions == 2 else outputs[0]
        if module.dropout and layer + 1 < module.num_layers:
            x = F.dropout(x, module.dropout, module.training)
    last = tuple(torch.stack(parts) for parts in zip(*finals, strict=True))
    return (x if module.batch_first else x.transpose(0, 1)), last if isinstance(module, nn.LSTM) else last[0]


def _run_direction(
    engine: GradientEngine, module: Any, name: str, suffix: str, x: Tensor, start: tuple[Tensor, ...] | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run a layer in one direction, step by step; the recurrent weights are used in every step."""
    weights = [getattr(module, f"weight_{kind}{suffix}") for kind in ("ih", "hh")]
    biases = [getattr(module, f"bias_{kind}{suffix}") if module.bias else None for kind in ("ih", "hh")]
    # All steps' inputs are known: one use. Hidden states are not: one use for each step.
    inputs = linear(engine, f"{name}.ih{suffix}", x, weights[0], biases[0])
    # torch starts from zeros, too, where no state is passed.
    zeros = x.new_zeros(len(x), module.hidden_size)
    hidden = zeros if start is None else start[0]
    cell = zeros if start is None or len(start) < 2 else start[1]
    outputs = []
    for step in range(x.shape[1]):
        recurrent = linear(engine, f"{name}.hh{suffix}", hidden, weights[1], biases[1])
        hidden, cell = _cell_step(module, inputs[:, step], recurrent, hidden, cell)
        outputs.append(hidden)
    final = (hidden, cell) if isinstance(module, nn.LSTM) else (hidden,)
    return torch.stack(outputs, dim=1), final


def _cell_step(module: Any, x: Tensor, h: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Return the next hidden state and cell, from the input's and the hidden state's linear parts (x and h)."""
    if isinstance(module, nn.LSTM):
        # c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c), with the gates in torch's order.
        i, f, g, o = (x + h).chunk(4, dim=-1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(cell), cell
    if isinstance(module, nn.GRU):
        (x_r, x_z, x_n), (h_r, h_z, h_n) = x.chunk(3, dim=-1), h.chunk(3, dim=-1)
        # torch's GRU has the reset gate outside of the matrix product: n = tanh(x_n + r h_n), then h = (1 - z) n + z h.
        z = torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
        return (1 - z) * n + z * hidden, cell
    return (torch.tanh if module.nonlinearity == "tanh" else torch.relu)(x + h), cell
