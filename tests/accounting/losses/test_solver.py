"""Certified epsilons and deltas of composed losses: closed forms, edge cases, and roots on the safe side."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.accounting import LaplaceEvent, PldAccountant, PoissonSampledEvent
from hush.accounting.losses.noise_profiles import GaussianProfile, LaplaceProfile, RandomizedResponseProfile
from hush.accounting.losses.profile import DominatingPair, Profile
from hush.accounting.losses.sampled_profiles import SampledAddition, SampledRemoval
from hush.accounting.losses.solver import ComposedLoss


def symmetric(profile: Profile) -> DominatingPair:
    return DominatingPair.symmetric(profile)


@pytest.mark.parametrize("delta", [1e-15, 1e-6, 0.1])
def test_composed_gaussians_are_one_gaussian(delta: float) -> None:
    many = ComposedLoss([(symmetric(GaussianProfile(0.25)), 16)])
    single = ComposedLoss([(symmetric(GaussianProfile(1.0)), 1)])
    lower, upper = many.epsilon_interval(delta)
    exact_lower, exact_upper = single.epsilon_interval(delta)
    assert lower <= exact_upper
    assert exact_lower <= upper <= exact_upper * (1 + 1e-5)
    assert lower >= exact_lower * (1 - 1e-3)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0])
def test_deltas_of_composed_gaussians(epsilon: float) -> None:
    many = ComposedLoss([(symmetric(GaussianProfile(0.25)), 16)])
    exact = float(GaussianProfile(1.0).delta(np.array([epsilon]))[0])
    assert many.delta_lower(epsilon) <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= many.delta_upper(epsilon) <= exact * (1 + 1e-3)


def test_epsilon_and_delta_are_inverse() -> None:
    base = GaussianProfile(1.0)
    loss = ComposedLoss([(DominatingPair(SampledRemoval(base, 0.01), SampledAddition(base, 0.01)), 1000)])
    epsilon = loss.epsilon_upper(1e-6)
    assert loss.delta_upper(epsilon) == pytest.approx(1e-6, rel=1e-3)
    assert loss.delta_lower(epsilon) <= 1e-6


def test_less_accuracy_is_looser_and_still_a_bound() -> None:
    loss = ComposedLoss([(symmetric(LaplaceProfile(0.1)), 300)])
    precise, rough = loss.epsilon_upper(1e-6, 1e-6), loss.epsilon_upper(1e-6, 1e-2)
    assert loss.epsilon_interval(1e-6)[0] <= precise <= rough * (1 + 1e-9)
    assert rough <= precise * 1.02


def test_nothing_costs_nothing() -> None:
    for parts in ([], [(symmetric(RandomizedResponseProfile(0.0)), 100)], [(symmetric(GaussianProfile(1.0)), 0)]):
        loss = ComposedLoss(parts)
        if not parts or parts[0][1]:
            assert loss.epsilon_interval(1e-5) == (0.0, 0.0)
            assert loss.delta_upper(0.5) == 0


def test_failures_use_up_delta() -> None:
    failing = symmetric(RandomizedResponseProfile(0.0, failure=1e-3))
    loss = ComposedLoss([(failing, 10), (symmetric(GaussianProfile(0.5)), 1)])
    failure = 1 - (1 - 1e-3) ** 10
    assert loss.epsilon_upper(0.9 * failure) == math.inf
    alone = ComposedLoss([(symmetric(GaussianProfile(0.5)), 1)])
    remaining = (0.02 - failure) / (1 - failure)
    assert loss.epsilon_upper(0.02) == pytest.approx(alone.epsilon_upper(remaining), rel=1e-9)
    assert loss.delta_upper(1.0) == pytest.approx(failure + (1 - failure) * alone.delta_upper(1.0))


def test_the_largest_loss_is_the_pure_epsilon() -> None:
    loss = ComposedLoss([(symmetric(LaplaceProfile(0.3)), 5), (symmetric(RandomizedResponseProfile(0.2)), 2)])
    assert loss.max_loss == pytest.approx(1.9)
    assert loss.epsilon_upper(0.0) == loss.max_loss
    assert loss.epsilon_upper(1e-200) <= loss.max_loss
    assert loss.delta_upper(2.0) == 0


def test_equal_pairs_are_counted_together() -> None:
    pair = symmetric(LaplaceProfile(0.3))
    apart = ComposedLoss([(pair, 2), (pair, 3)])
    assert apart.epsilon_upper(1e-6) == ComposedLoss([(pair, 5)]).epsilon_upper(1e-6)


def test_one_step_needs_no_grid() -> None:
    profile = GaussianProfile(2.0)
    lower, upper = ComposedLoss([(symmetric(profile), 1)]).epsilon_interval(1e-9)
    assert upper - lower < 1e-9 * upper
    assert float(profile.delta(np.array([upper]))[0]) <= 1e-9 * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-10, 1e-50])
def test_a_finite_upper_bound_has_a_lower_one(delta: float) -> None:
    """Three sampled Laplace mechanisms at a delta so small that a lattice sees nothing below the largest loss."""
    sampled = PoissonSampledEvent(LaplaceEvent(1.0), 0.01)
    lower, upper = PldAccountant().compose(sampled, 3).interval(delta)
    assert 0.017 < lower <= upper  # of one of them alone: 0.01704


def test_the_joint_lower_bound_holds() -> None:
    """Randomized response composed n times: delta is a binomial sum."""
    epsilon, count = 0.5, 20
    loss = ComposedLoss([(symmetric(RandomizedResponseProfile(epsilon)), count)])
    likely = 1 / (1 + math.exp(-epsilon))
    for delta in (1e-2, 1e-5, 1e-12, 1e-20):
        bound = loss._joint_lower(delta)
        terms = (
            math.comb(count, k)
            * likely**k
            * (1 - likely) ** (count - k)
            * -math.expm1(bound - (2 * k - count) * epsilon)
            for k in range(count + 1)
            if (2 * k - count) * epsilon > bound
        )
        assert math.fsum(terms) >= delta
