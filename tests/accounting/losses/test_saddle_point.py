"""Saddle points: cumulants of known losses, and the tilt at which a Gaussian's delta is decided."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.accounting.losses.noise_profiles import GaussianProfile, RandomizedResponseProfile
from hush.accounting.losses.profile import DominatingPair
from hush.accounting.losses.saddle_point import CumulantFunction, bisect, find_saddle

GAUSSIAN = DominatingPair.symmetric(GaussianProfile(0.5))
RESPONSE = DominatingPair.symmetric(RandomizedResponseProfile(0.8))


@pytest.mark.parametrize("tilt", [0.3, 1.0, 5.0])
def test_cumulants_of_a_gaussian_loss(tilt: float) -> None:
    # The loss of a Gaussian is N(mu^2 / 2, mu^2): K(c) = c mu^2 / 2 + c^2 mu^2 / 2, times the count.
    moments = CumulantFunction.of([(GAUSSIAN, 9)], 1e-20)
    value, mean, variance, weights = moments.at(tilt)
    assert value == pytest.approx(9 * 0.25 / 2 * tilt * (1 + tilt), rel=1e-2)
    assert mean == pytest.approx(9 * 0.25 * (0.5 + tilt), rel=1e-2)
    assert variance == pytest.approx(9 * 0.25, rel=2e-2)
    assert weights.sum() == pytest.approx(1)


def test_cumulants_of_two_parts_add_up() -> None:
    together = CumulantFunction.of([(GAUSSIAN, 3), (RESPONSE, 5)], 1e-15)
    apart = [CumulantFunction.of([part], 1e-15) for part in ((GAUSSIAN, 3), (RESPONSE, 5))]
    for index in range(3):
        assert together.at(2.0)[index] == pytest.approx(sum(moments.at(2.0)[index] for moments in apart))


def test_large_tilts_do_not_overflow() -> None:
    moments = CumulantFunction.of([(RESPONSE, 10)], 1e-15)
    value, mean, variance, _ = moments.at(1e4)
    assert math.isfinite(value)
    assert mean == pytest.approx(8.0)  # all of the weight is on the largest loss
    assert abs(variance) < 1e-6


@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-30])
def test_the_saddle_point_of_a_delta_estimates_its_epsilon(delta: float) -> None:
    # Sixteen Gaussians of mu = 1/2 are one of mu = 2.
    saddle = find_saddle(CumulantFunction.of([(GAUSSIAN, 16)], delta * 1e-10), log_delta=math.log(delta))
    exact = GaussianProfile(2.0)
    assert saddle.log_delta == pytest.approx(math.log(delta), abs=0.1)
    assert math.log(float(exact.delta(np.array([saddle.epsilon]))[0])) == pytest.approx(math.log(delta), abs=0.15)
    assert saddle.spread == pytest.approx(2.0, rel=0.2)


def test_the_saddle_point_of_an_epsilon_estimates_its_delta() -> None:
    saddle = find_saddle(CumulantFunction.of([(GAUSSIAN, 16)], 1e-30), epsilon=8.0)
    assert saddle.epsilon == pytest.approx(8.0, abs=0.02)
    assert saddle.log_delta == pytest.approx(math.log(float(GaussianProfile(2.0).delta(np.array([8.0]))[0])), abs=0.15)


def test_bisection_ends_at_the_sign_change_or_at_an_end() -> None:
    assert bisect(lambda x: x - 0.3, 0.0, 1.0, 1e-9) == pytest.approx(0.3)
    assert bisect(lambda x: -1.0, 0.0, 1.0, 1e-9) == pytest.approx(1.0)
    assert bisect(lambda x: 1.0, 0.0, 1.0, 1e-9) == pytest.approx(0.0, abs=1e-8)
