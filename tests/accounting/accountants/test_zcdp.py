"""zCDP: the rho of each mechanism, the conversion both ways, and refusals."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ParallelByIndexEvent,
    ParallelEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
    ZcdpAccountant,
    ZeroConcentratedDPEvent,
)
from hush.accounting.accountants.zcdp import epsilon_to_rho, rho_to_epsilon
from hush.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    RandomizedResponseEvent,
)
from hush.errors import Unsupported
from hush.guarantee import Relation

REPLACE = Relation.REPLACE


# Bun & Steinke 2016, Propositions 1.4, 1.6 and 1.9; Cesar & Rogers 2021; Canonne, Kamath & Steinke 2020, Theorem 4.
@pytest.mark.parametrize(
    ("event", "rho", "replaced"),
    [
        (GaussianEvent(5.0), 0.02, 0.08),
        (DiscreteGaussianEvent(10.0, 2), 0.02, 0.08),
        (LaplaceEvent(5.0), 0.02, 0.08),
        (DiscreteLaplaceEvent(10.0, 2), 0.02, 0.08),
        (ExponentialMechanismEvent(0.4), 0.02, 0.02),
        (ApproximateDPEvent(0.2), 0.02, 0.02),
        (ZeroConcentratedDPEvent(0.02), 0.02, 0.02),
        (SelfComposedEvent(GaussianEvent(5.0), 3), 0.06, 0.24),
        (ComposedEvent((GaussianEvent(5.0), LaplaceEvent(5.0))), 0.04, 0.16),
        (GroupEvent(GaussianEvent(5.0), 3), 0.18, 0.72),
        (GroupEvent(ZeroConcentratedDPEvent(0.02), 3), 0.18, 0.18),
        (ParallelByIndexEvent((GaussianEvent(5.0), GaussianEvent(10.0))), 0.02, 0.08),
        (ParallelEvent((GaussianEvent(5.0), GaussianEvent(5.0))), 0.02, 0.08),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_rho_of_each_event(event: Event, rho: float, replaced: float) -> None:
    assert ZcdpAccountant().compose(event).rho == pytest.approx(rho)
    assert ZcdpAccountant(relation=REPLACE).compose(event).rho == pytest.approx(replaced)


def test_reports_of_a_group_add_up() -> None:
    event = GroupEvent(RandomizedResponseEvent(0.2), 3)
    assert ZcdpAccountant(relation=REPLACE).compose(event).rho == pytest.approx(0.06)
    with pytest.raises(Unsupported, match="Relation.REPLACE"):
        ZcdpAccountant().compose(event)


@settings(max_examples=30)
@given(st.floats(1e-6, 50), st.floats(-15, -1))
def test_the_conversion_beats_the_textbook(rho: float, power: float) -> None:
    # Bun & Steinke 2016, Proposition 1.3: rho + 2 sqrt(rho ln(1 / delta)).
    delta = 10.0**power
    assert 0 <= rho_to_epsilon(rho, delta) <= rho + 2 * math.sqrt(rho * math.log(1 / delta))


@settings(max_examples=30)
@given(st.floats(0.01, 20), st.floats(-12, -2))
def test_rho_and_epsilon_are_inverse_on_the_safe_side(epsilon: float, power: float) -> None:
    delta = 10.0**power
    rho = epsilon_to_rho(epsilon, delta)
    assert rho_to_epsilon(rho, delta) <= epsilon
    assert rho_to_epsilon(rho * (1 + 1e-6), delta) > epsilon * (1 - 1e-9)


def test_edges_of_the_conversion() -> None:
    assert rho_to_epsilon(0.0, 0.0) == 0
    assert rho_to_epsilon(0.1, 0.0) == math.inf
    assert ZcdpAccountant().delta(0.0) == 0
    assert 0 < ZcdpAccountant().compose(GaussianEvent(1.0)).delta(0.0) <= 1


@pytest.mark.parametrize(
    "event",
    [
        PoissonSampledEvent(GaussianEvent(1.0), 0.1),
        ApproximateDPEvent(0.1, 1e-9),
        GroupEvent(ParallelEvent((GaussianEvent(1.0), GaussianEvent(2.0))), 2),
    ],
    ids=lambda event: event.kind,
)
def test_what_is_not_known_to_be_zcdp_is_refused(event: Event) -> None:
    with pytest.raises(Unsupported):
        ZcdpAccountant().compose(event)


def test_a_claim_does_not_cover_a_record_that_moves_between_parts() -> None:
    claims = ParallelEvent((ZeroConcentratedDPEvent(0.1), ZeroConcentratedDPEvent(0.2)))
    assert ZcdpAccountant().compose(claims).rho == 0.2
    with pytest.raises(Unsupported, match="says nothing about a record that leaves"):
        ZcdpAccountant(relation=REPLACE).compose(claims)
