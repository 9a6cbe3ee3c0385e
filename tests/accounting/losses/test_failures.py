"""Failures: exact composition, to the safe side, of the probability of an infinite loss."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.accounting.losses.failures import any_failure, float_down, float_up, split_failure, states_failure
from hush.accounting.losses.noise_profiles import GaussianProfile, RandomizedResponseProfile
from hush.accounting.losses.profile import DominatingPair, PointwiseMax
from hush.accounting.losses.sampled_profiles import SampledAddition, SampledRemoval
from hush.accounting.losses.solver import ComposedLoss

symmetric = DominatingPair.symmetric


def delta_of_claims(epsilon: float, claim: float, failure: float, count: int) -> mpmath.mpf:
    """Return the exact delta of ``count`` claims (Kairouz, Oh & Viswanath 2015, Theorem 3.3), in sixty digits."""
    with mpmath.workdps(60):
        first, target = mpmath.mpf(claim), mpmath.mpf(epsilon)
        gaps = (
            math.comb(count, k) * max(mpmath.exp((count - k) * first) - mpmath.exp(target + k * first), 0)
            for k in range(count + 1)
        )
        bounded = sum(gaps) / (1 + mpmath.exp(first)) ** count
        return 1 - (1 - mpmath.mpf(failure)) ** count * (1 - bounded)


@pytest.mark.parametrize("margin", [2.0**-50, 1e-12, 1e-9, 1e-3])
@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_failures_may_use_almost_all_of_delta(count: int, margin: float) -> None:
    """Truncated tails and rounding errors were once paid out of delta, and nothing was left: epsilon was infinite."""
    failure = 1e-6 / count * (1 - margin)
    loss = ComposedLoss([(symmetric(RandomizedResponseProfile(0.3, failure=failure)), count)])
    epsilon = loss.epsilon_upper(1e-6)
    assert epsilon <= 0.3 * count
    assert delta_of_claims(epsilon, 0.3, failure, count) <= mpmath.mpf(1e-6)
    assert delta_of_claims(epsilon * (1 - 1e-5), 0.3, failure, count) > mpmath.mpf(1e-6), "tight"
    lower, upper = loss.epsilon_interval(1e-6)
    assert lower <= epsilon == upper


@pytest.mark.parametrize("count", [1, 2, 64, 65, 10**6])
def test_failures_above_delta_leave_nothing(count: int) -> None:
    loss = ComposedLoss([(symmetric(RandomizedResponseProfile(0.3, failure=1e-9)), count)])
    with mpmath.workdps(60):
        total = 1 - (1 - mpmath.mpf(1e-9)) ** count
        below, above = float(total * (1 - mpmath.mpf(2) ** -48)), float(total * (1 + mpmath.mpf(2) ** -48))
    assert loss.epsilon_upper(below) == math.inf
    assert loss.epsilon_upper(above) <= 0.3 * count
    assert loss.delta_upper(math.inf) >= total
    assert loss.delta_lower(math.inf) <= total


def test_shares_of_a_tiny_delta_add_up() -> None:
    """1 - (1 - f)^2 is below 2 f by less than a rounding error."""
    loss = ComposedLoss([(symmetric(RandomizedResponseProfile(0.5, failure=2.0**-90)), 2**20)])
    assert loss.epsilon_upper(2.0**-70) <= 0.5 * 2**20


def test_failures_and_noise_share_delta() -> None:
    failing = symmetric(RandomizedResponseProfile(0.5, failure=1e-6 * (1 - 1e-9)))
    loss = ComposedLoss([(failing, 1), (symmetric(GaussianProfile(0.5)), 1)])
    # The Gaussian and the claim without its failure have the rest: 1e-6 * 1e-9, up to a relative 1e-6.
    rest = ComposedLoss([(symmetric(RandomizedResponseProfile(0.5)), 1), (symmetric(GaussianProfile(0.5)), 1)])
    assert loss.epsilon_upper(1e-6) == pytest.approx(rest.epsilon_upper(1e-15), rel=1e-6)


@pytest.mark.parametrize("profile", [RandomizedResponseProfile(0.7, failure=1e-3), RandomizedResponseProfile(0.7, 5)])
def test_a_split_changes_nothing(profile: RandomizedResponseProfile) -> None:
    failure, pair = split_failure(symmetric(profile))
    epsilons = np.linspace(0, 1, 11)
    np.testing.assert_allclose(
        failure + (1 - failure) * pair.forward.delta(epsilons), profile.delta(epsilons), rtol=1e-14
    )
    assert pair.forward.failure == 0


def test_claims_that_fail_equally_often_split_together() -> None:
    both = PointwiseMax(tuple(RandomizedResponseProfile(epsilon, failure=1e-3) for epsilon in (0.3, 0.7)))
    failure, pair = split_failure(symmetric(both))
    epsilons = np.linspace(0, 1, 11)
    np.testing.assert_allclose(failure + (1 - failure) * pair.forward.delta(epsilons), both.delta(epsilons), rtol=1e-14)


def test_what_fails_in_one_direction_only_is_not_split() -> None:
    claim = RandomizedResponseProfile(0.7, failure=1e-3)
    pair = DominatingPair(SampledRemoval(claim, 0.1), SampledAddition(claim, 0.1))
    assert split_failure(pair) == (0.0, pair)
    assert not states_failure(pair.forward)


@given(st.fractions(0, 1))
def test_rounding_to_the_safe_side(value: Fraction) -> None:
    assert float_down(value) <= value <= float_up(value)
    assert float_up(value) <= math.nextafter(float_down(value), math.inf)


@given(st.lists(st.tuples(st.floats(0, 0.1), st.integers(1, 200)), max_size=4))
def test_bounds_enclose_the_probability_of_any_failure(failures: list[tuple[float, int]]) -> None:
    low, high = any_failure(failures)
    exact = 1 - math.prod((1 - Fraction(failure)) ** count for failure, count in failures)
    assert low <= exact <= high
    assert high <= low * (1 + Fraction(1e-14)) or high < 1e-300
