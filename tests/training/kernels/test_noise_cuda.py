"""Integer noise by Triton: the same integers as on a CPU, and the same steps as torch's optimizers take."""

from __future__ import annotations

import copy
from importlib.util import find_spec
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from hush.randomness import TestSource
from hush.training import privatize
from hush.training.loop.update import Updater
from hush.training.noise import integer_gaussian as module
from hush.training.noise.integer_gaussian import integer_gaussian
from hush.training.noise.noise_grid import NoiseGrid
from training.devices import needs_gpu, run_interpreted

KEY = bytes(range(32))
STDDEVS = [128.0, 3e6, 2.0**23 + 1, 1e9, 2.0**41]  # places of 16, 32 and 64 bits

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")

DRAWN = """
from hush.training.kernels import noise_cuda
from hush.training.noise import integer_gaussian as plain

key, cpu = bytes(range(32)), torch.device("cpu")


def same(stddev, size):
    draw = plain.Draw(key, 3 << 40, plain.BoxLaw.of(stddev))
    return torch.equal(draw.on_gpu(size, cpu), draw.on_cpu(size)), (stddev, size)


for stddev in (128.0, 3e6, 2.0**23, 2.0**23 + 1, 1e9, 2.0**39, 2.0**39 + 2**14, 2.0**54):
    for size in (1, 300, 9000):
        is_same, case = same(stddev, size)
        assert is_same, case
"""

LIMITS = """
from unittest import mock
from hush.training.kernels import noise_cuda
from hush.training.noise import integer_gaussian as plain

key, cpu, size = bytes(range(32)), torch.device("cpu"), 9000
draw = plain.Draw(key, 3, plain.BoxLaw.of(1e9))
expected = draw.on_cpu(size)


def drawn(room=256, width=128, open=64, attempts=8, unsure=2.0**-36):
    constants = {"_ROOM": room, "_WIDTH": width, "_OPEN": open}
    constants |= {"_ATTEMPTS": noise_cuda.tl.constexpr(attempts), "_UNSURE": noise_cuda.tl.constexpr(unsure)}
    with mock.patch.multiple(noise_cuda, **constants):
        _, opened = noise_cuda.draw(key, 3, size, draw.tables(cpu))
        assert torch.equal(draw.on_gpu(size, cpu), expected), constants
    return opened


assert drawn() == []
assert drawn(width=16) == [], "several rounds for a tile's list"
assert drawn(room=32, width=16) is None, "more edges than a list holds"
opened = drawn(unsure=2.0**-12)
assert 0 < len(opened) < 64, "double precision does not decide"
assert drawn(unsure=2.0**-12, open=len(opened) - 1) is None, "more open elements than are listed"
assert len(drawn(unsure=1e300, open=256)) > 100, "all are left to the host"
"""

FURTHER = """
from unittest import mock
from hush.training.kernels import noise_cuda
from hush.training.noise import integer_gaussian as plain

# A law whose points are all rejected, and whose full boxes are few: elements read many blocks.
key, cpu, size = bytes(range(32)), torch.device("cpu"), 1000
histogram = plain.Histogram.of(100.0)
few = plain.Histogram(histogram.rho, 1e-300, histogram.full, histogram.parts, histogram.num_edges)
law = mock.Mock(histogram=few, shift=20, place_bits=32, num_full=52000)
draw = plain.Draw(key, 3, law)
expected = draw.on_cpu(size)
for attempts in (20, 1):
    constants = {"_ROOM": 2048, "_OPEN": 2048, "_ATTEMPTS": noise_cuda.tl.constexpr(attempts)}
    with mock.patch.multiple(noise_cuda, **constants):
        _, opened = noise_cuda.draw(key, 3, size, draw.tables(cpu))
        assert (len(opened) > 0) == (attempts == 1), len(opened)
        assert torch.equal(draw.on_gpu(size, cpu), expected)
"""

UPDATE = """
import copy, math
from torch import nn
from hush.training.kernels import noise_cuda, sums_cuda
from hush.training.loop import update as loop
from hush.training.noise.integer_gaussian import integer_gaussian
from hush.training.noise.noise_grid import NoiseGrid

OPTIMIZERS = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1),
    "momentum": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01, dampening=0.2),
    "nesterov": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda params: torch.optim.Adam(params, lr=0.01, weight_decay=0.1),
    "adamw": lambda params: torch.optim.AdamW(params, lr=0.01, weight_decay=0.1),
}
key = bytes(range(32))
for name, make in OPTIMIZERS.items():
    for dtype in (torch.float32, torch.float64):
        ours = nn.Sequential(nn.Linear(70, 30), nn.Linear(30, 3))
        theirs = copy.deepcopy(ours)
        optimizers = [make(model.parameters()) for model in (ours, theirs)]
        size = sum(param.numel() for param in ours.parameters())
        for step in range(3):
            totals = {key: torch.randn_like(param, dtype=dtype) for key, param in ours.named_parameters()}
            totals["0.bias"][:4] = torch.tensor([0.5, 1.5, -2.5, float("nan")]) * 2.0**-12  # halves of the grid
            grid = NoiseGrid.of_sum(clip_norm=1.0, stddev=0.5, size=size)
            for is_fused, model, optimizer in zip((True, False), (ours, theirs), optimizers):
                loop._are_plain = lambda params: is_fused
                loop.Updater(model, [optimizer])(key, step, dict(totals), grid, 8.0)
        for ours_param, theirs_param in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert ours_param.grad is None
            assert torch.allclose(ours_param, theirs_param, rtol=1e-4, atol=1e-6), name
        if name == "sgd":
            for param in (*ours.parameters(), *theirs.parameters()):
                nn.init.zeros_(param)
            for is_fused, model, optimizer in zip((True, False), (ours, theirs), optimizers):
                loop._are_plain = lambda params: is_fused
                optimizer.param_groups[0]["lr"] = 1.0
                loop.Updater(model, [optimizer])(key, 9, dict(totals), grid, 8.0)
            for ours_param, theirs_param in zip(ours.parameters(), theirs.parameters(), strict=True):
                assert torch.equal(ours_param, theirs_param), "the noisy gradient, to the last bit"
"""


@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("script", [DRAWN, LIMITS, FURTHER, UPDATE], ids=["drawn", "limits", "further", "update"])
def test_interpreted_kernels(script: str) -> None:
    run_interpreted(script)


@needs_gpu
@pytest.mark.parametrize("stddev", STDDEVS)
def test_a_gpu_draws_the_integers_of_a_cpu(stddev: float) -> None:
    on_gpu = integer_gaussian(KEY, 3, 1_000_001, stddev=stddev, device=torch.device("cuda"))
    assert torch.equal(on_gpu.cpu(), integer_gaussian(KEY, 3, 1_000_001, stddev=stddev))


@needs_gpu
@pytest.mark.parametrize("open_elements", [[(5, 0)], None])
def test_what_the_kernels_leave_open_is_settled_on_the_host(
    open_elements: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An element on an edge that is said to be open, and more than were listed."""
    from hush.training.kernels import noise_cuda

    expected = integer_gaussian(KEY, 3, 100_001, stddev=1e9)
    law = module.BoxLaw.of(1e9)
    first = int(module.Draw(KEY, 3, law).quick(torch.empty(100_001, dtype=torch.int64))[0])
    plain_draw = noise_cuda.draw

    def draw(*args: Any) -> Any:
        integers, _ = plain_draw(*args)
        integers[first] = 0
        return integers, open_elements and [(first, 0)]

    monkeypatch.setattr(noise_cuda, "draw", draw)
    on_gpu = integer_gaussian(KEY, 3, 100_001, stddev=1e9, device=torch.device("cuda"))
    assert torch.equal(on_gpu.cpu(), expected)


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


@needs_gpu
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fused_updates_are_torchs_own(name: str) -> None:
    """Three steps, each in one pass on a GPU, and by torch on a CPU with the same integers."""
    torch.manual_seed(5)
    theirs = nn.Sequential(nn.Linear(70, 90), nn.Linear(90, 3))
    ours = copy.deepcopy(theirs).cuda()
    grid = NoiseGrid.of_sum(clip_norm=1.0, stddev=0.5, size=sum(param.numel() for param in ours.parameters()))
    fused, plain = (OPTIMIZERS[name](model.parameters()) for model in (ours, theirs))
    for step in range(3):
        totals = {key: torch.randn_like(param) for key, param in theirs.named_parameters()}
        Updater(theirs, [plain])(KEY, step, dict(totals), grid, 8.0)
        Updater(ours, [fused])(KEY, step, {key: total.cuda() for key, total in totals.items()}, grid, 8.0)
    for ours_param, theirs_param in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(ours_param.cpu(), theirs_param, rtol=1e-4, atol=1e-6)
    states = [optimizer.state_dict()["state"] for optimizer in (fused, plain)]
    for key, state in states[1].items():
        for entry, value in state.items():
            assert value is None or torch.allclose(states[0][key][entry].cpu(), value.cpu(), rtol=1e-4, atol=1e-6)


@needs_gpu
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
