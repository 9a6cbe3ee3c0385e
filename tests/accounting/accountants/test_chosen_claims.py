"""The best (epsilon, delta) for each step: valid, better than other choices, and refused where there is none."""

from __future__ import annotations

import math

import pytest

from hush.accounting import (
    AdvancedAccountant,
    ApproximateDPEvent,
    BasicAccountant,
    ComposedEvent,
    Event,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
    choose_claims,
)
from hush.errors import Unsupported
from hush.guarantee import Relation

STEP = PoissonSampledEvent(GaussianEvent(4.0), sampling_rate=0.01)
DELTA = 1e-5


def by_hand(step: Event, count: int, share: float) -> float:
    """Return advanced composition with this share of delta in the steps."""
    delta = share * DELTA / count
    claim = ApproximateDPEvent(PldAccountant().compose(step).epsilon(delta), delta)
    return AdvancedAccountant().compose(claim, count).epsilon(DELTA * (1 + 1e-9))


@pytest.mark.parametrize(("step", "count"), [(STEP, 10_000), (GaussianEvent(100.0), 400), (GaussianEvent(3.0), 2)])
def test_no_other_share_of_delta_is_better(step: Event, count: int) -> None:
    best = choose_claims(AdvancedAccountant(), SelfComposedEvent(step, count), DELTA).epsilon
    others = [by_hand(step, count, share) for share in (1e-4, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0)]
    assert best <= min(others) * (1 + 1e-6)
    assert best < max(others)


def test_published_comparison_with_the_moments_accountant() -> None:
    run = SelfComposedEvent(STEP, 10_000)
    # 16.96 and 1.04 were computed before, with an arbitrary share of delta for the slack. The best share is better.
    assert choose_claims(AdvancedAccountant(), run, DELTA).epsilon == pytest.approx(16.844, abs=0.001)
    assert RdpAccountant().compose(run).epsilon(DELTA) == pytest.approx(1.035, abs=0.001)
    assert choose_claims(BasicAccountant(), run, DELTA).epsilon == pytest.approx(223.49, abs=0.01)


@pytest.mark.parametrize("kind", [BasicAccountant, AdvancedAccountant])
def test_the_claims_compose_to_the_stated_total_and_are_true(kind: type[BasicAccountant]) -> None:
    event = ComposedEvent((SelfComposedEvent(STEP, 50), LaplaceEvent(20.0), ApproximateDPEvent(0.1, 1e-6)))
    choice = choose_claims(kind(), event, DELTA)
    ((epsilon, delta),) = choice.per_step
    assert 50 * delta + 1e-6 <= DELTA
    assert PldAccountant().compose(STEP).delta(epsilon) <= delta * (1 + 1e-6)
    claims = ((ApproximateDPEvent(epsilon, delta), 50), (LaplaceEvent(20.0), 1), (ApproximateDPEvent(0.1, 1e-6), 1))
    optimal = PldAccountant()
    for claim, count in claims:
        optimal = optimal.compose(claim, count)
    assert choice.epsilon >= optimal.epsilon(DELTA)
    assert choice.epsilon >= PldAccountant().compose(event).epsilon(DELTA)


def test_a_replaced_record() -> None:
    step = FixedSizeSampledEvent(GaussianEvent(2.0), batch_size=10, dataset_size=1000)
    empty = AdvancedAccountant(relation=Relation.REPLACE)
    run = SelfComposedEvent(step, 100)
    exact = PldAccountant(relation=Relation.REPLACE).compose(run).epsilon(DELTA)
    assert exact < choose_claims(empty, run, DELTA).epsilon < math.inf


def test_events_with_a_single_epsilon_are_composed_as_they_are() -> None:
    event = SelfComposedEvent(LaplaceEvent(100.0), 1000)
    choice = choose_claims(AdvancedAccountant(), event, 1e-6)
    assert choice.per_step == ()
    assert choice.epsilon == AdvancedAccountant().compose(event).epsilon(1e-6)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_delta_is_left(delta: float) -> None:
    with pytest.raises(Unsupported):
        choose_claims(BasicAccountant(), ComposedEvent((GaussianEvent(1.0), ApproximateDPEvent(0.1, 1e-6))), delta)


def test_deltas_that_underflow_have_no_epsilon() -> None:
    many = SelfComposedEvent(GaussianEvent(1.0), 10**9)
    assert choose_claims(AdvancedAccountant(), many, 1e-275).epsilon == math.inf
    assert choose_claims(AdvancedAccountant(), GaussianEvent(1.0), 1e-275).epsilon < math.inf


def test_a_twin_that_gives_every_step_all_of_delta_is_below_the_truth() -> None:
    steps = SelfComposedEvent(GaussianEvent(30.0), 3)
    claim = ApproximateDPEvent(PldAccountant().compose(GaussianEvent(30.0)).epsilon(0.02), 0.02)
    twin = 3 * claim.epsilon  # forgets that deltas add up
    assert twin < PldAccountant().compose(steps).epsilon(0.02) < choose_claims(BasicAccountant(), steps, 0.02).epsilon


def test_equal_steps_are_one_kind_however_they_are_nested() -> None:
    nested = ComposedEvent((STEP, SelfComposedEvent(ComposedEvent((STEP, STEP)), 20), LaplaceEvent(9.0)))
    flat = ComposedEvent((SelfComposedEvent(STEP, 41), LaplaceEvent(9.0)))
    one, other = (choose_claims(AdvancedAccountant(), event, DELTA) for event in (nested, flat))
    assert one == other
    assert len(one.per_step) == 1
