"""Checks: plain loops by hand, mixed examples, coupled losses and stray parameters are caught, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported
from hush.training import check, clipped_sum, looped_sum
from hush.training.per_example import autograd
from hush.training.per_example.checks import check_batch, check_calls, check_outputs, refuse_coupled
from hush.training.per_example.engine import GradientEngine
from training.models import BATCH, losses


def outputs_summed(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).sum(1)


def test_a_loop_by_hand() -> None:
    """A linear model's gradient is its input: clipped to 1, (3, 4) becomes (0.6, 0.8)."""
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [torch.inf, 0.0]])
    for compute in (looped_sum, clipped_sum):
        total = compute(nn.Linear(2, 1, bias=False), x, outputs_summed, clip_norm=1.0)
        assert total.norms[:2].tolist() == pytest.approx([5, 0.5])
        assert torch.isnan(total.norms[2])
        assert total.gradients["weight"].flatten().tolist() == pytest.approx([0.9, 1.2], rel=1e-3)


def test_batches_may_be_anything_with_a_tensor_in_it() -> None:
    model, x = nn.Linear(6, 3), torch.randn(BATCH, 6)

    def nested(module: nn.Module, batch: Any) -> Tensor:
        return module(batch["inputs"][0]).sum(1) * batch["scale"]

    total = clipped_sum(model, {"inputs": (x, "a name"), "scale": 2.0}, nested, clip_norm=1e6)
    assert torch.allclose(total.norms, 2 * clipped_sum(model, x, outputs_summed, clip_norm=1e6).norms)
    with pytest.raises(InvalidArgument, match="^batch='dict'"):
        clipped_sum(model, {"scale": 2.0}, nested, clip_norm=1.0)
    for compute in (looped_sum, clipped_sum):
        with pytest.raises(InvalidArgument, match="^clip_norm="):
            compute(model, x, outputs_summed, clip_norm=0.0)


class Centred(nn.Module):
    """A step that uses the other examples."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


def test_layers_that_mix_examples_in_secret_are_caught() -> None:
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(6, 6), Centred(), nn.Linear(6, 3))
    with pytest.raises(Unsupported, match="differs|differ|cannot be told apart"):
        check(model, torch.randn(BATCH, 6), losses)


def test_wrong_gradients_are_caught_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin of a layer norm, whose weight gradient is 1 % too small."""
    torch.manual_seed(8)
    model, x = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6)), torch.randn(BATCH, 6)
    check(model, x, losses)
    honest = autograd._summed
    monkeypatch.setattr(autograd, "_summed", lambda values, dims: 0.99 * honest(values, dims))
    with pytest.raises(Unsupported, match=r"^1\.weight, 1\.bias: the clipped sum differs"):
        check(model, x, losses, clip_norm=1e6)


# In a run


def recorded(model: nn.Module, x: Tensor, backend: str | None = None) -> tuple[GradientEngine, Tensor]:
    engine = GradientEngine(model, backend=backend)
    engine.begin(len(x))
    return engine, model(x)


def test_ordinary_models_pass_all_checks() -> None:
    model, x = nn.Sequential(nn.Linear(6, 4), nn.Dropout(), nn.Linear(4, 3)), torch.randn(BATCH, 6)
    engine, outputs = recorded(model, x)
    check_batch(engine, outputs.sum(1))
    check_calls(engine)
    check_outputs(model, engine.calls, BATCH)
    assert model.training, "modes are as they were"
    assert engine.recording, "so is the engine"
    engine.backward(outputs.sum(1))


@pytest.mark.parametrize("pair", [(0, 1), (1, 2), (3, 4)])
def test_coupled_losses_are_refused(pair: tuple[int, int]) -> None:
    model, x = nn.Linear(6, 1), torch.randn(BATCH, 6)
    engine, outputs = recorded(model, x)
    values = outputs.squeeze(1) * 1
    values[pair[0]] = outputs[pair[0], 0] * outputs[pair[1], 0]
    with pytest.raises(Unsupported, match="^losses: the loss of one example depends on another example, through the"):
        check_batch(engine, values)


def test_detached_couplings_cannot_be_seen() -> None:
    """The caller's duty, as the docstring says."""
    model, x = nn.Linear(6, 1), torch.randn(BATCH, 6)
    engine, outputs = recorded(model, x)
    check_batch(engine, outputs.squeeze(1) * outputs.detach().mean())


def test_rows_of_other_examples_may_hold_nan() -> None:
    """Real examples may be not finite; that is no reason to end a run."""
    value = torch.ones(BATCH, 2, requires_grad=True)
    spoilt = (value * torch.tensor([1.0, torch.nan, 1, 1, 1]).unsqueeze(1)).sum(1)
    refuse_coupled(spoilt, [("layer", value)])
    with pytest.raises(Unsupported, match="through layer"):
        refuse_coupled(value.sum(1) * value.sum(), [("layer", value)])


class Stray(nn.Module):
    """Uses a layer's weight outside of the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + x @ self.layer.weight.T


def test_parameters_used_outside_of_their_module_are_refused() -> None:
    """Within the model, every operation is seen; in a loss, none."""
    model = Stray()
    engine, outputs = recorded(model, torch.randn(BATCH, 6))
    check_batch(engine, outputs.sum(1))
    with pytest.raises(Unsupported, match=r"^layer\.weight: used outside"):
        check_batch(engine, outputs.sum(1) * model.layer.weight.sum())


class SecretlyCentred(nn.Module):
    """Mixes examples, where no mode can see it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        return (x - torch.from_numpy(x.detach().numpy().mean(0))) * self.weight


@pytest.mark.parametrize("name", ["calls", "outputs"])
def test_models_that_mix_examples_are_refused(name: str) -> None:
    model, x = nn.Sequential(SecretlyCentred(), nn.Linear(6, 3)), torch.randn(BATCH, 6)
    engine, _ = recorded(model, x)
    if name == "outputs":
        engine.detach()
    with pytest.raises(
        Unsupported, match="the model: its output for an example depends on the rest of the batch|differ"
    ):
        check_calls(engine) if name == "calls" else check_outputs(model, engine.calls, BATCH)


def test_models_that_do_not_run_on_one_example_are_refused() -> None:
    class Squeezed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.layer(x).squeeze()
            return hidden.sum(1)

    engine, _ = recorded(Squeezed(), torch.randn(BATCH, 6))
    with pytest.raises(Unsupported, match="^the model: it runs on two examples, but not on one"):
        check_calls(engine)
