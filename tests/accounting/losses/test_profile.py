"""Profiles: convex curves that fall from at most 1, and the function that keeps their relative accuracy."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from accounting.losses.cases import EVERY_CASE, Case, pairs
from hush.accounting.losses.noise_profiles import GaussianProfile, LaplaceProfile, RandomizedResponseProfile
from hush.accounting.losses.profile import ULP, DominatingPair, PointwiseMax, tail_gap


@EVERY_CASE
def test_the_profile_falls_from_below_one_and_is_convex(case: Case) -> None:
    for pair in pairs(case):
        for profile in (pair.forward, pair.backward):
            epsilon = np.linspace(0, 8, 4001)
            values = profile.delta(epsilon)
            assert np.all((values >= 0) & (values <= 1))
            assert np.all(np.diff(values) <= 1e-14)
            slopes = np.diff(values) / np.diff(np.exp(epsilon))
            assert np.all(np.diff(slopes) >= -1e-9)
            if profile.max_loss < math.inf:
                beyond = profile.delta(profile.max_loss + np.array([0.0, 0.5, 5.0]))
                assert np.ptp(beyond) <= 1e-15, "the profile is constant from its largest loss on"


@pytest.mark.parametrize("low", [-30.0, -3.0, -1e-9, 0.0, 0.5, 4.0, 30.0])
@pytest.mark.parametrize("step", [1e-6, 0.01, 1.0, 20.0])
def test_the_gap_of_two_tails_keeps_its_relative_accuracy(low: float, step: float) -> None:
    with mpmath.workdps(60):
        a, b = mpmath.mpf(low), mpmath.mpf(low) + mpmath.mpf(step)
        ratio = mpmath.exp((b**2 - a**2) / 2)
        exact = mpmath.ncdf(-a) - ratio * mpmath.ncdf(-b)
        value = float(tail_gap(np.array([low]), step)[0])
        if exact > mpmath.mpf("1e-300"):
            assert abs(value - exact) <= exact * ULP * 200 * (abs(low) ** 2 + 1 + 1 / step)


def test_the_gap_is_never_negative_and_never_overflows() -> None:
    values = tail_gap(np.linspace(-50, 50, 1001), 5.0)
    assert np.isfinite(values).all()
    assert (values >= 0).all()


def test_the_worst_of_several_profiles() -> None:
    parts = (GaussianProfile(1.0), LaplaceProfile(2.0), RandomizedResponseProfile(0.5, failure=0.01))
    worst = PointwiseMax(parts)
    epsilon = np.linspace(0, 5, 200)
    assert np.array_equal(worst.delta(epsilon), np.max([part.delta(epsilon) for part in parts], axis=0))
    assert worst.max_loss == math.inf
    assert worst.failure == 0.01
    assert worst.relative_error == max(part.relative_error for part in parts)


def test_a_pair_can_be_swapped() -> None:
    first, second = GaussianProfile(1.0), LaplaceProfile(2.0)
    pair = DominatingPair(first, second)
    assert (pair.swapped().forward, pair.swapped().backward) == (second, first)
    assert DominatingPair.symmetric(first).swapped() == DominatingPair.symmetric(first)


def test_corners_are_multiples_of_the_period() -> None:
    assert GaussianProfile(1.0).corners(5).size == 0
    assert RandomizedResponseProfile(0.5).corners(3).tolist() == [0.5, 1.0, 1.5]
