"""The engine: no contribution beyond the clip norm, in any precision; its interface; a GPU agrees with a loop."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported
from hush.training import (
    Adaptive,
    Automatic,
    Clipping,
    Flat,
    Global,
    Normalized,
    PerLayer,
    clipped_sum,
    looped_sum,
)
from hush.training.per_example.engine import GradientEngine, check_losses
from training.devices import needs_gpu
from training.models import BATCH, MODELS, losses

every_model = pytest.mark.parametrize("name", MODELS)
CLIP = 0.5


def total_norm(gradients: dict[str, Tensor]) -> float:
    return float(torch.sqrt(sum((value.double().square().sum() for value in gradients.values()), torch.zeros(()))))


@every_model
@pytest.mark.quick_cases(13)
def test_no_example_contributes_more_than_the_clip_norm(name: str) -> None:
    """Measured: the sum with and without an example, in single precision, as training does it."""
    torch.manual_seed(4)
    model, x = MODELS[name]()
    engine = GradientEngine(model)
    for clip_norm in (0.01, 1.0):
        for left_out in range(BATCH):
            sums = []
            for weights in (torch.ones(BATCH), torch.arange(BATCH) != left_out):
                with engine.batch(BATCH):
                    engine.backward(losses(model, x))
                    sums.append(engine.clipped_sum(Flat(clip_norm), weights.float()).gradients)
            change = {key: sums[0][key].double() - sums[1][key].double() for key in sums[0]}
            assert total_norm(change) <= clip_norm


@pytest.mark.parametrize("name", ["linear-3d", "linear-4d", "transformer", "hugging-face-conv1d", "conv2d"])
def test_little_memory_gives_the_same(name: str) -> None:
    torch.manual_seed(4)
    model, x = MODELS[name]()
    results = []
    for memory in (1, None):
        engine = GradientEngine(model, memory=memory)
        with engine.batch(BATCH):
            engine.backward(losses(model, x))
            results.append(engine.clipped_sum(Flat(CLIP)))
        engine.detach()
    assert torch.allclose(results[0].norms, results[1].norms, rtol=1e-4)
    for key, gradient in results[0].gradients.items():
        assert torch.allclose(gradient, results[1].gradients[key], rtol=1e-3, atol=1e-5), key


@pytest.mark.parametrize("name", ["mlp", "conv2d", "tied", "embedding", "transformer"])
def test_rows_that_belong_together_are_clipped_as_one(name: str) -> None:
    """Four examples in two contributions: each is the clipped sum of two gradients."""
    torch.manual_seed(4)
    model, x = MODELS[name]()
    model, x = model.double(), (x.double() if x.is_floating_point() else x)[:4]
    engine = GradientEngine(model)
    with engine.batch(4):
        engine.backward(losses(model, x))
        joined = engine.clipped_sum(Flat(CLIP), rows=2)
    engine.detach()
    pairs = [looped_sum(model, x[:2], losses, clip_norm=1e9), looped_sum(model, x[2:], losses, clip_norm=1e9)]
    norms = [total_norm(pair.gradients) for pair in pairs]
    assert joined.norms.tolist() == pytest.approx(norms, rel=1e-4)
    for key, gradient in joined.gradients.items():
        expected = sum(min(1.0, CLIP / norm) * pair.gradients[key] for norm, pair in zip(norms, pairs, strict=True))
        assert torch.allclose(gradient, torch.as_tensor(expected), rtol=1e-3, atol=1e-5), key


@contextmanager
def half_precision(kind: torch.dtype = torch.bfloat16) -> Iterator[None]:
    """What autocast does, by torch's own kernels: oneDNN's use instructions that some CPUs lack, and crash."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"torch\.")  # about other makers' hardware
        flags = torch.backends.mkldnn.flags(enabled=False)
        flags.__enter__()
    try:
        with torch.autocast("cpu", dtype=kind):
            yield
    finally:
        flags.__exit__(None, None, None)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["mlp", "conv2d", "transformer", "layer-norm", "lstm", "tied", "linear-gram"])
def test_mixed_precision_stays_within_the_clip_norm(name: str, kind: torch.dtype) -> None:
    torch.manual_seed(5)
    model, x = MODELS[name]()
    engine = GradientEngine(model)
    with half_precision(kind):
        for example in range(BATCH):
            with engine.batch(BATCH):
                engine.backward(losses(model, x).float())
                total = engine.clipped_sum(Flat(0.3), (torch.arange(BATCH) == example).float())
            assert total_norm(total.gradients) <= 0.3
            assert total_norm(total.gradients) >= 0.2 * min(1.0, float(total.norms[example]) / 0.3)


def test_small_gradients_do_not_vanish_in_half_precision() -> None:
    """Gradients of 1e-7 are below fp16's smallest number; losses are scaled up, and clip factors scale back."""
    torch.manual_seed(5)
    model, x = nn.Linear(6, 3, bias=False), torch.randn(BATCH, 6)
    with half_precision(torch.float16):
        total = clipped_sum(model, x, lambda module, batch: module(batch).float().sum(1) * 3e-8, clip_norm=1.0)
    norms = x.norm(dim=1) * 3**0.5 * 3e-8
    assert torch.allclose(total.norms, norms, rtol=0.05)
    weight = (x.double().sum(0) * 3e-8).expand(3, -1)
    assert torch.allclose(total.gradients["weight"], weight, rtol=0.05, atol=1e-9)


def test_sums_of_many_do_not_round_further_than_the_clip_norm() -> None:
    """In half precision the sum of 4,000 equal gradients would move by several clip norms, or not at all."""
    torch.manual_seed(9)
    model = nn.Linear(30, 20)
    x = torch.randn(1, 30).expand(4000, -1).contiguous()
    engine = GradientEngine(model)
    with half_precision():
        sums = []
        for weights in (torch.ones(4000), torch.arange(4000) != 17):
            with engine.batch(4000):
                engine.backward(losses(model, x).float())
                sums.append(engine.clipped_sum(Flat(1.0), weights.float()).gradients)
    change = total_norm({key: sums[0][key].double() - sums[1][key].double() for key in sums[0]})
    assert 0.8 <= change <= 1.0


def test_an_input_that_is_not_finite_contributes_nothing() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2))
    x = torch.randn(BATCH, 6)
    x[2, 3] = torch.inf
    total = clipped_sum(model, x, lambda module, batch: module(batch).square().sum(1) / 0.0, clip_norm=1.0)
    assert all(torch.isfinite(gradient).all() for gradient in total.gradients.values())


def test_thousands_of_parameters() -> None:
    model = nn.Sequential(*[nn.Linear(3, 3) for _ in range(1000)])
    total = clipped_sum(model, torch.randn(2, 3), losses, clip_norm=1.0)
    assert len(total.gradients) == 2000


# The interface


def test_a_batch_begins_and_ends() -> None:
    model, x = nn.Linear(6, 3), torch.randn(BATCH, 6)
    engine = GradientEngine(model)
    assert not engine.recording
    engine.begin(BATCH)
    assert engine.recording
    assert engine.batch_size == BATCH
    with torch.no_grad():
        assert not engine.recording
    model(x)
    assert [args[0] is x for args, _ in engine.calls] == [True]
    # Weight and bias: x and g, since one position is left as a product; and the bias' own.
    assert engine.signature() == ((BATCH, 1, 6), (BATCH, 1, 3), (BATCH, 3))
    assert [(layer, tuple(tap.shape)) for layer, tap in engine.gradient_taps()] == [
        ("the model", (BATCH, 1, 3)),
        ("the model", (BATCH, 3)),
    ], "the input's tap brings out no gradient"
    engine.end()
    assert engine.batch_size is None
    assert engine.calls == []
    assert engine.signature() == ()


def test_inputs_that_all_examples_share_are_repeated() -> None:
    engine = GradientEngine(nn.Linear(6, 3))
    with engine.batch(BATCH):
        x = torch.randn(BATCH, 6)
        assert engine.batched(x, "layer") is x
        assert engine.batched(x[:1], "layer").shape == (BATCH, 6)
        assert engine.batched(x[0], "layer", vectors=True).shape == (BATCH, 6)
        with pytest.raises(Unsupported, match="^layer: its input has first dimension 2, not the batch's 5"):
            engine.batched(x[:2], "layer")


def test_tied_parameters_are_known() -> None:
    model, _ = MODELS["tied"]()
    engine = GradientEngine(model)
    assert engine.is_tied(model.get_parameter("embedding.weight"))
    assert not GradientEngine(nn.Linear(2, 2)).is_tied(nn.Linear(2, 2).weight)


def test_losses_must_belong_to_the_batch() -> None:
    model, x = nn.Linear(6, 3), torch.randn(BATCH, 6)
    engine = GradientEngine(model)
    with pytest.raises(InvalidArgument, match="^losses='out of turn'"):
        engine.backward(losses(model, x))
    with engine.batch(BATCH), pytest.raises(InvalidArgument, match="^losses='unrelated'"):
        engine.backward(torch.ones(BATCH, requires_grad=True))
    wrong = {"^losses='list'": [1.0], "^losses.shape=": torch.ones(3), "^losses='constant'": torch.ones(BATCH)}
    for message, value in wrong.items():
        with pytest.raises(InvalidArgument, match=message):
            check_losses(value, BATCH)


def test_gradients_are_used_up() -> None:
    """A second sum of the same backward pass would release it twice; keeping the graph allows another backward pass."""
    model, x = nn.Linear(6, 3), torch.randn(BATCH, 6)
    engine = GradientEngine(model)
    with engine.batch(BATCH):
        values = losses(model, x)
        engine.backward(values, keep_graph=True)
        first = engine.clipped_sum(Flat(CLIP))
        with pytest.raises(IndexError):
            engine.clipped_sum(Flat(CLIP))
        engine.backward(values)
        assert torch.equal(engine.clipped_sum(Flat(CLIP)).gradients["weight"], first.gradients["weight"])


# On a GPU


@needs_gpu
@pytest.mark.parametrize("name", [name for name in MODELS if name != "positions"])  # that one makes its own, on the CPU
def test_norms_and_sums_on_a_gpu_are_those_of_a_loop(name: str) -> None:
    torch.manual_seed(3)
    model, x = MODELS[name]()
    model, x = model.cuda().double(), x.cuda().double() if x.is_floating_point() else x.cuda()
    fast, plain = (compute(model, x, losses, clip_norm=0.5) for compute in (clipped_sum, looped_sum))
    assert torch.allclose(fast.norms.double(), plain.norms.double().to(fast.norms.device), rtol=1e-5)
    largest = max(float(gradient.abs().max()) for gradient in plain.gradients.values())
    for key, gradient in plain.gradients.items():
        other = fast.gradients.get(key, torch.zeros_like(gradient))
        assert float((other - gradient).abs().max()) <= 8e-4 * largest, key  # of which 6e-4 are slack for rounding


@needs_gpu
@pytest.mark.parametrize("name", ["mlp", "conv2d", "tied", "transformer", "layer-norm", "four-times", "linear-gram"])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
def test_compiled_steps_on_a_gpu_are_the_same_and_stay_within_the_clip_norm(name: str, kind: torch.dtype) -> None:
    torch.manual_seed(4)
    model, x = MODELS[name]()
    model, x = model.cuda(), x.cuda()
    engine = GradientEngine(model, backend="inductor")
    results = []
    for example in (0, 1, 2, 2):
        with engine.batch(BATCH):
            with torch.autocast("cuda", dtype=kind, enabled=kind is not torch.float32):
                values = losses(model, x).float()
            engine.backward(values)
            results.append(engine.clipped_sum(Flat(0.1), (torch.arange(BATCH) == example).float()))
        norm = total_norm({key: value.cpu() for key, value in results[-1].gradients.items()})
        assert 0.09 * min(1.0, float(results[-1].norms[example]) / 0.1) <= norm <= 0.1
    tolerance = 1e-4 if kind is torch.float32 else 0.05
    engine.detach()
    with torch.autocast("cuda", dtype=kind, enabled=kind is not torch.float32):
        eager = clipped_sum(model, x, lambda module, batch: losses(module, batch).float(), clip_norm=0.1)
    assert torch.allclose(results[1].norms, results[2].norms, rtol=tolerance)
    assert torch.allclose(eager.norms, results[2].norms, rtol=tolerance)


@needs_gpu
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["mlp", "conv2d", "tied", "layer-norm", "linear-3d"])
@pytest.mark.parametrize(
    "clipping",
    [
        Flat(0.3),
        Adaptive(0.3),
        Automatic(0.3),
        Normalized(0.3),
        Global(0.3, threshold=50.0),
        Flat(0.3, PerLayer()),
        Automatic(0.3, PerLayer()),
    ],
    ids=repr,
)
def test_every_clipping_on_a_gpu_is_that_of_a_cpu(clipping: Clipping, name: str, kind: torch.dtype) -> None:
    """Only flat clipping in one group has a kernel for its factors; those of all others once had the wrong type."""
    results = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(3)
        model, x = MODELS[name]()
        model, x = model.to(device, kind), x.to(device, kind if x.is_floating_point() else x.dtype)
        engine = GradientEngine(model)
        with engine.batch(BATCH):
            engine.backward(losses(model, x))
            results.append(engine.clipped_sum(clipping))
    on_cpu, on_gpu = results
    assert torch.allclose(on_cpu.norms.double(), on_gpu.norms.cpu().double(), rtol=1e-3)
    for key, gradient in on_cpu.gradients.items():
        assert torch.allclose(gradient, on_gpu.gradients[key].cpu(), rtol=1e-2, atol=1e-4), key
