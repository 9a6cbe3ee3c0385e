"""Rules for attention and recurrent layers: every option, against the layers' own forward and a plain loop."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hush.errors import Unsupported
from hush.training import Flat, check
from hush.training.kernels import recurrence
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
    "lstm, projection": lambda: Call(nn.LSTM(WIDTH, 5, 2, proj_size=3, batch_first=True, bidirectional=True)),
    "gru, three layers": lambda: Call(nn.GRU(WIDTH, 5, 3, bidirectional=True)),
    "gru, no bias": lambda: Call(nn.GRU(WIDTH, 5, bias=False)),
    "rnn": lambda: Call(nn.RNN(WIDTH, 5, batch_first=True)),
    "rnn, relu": lambda: Call(nn.RNN(WIDTH, 5, 2, nonlinearity="relu", batch_first=True)),
}


class Sequences(nn.Module):
    """A recurrent layer that starts from states made by another one, and whose outputs and final states all count."""

    def __init__(self, kind: Any, *, packed: bool, **options: Any) -> None:
        super().__init__()
        self.layer, self.packed = kind(WIDTH, 5, 2, batch_first=True, bidirectional=True, **options), packed
        self.start = nn.Linear(WIDTH, 4 * 5)

    def forward(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, lengths = batch
        hidden = self.start(x[:, 0]).view(len(x), 4, 5).transpose(0, 1)
        projection = self.layer.proj_size or 5
        start = (hidden[..., :projection], hidden.tanh()) if isinstance(self.layer, nn.LSTM) else hidden
        sequences = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False) if self.packed else x
        output, final = self.layer(sequences, start)
        output = pad_packed_sequence(output, batch_first=True, total_length=LENGTH)[0] if self.packed else output
        finals = final if isinstance(final, tuple) else (final,)
        return torch.cat([part.reshape(len(x), -1) for part in (output, *(f.transpose(0, 1) for f in finals))], 1)


class Cells(nn.Module):
    """A model with a loop of its own."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.cell = kind(WIDTH, 5, **options)

    def forward(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        state = None
        for x in batch[0].unbind(1):
            state = self.cell(x, state)
        return torch.cat(state, 1) if isinstance(state, tuple) else state


LENGTHS = torch.tensor([2, 4, 1])
STATEFUL: dict[str, Any] = {
    f"{kind.__name__}{', packed' * packed}{', ' * bool(options)}{', '.join(options)}": partial(
        Sequences, kind, packed=packed, **options
    )
    for packed in (False, True)
    for kind, options in (
        (nn.LSTM, {}),
        (nn.LSTM, {"proj_size": 3}),
        (nn.GRU, {}),
        (nn.RNN, {}),
        (nn.RNN, {"nonlinearity": "relu"}),
    )
} | {kind.__name__: partial(Cells, kind) for kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell)}
recurrent_ways = pytest.mark.parametrize("way", ["steps", "library"])
# Cells are steps, and projections are never left to the library.
BY_LIBRARY = [name for name in STATEFUL if "Cell" not in name and "proj_size" not in name]


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


def per_example_norms(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    norms = []
    for index in range(SIZE):
        loss = losses(model, (batch[0][index : index + 1], batch[1][index : index + 1])).sum()
        norms.append(torch.cat([value.flatten() for value in torch.autograd.grad(loss, model.parameters())]).norm())
    return torch.stack(norms)


@pytest.mark.parametrize(
    ("name", "way"), [(name, "steps") for name in STATEFUL] + [(name, "library") for name in BY_LIBRARY]
)
def test_states_lengths_and_cells(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients through initial and final states, for sequences of several lengths, are a loop's to 1e-10."""
    if way == "library":
        monkeypatch.setattr(recurrence, "STEP_BY_STEP", dict.fromkeys(recurrence.STEP_BY_STEP, recurrence.ByLibrary))
    torch.manual_seed(len(name))
    model, batch = STATEFUL[name]().double(), (torch.randn(SIZE, LENGTH, WIDTH, dtype=torch.float64), LENGTHS)
    expected, expected_norms = model(batch), per_example_norms(model, batch)
    engine = GradientEngine(model)
    with engine.batch(SIZE):
        outputs = model(batch)
        assert torch.allclose(outputs, expected, rtol=1e-10, atol=1e-12)
        engine.backward(losses(model, batch))
        norms = engine.clipped_sum(Flat(1.0)).norms
    engine.detach()
    assert torch.allclose(norms, expected_norms, rtol=1e-10)
    # Unclipped: clipping keeps a share of the norm for rounding, and the loop does not.
    check(model, batch, losses, clip_norm=1e9, tolerance=1e-10)


@recurrent_ways
def test_a_twin_that_forgets_the_reset_gate_is_caught(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a GRU, r multiplies W_n h + b_n, and so its gradient."""
    kind = recurrence.ByLibrary if way == "library" else recurrence.STEP_BY_STEP["GRU"]
    honest = kind.backward

    def forgetful(self: Any, *gradients: Any) -> Any:
        result = honest(self, *gradients)
        return replace(result, recurrent=result.inputs)

    monkeypatch.setitem(recurrence.STEP_BY_STEP, "GRU", kind)
    monkeypatch.setattr(kind, "backward", forgetful)
    torch.manual_seed(1)
    model, batch = Call(nn.GRU(WIDTH, 5)).double(), (torch.randn(SIZE, LENGTH, WIDTH, dtype=torch.float64), PADDING)
    with pytest.raises(Unsupported, match="weight_hh"):
        check(model, batch, losses)


def test_outputs_may_be_changed_in_place_and_losses_go_back_twice() -> None:
    """What the backward pass reads is not what the model gets."""
    torch.manual_seed(3)
    layer, x = nn.LSTM(WIDTH, 5, batch_first=True), torch.randn(SIZE, LENGTH, WIDTH)
    norms = []
    for changed in (False, True):
        engine = GradientEngine(layer)
        with engine.batch(SIZE):
            output = layer(x)[0]
            loss = (output.mul_(2) if changed else output * 2).sum((1, 2))
            for _ in range(2):
                engine.backward(loss, keep_graph=True)
                norms.append(engine.clipped_sum(Flat(1.0)).norms)
        engine.detach()
    assert all(torch.equal(norms[0], other) for other in norms[1:])


def test_an_example_that_is_not_finite_spoils_no_other() -> None:
    torch.manual_seed(4)
    layer, x = nn.GRU(WIDTH, 5, batch_first=True), torch.randn(SIZE, LENGTH, WIDTH)
    x[1, 2] = torch.nan
    engine = GradientEngine(layer)
    with engine.batch(SIZE):
        engine.backward(layer(x)[0].sum((1, 2)))
        total = engine.clipped_sum(Flat(1.0))
    assert total.norms.isnan().tolist() == [False, True, False]
    assert all(bool(value.isfinite().all()) for value in total.gradients.values())


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
        lambda x: (nn.GRU(WIDTH, 5), (x[0],)),
    ],
)
def test_options_without_a_rule_are_refused(call: Any) -> None:
    layer, inputs = call(torch.randn(SIZE, LENGTH, WIDTH))
    engine = GradientEngine(layer)
    with engine.batch(SIZE), pytest.raises(Unsupported, match="^the model: "):
        layer(*inputs)


class Start(nn.Module):
    """Scales its output by a cell that no example enters."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.start, self.last = nn.LSTMCell(WIDTH, 5), nn.Parameter(torch.randn(WIDTH)), nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        scaled: Tensor = self.last(x) * self.cell(self.start)[0]
        return scaled


def test_a_cell_without_a_batch_is_a_function_of_parameters() -> None:
    x = torch.randn(SIZE, WIDTH)
    check(Start(), x, lambda model, batch: model(batch).square().sum(1))
