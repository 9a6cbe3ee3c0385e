"""Directions from the Bingham distribution, against closed forms and integrals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import ive

from hush.estimators.moments.bingham import bingham
from hush.randomness import TestSource


@pytest.mark.parametrize("strength", [0.0, 1.5, 40.0])
@pytest.mark.quick_cases(1)
def test_directions_have_the_bingham_distribution(strength):
    """In the plane, e^(k cos^2 t): the angle 2 t is von Mises with k / 2."""
    source, turn = TestSource(1), np.array([[0.6, -0.8], [0.8, 0.6]])
    matrix = turn @ np.diag([strength, 0.0]) @ turn.T
    drawn = np.array([bingham(matrix, source) for _ in range(1500)]) @ turn
    angles = np.angle((drawn[:, 0] + 1j * drawn[:, 1]) ** 2)
    # False alarms: 1e-8, and 6.5 standard errors of a mean. Misses: the twins' laws are 0.16 away or more, six standard
    # errors beyond what has a p-value of 1e-8.
    assert stats.kstest(angles, stats.vonmises(max(strength / 2, 1e-12)).cdf).pvalue > 1e-8
    assert stats.kstest(angles, stats.vonmises(strength * 2 + 2).cdf).pvalue < 1e-8
    expected = 0.5 + 0.5 * ive(1, strength / 2) / ive(0, strength / 2)
    assert np.mean(drawn[:, 0] ** 2) == pytest.approx(expected, abs=0.06)


def test_directions_in_space():
    source, below = TestSource(1), np.array([0.0, 2.0, 6.0])
    drawn = np.array([bingham(np.diag(-below), source) for _ in range(3000)])
    grid = np.random.default_rng(0).normal(size=(400_000, 3))
    grid /= np.linalg.norm(grid, axis=1, keepdims=True)
    weights = np.exp(-(grid**2) @ below)
    # False alarms: the standard error of a mean of 3000 is 0.0046: 6.5 of them.
    assert (drawn**2).mean(axis=0) == pytest.approx(weights @ grid**2 / weights.sum(), abs=0.03)


@pytest.mark.parametrize("size", [1, 2, 20, 21, 45, 47, 49, 93])
def test_a_zero_matrix_has_a_random_direction(size):
    direction = bingham(np.zeros((size, size)), TestSource(1))
    assert np.linalg.norm(direction) == pytest.approx(1)
