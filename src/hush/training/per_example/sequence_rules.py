"""Rules for attention and recurrent layers, which use a parameter several times or in parts.

Attention projects queries, keys and values with three parts of one weight. Recurrent layers use the same weights at
every step of a sequence: the steps of a layer are one use of each weight, and their backward pass brings out what its
gradients are made of (`kernels.recurrence`). Cells are used in a loop of the model's own; `gradients.merged` adds their
uses up before norms are taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from hush.errors import Unsupported
from hush.training.per_example.autograd import Recurrence
from hush.training.per_example.gradients import DenseGradient, OuterProducts, prefers_products
from hush.training.per_example.norms import compute_dtype
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
    x, lengths = _padded(module, input, name)
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
            sequence = _reversed(x, lengths) if direction else x
            output, final = _run_direction(engine, module, name, suffix, sequence, lengths, start)
            outputs.append(_reversed(output, lengths) if direction else output)
            finals.append(final)
        # The next layer reads both directions side by side.
        x = torch.cat(outputs, dim=-1) if directions == 2 else outputs[0]
        if module.dropout and layer + 1 < module.num_layers:
            x = F.dropout(x, module.dropout, module.training)
    last = tuple(torch.stack(parts) for parts in zip(*finals, strict=True))
    return _like_input(module, input, x, lengths), last if isinstance(module, nn.LSTM) else last[0]


def _padded(module: Any, sequences: Any, name: str) -> tuple[Tensor, Tensor | None]:
    """Return sequences as [B, T, d], and the length of each, if these differ."""
    if isinstance(sequences, PackedSequence):
        return pad_packed_sequence(sequences, batch_first=True)
    if sequences.dim() != 3:
        raise Unsupported(f"{name}: inputs without a batch dimension", "Add one of length 1")
    return sequences if module.batch_first else sequences.transpose(0, 1), None


def _like_input(module: Any, sequences: Any, output: Tensor, lengths: Tensor | None) -> Any:
    """Return outputs [B, T, p] in the order of the layer's input, packed if that was packed."""
    if lengths is None:
        return output if module.batch_first else output.transpose(0, 1)
    # In the input's order, not in one of several others that sort the lengths.
    order = sequences.sorted_indices
    output = output if order is None else output.index_select(0, order)
    lengths = lengths if order is None else lengths[order.cpu()]
    data = pack_padded_sequence(output, lengths, batch_first=True).data
    return sequences._replace(data=data)


def _reversed(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return sequences [B, T, d] from their last step to their first one; what is beyond their length stays there."""
    if lengths is None:
        return x.flip(1)
    positions = torch.arange(x.shape[1])
    ends = lengths.unsqueeze(1)
    order = torch.where(positions < ends, ends - 1 - positions, positions).to(x.device)
    return x.gather(1, order.unsqueeze(2).expand_as(x))


def _run_direction(
    engine: GradientEngine,
    module: Any,
    name: str,
    suffix: str,
    x: Tensor,
    lengths: Tensor | None,
    start: tuple[Tensor, ...] | None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run a layer in one direction. All steps' inputs are known, so that they are one use of the input weight."""
    weight_ih, weight_hh = (getattr(module, f"weight_{kind}{suffix}") for kind in ("ih", "hh"))
    bias_ih, bias_hh = (getattr(module, f"bias_{kind}{suffix}", None) for kind in ("ih", "hh"))
    projection = getattr(module, f"weight_hr{suffix}", None)
    inputs = linear(engine, f"{name}.ih{suffix}", x, weight_ih, bias_ih)
    dtype = inputs.dtype
    # torch leaves sequences in bf16 to its own loop, which is far slower than cuDNN in fp32.
    inputs = inputs.float() if inputs.is_cuda and dtype is torch.bfloat16 else inputs
    # torch starts from zeros, too, where no state is passed.
    sizes = [weight_hh.shape[1], *([module.hidden_size] if isinstance(module, nn.LSTM) else [])]
    states = [x.new_zeros(len(x), size) for size in sizes] if start is None else start
    states = [engine.batched(state, name).to(inputs.dtype) for state in states]
    taps = [
        *_weight_taps(engine, f"{name}.hh{suffix}", inputs, weight_hh),
        _bias_tap(engine, f"{name}.hh{suffix}", inputs, bias_hh),
        *_weight_taps(engine, f"{name}.hr{suffix}", inputs, projection),
    ]
    plain = [None if value is None else value.detach().to(inputs.dtype) for value in (weight_hh, bias_hh, projection)]
    hidden, cell = states if len(states) == 2 else (states[0], None)
    outputs, *final = Recurrence.apply(name, module.mode, lengths, inputs, *plain, hidden, cell, *taps)  # type: ignore[no-untyped-call]
    if lengths is not None:
        # Padding of outputs is 0, as in torch, and no gradient comes from it.
        padding = torch.arange(x.shape[1]) >= lengths.unsqueeze(1)
        outputs = outputs.masked_fill(padding.to(x.device).unsqueeze(2), 0.0)
    return outputs.to(dtype), tuple(state.to(dtype) for state in final)


def _weight_taps(
    engine: GradientEngine, name: str, like: Tensor, weight: Tensor | None
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return taps for a weight that is used at every step of ``like`` [B, T, ...]: x and g, or dense gradients."""
    if weight is None or not weight.requires_grad:
        return None, None, None
    (size, steps, _), (outputs, inputs) = like.shape, weight.shape
    if prefers_products((size, steps, inputs), outputs, like, engine.memory):
        x, g = engine.tap((size, steps, inputs), like, of_input=True), engine.tap((size, steps, outputs), like)
        engine.record_use(name, weight, OuterProducts, num_taps=2)
        return x, g, None
    dense = engine.tap((size, outputs, inputs), like)
    engine.record_use(name, weight, DenseGradient)
    return None, None, dense


def _bias_tap(engine: GradientEngine, name: str, like: Tensor, bias: Tensor | None) -> Tensor | None:
    """Return a tap for the gradients of a bias."""
    if bias is None or not bias.requires_grad:
        return None
    tap = engine.tap((len(like), len(bias)), torch.empty((), dtype=compute_dtype(like), device=like.device))
    engine.record_use(name, bias, DenseGradient)
    return tap


@rule(nn.LSTMCell, nn.GRUCell, nn.RNNCell)
def _cell(engine: GradientEngine, module: Any, input: Tensor, hx: Any = None) -> Any:  # noqa: A002
    """Run one step. The loop around it is the model's own, so every step is a use of both weights."""
    name = engine.name(module)
    if input.dim() != 2:
        raise Unsupported(f"{name}: inputs without a batch dimension", "Add one of length 1")
    x = engine.batched(input, name)
    zeros = x.new_zeros(len(x), module.hidden_size)
    hidden, cell = (zeros, zeros) if hx is None else hx if isinstance(module, nn.LSTMCell) else (hx, zeros)
    inputs = linear(engine, f"{name}.ih", x, module.weight_ih, module.bias_ih)
    recurrent = linear(engine, f"{name}.hh", hidden, module.weight_hh, module.bias_hh)
    hidden, cell = _cell_step(module, inputs, recurrent, hidden, cell)
    return (hidden, cell) if isinstance(module, nn.LSTMCell) else hidden


def _cell_step(module: Any, x: Tensor, h: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Return the next hidden state and cell, from the input's and the hidden state's linear parts (x and h)."""
    if isinstance(module, nn.LSTMCell):
        # c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c), with the gates in torch's order.
        i, f, g, o = (x + h).chunk(4, dim=-1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(cell), cell
    if isinstance(module, nn.GRUCell):
        (x_r, x_z, x_n), (h_r, h_z, h_n) = x.chunk(3, dim=-1), h.chunk(3, dim=-1)
        # torch's GRU has the reset gate outside of the matrix product: n = tanh(x_n + r h_n), then h = (1 - z) n + z h.
        z = torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
        return (1 - z) * n + z * hidden, cell
    return (torch.tanh if module.nonlinearity == "tanh" else torch.relu)(x + h), cell
