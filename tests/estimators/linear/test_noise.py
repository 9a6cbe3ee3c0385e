"""Noise vectors of linear models: their distribution, and the error that they mask."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.estimators.linear.noise import gaussian_vector, mask_error, spherical_vector
from hush.randomness import TestSource


def test_noise_has_its_distribution() -> None:
    # False alarms: each beyond 6 standard errors, below 1e-8; the mean direction by exp(-25), below 2e-11.
    source = TestSource("laws")
    norms = [np.linalg.norm(spherical_vector(source, 2.0, 3)[0]) for _ in range(4000)]
    assert abs(np.mean(norms) - 6.0) < 6 * math.sqrt(12 / 4000), "Gamma(3, 2): mean 6, variance 12"
    assert abs(np.var(norms) - 12.0) < 2.6  # +- 0.38
    vectors = np.array([spherical_vector(source, 1.0, 2)[0] for _ in range(4000)])
    angles = np.arctan2(vectors[:, 1], vectors[:, 0])
    assert abs(np.exp(1j * angles).mean()) < 5 / math.sqrt(4000)
    normals, off = gaussian_vector(source, 3.0, 20_000)
    assert abs(np.std(normals) - 3.0) < 0.1
    assert off < 1e-9


@pytest.mark.parametrize("size", [1, 9])
def test_masked_errors_are_hidden_by_laplace_noise(size: int) -> None:
    """Two results at twice the distance, in the worst direction, are hidden at this epsilon; a twin's are not."""
    distance, epsilon = 0.01, 0.5
    corner = np.full(size, distance / math.sqrt(size))
    noise = np.array(
        [
            mask_error(np.zeros(size), distance=distance, epsilon=epsilon, source=TestSource(seed))
            for seed in range(2000)
        ]
    )
    scale = float(np.abs(noise).mean())
    # False alarms: the mean of exponentials has a standard error of 1 / sqrt(2000 size), at most 2.3 %: six of them.
    assert scale == pytest.approx(2 * distance * math.sqrt(size) / epsilon, rel=0.14)
    # What an observer learns at most: the L1 distance over the scale.
    assert 2 * np.abs(corner).sum() / scale <= epsilon * 1.14
    assert 2 * np.abs(corner).sum() / (scale / 2) > epsilon * 1.5, "half the noise would not do"


def test_errors_of_noise_vectors_cover_their_grid() -> None:
    for draw in (gaussian_vector, spherical_vector):
        vector, error = draw(TestSource(1), 3.0, 5)
        assert vector.shape == (5,)
        assert 3.0 * 2.0**-45 <= error < 1e-9
