"""Noise in a cube: its distribution, against exact weights and wrong scales."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.errors import InvalidArgument
from hush.estimators.partitions.cube_noise import cube_deviation, cube_noise
from hush.randomness import TestSource


@pytest.mark.parametrize("dimension", [1, 3])
def test_cube_noise_has_its_distribution(dimension):
    """Largest coordinates against their exact distribution; a scale that is off by 20 % is detected."""
    draws = np.abs(cube_noise(TestSource(1), 3.0, dimension, 6000)).max(axis=1)

    def deviance(scale):
        sides = np.arange(200)
        shells = (2 * sides + 1.0) ** dimension - np.maximum(2 * sides - 1.0, 0) ** dimension * (sides > 0)
        law = shells * np.exp(-sides / scale)
        counts = np.bincount(np.minimum(draws, 12), minlength=13)
        expected = np.append(law[:12], law[12:].sum()) / law.sum() * len(draws)
        return ((counts - expected) ** 2 / expected).sum()  # chi squared, 12 degrees of freedom

    # False alarms: P(chi squared > 65) = 3e-9. Misses: that of a twin is not central, by 172 or more, and below 65 with
    # 1e-8.
    assert deviance(3.0) < 65
    assert min(deviance(2.4), deviance(3.6)) > 65


def test_noise_is_uniform_in_its_cube_and_has_the_stated_deviation():
    # False alarms: the three deviations have normal limits. Standard errors are 0.9 % (of the deviation), 1 (of means,
    # eight of them) and 0.0043 (of quantiles, over 60 other seeds): beyond 6 of them with 2e-9, each.
    noise = cube_noise(TestSource(2), 1e5, 8, 2000)
    assert noise.std() == pytest.approx(cube_deviation(1e5, 8), rel=0.06)
    assert np.abs(noise.mean(axis=0)).max() < 6 * cube_deviation(1e5, 8) / math.sqrt(2000)
    inside = noise / np.abs(noise).max(axis=1, keepdims=True)
    assert np.quantile(np.abs(inside[np.abs(inside) < 1]), [0.25, 0.5, 0.75]) == pytest.approx(
        [0.25, 0.5, 0.75], abs=0.03
    )


def test_noise_beyond_64_bits_is_refused_by_its_scale():
    with pytest.raises(
        InvalidArgument, match=r"^scale=1e\+11: expected a number > 0 of at most 2\^34\. .* larger epsilon"
    ):
        cube_noise(TestSource(1), 1e11, 3, 1)
