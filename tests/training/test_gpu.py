"""On a GPU: the same gradients, and noise from the same stream. Skipped where there is none."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from hush.randomness import KeyedSource, TestSource
from hush.training import clipped_sum, looped_sum, privatize
from hush.training.kernels.gram import gram
from hush.training.loop.update import Updater
from hush.training.noise.gaussian import gaussian
from hush.training.per_example.engine import GradientEngine
from hush.training.plan.clipping import Flat
from training.models import BATCH, MODELS, losses

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

KEY = bytes(range(32))
TILE = 4096


@pytest.mark.parametrize("name", [name for name in MODELS if name != "positions"])  # that one makes its own, on the CPU
def test_norms_and_sums_are_those_of_a_loop(name: str) -> None:
    torch.manual_seed(3)
    model, x = MODELS[name]()
    model, x = model.cuda().double(), x.cuda().double() if x.is_floating_point() else x.cuda()
    fast, plain = (way(model, x, losses, clip_norm=0.5) for way in (clipped_sum, looped_sum))
    assert torch.allclose(fast.norms.double(), plain.norms.double().to(fast.norms.device), rtol=1e-5)
    largest = max(float(each.abs().max()) for each in plain.gradients.values())
    for key, each in plain.gradients.items():
        assert float((fast.gradients.get(key, torch.zeros_like(each)) - each).abs().max()) <= 3e-4 * largest, key


@pytest.mark.parametrize("name", ["mlp", "conv2d", "tied", "transformer", "layer-norm", "four-times", "linear-gram"])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
def test_compiled_steps_are_the_same_and_stay_within_the_clip_norm(name: str, kind: torch.dtype) -> None:
    torch.manual_seed(4)
    model, x = MODELS[name]()
    model, x = model.cuda(), x.cuda()
    engines = GradientEngine(model, backend="inductor")
    found = []
    for one in (0, 1, 2, 2):
        with engines.batch(BATCH):
            with torch.autocast("cuda", dtype=kind, enabled=kind is not torch.float32):
                each = losses(model, x).float()
            engines.backward(each)
            found.append(engines.clipped_sum(Flat(0.1), (torch.arange(BATCH) == one).float()))
        size = torch.sqrt(sum(each.double().square().sum() for each in found[-1].gradients.values()))
        assert 0.09 * min(1.0, float(found[-1].norms[one]) / 0.1) <= float(size) <= 0.1
    tolerance = 1e-4 if kind is torch.float32 else 0.05
    engines.detach()
    with torch.autocast("cuda", dtype=kind, enabled=kind is not torch.float32):
        eager = clipped_sum(model, x, lambda module, batch: losses(module, batch).float(), clip_norm=0.1)
    assert torch.allclose(found[1].norms, found[2].norms, rtol=tolerance)
    assert torch.allclose(eager.norms, found[2].norms, rtol=tolerance)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(3, 5, 7, 9), (2, 64, 64, 32), (4, 197, 96, 130), (2, 300, 768, 70)])
def test_gram_kernel(shape: tuple[int, int, int, int], kind: torch.dtype) -> None:
    size, positions, inputs, outputs = shape
    x = torch.randn(size, positions, inputs, device="cuda").to(kind)
    g = torch.randn(size, positions, outputs, device="cuda").to(kind) * 0.1
    for found, expected in zip(gram([(x, g)] * 2), gram([(x.cpu(), g.cpu())] * 2), strict=True):
        assert torch.allclose(found.cpu(), expected, rtol=1e-4)


OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1),
    "momentum": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01, dampening=0.2),
    "nesterov": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda params: torch.optim.Adam(params, lr=0.01, weight_decay=0.1),
    "adamw": lambda params: torch.optim.AdamW(params, lr=0.01, weight_decay=0.1, fused=True),
    "adamw, two groups": lambda params: torch.optim.AdamW(
        [{"params": (every := list(params))[:2]}, {"params": every[2:], "lr": 0.1, "weight_decay": 0.0}], lr=0.01
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fused_updates_are_torchs_own(name: str) -> None:
    """Three steps in one pass each, and by torch, with the noise that the tiles of the stream say."""
    torch.manual_seed(5)
    ours = nn.Sequential(nn.Linear(70, 90), nn.Linear(90, 3)).cuda()
    theirs = copy.deepcopy(ours)
    one, other = (OPTIMIZERS[name](model.parameters()) for model in (ours, theirs))
    updater = Updater(ours, [one])
    sizes = {key: param.numel() for key, param in ours.named_parameters()}
    for step in range(3):
        totals = {key: torch.randn_like(param) for key, param in ours.named_parameters()}
        tiles = sum(-(-size // TILE) for size in sizes.values())
        values = gaussian(KEY, step, tiles * TILE, torch.device("cuda"))
        at = 0
        for key, param in theirs.named_parameters():
            noise = values[at : at + sizes[key]].view_as(param)
            param.grad = (totals[key] + 0.5 * noise) / 8
            at += -(-sizes[key] // TILE) * TILE
        other.step()
        updater(KEY, step, totals, 0.5, 8)
    for mine, yours in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine, yours, rtol=1e-4, atol=1e-6)
    states = [optimizer.state_dict()["state"] for optimizer in (one, other)]
    for key, state in states[1].items():
        for entry, value in state.items():
            assert value is None or torch.allclose(states[0][key][entry].cpu(), value.cpu(), rtol=1e-4, atol=1e-6)


def test_noise_is_made_from_the_keys_stream() -> None:
    """Against NumPy, from the words of OpenSSL's ChaCha20."""
    lanes, count = 256, 3 * 256 * 16 - 100
    words = KeyedSource(KEY, 7).words(8 * 3 * lanes).view(np.uint32).reshape(3, lanes, 2, 4, 2).astype(np.float64)
    radius, angle = words[..., 0], words[..., 1]
    uniform = (radius + (angle % 256 + 0.5) / 256) / 2**32
    turn = np.floor(angle / 256) * 2 * np.pi / 2**24
    pairs = np.sqrt(-2 * np.log(uniform)) * np.stack([np.cos(turn), np.sin(turn)])  # [2, 3, lanes, 2, 4]
    signs = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
    expected = np.einsum("ctlgp,qp->tgcql", pairs, signs)
    found = gaussian(KEY, 7, count, torch.device("cuda")).cpu().numpy()
    assert np.abs(found - expected.reshape(-1)[:count]).max() < 1e-4


def test_noise_is_gaussian() -> None:
    values = gaussian(KEY, 1, 20_000_001, torch.device("cuda")).double()
    moments = [float((values**power).mean()) for power in (1, 2, 4, 6)]
    # Standard errors: 2e-4, 3e-4, 2.2e-3 and, of sixth powers, sqrt(10395 - 15^2) / sqrt(2e7) = 0.0226: 8 of them.
    assert moments == pytest.approx([0, 1, 3, 15], abs=0.03, rel=0.012)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.RMSprop])
def test_a_run_on_a_gpu(compiled: bool, kind: Any) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).cuda()
    data = (torch.randn(300, 6).cuda(), torch.randint(0, 3, (300,)).cuda())
    data[0][5] = torch.nan
    private = privatize(
        model,
        kind(model.parameters(), lr=0.01),
        data,
        noise_multiplier=1.0,
        delta=1e-5,
        num_steps=8,
        batch_size=150,
        compile=compiled,
        source=TestSource(1),
    )
    for x, y in private.loader:
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
    assert private.steps_taken == 8
    assert all(torch.isfinite(param).all() for param in model.parameters())


@pytest.mark.parametrize("name", ["mlp", "conv2d", "tied", "linear-gram"])
def test_replayed_clipping_is_what_is_computed_step_by_step(name: str) -> None:
    """Other gradients in the same places, lost caches, other users of the memory: the same sums as without a graph."""
    torch.manual_seed(5)
    model, x = MODELS[name]()
    model, x = model.cuda(), x.cuda()
    engine = GradientEngine(model, backend="inductor")
    engine._graphed = True
    with engine.batch(BATCH):
        engine.backward(losses(model, x))
        values = list(engine.values)
        for step in range(12):
            chosen = (torch.arange(BATCH) % (2 + step % 3) == 0).float()
            clipping = Flat(0.1 if step < 8 else 0.2)
            replayed = bool(engine._replay._graphs)
            if step in (5, 6, 7):
                constant_caches_are_lost()
            found = {}
            for replays in (True, False):
                engine.values, engine.replays = list(values), replays
                each = engine.clipped_sum(clipping, chosen)
                found[replays] = [each.norms, *(value.clone() for value in each.gradients.values())]
            for one, other in zip(found[True], found[False], strict=True):
                assert torch.allclose(one, other, rtol=1e-3, atol=1e-6), step
            for place, value in enumerate(values):
                if value is not None and place not in engine.layout.inputs:  # which may be indices
                    value.mul_(1.1)
    assert replayed, "nothing was recorded: this test compared nothing"
    assert engine._replay._possible


def constant_caches_are_lost() -> None:
    from hush.training.kernels import (
        constants,  # needs Triton
        sums_cuda,  # needs Triton
    )

    for cache in (
        constants._constant,
        sums_cuda._table,
        sums_cuda._tiles_of,
        sums_cuda._groups_of_tiles,
    ):
        cache.cache_clear()
    junk = [torch.full((64, 4), 1 << 40, device="cuda") for _ in range(64)]
    del junk


@pytest.mark.parametrize("micro", [12, 48])
def test_runs_with_and_without_replays_end_with_the_same_weights(micro: int) -> None:
    """Also where a batch comes in pieces, whose sums would lie in the same place."""
    x, y = torch.randn(48, 20), torch.randint(0, 3, (48,))
    ends = []
    for replays in (False, True):
        torch.manual_seed(6)
        model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 3)).cuda()
        private = privatize(
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            (x, y),
            noise_multiplier=0.01,
            delta=1e-5,
            num_steps=20,
            physical_batch_size=micro,
            source=TestSource(7),
        )
        private._engine.replays = replays
        for inputs, targets in private.loader:
            private.step(F.cross_entropy(model(inputs.cuda()), targets.cuda(), reduction="none"))
        ends.append([param.detach().clone() for param in model.parameters()])
        assert bool(private._engine._replay._graphs) is replays
    for one, other in zip(*ends, strict=True):
        assert torch.allclose(one, other, atol=1e-4)
