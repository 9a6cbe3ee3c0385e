"""Bulk Gaussian noise: shapes, the mixing of draws, and the tails. Its distribution is in `tests/statistical`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hush.errors import InvalidArgument
from hush.randomness import TestSource, standard_normal
from hush.randomness.bulk_noise import MIXED
from randomness.scripted import ScriptedSource

# Four sums of four draws, with signs that are orthogonal to each other.
SIGNS = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2


def words_for(radii: list[int], angles: list[int]) -> list[int]:
    """Return 64-bit words that hold these 32-bit halves: the radii come first, then the angles."""
    return np.array([*radii, *angles], dtype=np.uint32).view(np.uint64).tolist()


def box_muller(radii: NDArray[np.float64], angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the draws as an array of shape [2, 4], in double precision."""
    length = np.sqrt(-2 * np.log((radii + 0.5) / 2**32))
    turn = 2 * math.pi * angles / 2**32
    return np.stack([length * np.cos(turn), length * np.sin(turn)])


def test_each_value_mixes_four_draws_with_orthogonal_signs() -> None:
    radii, angles = [2**31, 2**30, 3 * 2**29, 2**20], [0, 2**29, 2**31 + 12345, 3 * 2**30]
    values = standard_normal(ScriptedSource(words_for(radii, angles)), 2 * MIXED)
    draws = box_muller(np.array(radii, dtype=float), np.array(angles, dtype=float))
    expected = draws @ SIGNS.T
    assert np.allclose(values.reshape(2, MIXED), expected, atol=1e-5)
    # The broken twin that returns the draws themselves, which could be inverted, differs.
    assert not np.allclose(values.reshape(2, MIXED), draws, atol=0.1)


def test_a_radius_with_few_bits_gets_more_of_them() -> None:
    # 32 bits reach sqrt(-2 ln 2^-33) = 6.7 at most. The half 0, refined by 64 small bits, reaches beyond.
    script = [*words_for([0, 2**31, 2**31, 2**31], [0, 0, 0, 0]), 2**10]
    values = standard_normal(ScriptedSource(script), 2 * MIXED)
    largest = math.sqrt(-2 * math.log(2**10 * 2.0**-96))
    others = 3 * math.sqrt(-2 * math.log(0.5))
    assert values.max() == pytest.approx((largest + others) / 2, rel=1e-4)
    assert largest > 10
    # A half of 2^10 is taken as it is: no further words are drawn.
    source = ScriptedSource(words_for([2**10] * 4, [0] * 4))
    standard_normal(source, 2 * MIXED)
    assert source.improvised == 0


def test_any_size() -> None:
    # Equal numbers: 2e-8 of all pairs, by the spacing of single precision. So 25 are expected among 50,001, not 500,
    # and any at all among the first sizes with probability 8e-8.
    for size in (0, 1, 2, 3, (1 << 14) - 1, 1 << 14, (1 << 14) + 1, 50_001):
        sample = standard_normal(TestSource(size), size)
        assert sample.dtype == np.float32
        assert sample.shape == (size,)
        assert np.isfinite(sample).all()
        assert len(np.unique(sample)) >= 0.99 * size


def test_seeds_repeat() -> None:
    assert np.array_equal(standard_normal(TestSource(1), 100), standard_normal(TestSource(1), 100))
    assert not np.array_equal(standard_normal(TestSource(1), 100), standard_normal(TestSource(2), 100))


@pytest.mark.parametrize("size", [-1, 1.0, True, None, "3", math.nan])
def test_wrong_sizes_are_refused(size: Any) -> None:
    with pytest.raises(InvalidArgument, match="^size="):
        standard_normal(TestSource(1), size)
