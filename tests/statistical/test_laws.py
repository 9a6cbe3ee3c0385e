"""Every sampler has its exact distribution, and a scale that is 3 % off, to either side, is noticed.

False alarms: see `budget`. A wrong scale is missed with probability 2e-11 at most (geometric noise of scale 0.5;
elsewhere 4e-14), by the score test's mean and deviation under that distribution, where the alarm is at 5.9 deviations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import kstest, norm

from hush import randomness as hush
from hush.randomness import RandomSource, TestSource
from statistical import laws
from statistical.budget import COMPARISONS, THRESHOLD
from statistical.budget import test_budget as test_budget

Noise = NDArray[Any]
SMALL_SIZE = 8  # up to here, the samplers draw without NumPy


def in_one(sampler: Callable[[RandomSource, float, int], Noise]) -> Callable[[RandomSource, float, int], Noise]:
    return sampler


def by_eight(sampler: Callable[[RandomSource, float, int], Noise]) -> Callable[[RandomSource, float, int], Noise]:
    """Return a sampler that draws eight values at a time, by the path without NumPy."""
    return lambda source, scale, size: np.concatenate(
        [sampler(source, scale, SMALL_SIZE) for _ in range(size // SMALL_SIZE)]
    )


def cauchy(source: RandomSource, scale: float, size: int) -> Noise:
    return np.array([hush.floored_cauchy(source, Fraction(scale)) for _ in range(size)], dtype=np.float64)


def uniform(source: RandomSource, scale: float, size: int) -> Noise:
    return hush.uniform_below(source, round(scale), size)


@dataclass(frozen=True)
class Case:
    name: str
    draw: Callable[[RandomSource, float, int], Noise]
    law: laws.Law
    scale: float
    size: int
    wrong: float  # the controls' error


SAMPLERS: list[tuple[Any, laws.Law, list[float]]] = [
    (hush.discrete_laplace, laws.discrete_laplace, [0.4, 1.0, 5.0, 16.0, 33.3, 1e5]),
    (hush.discrete_gaussian, laws.discrete_gaussian, [0.4, 1.0, 5.0, 16.0, 33.3, 1e5]),
    (hush.floored_laplace, laws.floored_laplace, [1.0, 17.0, 1e6, 2.0**40, 1.1e15]),
    (hush.floored_gaussian, laws.floored_gaussian, [1.1e6, 1e9, 2.0**40, 1.1e15]),
    (hush.geometric, laws.geometric, [0.5, 3.0, 100.0, 2.0**40]),
]

# Slow samplers draw fewer values, so their controls have a larger error.
CASES = [
    Case(f"{sampler.__name__} {path.__name__} {scale:.4g}", path(sampler), law, scale, size, wrong)
    for sampler, law, scales in SAMPLERS
    for path, size, wrong in (
        (in_one, 250_000, 0.03),
        (by_eight, 40_000 if "gaussian" in sampler.__name__ else 80_000, 0.05),
    )
    for scale in (scales if path is in_one else scales[2:3])
] + [
    Case("floored_cauchy 2^40", cauchy, laws.floored_cauchy, 2.0**40, 16_000, 0.2),
    Case("uniform_below 50", uniform, laws.uniform_below, 50.0, 100_000, 0.03),
    Case("uniform_below 2^60", uniform, laws.uniform_below, 2.0**60, 100_000, 0.03),
]


def test_comparisons_are_counted() -> None:
    # Two for each case, and two for the normal distribution.
    assert 2 * len(CASES) + 2 <= COMPARISONS["laws"]


def is_slow(case: Case) -> bool:
    """Of a sampler's scales the smallest and the largest are quick."""
    return any(
        case.name.startswith(f"{sampler.__name__} in_one") and case.scale in scales[1:-1]
        for sampler, _, scales in SAMPLERS
    )


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=[pytest.mark.slow] * is_slow(case)) for case in CASES]
)
def test_the_distribution_is_right_and_a_wrong_scale_is_noticed(case: Case) -> None:
    sample = case.draw(TestSource(case.name), case.scale, case.size)
    assert min(laws.p_values(sample, case.law, case.scale)) > THRESHOLD
    for factor in (1 - case.wrong, 1 + case.wrong):
        assert min(laws.p_values(sample, case.law, case.scale * factor)) < THRESHOLD, factor


def normal_p_values(sample: Noise) -> list[float]:
    """Return the p-values of a Kolmogorov-Smirnov test, and of the variance."""
    score = (np.mean(sample.astype(np.float64) ** 2) - 1) * np.sqrt(len(sample) / 2)
    return [float(kstest(sample.astype(np.float64), "norm").pvalue), 2 * float(norm.sf(abs(score)))]


def test_bulk_normals() -> None:
    sample = hush.standard_normal(TestSource("bulk"), 1_000_001)
    assert sample.dtype == np.float32
    assert sample.shape == (1_000_001,)
    assert min(normal_p_values(sample)) > THRESHOLD
    for factor in (0.98, 1.02):
        assert min(normal_p_values(sample * factor)) < THRESHOLD
