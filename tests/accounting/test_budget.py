"""Caps and costs: the filter that a ledger enforces, compared with filters and accountants."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush import Relation, Unit
from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    ParallelByIndexEvent,
    ParallelEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    RdpFilter,
    SelfComposedEvent,
    ZeroConcentratedDPEvent,
)
from hush.accounting.budget import DELTA_STEPS, LOSS_STEPS, NO_GAUSSIAN, Cap, Cost
from hush.accounting.events import DiscreteGaussianEvent, ExponentialMechanismEvent, RandomizedResponseEvent
from hush.errors import HushError, InvalidArgument, Unsupported

USER = Unit.user()
EVENTS = [
    LaplaceEvent(4.0),
    GaussianEvent(5.0),
    DiscreteGaussianEvent(20.0, 3),
    ExponentialMechanismEvent(0.3),
    ZeroConcentratedDPEvent(0.01),
    ApproximateDPEvent(0.2),
    PoissonSampledEvent(GaussianEvent(1.0), 0.01),
    SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.2), 0.02), 30),
    ComposedEvent((LaplaceEvent(9.0), GaussianEvent(9.0))),
]


def cap(**terms: object) -> Cap:
    return Cap(**{"epsilon": 2.0, "delta": 1e-6, "unit": USER, **terms})


@settings(max_examples=30)
@given(st.lists(st.sampled_from(EVENTS), max_size=40), st.sampled_from([0.3, 1.0, 3.0, 8.0]))
def test_a_cost_fits_by_divergence_if_a_filter_at_that_order_accepts_it(events: list[object], epsilon: float) -> None:
    limit = cap(epsilon=epsilon, claims_delta=0.0, gaussian=NO_GAUSSIAN)
    assert limit.order is not None
    reference = RdpFilter(epsilon=epsilon, delta=limit.renyi_delta, order=limit.order, unit=USER)
    spent = Cost(unbounded=1)  # so that epsilons do not count
    for event in events:
        try:
            added = spent + limit.cost(event)
        except Unsupported:  # sampled, at a high order: it costs more than any budget has
            assert not reference.can_spend(event)
            continue
        room = limit.limit.renyi - added.renyi
        if abs(room) > 1000:  # of 10^12 steps; closer, only the rounding differs, and a cap rounds to the safe side
            assert limit.fits(added) == reference.can_spend(event)
        if limit.fits(added):
            assert reference.can_spend(event)
            reference.spend(event)
            spent = added


@settings(max_examples=20)
@given(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=12))
def test_no_accountant_exceeds_the_epsilon_that_a_cap_states(events: list[object]) -> None:
    for limit in (cap(), cap(gaussian=NO_GAUSSIAN)):
        spent = sum((limit.cost(event) for event in events), Cost())
        stated = limit.spent_epsilon(spent)
        described = tuple(event for event in events if not isinstance(event, ZeroConcentratedDPEvent))
        assert PldAccountant(unit=USER).compose(ComposedEvent(described)).epsilon(limit.delta) <= stated + 1e-9
    # Without the comparison with Gaussian noise, the best Renyi order is not worse either.
    assert RdpAccountant(unit=USER).compose(ComposedEvent(tuple(events))).epsilon(limit.delta) <= stated + 1e-9


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3, 1.0]), max_size=30))
def test_epsilons_add_up_exactly(epsilons: list[float]) -> None:
    limit = cap(delta=0.0, epsilon=3.0)
    spent = sum((limit.cost(ApproximateDPEvent(epsilon)) for epsilon in epsilons), Cost())
    exact = sum((Fraction(str(epsilon)) for epsilon in epsilons), Fraction(0))
    assert limit.fits(spent) == (exact <= 3)
    assert limit.spent_epsilon(spent) == float(exact)


def test_costs_are_rounded_up_and_limits_down() -> None:
    limit = cap(epsilon=1 / 3, claims_delta=1e-6 / 3)
    assert limit.limit.pure <= Fraction(1, 3) * LOSS_STEPS
    cost = limit.cost(ApproximateDPEvent(1 / 7, 1e-7 / 3))
    assert cost.pure >= Fraction(1 / 7) * LOSS_STEPS
    assert cost.delta >= Fraction(1e-7 / 3) * DELTA_STEPS
    assert cost.renyi >= RdpAccountant(unit=USER).compose(ApproximateDPEvent(1 / 7)).renyi(limit.order) * LOSS_STEPS - 1


def test_both_rules_hold_at_once() -> None:
    """Three releases of epsilon 1 fit by addition, though not at the order; many small ones the other way round."""
    limit = cap(epsilon=3.0)
    few = limit.cost(SelfComposedEvent(LaplaceEvent(1.0), 3))
    assert limit.fits(few)
    assert few.renyi > limit.limit.renyi
    many = limit.cost(SelfComposedEvent(LaplaceEvent(20.0), 80))
    assert limit.fits(many)
    assert many.pure > limit.limit.pure
    assert not limit.fits(few + limit.cost(GaussianEvent(1e3)))  # one without an epsilon takes the first rule away


def test_deltas_of_claims_come_from_their_share_alone() -> None:
    limit = cap(claims_delta=1e-7)
    assert limit.fits(limit.cost(SelfComposedEvent(ApproximateDPEvent(0.01, 1e-8), 10)))
    assert not limit.fits(limit.cost(SelfComposedEvent(ApproximateDPEvent(0.01, 1e-8), 11)))
    assert limit.renyi_delta <= 9e-7
    parts = (ApproximateDPEvent(0.1, 4e-8), ApproximateDPEvent(0.1, 3e-8), ApproximateDPEvent(0.1, 2e-8))
    assert limit.cost(ComposedEvent(parts)).delta == 9 * DELTA_STEPS // 10**8
    assert limit.cost(ParallelByIndexEvent(parts)).delta == 4 * DELTA_STEPS // 10**8
    replace = cap(claims_delta=1e-7, relation=Relation.REPLACE)
    moved = (ComposedEvent((LaplaceEvent(9.0), part)) for part in parts)
    with pytest.raises(Unsupported):  # a claim does not cover a record that leaves its part
        replace.cost(ParallelEvent(tuple(moved)))


def test_a_claim_in_a_sample_is_refused() -> None:
    with pytest.raises(Unsupported):
        cap(gaussian=NO_GAUSSIAN).cost(PoissonSampledEvent(ApproximateDPEvent(0.1, 1e-8), 0.1))
    with pytest.raises(Unsupported):
        cap().cost(RandomizedResponseEvent(1.0))  # add-or-remove


def test_a_claimed_cost_is_what_the_loss_distribution_says() -> None:
    event = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.01), 500)
    cost = cap().claimed_cost(event, delta=1e-7)
    exact = PldAccountant(unit=USER).compose(event).epsilon(1e-7)
    assert cost.pure == math.ceil(Fraction(repr(exact)) * LOSS_STEPS)
    assert (cost.unbounded, cost.delta) == (0, math.ceil(Fraction("1e-7") * DELTA_STEPS))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-6, 1e-3])
def test_the_default_order_is_a_good_one(epsilon: float, delta: float) -> None:
    limit = cap(epsilon=epsilon, delta=delta)
    assert limit.order is not None
    orders = 1 + np.geomspace(1e-2, 1e5, 20000)
    slack = np.log1p(-1 / orders) - (math.log(limit.renyi_delta) + np.log(orders)) / (orders - 1)
    assert limit.limit.renyi / LOSS_STEPS / limit.order >= 0.985 * np.max((epsilon - slack) / orders)


@pytest.mark.parametrize(
    ("terms", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"order": 1.0}, "order"),
        ({"order": math.nan}, "order"),
        ({"delta": 0.0, "order": 3.0}, "order"),
        ({"claims_delta": 1e-5}, "claims_delta"),
        ({"claims_delta": math.nan}, "claims_delta"),
    ],
)
def test_bad_caps_are_refused(terms: dict[str, float], name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name}="):
        cap(**terms)


def test_events_that_cost_more_than_any_budget_are_refused() -> None:
    with pytest.raises(HushError):
        cap().cost(SelfComposedEvent(LaplaceEvent(0.01), 10**9))
