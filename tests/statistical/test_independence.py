"""Noise is independent of the noise next to it, and of the noise at the same position of another chunk."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from hush import randomness as hush
from hush.randomness import RandomSource, TestSource
from statistical.budget import COMPARISONS, THRESHOLD

SIZE = 300_000
LAGS = (1, 2, 8, 1 << 13, 1 << 14)

DRAWS: dict[str, Callable[[RandomSource], NDArray[np.float64]]] = {
    "discrete Laplace": lambda source: hush.discrete_laplace(source, 20.0, SIZE),
    "discrete Gaussian": lambda source: hush.discrete_gaussian(source, 20.0, SIZE),
    "floored Laplace": lambda source: hush.floored_laplace(source, 2.0**40, SIZE),
    "floored Gaussian": lambda source: hush.floored_gaussian(source, 2.0**40, SIZE),
    "bulk normal": lambda source: hush.standard_normal(source, SIZE),
}


def p_value(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the p-value of the correlation. Tails are cut so that it is close to Gaussian."""
    first, second = (np.clip(part, *np.quantile(part, [0.001, 0.999])) for part in (first, second))
    return 2 * float(norm.sf(abs(np.corrcoef(first, second)[0, 1]) * math.sqrt(len(first))))


def p_values(noise: NDArray[np.float64]) -> list[float]:
    """Return the p-values of the noise and of its absolute value, at every lag."""
    noise = noise.astype(np.float64)
    return [p_value(part[:-lag], part[lag:]) for part in (noise, np.abs(noise)) for lag in LAGS]


def halves(noise: NDArray[np.float64]) -> list[float]:
    """Return the p-values of the two halves, which are the cosines and the sines of the same angles."""
    first, second = np.split(noise.astype(np.float64), 2)
    return [p_value(first, second), p_value(first**2, second**2), p_value(first, second**2), p_value(first**2, second)]


def test_comparisons_are_counted() -> None:
    assert len(DRAWS) * 2 * len(LAGS) + 4 + 1 <= COMPARISONS["independence"]


@pytest.mark.parametrize("name", DRAWS)
def test_no_serial_correlation(name: str) -> None:
    noise = DRAWS[name](TestSource(name))
    assert min(p_values(noise)) > THRESHOLD
    # Controls: 3 % of the preceding value is added; the size, but not the sign, depends on the preceding value. They
    # lie 16 and 19 standard deviations out, the alarm is at 5.9: either is missed with probability 1e-20 at most.
    scaled = noise / noise.std()
    assert min(p_values(scaled[1:] + 0.03 * scaled[:-1])) < THRESHOLD
    assert min(p_values(scaled[1:] * (1 + 0.05 * np.abs(scaled[:-1])))) < THRESHOLD


def test_cosines_and_sines_are_independent() -> None:
    noise = DRAWS["bulk normal"](TestSource("halves"))
    assert min(halves(noise)) > THRESHOLD
    # Control: the sines of one draw of four use the radius of the wrong half, so that both grow together, by 15
    # standard deviations.
    first, second = np.split(noise.astype(np.float64), 2)
    assert min(halves(np.concatenate([first, second * (0.98 + 0.02 * first**2)]))) < THRESHOLD


def test_two_sources_are_independent() -> None:
    # The same seed gives the correlation 1, another one gives none.
    first, second = (hush.standard_normal(TestSource(seed), SIZE).astype(np.float64) for seed in (1, 2))
    assert p_value(first, second) > THRESHOLD
    assert p_value(first, hush.standard_normal(TestSource(1), SIZE).astype(np.float64)) < THRESHOLD
