"""Prices in units of Gaussian noise, compared with privacy loss distributions that are composed directly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.accounting import (
    ApproximateDPEvent,
    BallsInBinsEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PldAccountant,
    PoissonSampledEvent,
    SelfComposedEvent,
    gaussian_delta,
)
from hush.accounting.events import DiscreteGaussianEvent, ExponentialMechanismEvent
from hush.accounting.losses.pairs import alternatives, changes
from hush.accounting.smoothed_price import Smoothing, gaussian_share, smoothed_price
from hush.guarantee import Relation, Unit

USER = Unit.user()
TERMS = Smoothing(reserve=0.01, rate=3e-7)
TRAINING = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.01), 500)
EVENTS: list[Event] = [
    LaplaceEvent(4.0),
    LaplaceEvent(20.0),
    ApproximateDPEvent(0.1),
    ExponentialMechanismEvent(0.3),
    DiscreteGaussianEvent(20.0, 3),
    PoissonSampledEvent(GaussianEvent(1.0), 0.01),
    SelfComposedEvent(LaplaceEvent(10.0), 5),
    TRAINING,
    BallsInBinsEvent(GaussianEvent(2.0), 10),
]


def price(event: Event, terms: Smoothing = TERMS, relation: Relation = Relation.ADD_OR_REMOVE) -> float:
    options = [option for change in changes(relation) for option in alternatives(event, change)]
    return max(smoothed_price(option, terms) + gaussian_share(option) for option in options)


@pytest.mark.slow  # about ten seconds of PLDs
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
@pytest.mark.parametrize("more", [0.0, 0.05])
def test_no_event_is_more_than_its_price(event: Event, more: float) -> None:
    """The defining inequality, and that it survives more Gaussian noise, at epsilons that no part of it has used.

    Both orders of the pair count: removing a record is the pair, adding one is its mirror image.
    """
    cost = price(event)
    rest = TERMS.reserve + more
    accountant = PldAccountant(unit=USER, accuracy=1e-3).compose(event).compose(GaussianEvent(1 / math.sqrt(rest)))
    mu = math.sqrt(rest + cost)
    for epsilon in np.linspace(0.003, 4.3 * mu + mu**2 / 2, 5):
        allowed = float(gaussian_delta(np.array([epsilon]), mu)[0]) + TERMS.rate * cost
        assert accountant.delta_interval(float(epsilon))[0] <= allowed


@pytest.mark.slow
@pytest.mark.parametrize("event", EVENTS[1:6], ids=lambda event: event.kind)
def test_a_price_is_near_the_best(event: Event) -> None:
    """A price that is 1 % lower breaks the inequality somewhere: the certificate costs little."""
    cost = price(event) * 0.99
    accountant = (
        PldAccountant(unit=USER, accuracy=1e-4).compose(event).compose(GaussianEvent(1 / math.sqrt(TERMS.reserve)))
    )
    mu = math.sqrt(TERMS.reserve + cost)
    epsilons = np.linspace(0.0, 5.5 * mu + mu**2 / 2, 30)
    allowed = gaussian_delta(epsilons, mu) + TERMS.rate * cost
    assert any(
        accountant.delta(float(epsilon)) > most for epsilon, most in zip(epsilons, allowed.tolist(), strict=True)
    )


def test_gaussians_cost_their_mu_squared() -> None:
    assert price(SelfComposedEvent(GaussianEvent(5.0), 3)) == pytest.approx(3 / 25, rel=1e-12)
    assert price(GaussianEvent(5.0), relation=Relation.REPLACE) == pytest.approx(4 / 25, rel=1e-12)


def test_more_reserve_lowers_a_price_and_small_losses_cost_little_more_than_their_variance() -> None:
    small, large = (price(LaplaceEvent(20.0), Smoothing(reserve, 3e-7)) for reserve in (0.001, 0.05))
    assert 0.98 / 400 < large < small < 1.6 / 400
    tiny = price(LaplaceEvent(1e6))
    assert 1e-12 < tiny < 1.5708e-12  # by total variation: pi / 2 times the variance


def test_a_loss_that_may_be_infinite_is_paid_by_the_rate() -> None:
    sampled = PoissonSampledEvent(ApproximateDPEvent(0.01, 1e-8), 0.5)
    assert price(sampled) * TERMS.rate >= 0.5e-8


def test_total_failure_has_no_price() -> None:
    event = SelfComposedEvent(PoissonSampledEvent(ApproximateDPEvent(0.01, 0.5), 0.5), 200)
    assert price(event) == math.inf
