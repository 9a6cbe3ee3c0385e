"""Wishart noise: its exact delta, its distribution, and a claim of delta = 0 that does not hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from black_box.certainty import audit
from hush.accounting import gaussian_multiplier
from hush.estimators.moments.wishart import WishartNoise, chi_square_delta, wishart_noise
from hush.randomness import TestSource


@pytest.mark.parametrize(("epsilon", "shift", "degrees"), [(0.5, 4.0, 100), (1.0, 0.7, 5), (1.0, 8.0, 40)])
def test_delta_of_chi_square_noise(epsilon, shift, degrees):
    """Against the integral of max(p - e^epsilon q, 0) over both directions."""
    plain, shifted = stats.chi2(degrees), stats.chi2(degrees, loc=shift)
    points = np.linspace(0, plain.isf(1e-15) + shift, 400_001)

    def over(p, q):
        return integrate.simpson(np.maximum(p.pdf(points) - math.exp(epsilon) * q.pdf(points), 0), x=points)

    assert chi_square_delta(epsilon, shift, degrees) == pytest.approx(
        max(over(plain, shifted), over(shifted, plain)), rel=1e-3
    )


def test_a_row_sees_chi_square_noise():
    """The theorem behind the accounting of Wishart noise: 1 / x'W^-1 x is a chi-square variable."""
    noise, x = WishartNoise(6, 20, 1.0), np.array([0.6, 0.0, 0.8, 0.0, 0.0, 0.0])
    source, zeros = TestSource(1), np.zeros((6, 6), dtype=np.int64)
    mean = 20 * np.eye(6)
    draws = [1 / (x @ np.linalg.solve(noise.release(zeros, source) + mean, x)) for _ in range(1000)]
    # Larger samples would detect the grid, a thirtieth of the noise. False alarms: 1e-8. Misses: the twin's law is 0.34
    # away, 15 standard errors more than what has a p-value of 1e-8.
    assert stats.kstest(draws, stats.chi2(15).cdf).pvalue > 1e-8
    assert stats.kstest(draws, stats.chi2(20).cdf).pvalue < 1e-8


def test_wishart_noise_is_calibrated_to_its_delta():
    noise = wishart_noise(5, 1.0, 1e-6)
    shift, degrees = 1 / noise.scale, noise.degrees - 4
    assert chi_square_delta(1.0, shift, degrees) + (1 + math.e) * noise.rounding_probability <= 1e-6
    assert chi_square_delta(1.0, shift * 1.01, degrees) > 1e-6
    assert 1 < noise.stddev / gaussian_multiplier(1.0, 1e-6) < 1.25


def test_wishart_noise_is_not_private_without_a_delta():
    """Jiang, Xie & Zhang 2016 claim epsilon 1, delta 0; their output rules out an absent row 28 times out of 100."""
    noise, row = WishartNoise(2, 3, 1.5), np.array([[1.0, 0.0], [0.0, 0.0]])
    units = (row * 2**32).astype(np.int64)
    source = TestSource(1)

    def ruled_out(totals):
        released = noise.release(totals, source) + 3 * noise.scale * np.eye(2)
        return np.linalg.eigvalsh(released - row)[0] < -0.2  # more than the rounding to grid cells

    without = np.mean([ruled_out(np.zeros((2, 2), dtype=np.int64)) for _ in range(2000)])
    assert 1 - math.exp(-1 / 3) == pytest.approx(0.283, abs=1e-3)
    assert without > 0.15  # it is 0.2: P(Binomial(2000, 0.2) <= 300) = 4e-9
    assert not any(ruled_out(units) for _ in range(2000))


@pytest.mark.parametrize(("noise", "violated"), [(wishart_noise(2, 1.0, 1e-6), False), (WishartNoise(2, 3, 1.5), True)])
def test_wishart_black_box(noise, violated):
    """The second is the mechanism of Jiang, Xie & Zhang at epsilon 1."""
    x = np.array([1.0, 0.0])
    mean = noise.degrees * noise.scale * np.eye(2)

    def run(totals, source):
        released = noise.release(totals, source) + mean + 0.01 * np.eye(2)
        return [float(1 / (x @ np.linalg.solve(released, x)))]

    first = np.zeros((2, 2), dtype=np.int64)
    second = (np.outer(x, x) * 2**32).astype(np.int64)
    result = audit(run, first, second, samples=2000, search_samples=400, delta=1e-6, source=TestSource(1))
    assert result.compare(1.0).violated is violated
