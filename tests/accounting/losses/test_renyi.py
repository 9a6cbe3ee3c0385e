"""Renyi divergences: the integral that defines them, closed forms, and infinity where the integral is not known."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from accounting.losses.cases import EVERY_KNOWN_CASE, Case, directions
from hush.accounting import ApproximateDPEvent as Claim
from hush.accounting.events import DiscreteGaussianEvent
from hush.accounting.losses.mixture_profiles import SampledGroup
from hush.accounting.losses.noise_profiles import (
    BoundedRangeProfile,
    DiscreteGaussianProfile,
    GaussianProfile,
    LaplaceProfile,
    RandomizedResponseProfile,
)
from hush.accounting.losses.profile import DominatingPair, Profile
from hush.accounting.losses.renyi import adapted_bound, renyi_curve
from hush.accounting.losses.sampled_profiles import ReplacedSample, SampledAddition, SampledRemoval

ORDERS = np.array([1.01, 1.5, 2.0, 5.0, 30.0])


def curve(profile: Profile) -> np.ndarray:
    return renyi_curve(DominatingPair.symmetric(profile))(ORDERS)


@EVERY_KNOWN_CASE
def test_the_renyi_divergence_is_the_integral_that_defines_it(case: Case) -> None:
    assert case.truth is not None
    if "claim" in str(case.event).lower() or isinstance(case.event, Claim):
        return
    for pair, swapped in directions(case):
        for order in (1.3, 2.0, 3.0):
            truth = case.truth.log_moment(order, swapped=swapped) / (order - 1)
            value = float(renyi_curve(pair)(np.array([order]))[0])
            assert truth * (1 - 3e-6) - 1e-12 <= value, f"order {order}: below the truth"
            if not isinstance(case.event, DiscreteGaussianEvent):  # its closed form is a bound
                assert value <= truth * (1 + 1e-5) + 1e-9, f"order {order}: not tight"


def test_the_gaussian_has_its_closed_form() -> None:
    assert curve(GaussianProfile(0.7)) == pytest.approx(ORDERS * 0.49 / 2, rel=1e-15)
    assert curve(DiscreteGaussianProfile(4.0, 2)) == pytest.approx(ORDERS * 0.25 / 2, rel=1e-15)


def test_the_laplace_mechanism_has_its_closed_form() -> None:
    # Mironov 2017, Table II, for the scale 1 / epsilon.
    for epsilon in (0.1, 1.0, 4.0):
        a = ORDERS
        moment = a / (2 * a - 1) * np.exp((a - 1) * epsilon) + (a - 1) / (2 * a - 1) * np.exp(-a * epsilon)
        exact = np.log(moment) / (a - 1)
        values = curve(LaplaceProfile(epsilon))
        assert (values >= exact * (1 - 1e-9)).all()
        assert values == pytest.approx(exact, rel=1e-6)


def test_randomised_response_has_its_closed_form() -> None:
    # Mironov 2017, Table II.
    truth = math.e / (1 + math.e)
    moment = truth**ORDERS * (1 - truth) ** (1 - ORDERS) + (1 - truth) ** ORDERS * truth ** (1 - ORDERS)
    assert curve(RandomizedResponseProfile(1.0)) == pytest.approx(np.log(moment) / (ORDERS - 1), rel=1e-6)


def test_divergences_grow_with_the_order_and_end_at_the_largest_loss() -> None:
    for profile in (BoundedRangeProfile(1.0), LaplaceProfile(2.0)):
        values = curve(profile)
        assert (np.diff(values) >= 0).all()
        assert values[-1] <= profile.max_loss * (1 + 1e-6)


def test_nothing_has_no_divergence() -> None:
    assert not curve(RandomizedResponseProfile(0.0)).any()


HUGE = [100.0, 500.0, 1000.0, 1e4, 1e5, 1e6, 1e9]


def at(pair: DominatingPair, order: float) -> float:
    return float(renyi_curve(pair)(np.array([order]))[0])


@pytest.mark.parametrize("order", HUGE)
@pytest.mark.parametrize("epsilon", [1e-3, 0.01, 1.0, 20.0, 100.0])
def test_huge_orders_of_bounded_losses_have_their_closed_form(epsilon: float, order: float) -> None:
    """Most of them were infinite: the integrand is all within 1 / order of the largest loss."""
    # Mironov 2017, Table II.
    with mpmath.workdps(50):
        a, size = mpmath.mpf(order), mpmath.mpf(epsilon)
        moment = a / (2 * a - 1) * mpmath.exp((a - 1) * size) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * size)
        exact = float(mpmath.log(moment) / (a - 1))
    value = at(DominatingPair.symmetric(LaplaceProfile(epsilon)), order)
    assert exact <= value <= min(exact * (1 + 1e-7), epsilon)


@pytest.mark.parametrize("order", [2, 8, 64, 256, 1024])
@pytest.mark.parametrize(("sigma", "rate"), [(0.5, 0.1), (1.0, 0.01), (2.0, 1e-4), (5.0, 0.01), (20.0, 0.5)])
@pytest.mark.quick_cases(8)
def test_huge_orders_of_sampled_gaussians_have_their_closed_form(sigma: float, rate: float, order: int) -> None:
    # Mironov, Talwar & Zhang 2019, section 3.3: E (1 - q + q r)^a at integer orders, a binomial sum.
    with mpmath.workdps(60):
        q, variance = mpmath.mpf(rate), mpmath.mpf(sigma) ** 2
        terms = (
            mpmath.binomial(order, k) * (1 - q) ** (order - k) * q**k * mpmath.exp(k * (k - 1) / (2 * variance))
            for k in range(order + 1)
        )
        exact = float(mpmath.log(mpmath.fsum(terms)) / (order - 1))
    base = GaussianProfile(1 / sigma)
    value = at(DominatingPair(SampledRemoval(base, rate), SampledAddition(base, rate)), order)
    assert exact <= value <= exact * (1 + 1e-7)
    group = at(DominatingPair(SampledGroup(sigma, rate, 1), SampledGroup(sigma, rate, 1, reverse=True)), order)
    assert group == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize("order", HUGE)
def test_huge_orders_stay_within_what_is_known(order: float) -> None:
    base, rate = GaussianProfile(0.01), 0.3
    removed = at(DominatingPair(SampledRemoval(base, rate), SampledAddition(base, rate)), order)
    assert removed <= order * 0.01**2 / 2, "no more than without sampling"
    added = at(DominatingPair(SampledAddition(base, rate), SampledRemoval(base, rate)), order)
    assert added <= -math.log1p(-rate), "no more than the largest loss"
    replaced = at(DominatingPair.symmetric(ReplacedSample(2.0, rate)), order)
    assert replaced <= order / 2


class Underflowing(GaussianProfile):
    """A Gaussian that knows no logarithms: beyond some epsilon it looks as if its losses had ended."""

    def log_delta(self, epsilon: np.ndarray) -> np.ndarray:
        return np.log(np.where(epsilon < 30, self.delta(np.minimum(epsilon, 30.0)), 1e-300) * (epsilon < 30))


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_an_order_beyond_the_integral_is_infinite_and_never_guessed() -> None:
    known, cut = GaussianProfile(1.0), Underflowing(1.0)
    for order in (60.0, 1e4):
        assert adapted_bound(DominatingPair.symmetric(known), order) == pytest.approx(order / 2, rel=1e-7)
        assert adapted_bound(DominatingPair.symmetric(cut), order) == math.inf
    # In one call only a few orders are worth it: a search for the best order asks for many that are far from it.
    pair = DominatingPair(SampledGroup(0.5, 0.01, 1), SampledGroup(0.5, 0.01, 1, reverse=True))
    values = renyi_curve(pair)(np.array([2.0, 1e4, 1e5, 1e6, 1e7, 1e8]))
    assert values[0] < 1
    assert np.isfinite(values).tolist() == [True, True, True, True, False, False]


@pytest.mark.parametrize("base", [GaussianProfile(2.0), DiscreteGaussianProfile(1.0, 2)], ids=["gaussian", "discrete"])
def test_beyond_the_integral_a_sample_costs_what_everything_costs(base: Profile) -> None:
    orders = np.array([1e4, 1e5, 1e6, 1e7, 1e8])
    values = renyi_curve(DominatingPair(SampledRemoval(base, 0.01), SampledAddition(base, 0.01)))(orders)
    # The largest term of the binomial sum (Mironov, Talwar & Zhang 2019): all records are in the sample.
    assert (values >= (orders * 2.0 + orders / (orders - 1) * math.log(0.01)) * (1 - 1e-3)).all()
    assert (values <= orders * 2.0).all()
    assert values[-1] == orders[-1] * 2.0
