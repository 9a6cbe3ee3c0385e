"""Rules for attention and recurrent layers: every option, against the layers' own forward and a plain loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence

from hush.errors import Unsupported
from hush.training import check
from hush.training.per_example.engine import GradientEngine

SIZE, LENGTH, WIDTH, HEADS = 3, 4, 6, 2


class Call(nn.Module):
    """A layer, called on sequences and a padding mask, which it may use."""

    def __init__(self, layer: nn.Module, *, cross: bool = False, padding: str = "none", **options: Any) -> None:
        super().__init__()
        self.layer, self.cross, self.padding, self.options = layer, cross, padding, options

    def forward(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, mask = batch
        options = dict(self.options)
        if self.padding != "none":
            options["key_padding_mask"] = mask if self.padding == "boolean" else -2.0 * mask.double()
        x = x if self.layer.batch_first else x.transpose(0, 1)
        inputs = [x]
        if isinstance(self.layer, nn.MultiheadAttention):
            inputs = [x, 2 * x, 3 * x] if self.cross else [x, x, x]
        output: Tensor = self.layer(*inputs, **options)[0]
        return output if self.layer.batch_first else output.transpose(0, 1)


PADDING = torch.tensor([[False, False, True, True], [False] * 4, [False, True, False, False]])
CAUSAL = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), diagonal=1)


def attention(**options: Any) -> nn.MultiheadAttention:
    return nn.MultiheadAttention(WIDTH, HEADS, **({"batch_first": True} | options))


LAYERS: dict[str, Any] = {
    "attention": lambda: Call(attention()),
    "attention, other inputs": lambda: Call(attention(), cross=True),
    "attention, no bias": lambda: Call(attention(bias=False)),
    "attention, padding": lambda: Call(attention(), padding="boolean"),
    "attention, real padding": lambda: Call(attention(), padding="real"),
    "attention, causal": lambda: Call(attention(), attn_mask=CAUSAL, is_causal=True),
    "attention, real mask": lambda: Call(attention(), attn_mask=torch.linspace(-1, 1, 16).view(4, 4).double()),
    "attention, both masks": lambda: Call(attention(), attn_mask=CAUSAL, padding="boolean"),
    "attention, sequence first": lambda: Call(attention(batch_first=False)),
    "lstm": lambda: Call(nn.LSTM(WIDTH, 5, batch_first=True)),
    "lstm, two layers": lambda: Call(nn.LSTM(WIDTH, 5, 2, batch_first=True, bidirectional=True)),
    "lstm, sequence first": lambda: Call(nn.LSTM(WIDTH, 5)),
    "lstm, no bias": lambda: Call(nn.LSTM(WIDTH, 5, bias=False, batch_first=True)),
    "gru": lambda: Call(nn.GRU(WIDTH, 5, batch_first=True)),
    "gru, both directions": lambda: Call(nn.GRU(WIDTH, 5, batch_first=True, bidirectional=True)),
    "rnn": lambda: Call(nn.RNN(WIDTH, 5, batch_first=True)),
    "rnn, relu": lambda: Call(nn.RNN(WIDTH, 5, 2, nonlinearity="relu", batch_first=True)),
}


def losses(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    outputs = model(batch).flatten(1)
    return (outputs * torch.sin(torch.arange(outputs.shape[1]) + 1.0)).sum(1)


@pytest.mark.parametrize("name", LAYERS)
def test_outputs_and_gradients(name: str) -> None:
    torch.manual_seed(len(name))
    model, batch = LAYERS[name]().double(), (torch.randn(SIZE, LENGTH, WIDTH, dtype=torch.float64), PADDING)
    expected = model(batch)
    engine = GradientEngine(model)
    with engine.batch(SIZE):
        assert torch.allclose(model(batch), expected, rtol=1e-9)
    engine.detach()
    check(model, batch, losses)


@pytest.mark.parametrize("averaged", [True, False])
def test_attention_weights_are_returned(averaged: bool) -> None:
    layer, x = attention().double(), torch.randn(SIZE, LENGTH, WIDTH, dtype=torch.float64)
    engine = GradientEngine(layer)
    _, expected = layer(x, x, x, average_attn_weights=averaged)
    with engine.batch(SIZE):
        _, weights = layer(x, x, x, average_attn_weights=averaged)
        assert layer(x, x, x, need_weights=False)[1] is None
    assert torch.allclose(weights, expected)


def test_a_mask_for_every_head() -> None:
    layer, x = attention().double(), torch.randn(SIZE, LENGTH, WIDTH, dtype=torch.float64)
    mask = torch.rand(SIZE * HEADS, LENGTH, LENGTH, generator=torch.Generator().manual_seed(1)).double()
    expected = layer(x, x, x, attn_mask=mask)[0]
    engine = GradientEngine(layer)
    with engine.batch(SIZE):
        assert torch.allclose(layer(x, x, x, attn_mask=mask)[0], expected)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_start_from_a_state_and_return_their_last(kind: Any) -> None:
    torch.manual_seed(2)
    layer = kind(WIDTH, 5, 2, batch_first=True, bidirectional=True).double()
    x, state = torch.randn(SIZE, LENGTH, WIDTH).double(), torch.randn(4, SIZE, 5).double()
    start = (state, -state) if kind is nn.LSTM else state
    expected, expected_last = layer(x, start)
    engine = GradientEngine(layer)
    with engine.batch(SIZE):
        output, last = layer(x, start)
    assert torch.allclose(output, expected)
    pairs = zip(last, expected_last, strict=True) if kind is nn.LSTM else [(last, expected_last)]
    assert all(torch.allclose(value, reference) for value, reference in pairs)


def test_dropout_between_layers_is_applied_in_training_only() -> None:
    layer = nn.GRU(WIDTH, 5, 2, batch_first=True, dropout=0.9).double()
    x = torch.randn(SIZE, LENGTH, WIDTH).double()
    engine = GradientEngine(layer)
    with engine.batch(SIZE):
        first, second = layer(x)[0], layer(x)[0]
        assert not torch.allclose(first, second)
        layer.eval()
        assert torch.equal(layer(x)[0], layer(x)[0])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: (nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, add_bias_kv=True), (x, x, x)),
        lambda x: (nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, add_zero_attn=True), (x, x, x)),
        lambda x: (nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), (x[0], x[0], x[0])),
        lambda x: (nn.LSTM(WIDTH, 5, proj_size=2, batch_first=True), (x,)),
        lambda x: (nn.LSTM(WIDTH, 5), (pack_sequence([x[0], x[1, :2]]),)),
        lambda x: (nn.GRU(WIDTH, 5), (x[0],)),
    ],
)
def test_options_without_a_rule_are_refused(call: Any) -> None:
    layer, inputs = call(torch.randn(SIZE, LENGTH, WIDTH))
    engine = GradientEngine(layer)
    with engine.batch(SIZE), pytest.raises(Unsupported, match="^the model: "):
        layer(*inputs)
