"""Renyi divergences: the integral that defines them, closed forms, and infinity where the integral is not known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from accounting.losses.cases import EVERY_KNOWN_CASE, Case, directions
from hush.accounting import ApproximateDPEvent as Claim
from hush.accounting.events import DiscreteGaussianEvent
from hush.accounting.losses.noise_profiles import (
    BoundedRangeProfile,
    DiscreteGaussianProfile,
    GaussianProfile,
    LaplaceProfile,
    RandomizedResponseProfile,
)
from hush.accounting.losses.profile import DominatingPair, Profile
from hush.accounting.losses.renyi import renyi_curve
from hush.accounting.losses.sampled_profiles import SampledAddition, SampledRemoval

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


def test_an_order_beyond_the_integral_is_infinite_and_never_guessed() -> None:
    base = GaussianProfile(2.0)
    pair = DominatingPair(SampledRemoval(base, 0.01), SampledAddition(base, 0.01))
    values = renyi_curve(pair)(np.array([2.0, 1e6]))
    assert values[0] < 1
    assert values[1] == math.inf
