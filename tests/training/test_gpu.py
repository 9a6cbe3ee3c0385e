"""On a GPU: the same gradients, and noise from the same stream. Skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from hush.randomness import KeyedSource, TestSource
from hush.training import clipped_sum, looped_sum, privatize
from hush.training._noise import gaussian
from training.models import MODELS, losses

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

KEY = bytes(range(32))


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


def test_noise_is_made_from_the_keys_stream() -> None:
    """Against NumPy, from the words of OpenSSL's ChaCha20."""
    lanes, count = 256, 3 * 256 * 8 - 100
    words = KeyedSource(KEY, 7).words(8 * 3 * lanes).view(np.uint32).reshape(3, lanes, 16).astype(np.float64)
    expected = np.empty((3, 8, lanes))
    for pair in range(4):
        r1, a1, r2, a2 = (words[:, :, 4 * pair + place] for place in range(4))
        sums = np.zeros((2, 3, lanes))
        for radius, angle in ((r1, a1), (r2, a2)):
            uniform = (radius + (angle % 256 + 0.5) / 256) / 2**32
            turn = np.floor(angle / 256) * 2 * np.pi / 2**24
            sums += np.sqrt(-np.log(uniform)) * np.stack([np.cos(turn), np.sin(turn)])
        expected[:, 2 * pair], expected[:, 2 * pair + 1] = sums
    found = gaussian(KEY, 7, count, torch.device("cuda")).cpu().numpy()
    assert np.abs(found - expected.reshape(-1)[:count]).max() < 1e-4


def test_noise_is_gaussian() -> None:
    values = gaussian(KEY, 1, 20_000_001, torch.device("cuda")).double()
    moments = [float((values**power).mean()) for power in (1, 2, 4, 6)]
    assert moments == pytest.approx([0, 1, 3, 15], abs=0.03, rel=0.005)


def test_a_run_on_a_gpu() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).cuda()
    data = (torch.randn(300, 6).cuda(), torch.randint(0, 3, (300,)).cuda())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    private = privatize(
        model, optimizer, data, noise_multiplier=1.0, delta=1e-5, num_steps=5, batch_size=40, source=TestSource(1)
    )
    for x, y in private.loader:
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
    assert private.steps_taken == 5
