"""Limits from noisy counts by powers of two, on tables of known shape."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hush.randomness import TestSource, discrete_laplace
from hush.statistics.noise.levels import NUM_LEVELS, choose_limit

SCALE = 10.0  # a tenth of epsilon 1
DRAWS = 200


def levels(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.bincount(np.ceil(np.log2(sizes)).astype(int), minlength=NUM_LEVELS)


def limits(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the limits of many draws. The seed is fixed, so the test cannot fail by chance."""
    noise = discrete_laplace(TestSource("levels"), SCALE, DRAWS * NUM_LEVELS).reshape(DRAWS, NUM_LEVELS)
    return np.array([choose_limit(levels(sizes) + row, SCALE).limit for row in noise])


TABLES = {
    "one row each": (np.ones(5000, dtype=np.int64), 1),
    "1 to 199 rows": (np.arange(10_000) % 199 + 1, 256),
    "nobody has few": (np.full(2000, 40), 64),
    "a second kind of unit, far from the first": (np.r_[np.ones(5000, dtype=np.int64), np.full(200, 1000)], 1024),
    "a small table": (np.arange(300) % 8 + 1, 8),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_limit_is_what_units_have(name: str) -> None:
    sizes, wanted = TABLES[name]
    chosen = limits(sizes)
    assert np.mean(chosen == wanted) > 0.75
    assert np.mean((chosen == wanted) | (chosen == 2 * wanted)) > 0.9
    assert chosen.max() <= 16 * wanted  # no limit in the millions


@pytest.mark.parametrize("num_units", [0, 1, 5, 20, 60])
def test_a_handful_of_units_get_a_small_limit(num_units: int) -> None:
    """No level stands out. The fullest one would be one of 25 at random: half of the limits were above 1,000."""
    chosen = limits(np.ones(num_units, dtype=np.int64))
    assert np.median(chosen) <= 4
    assert np.mean(chosen <= 64) > 0.9


def test_a_few_units_that_are_spread_are_found() -> None:
    """120 units with 20 to 200 rows, in four levels. None is sure to stand out, and none of 25 empty ones is taken."""
    chosen = limits(np.linspace(20, 200, 120).astype(np.int64))
    assert np.mean((chosen >= 256) & (chosen <= 1024)) > 0.9
    assert chosen.max() <= 4096


def test_one_heavy_unit_does_not_set_the_limit() -> None:
    """No private limit can hold for a single unit: it would tell that the unit is there."""
    chosen = limits(np.r_[np.ones(5000, dtype=np.int64), [1 << 20]])
    assert np.mean(chosen <= 2) > 0.95


@pytest.mark.parametrize("shape", ["empty", "negative"])
def test_noise_alone(shape: str) -> None:
    counts = np.zeros(NUM_LEVELS, dtype=np.int64) if shape == "empty" else np.full(NUM_LEVELS, -50)
    choice = choose_limit(counts, SCALE)
    assert choice.limit == 1
    assert choice.beyond == 0.0


def test_the_number_beyond_is_within_its_error() -> None:
    """The sum of at most 24 Laplace variables is nearly Gaussian, so 95 % of draws should be within the error."""
    sizes = np.r_[np.full(2000, 40), np.full(30, 5000)]
    noise = discrete_laplace(TestSource("beyond"), SCALE, DRAWS * NUM_LEVELS).reshape(DRAWS, NUM_LEVELS)
    hits = []
    for row in noise:
        choice = choose_limit(levels(sizes) + row, SCALE)
        hits.append(abs((sizes > choice.limit).sum() - choice.beyond) <= choice.beyond_error)
    assert np.mean(hits) > 0.9


def test_the_last_level_is_the_highest_limit() -> None:
    counts = np.zeros(NUM_LEVELS, dtype=np.int64)
    counts[-1] = 1000
    assert choose_limit(counts, SCALE).limit == 2 ** (NUM_LEVELS - 1)
    assert choose_limit(counts, SCALE).beyond == 0.0
