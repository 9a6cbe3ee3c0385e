"""Per-example norms and clipped sums, for every kind of layer, against a plain loop."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hush.errors import Unsupported
from hush.training import check, clipped_sum, looped_sum
from hush.training.per_example.engine import GradientEngine
from hush.training.plan.clipping import Flat
from training.models import BATCH, MODELS, losses

EACH = pytest.mark.parametrize("name", MODELS)
CLIP = 0.5


def made(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(3)
    model, x = MODELS[name]()
    return model.double(), x.double() if x.is_floating_point() else x


def size_of(gradients: dict[str, Tensor]) -> float:
    return float(torch.sqrt(sum((each.double().square().sum() for each in gradients.values()), torch.zeros(()))))


@EACH
@pytest.mark.parametrize("count", [BATCH, 1])
def test_norms_and_sums_are_those_of_a_loop(name: str, count: int) -> None:
    model, x = made(name)
    fast = clipped_sum(model, x[:count], losses, clip_norm=CLIP)
    plain = looped_sum(model, x[:count], losses, clip_norm=CLIP)
    assert torch.allclose(fast.norms.double(), plain.norms.double(), rtol=1e-5)
    largest = max(float(each.abs().max()) for each in plain.gradients.values())
    for key, each in plain.gradients.items():
        other = fast.gradients.get(key, torch.zeros_like(each))
        assert float((other - each).abs().max()) <= 3e-4 * largest, key
    check(model, x[:count], losses, clip_norm=CLIP)


@EACH
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
            assert size_of(change) <= clip_norm


@pytest.mark.parametrize("name", ["linear-3d", "linear-4d", "transformer", "hugging-face-conv1d", "conv2d"])
def test_little_memory_gives_the_same(name: str) -> None:
    torch.manual_seed(4)
    model, x = MODELS[name]()
    found = []
    for memory in (1, None):
        engine = GradientEngine(model, memory=memory)
        with engine.batch(BATCH):
            engine.backward(losses(model, x))
            found.append(engine.clipped_sum(Flat(CLIP)))
        engine.detach()
    assert torch.allclose(found[0].norms, found[1].norms, rtol=1e-4)
    for key, each in found[0].gradients.items():
        assert torch.allclose(each, found[1].gradients[key], rtol=1e-3, atol=1e-5), key


@contextmanager
def half_precision(kind: torch.dtype = torch.bfloat16) -> Iterator[None]:
    """What autocast does, by torch's own kernels: oneDNN's use instructions that some CPUs lack, and crash."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about other makers' hardware
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
        for one in range(BATCH):
            with engine.batch(BATCH):
                engine.backward(losses(model, x).float())
                found = engine.clipped_sum(Flat(0.3), (torch.arange(BATCH) == one).float())
            assert size_of(found.gradients) <= 0.3
            assert size_of(found.gradients) >= 0.2 * min(1.0, float(found.norms[one]) / 0.3)


def test_small_gradients_do_not_vanish_in_half_precision() -> None:
    """Gradients of 1e-7 are below what fp16 can say; losses are scaled, and what comes of them is scaled back."""
    torch.manual_seed(5)
    model, x = nn.Linear(6, 3, bias=False), torch.randn(BATCH, 6)
    with half_precision(torch.float16):
        found = clipped_sum(model, x, lambda module, batch: module(batch).float().sum(1) * 3e-8, clip_norm=1.0)
    expected = x.norm(dim=1) * 3**0.5 * 3e-8
    assert torch.allclose(found.norms, expected, rtol=0.05)
    total = (x.sum(0) * 3e-8).expand(3, -1)
    assert torch.allclose(found.gradients["weight"], total, rtol=0.05, atol=1e-9)


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
    change = size_of({key: sums[0][key].double() - sums[1][key].double() for key in sums[0]})
    assert 0.8 <= change <= 1.0


@EACH
def test_an_example_that_is_not_finite_contributes_nothing(name: str) -> None:
    torch.manual_seed(6)
    model, x = MODELS[name]()
    others = [0, 2, 3, 4]
    factors = torch.ones(BATCH)
    factors[1] = torch.nan
    broken = clipped_sum(model, x, lambda module, batch: losses(module, batch) * factors, clip_norm=CLIP)
    clean = clipped_sum(model, x[others], losses, clip_norm=CLIP)
    assert torch.isnan(broken.norms[1])
    assert torch.allclose(broken.norms[others], clean.norms, rtol=1e-4)
    for key, each in clean.gradients.items():
        assert torch.allclose(broken.gradients[key], each, rtol=1e-3, atol=1e-6), key


def test_an_input_that_is_not_finite_contributes_nothing() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2))
    x = torch.randn(BATCH, 6)
    x[2, 3] = torch.inf
    found = clipped_sum(model, x, lambda module, batch: module(batch).square().sum(1) / 0.0, clip_norm=1.0)
    assert all(torch.isfinite(each).all() for each in found.gradients.values())


def test_masked_tokens_and_ignored_targets() -> None:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Embedding(9, 4, padding_idx=0), nn.Linear(4, 9)).double()
    x, y = torch.randint(0, 9, (BATCH, 6)), torch.randint(0, 9, (BATCH, 6))
    y[:, 4:] = -100
    y[1] = -100  # an example without any target

    def masked(module: nn.Module, batch: Any) -> Tensor:
        tokens, targets = batch
        each = nn.functional.cross_entropy(module(tokens).transpose(1, 2), targets, reduction="none", ignore_index=-100)
        return each.sum(1) / (targets != -100).sum(1).clamp_min(1)

    check(model, (x, y), masked)
    assert float(clipped_sum(model, (x, y), masked, clip_norm=1.0).norms[1]) == 0


@pytest.mark.parametrize(
    "norm", [nn.BatchNorm1d(4), nn.BatchNorm2d(4), nn.SyncBatchNorm(4), nn.InstanceNorm1d(4, track_running_stats=True)]
)
def test_what_mixes_examples_is_refused_by_name(norm: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(4, 4), norm, nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    with pytest.raises(Unsupported, match=r"^1 \(.*2\.1 \(BatchNorm1d\).*replace_batchnorm"):
        GradientEngine(model)


def test_thousands_of_parameters() -> None:
    model = nn.Sequential(*[nn.Linear(3, 3) for _ in range(1000)])
    found = clipped_sum(model, torch.randn(2, 3), losses, clip_norm=1.0)
    assert len(found.gradients) == 2000


class Centred(nn.Module):
    """A step that uses the other examples."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


def test_layers_that_mix_examples_in_secret_are_caught() -> None:
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(6, 6), Centred(), nn.Linear(6, 3))
    with pytest.raises(Unsupported, match="differs|differ"):
        check(model, torch.randn(BATCH, 6), losses)


@pytest.mark.parametrize(
    "layer",
    [nn.Embedding(9, 4, max_norm=1.0), nn.Embedding(9, 4, scale_grad_by_freq=True), nn.Embedding(9, 4, sparse=True)],
)
def test_embeddings_that_look_at_the_batch_are_refused(layer: nn.Module) -> None:
    with pytest.raises(Unsupported, match="whole batch"):
        clipped_sum(layer, torch.randint(0, 9, (BATCH, 3)), losses, clip_norm=1.0)
