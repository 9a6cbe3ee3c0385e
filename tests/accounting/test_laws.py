"""Laws that hold for all numbers: monotone in noise, rate, steps and delta; order-free; tight never above loose."""

from __future__ import annotations

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from hush.accounting import (
    Accountant,
    ComposedEvent,
    Event,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ParallelByIndexEvent,
    ParallelEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
    ZcdpAccountant,
)
from hush.accounting.events import DiscreteLaplaceEvent
from hush.guarantee import Relation

WOBBLE = 1e-5  # each upper bound may be this far above the truth, so two of them may disagree by it

sigmas = st.floats(-0.6, 1.3).map(lambda power: 10.0**power)
rates = st.one_of(st.floats(-4, -0.1).map(lambda power: 10.0**power), st.just(1.0))
steps = st.one_of(st.integers(1, 5), st.floats(1, 4.5).map(lambda power: int(10.0**power)))
deltas = st.floats(-15, -1).map(lambda power: 10.0**power)
# Each example costs tenths of a second, so there is no shrinking; the example is printed as it is.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
few = settings(max_examples=8, phases=PHASES)
fewer = settings(max_examples=4, phases=PHASES)
many = settings(max_examples=40, phases=PHASES)


def epsilon(event: Event, delta: float, kind: type[Accountant] = PldAccountant, **settings_: object) -> float:
    return kind(**settings_).compose(event).epsilon(delta)  # type: ignore[arg-type]


def sampled(sigma: float, rate: float, count: int = 1) -> Event:
    return SelfComposedEvent(PoissonSampledEvent(GaussianEvent(sigma), rate), count)


@few
@given(sigmas, sigmas, rates, steps, deltas)
def test_more_noise_means_less_epsilon(a: float, b: float, rate: float, count: int, delta: float) -> None:
    low, high = sorted((a, b))
    assert epsilon(sampled(high, rate, count), delta) <= epsilon(sampled(low, rate, count), delta) * (1 + WOBBLE)


@few
@given(sigmas, rates, rates, steps, deltas)
def test_more_sampling_means_more_epsilon(sigma: float, a: float, b: float, count: int, delta: float) -> None:
    low, high = sorted((a, b))
    assert epsilon(sampled(sigma, low, count), delta) <= epsilon(sampled(sigma, high, count), delta) * (1 + WOBBLE)


@few
@given(sigmas, rates, steps, steps, deltas)
def test_more_steps_mean_more_epsilon(sigma: float, rate: float, a: int, b: int, delta: float) -> None:
    low, high = sorted((a, b))
    assert epsilon(sampled(sigma, rate, low), delta) <= epsilon(sampled(sigma, rate, high), delta) * (1 + WOBBLE)


@few
@given(sigmas, rates, steps, deltas, deltas)
def test_more_delta_means_less_epsilon(sigma: float, rate: float, count: int, a: float, b: float) -> None:
    low, high = sorted((a, b))
    accountant = PldAccountant().compose(sampled(sigma, rate, count))
    assert accountant.epsilon(high) <= accountant.epsilon(low) * (1 + WOBBLE)


@few
@given(sigmas, rates, steps, deltas)
@example(7.235078172646403, 0.5915233133106269, 16, 1e-15)  # wrap-around hides the lower bound far from its root
@example(0.43075093148703164, 0.00017922375782589717, 2, 1.3e-9)  # one rare jump decides
@example(0.5121074890914765, 0.00010371391749175224, 37, 1.6725341997226268e-13)
def test_the_interval_is_one_and_lies_below_renyi(sigma: float, rate: float, count: int, delta: float) -> None:
    event = sampled(sigma, rate, count)
    lower, upper = PldAccountant().compose(event).interval(delta)
    assert 0 <= lower <= upper
    assert upper <= epsilon(event, delta, RdpAccountant) * (1 + 1e-9)
    if delta >= 1e-12 or rate >= 1e-3:  # rarer still, a single jump decides, and the interval is valid but wide
        assert upper - lower <= 5e-2 * upper + 1e-12


mechanisms = st.one_of(
    st.builds(GaussianEvent, sigmas),
    st.builds(LaplaceEvent, sigmas),
    st.builds(lambda scale, size: DiscreteLaplaceEvent(scale * size, size), sigmas, st.integers(1, 4)),
    st.builds(lambda sigma, rate: PoissonSampledEvent(GaussianEvent(sigma), rate), sigmas, rates),
    st.builds(lambda scale, rate: PoissonSampledEvent(LaplaceEvent(scale), rate), sigmas, rates),
)
schedules = st.lists(st.builds(SelfComposedEvent, mechanisms, st.integers(1, 30)), min_size=1, max_size=3)


@few
@given(schedules, deltas)
def test_tight_is_never_above_loose(events: list[Event], delta: float) -> None:
    everything = ComposedEvent(tuple(events))
    lower, upper = PldAccountant().compose(everything).interval(delta)
    assert lower <= upper
    for loose in (RdpAccountant(), ZcdpAccountant()):
        if loose.supports(everything):
            assert lower <= loose.compose(everything).epsilon(delta) * (1 + 1e-9)
            assert upper <= loose.compose(everything).epsilon(delta) * (1 + WOBBLE)


@few
@given(schedules, deltas, st.randoms(use_true_random=False))
def test_composition_is_order_free(events: list[Event], delta: float, random: st.randoms) -> None:  # type: ignore[valid-type]
    shuffled = list(events)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for kind in (PldAccountant, RdpAccountant):
        first, second = (epsilon(ComposedEvent(tuple(order)), delta, kind) for order in (events, shuffled))
        assert first == pytest.approx(second, rel=1e-6, abs=1e-12)


@fewer
@given(schedules, deltas)
def test_parts_cost_at_most_their_composition(events: list[Event], delta: float) -> None:
    composed = epsilon(ComposedEvent(tuple(events)), delta)
    assert max(epsilon(part, delta) for part in events) <= composed * (1 + WOBBLE)
    # In parallel they cost as much as the worst of them.
    for kind in (ParallelEvent, ParallelByIndexEvent):
        worst = max(epsilon(part, delta) for part in events)
        assert worst * (1 - WOBBLE) <= epsilon(kind(tuple(events)), delta) <= composed * (1 + WOBBLE)


@fewer
@given(sigmas, rates, st.integers(1, 50), st.integers(1, 4), deltas)
def test_larger_groups_cost_more(sigma: float, rate: float, count: int, size: int, delta: float) -> None:
    for accountant in (PldAccountant, RdpAccountant):
        event = sampled(2 * sigma, rate, count)
        single, group, larger = (epsilon(GroupEvent(event, k), delta, accountant) for k in (1, size, size + 1))
        assert single == pytest.approx(epsilon(event, delta, accountant), rel=WOBBLE)
        assert single <= group * (1 + WOBBLE)
        assert group <= larger * (1 + WOBBLE)


@fewer
@given(mechanisms, st.integers(1, 20), deltas)
def test_replacing_costs_at_least_removing(event: Event, count: int, delta: float) -> None:
    for kind in (PldAccountant, RdpAccountant):
        replace = kind(relation=Relation.REPLACE)
        if replace.supports(event):
            removed = epsilon(event, delta, kind)
            assert epsilon(SelfComposedEvent(event, count), delta, kind) >= removed * (1 - WOBBLE)
            assert removed <= replace.compose(event).epsilon(delta) * (1 + WOBBLE)
