"""Exact samplers: the two paths agree, extreme scales work, wrong arguments are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from hush.errors import InvalidArgument
from hush.randomness import (
    MAX_SCALE,
    RandomSource,
    TestSource,
    discrete_gaussian,
    discrete_laplace,
    floored_gaussian,
    floored_laplace,
    geometric,
)
from hush.randomness import exact_samplers as exact_module
from hush.randomness.source import SystemSource

Sampler = Callable[[RandomSource, float, int], Any]
SAMPLERS: list[Sampler] = [discrete_laplace, discrete_gaussian, floored_laplace, floored_gaussian, geometric]
PAIRS = [
    (sampler, scale)
    for sampler in SAMPLERS
    for scale in (0.01, 0.3, 1.0, 7.5, 16.0, 31.99, 1000.0, 2.0**20, 1e9, 2.0**41, 2.0**50)
    if sampler is not floored_gaussian or scale >= 2.0**20
]


def named(value: Any) -> str:
    return getattr(value, "__name__", None) or f"{value:.4g}"


@pytest.mark.parametrize(("sampler", "scale"), PAIRS, ids=named)
@pytest.mark.parametrize("size", [8, 60])
@pytest.mark.quick_cases(31)
def test_deciding_everything_exactly_changes_nothing(
    sampler: Sampler, scale: float, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 64 bits decide in either arithmetic but for one draw in 2^50, so the same words give the same noise.
    fast = sampler(TestSource("exact"), scale, size).tolist()
    for tolerance in ("_FLOOR_ERROR", "_SMALL_WORD", "_ACCEPT_ERROR"):
        monkeypatch.setattr(exact_module, tolerance, 1e300)
    assert sampler(TestSource("exact"), scale, size).tolist() == fast


def test_the_tolerances_cover_the_errors_of_floating_point() -> None:
    # The slow path is rare: were it not, the tolerances would be too wide for the speed that is promised.
    calls = 0
    original = exact_module.floor_exponential

    def counted(*arguments: Any) -> int:
        nonlocal calls
        calls += 1
        return original(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_module, "floor_exponential", counted)
        floored_laplace(TestSource("rare"), 2.0**40, 2_000_000)
    assert calls <= binom.isf(1e-9, 3_000_000, 1e-6)  # false alarms: 1e-9 at the rate that is promised


@pytest.mark.parametrize(("sampler", "scale"), PAIRS, ids=named)
def test_sizes_and_types(sampler: Sampler, scale: float) -> None:
    for size in (0, 1, 2, 7, 8, 9, 10, np.int64(33), 20_000):
        noise = sampler(SystemSource(), scale, size)
        assert noise.dtype == np.int64
        assert noise.shape == (size,)
    # 50 scales are exceeded once in 10^21 draws, if nothing overflows: false alarms 2e-17.
    assert np.abs(noise.astype(np.float64)).max() <= 50 * scale + 1
    assert sampler is not geometric or noise.min() >= 0


@pytest.mark.parametrize("sampler", [discrete_laplace, discrete_gaussian, floored_laplace, geometric], ids=named)
@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-12, 1e-6])
def test_hardly_any_noise(sampler: Sampler, scale: float) -> None:
    for size in (3, 30):
        noise = sampler(TestSource("little"), scale, size)
        assert set(noise.tolist()) <= ({0, -1} if sampler is floored_laplace else {0})


@pytest.mark.parametrize("sampler", SAMPLERS, ids=named)
@pytest.mark.parametrize("size", [8, 9])
def test_the_largest_scale(sampler: Sampler, size: int) -> None:
    noise = np.concatenate([sampler(TestSource(seed), MAX_SCALE, size) for seed in range(40)]).astype(np.float64)
    spread = {discrete_gaussian: 0.6745, floored_gaussian: 0.6745}.get(sampler, math.log(2))
    below = np.count_nonzero(np.abs(noise) < spread * MAX_SCALE)
    assert binom.ppf(1e-9, len(noise), 0.5) <= below <= binom.isf(1e-9, len(noise), 0.5)  # false alarms: 2e-9


@pytest.mark.parametrize("sampler", SAMPLERS, ids=named)
@pytest.mark.parametrize("scale", [0, 0.0, -1.0, math.nan, math.inf, -math.inf, True, 2.0**50 * (1 + 2**-52), 10**400])
def test_wrong_scales_are_refused(sampler: Sampler, scale: Any) -> None:
    for size in (0, 1, 100):
        with pytest.raises(InvalidArgument, match="^(scale|sigma)="):
            sampler(TestSource(1), scale, size)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=named)
@pytest.mark.parametrize("size", [-1, 1.0, 0.5, True, None, "3", math.nan])
def test_wrong_sizes_are_refused(sampler: Sampler, size: Any) -> None:
    with pytest.raises(InvalidArgument, match="^size="):
        sampler(TestSource(1), 2.0**20, size)


def test_a_coarse_grid_is_refused_for_the_floored_gaussian() -> None:
    with pytest.raises(InvalidArgument, match="finer grid"):
        floored_gaussian(TestSource(1), 2.0**20 - 1, 3)
    assert len(floored_gaussian(TestSource(1), 2.0**20, 3)) == 3


@pytest.mark.parametrize(("sampler", "scale"), PAIRS, ids=named)
def test_seeds_repeat(sampler: Sampler, scale: float) -> None:
    for size in (5, 50):
        assert np.array_equal(sampler(TestSource(3), scale, size), sampler(TestSource(3), scale, size))
