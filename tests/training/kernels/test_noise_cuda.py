"""Noise on a GPU: from the key's stream, Gaussian, and added in the optimizer's own step."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from hush.randomness import KeyedSource, TestSource
from hush.training import privatize
from hush.training.loop.update import Updater
from hush.training.noise.gaussian import gaussian

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

KEY = bytes(range(32))
TILE = 4096


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
    """Three steps, each in one pass, and by torch with the noise of the same tiles of the stream."""
    torch.manual_seed(5)
    ours = nn.Sequential(nn.Linear(70, 90), nn.Linear(90, 3)).cuda()
    theirs = copy.deepcopy(ours)
    fused, plain = (OPTIMIZERS[name](model.parameters()) for model in (ours, theirs))
    updater = Updater(ours, [fused])
    sizes = {key: param.numel() for key, param in ours.named_parameters()}
    for step in range(3):
        totals = {key: torch.randn_like(param) for key, param in ours.named_parameters()}
        tiles = sum(-(-size // TILE) for size in sizes.values())
        values = gaussian(KEY, step, tiles * TILE, torch.device("cuda"))
        start = 0
        for key, param in theirs.named_parameters():
            noise = values[start : start + sizes[key]].view_as(param)
            param.grad = (totals[key] + 0.5 * noise) / 8
            start += -(-sizes[key] // TILE) * TILE
        plain.step()
        updater(KEY, step, totals, 0.5, 8)
    for ours_param, theirs_param in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(ours_param, theirs_param, rtol=1e-4, atol=1e-6)
    states = [optimizer.state_dict()["state"] for optimizer in (fused, plain)]
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
    values = gaussian(KEY, 7, count, torch.device("cuda")).cpu().numpy()
    assert np.abs(values - expected.reshape(-1)[:count]).max() < 1e-4


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
