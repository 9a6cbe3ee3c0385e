"""The grid of noisy sums: public, fine enough, exact; and where it cannot be, refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hush.errors import InvalidArgument
from hush.randomness import TestSource
from hush.training import Adaptive, Projected, privatize
from hush.training.noise.noise_grid import SHARE, NoiseGrid
from hush.training.per_example.norms import rounding_slack

SIZES = st.integers(1, 10**10)


@given(
    clip_norm=st.floats(1e-12, 1e12),
    multiplier=st.floats(1e-3, 1e3),
    size=SIZES,
    gain=st.sampled_from([0.0, 2.0, 50.0]),
)
def test_rounding_is_a_small_share_of_the_clip_norm(
    clip_norm: float, multiplier: float, size: int, gain: float
) -> None:
    stddev = multiplier * clip_norm
    try:
        grid = NoiseGrid.of_sum(clip_norm=clip_norm, stddev=stddev, size=size, rounding_gain=gain)
    except InvalidArgument:
        assert multiplier * math.sqrt(size) * (1 + gain) > 2.0**30
        return
    assert math.frexp(grid.spacing)[0] == 0.5
    assert math.sqrt(size) * grid.spacing * (1 + gain) <= SHARE * clip_norm
    assert grid.stddev * grid.spacing == stddev
    assert 2.0**7 <= grid.stddev <= 2.0**44
    # What is clipped away pays for it: a contribution and its rounding stay within the clip norm.
    assert clip_norm * (1 - rounding_slack()) + math.sqrt(size) * grid.spacing < clip_norm


def test_noise_that_double_precision_could_not_hold_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="^noise_multiplier="):
        NoiseGrid.of_sum(clip_norm=1.0, stddev=1e9, size=10**9)


@given(values=st.lists(st.floats(-1e300, 1e300, width=64), min_size=1, max_size=20), noise=st.integers(-(2**46), 2**46))
def test_a_noisy_sum_is_a_multiple_of_the_spacing(values: list[float], noise: int) -> None:
    """By integers of Python: the nearest multiple plus the noise, at most 2^50."""
    grid = NoiseGrid(2.0**-20, 1e6)
    total = torch.tensor(values, dtype=torch.float64)
    out = grid.noisy(total, torch.full((len(values),), noise), 1.0, torch.empty(len(values), dtype=torch.float64))
    for value, result in zip(values, out.tolist(), strict=True):
        nearest = max(min(round(value / grid.spacing), 2**50), -(2**50))
        assert result / grid.spacing == nearest + noise


def test_what_is_not_finite_is_bounded() -> None:
    grid = NoiseGrid(2.0**-20, 1e6)
    total = torch.tensor([math.nan, math.inf, -math.inf])
    out = grid.noisy(total, torch.tensor([5, 6, 7]), 2.0, torch.empty(3, dtype=torch.float64))
    assert (out * 2.0 / grid.spacing).tolist() == [5, 2**50 + 6, -(2**50) + 7]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_chunks_and_types_change_nothing(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = NoiseGrid(2.0**-20, 1e6)
    total, noise = torch.randn(1000, dtype=dtype), torch.randint(-(10**7), 10**7, (1000,))
    expected = (torch.round(total.double() * 2.0**20) + noise) * (2.0**-20 / 3.0)
    monkeypatch.setattr("hush.training.noise.noise_grid._CHUNK", 64)
    for values in (noise, noise.double()):
        assert torch.equal(grid.noisy(total, values, 3.0, torch.empty(1000)), expected.float())
        before = values.clone()
        alone = grid.noisy(None, values, 3.0, torch.empty(1000))
        assert torch.equal(alone, (noise.double() * (2.0**-20 / 3.0)).float())
        assert torch.equal(values, before), "noise that is kept for later steps stays what it is"


def test_the_count_of_adaptive_clipping_is_on_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halves are multiples of its spacing, so that rounding changes nothing."""
    grids = []
    original = NoiseGrid.of_sum

    def recorded(**settings: Any) -> NoiseGrid:
        grids.append((settings["size"], original(**settings)))
        return grids[-1][1]

    monkeypatch.setattr(NoiseGrid, "of_sum", recorded)
    model = torch.nn.Linear(3, 1)
    private = privatize(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        (torch.randn(50, 3),),
        clipping=Adaptive(1.0),
        noise_multiplier=1.0,
        delta=1e-3,
        num_steps=2,
        source=TestSource(1),
    )
    for (x,) in private.loader:
        private.step(private.model(x).sum(1))
    assert [size for size, _ in grids] == [1, 4, 1, 4]
    assert all((0.5 / grid.spacing).is_integer() for size, grid in grids if size == 1)


def test_projected_contributions_get_a_finer_grid() -> None:
    """Their event counts on sensitivities below the clip norm: rounding is a small share of these, too."""
    sizes = {"clip_norm": 1.0, "stddev": 1.0, "size": 1000}
    finer = NoiseGrid.of_sum(**sizes, smallest_share=Projected.smallest_share)  # type: ignore[arg-type]
    assert finer.spacing == NoiseGrid.of_sum(**sizes).spacing * 2.0**-20  # type: ignore[arg-type]
