"""Noise vectors of linear models: their distribution, and the error that they mask."""

from __future__ import annotations

import math

import numpy as np

from hush.estimators.linear.noise import gaussian_vector, spherical_vector
from hush.randomness import TestSource


def test_noise_has_its_law() -> None:
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
