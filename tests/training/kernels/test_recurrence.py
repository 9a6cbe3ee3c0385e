"""Recurrent layers: the library's steps are those of a loop, and on a GPU they are those of a CPU."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from hush.training.kernels.recurrence import STEP_BY_STEP, ByLibrary, Steps, Weights, run_steps
from training.devices import needs_gpu

STEPS, SIZE, WIDTH = 6, 4, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
LENGTHS = {"equal": None, "several": torch.tensor([3, 6, 1, 5])}
modes = pytest.mark.parametrize("mode", GATES)
lengths = pytest.mark.parametrize("length", LENGTHS)


def problem(mode: str, *, bias: bool = True) -> tuple[Tensor, Weights, tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(GATES[mode])

    def real(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    gates = GATES[mode] * WIDTH
    start = tuple(real(SIZE, WIDTH) for _ in range(2 if mode == "LSTM" else 1))
    return real(STEPS, SIZE, gates), Weights(real(gates, WIDTH), real(gates) if bias else None), start


def results(steps: Steps, length: str) -> list[Tensor]:
    """Everything that a layer uses of its steps; beyond an example's length, there is nothing to compare."""
    last = torch.full((SIZE,), STEPS) if LENGTHS[length] is None else LENGTHS[length]
    real = (torch.arange(STEPS).unsqueeze(1) < last).unsqueeze(2).to(steps.hidden.device)
    outputs = steps.hidden[1:]
    weights = torch.linspace(-1, 1, outputs.numel(), dtype=torch.float64).view(outputs.shape).to(outputs)
    gradients = steps.backward(weights * real, tuple(2 * state for state in steps.final))
    parts = [outputs * real, gradients.inputs, gradients.recurrent, *gradients.start, *steps.final]
    return [part.double().cpu() for part in parts]


@modes
@lengths
@pytest.mark.parametrize("bias", [True, False])
def test_both_ways_agree(mode: str, length: str, bias: bool) -> None:
    inputs, weights, start = problem(mode, bias=bias)
    loop = STEP_BY_STEP[mode](mode, inputs, weights, start, LENGTHS[length])
    library = ByLibrary(mode, inputs, weights, start, LENGTHS[length])
    for ours, theirs in zip(results(loop, length), results(library, length), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@needs_gpu
@modes
@lengths
def test_a_gpu_agrees_with_a_cpu(mode: str, length: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In fp32, to 1e-5; weights that the library gets leave the parameters where they are, without a warning."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    inputs, weights, start = problem(mode)
    expected = results(run_steps(mode, inputs, weights, start, LENGTHS[length]), length)

    def moved(value: Tensor) -> Tensor:
        return value.float().cuda()

    assert weights.bias is not None
    on_gpu = Weights(moved(weights.hidden), moved(weights.bias))
    before = on_gpu.hidden.data_ptr(), on_gpu.hidden._version
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps = run_steps(mode, moved(inputs), on_gpu, tuple(moved(state) for state in start), LENGTHS[length])
    assert isinstance(steps, ByLibrary)
    assert (on_gpu.hidden.data_ptr(), on_gpu.hidden._version) == before
    for ours, reference in zip(results(steps, length), expected, strict=True):
        assert torch.allclose(ours, reference, rtol=1e-5, atol=1e-5 * float(reference.abs().max()))
