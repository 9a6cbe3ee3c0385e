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
from hush.training.noise.integer_gaussian import integer_gaussian
from hush.training.noise.noise_grid import NoiseGrid
from training.devices import needs_gpu, run_interpreted

KEY = bytes(range(32))
STDDEVS = [128.0, 3e6, 2.0**23 + 1, 1e9]  # cells of up to 2^16 integers read 32 bits, larger ones 64

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")

WORDS = """
import numpy as np
from hush.randomness import KeyedSource
from hush.training.kernels import noise_cuda

key = bytes(range(32))
for count in (1, 2048, 5000):
    expected = torch.from_numpy(KeyedSource(key, 7 << 60).words(count).view(np.int64))
    assert torch.equal(noise_cuda.words(key, 7 << 60, count, torch.device("cpu")), expected)
"""

QUICK = """
from hush.training.kernels import noise_cuda
from hush.training.noise import integer_gaussian as plain

key, cpu = bytes(range(32)), torch.device("cpu")
for stddev in (128.0, 3e6, 2.0**23 + 1, 1e9):
    law = plain._BoxLaw.of(stddev)
    table = plain.middles(law.histogram, law.shift, cpu)
    values, listed = noise_cuda.quick(key, 3, 9000, table, law.shift, law.num_full)
    tiles = enumerate(zip(listed.places, listed.counts))
    edges = torch.cat([places[:count].long() + tile * listed.tile for tile, (places, count) in tiles])
    expected, expected_edges = plain._Draw(key, 3, law, cpu).quick(9000, 0)
    assert torch.equal(edges, torch.from_numpy(expected_edges)) and len(edges) > 50
    assert torch.equal(edges, torch.nonzero(values == noise_cuda.EDGE).view(-1))
    values[edges], expected[edges] = 0, 0  # not drawn yet
    assert torch.equal(values, expected)
"""

DRAWN = """
from hush.training.kernels import edges_cuda
from hush.training.noise import integer_gaussian as plain

key, cpu = bytes(range(32)), torch.device("cpu")


def drawn(stddev, size, num_spare=None, **others):
    law = plain._BoxLaw.of(stddev)
    names = ("middles", "shift", "num_full", "cumulative", "bases", "rooms", "curve")
    cumulative, bases, rooms = (torch.from_numpy(table) for table in plain._edge_tables(law.histogram, cpu)[:3])
    curve = torch.tensor([law.histogram.height, law.histogram.rho], dtype=torch.float64)
    values = plain.middles(law.histogram, law.shift, cpu), law.shift, law.num_full, cumulative, bases, rooms, curve
    tables = edges_cuda.BoxTables(**dict(zip(names, values)) | others)
    num_candidates = law.num_candidates(size) if num_spare is None else size + num_spare
    return edges_cuda.drawn(key, (3, 3 + (1 << 48)), size, num_candidates, tables)


for stddev in (128.0, 3e6, 2.0**23 + 1, 1e9):
    for size in (0, 1, 5000):
        assert torch.equal(drawn(stddev, size), plain.integer_gaussian(key, 3, size, stddev=stddev)), (stddev, size)
assert drawn(1e9, 5000, num_spare=2) is None, "spare candidates are missing"
assert drawn(1e9, 5000, num_full=0) is None, "more edges than there is room for"
cells = plain._BoxLaw.of(1e9).histogram.full.size
unsure = torch.full((cells + 2,), float("nan"), dtype=torch.float64)
assert drawn(1e9, 5000, bases=unsure) is None, "double precision does not decide"
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
@pytest.mark.parametrize("script", [WORDS, QUICK, DRAWN, UPDATE], ids=["words", "quick", "drawn", "update"])
def test_interpreted_kernels(script: str) -> None:
    run_interpreted(script)


@needs_gpu
@pytest.mark.parametrize("stddev", STDDEVS)
def test_a_gpu_draws_the_integers_of_a_cpu(stddev: float) -> None:
    on_gpu = integer_gaussian(KEY, 3, 1_000_001, stddev=stddev, device=torch.device("cuda"))
    assert torch.equal(on_gpu.cpu(), integer_gaussian(KEY, 3, 1_000_001, stddev=stddev))


@needs_gpu
@pytest.mark.parametrize("stddev", STDDEVS)
def test_what_the_kernels_do_not_settle_is_drawn_again(stddev: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from hush.training.kernels import edges_cuda

    monkeypatch.setattr(edges_cuda, "drawn", lambda *args: None)
    on_gpu = integer_gaussian(KEY, 3, 100_001, stddev=stddev, device=torch.device("cuda"))
    assert torch.equal(on_gpu.cpu(), integer_gaussian(KEY, 3, 100_001, stddev=stddev))


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
