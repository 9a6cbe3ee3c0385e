"""Laws that hold whatever the numbers: monotone, ordered, and calibration that never exceeds its target."""

from __future__ import annotations

import math

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from hush.accounting import (
    Accountant,
    ComposedEvent,
    DiscreteLaplaceEvent,
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
    calibrate_contributions,
    calibrate_count,
    calibrate_noise,
    calibrate_sampling_rate,
    calibrate_steps,
    delta_curve,
    epsilon_curve,
    max_true_positive_rate,
)
from hush.guarantee import Relation

WOBBLE = 1e-5  # each upper bound may lie this far above the truth, so two of them may disagree by it

sigmas = st.floats(-0.6, 1.3).map(lambda power: 10.0**power)
rates = st.one_of(st.floats(-4, -0.1).map(lambda power: 10.0**power), st.just(1.0))
steps = st.one_of(st.integers(1, 5), st.floats(1, 4.5).map(lambda power: int(10.0**power)))
deltas = st.floats(-15, -1).map(lambda power: 10.0**power)
# Each example costs tenths of a second: no shrinking, which would take minutes; the example is printed as it is.
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
        there, back = (epsilon(ComposedEvent(tuple(order)), delta, kind) for order in (events, shuffled))
        assert there == pytest.approx(back, rel=1e-6, abs=1e-12)


@fewer
@given(schedules, deltas)
def test_parts_cost_at_most_the_whole(events: list[Event], delta: float) -> None:
    whole = epsilon(ComposedEvent(tuple(events)), delta)
    assert max(epsilon(part, delta) for part in events) <= whole * (1 + WOBBLE)
    # In parallel: as much as the worst of them.
    for kind in (ParallelEvent, ParallelByIndexEvent):
        worst = max(epsilon(part, delta) for part in events)
        assert worst * (1 - WOBBLE) <= epsilon(kind(tuple(events)), delta) <= whole * (1 + WOBBLE)


@fewer
@given(sigmas, rates, st.integers(1, 50), st.integers(1, 4), deltas)
def test_a_group_costs_at_least_one(sigma: float, rate: float, count: int, size: int, delta: float) -> None:
    for accountant in (PldAccountant, RdpAccountant):
        event = sampled(2 * sigma, rate, count)
        one, more, most = (epsilon(GroupEvent(event, k), delta, accountant) for k in (1, size, size + 1))
        assert one == pytest.approx(epsilon(event, delta, accountant), rel=WOBBLE)
        assert one <= more * (1 + WOBBLE)
        assert more <= most * (1 + WOBBLE)


@fewer
@given(mechanisms, st.integers(1, 20), deltas)
def test_replacing_costs_at_least_removing(event: Event, count: int, delta: float) -> None:
    for kind in (PldAccountant, RdpAccountant):
        replace = kind(relation=Relation.REPLACE)
        if replace.supports(event):
            removed = epsilon(event, delta, kind)
            assert epsilon(SelfComposedEvent(event, count), delta, kind) >= removed * (1 - WOBBLE)
            assert removed <= replace.compose(event).epsilon(delta) * (1 + WOBBLE)


@fewer
@given(sigmas, rates, st.integers(1, 300), st.floats(0.01, 3))
def test_delta_bounds_are_ordered(sigma: float, rate: float, count: int, at: float) -> None:
    lower, upper = PldAccountant().compose(sampled(sigma, rate, count)).delta_interval(at)
    assert 0 <= lower <= upper <= 1


@pytest.mark.slow
@many
@given(sigmas, rates, steps, st.floats(0.01, 20))
def test_delta_bounds_are_ordered_far_out(sigma: float, rate: float, count: int, at: float) -> None:
    lower, upper = PldAccountant().compose(sampled(sigma, rate, count)).delta_interval(at)
    assert 0 <= lower <= upper <= 1


class TestCalibration:
    targets = st.floats(-1, 1).map(lambda power: 10.0**power)
    small_rates = st.floats(-3, 0).map(lambda power: 10.0**power)

    @fewer
    @given(targets, st.floats(-10, -3), small_rates, st.integers(1, 3000))
    def test_noise(self, target: float, power: float, rate: float, count: int) -> None:
        delta = 10.0**power
        sigma = calibrate_noise(epsilon=target, delta=delta, sampling_rate=rate, num_steps=count)
        assert epsilon(sampled(sigma, rate, count), delta) <= target
        assert epsilon(sampled(sigma * (1 - 2e-5), rate, count), delta) > target or sigma <= 2.1e-3

    @fewer
    @given(targets, st.floats(0.6, 5), small_rates)
    def test_steps(self, target: float, sigma: float, rate: float) -> None:
        count = calibrate_steps(epsilon=target, delta=1e-6, noise_multiplier=sigma, sampling_rate=rate)
        if count:
            assert epsilon(sampled(sigma, rate, count), 1e-6) <= target
        assert epsilon(sampled(sigma, rate, count + 1), 1e-6) > target

    @fewer
    @given(targets, st.floats(0.6, 5), st.integers(1, 2000))
    def test_sampling_rate(self, target: float, sigma: float, count: int) -> None:
        rate = calibrate_sampling_rate(epsilon=target, delta=1e-6, noise_multiplier=sigma, num_steps=count)
        assert epsilon(sampled(sigma, rate, count), 1e-6) <= target
        assert rate == 1 or epsilon(sampled(sigma, rate * (1 + 1e-4), count), 1e-6) > target

    @fewer
    @given(targets, st.floats(2, 30))
    def test_contributions(self, target: float, sigma: float) -> None:
        for relation in (Relation.ADD_OR_REMOVE, Relation.REPLACE):
            event = SelfComposedEvent(GaussianEvent(sigma), 3)
            size = calibrate_contributions(epsilon=target, delta=1e-6, event=event, relation=relation)
            if size:
                assert epsilon(GroupEvent(event, size), 1e-6, relation=relation) <= target
            assert epsilon(GroupEvent(event, size + 1), 1e-6, relation=relation) > target

    @pytest.mark.parametrize("accountant", [PldAccountant, RdpAccountant])
    @pytest.mark.parametrize("relation", [Relation.ADD_OR_REMOVE, Relation.REPLACE])
    def test_with_every_accountant_and_relation(self, accountant: type[Accountant], relation: Relation) -> None:
        sigma = calibrate_noise(
            epsilon=2.0, delta=1e-6, sampling_rate=0.02, num_steps=500, accountant=accountant, relation=relation
        )
        reached = epsilon(sampled(sigma, 0.02, 500), 1e-6, accountant, relation=relation)
        assert 2.0 * (1 - 2e-5) <= reached <= 2.0

    def test_templates(self) -> None:
        def laplace(scale: float) -> Event:
            return SelfComposedEvent(PoissonSampledEvent(LaplaceEvent(scale), 0.1), 100)

        scale = calibrate_noise(epsilon=1.0, delta=1e-6, template=laplace)
        assert 1 - 2e-5 <= epsilon(laplace(scale), 1e-6) <= 1
        count = calibrate_count(
            epsilon=1.0, delta=1e-6, template=lambda n: SelfComposedEvent(LaplaceEvent(20.0), n), maximum=500
        )
        assert (
            epsilon(SelfComposedEvent(LaplaceEvent(20.0), count), 1e-6)
            <= 1
            < epsilon(SelfComposedEvent(LaplaceEvent(20.0), count + 1), 1e-6)
        )

    def test_a_maximum_is_kept(self) -> None:
        for maximum in (1, 2, 7, 8, 9):
            assert (
                calibrate_count(
                    epsilon=9, delta=1e-6, template=lambda n: SelfComposedEvent(GaussianEvent(50.0), n), maximum=maximum
                )
                == maximum
            )

    def test_nothing_fits(self) -> None:
        assert calibrate_steps(epsilon=0.01, delta=1e-9, noise_multiplier=0.5) == 0
        assert calibrate_contributions(epsilon=0.01, delta=1e-9, event=GaussianEvent(0.5)) == 0

    @pytest.mark.parametrize("target", [1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000])
    @pytest.mark.parametrize("delta", [1e-15, 1e-2, 0.5])
    def test_extreme_targets(self, target: float, delta: float) -> None:
        sigma = calibrate_noise(epsilon=target, delta=delta)
        assert epsilon(GaussianEvent(sigma), delta) <= target


class TestCurves:
    accountant = PldAccountant().compose(sampled(1.0, 0.02, 200))

    def test_curves_are_the_points(self) -> None:
        deltas_ = [1e-8, 1e-5, 1e-3]
        assert epsilon_curve(self.accountant, deltas_) == [(d, self.accountant.epsilon(d)) for d in deltas_]
        epsilons = [0.5, 1.0, 3.0]
        assert delta_curve(self.accountant, epsilons) == [(e, self.accountant.delta(e)) for e in epsilons]

    @pytest.mark.parametrize("rate", [0.02, *(pytest.param(rate, marks=pytest.mark.slow) for rate in (0.0, 1.0))])
    def test_no_attack_beats_the_trade_off_and_it_beats_every_single_pair(self, rate: float) -> None:
        best = max_true_positive_rate(self.accountant, rate)
        assert rate <= best <= 1
        for delta in (1e-5, 1e-2):
            assert best <= self.accountant.guarantee(delta).max_tpr(rate) + 1e-3

    @pytest.mark.parametrize("rate", [0.001, 0.01, 0.1, 0.5])
    @pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
    def test_gaussian_trade_off(self, rate: float, mu: float) -> None:
        from scipy.special import ndtr, ndtri

        truth = float(ndtr(ndtri(rate) + mu))  # Dong, Roth & Su 2022, equation 6
        found = max_true_positive_rate(PldAccountant().compose(GaussianEvent(1 / mu)), rate)
        assert truth * (1 - 1e-9) <= found <= truth * (1 + 1e-3)


def test_rdp_of_a_gaussian_is_its_formula() -> None:
    accountant = RdpAccountant().compose(GaussianEvent(2.0), 3)
    for order in (1.5, 2.0, 17.0, 300.0):
        assert accountant.renyi(order) == pytest.approx(3 * order / 8, rel=1e-12)
    assert math.isfinite(accountant.best_order(1e-5))
