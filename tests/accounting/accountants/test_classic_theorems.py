"""The classic theorems: known numbers, and how each compares with the others."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.accounting import (
    AdvancedAccountant,
    ApproximateDPEvent,
    BasicAccountant,
    GroupEvent,
    LaplaceEvent,
    PldAccountant,
    PoissonSampledEvent,
    SelfComposedEvent,
    ZcdpAccountant,
    calibrate_noise,
)
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Bound, Relation
from hush.lab.composition import (
    advanced_composition,
    basic_composition,
    optimal_composition,
    parallel_composition,
    sampling_amplification,
)


def test_amplification() -> None:
    amplified = sampling_amplification(0.4, 1e-6, 0.01)
    assert amplified.epsilon == pytest.approx(0.004906, abs=5e-7)
    assert amplified.epsilon > 0.01 * 0.4  # (q epsilon, q delta) is never valid
    assert amplified.delta == pytest.approx(1e-8)
    assert "Poisson" in amplified.assumptions[0]


@given(st.floats(1e-6, 1.256), st.floats(1e-6, 1))
def test_amplification_lies_between_q_and_twice_q_epsilon(epsilon: float, rate: float) -> None:
    amplified = sampling_amplification(epsilon, 0.0, rate).epsilon
    assert rate * epsilon * (1 - 1e-12) <= amplified <= 2 * rate * epsilon


@given(st.floats(0, 2000), st.floats(1e-9, 1))
def test_amplification_is_finite_and_never_hurts(epsilon: float, rate: float) -> None:
    assert 0 <= sampling_amplification(epsilon, 0.0, rate).epsilon <= epsilon * (1 + 1e-12)


def test_amplification_is_what_the_accountants_do() -> None:
    event = PoissonSampledEvent(LaplaceEvent(2.5), 0.01)
    expected = sampling_amplification(0.4, 0.0, 0.01).epsilon
    for accountant in (BasicAccountant(), AdvancedAccountant(), PldAccountant()):
        assert accountant.compose(event).epsilon(0.0) == pytest.approx(expected, rel=1e-12)


def test_a_thousand_times() -> None:
    # T = 1000, epsilon .4, delta 1e-6: the notes print 30.98 and 47.02.
    advanced = advanced_composition(0.4, 1e-6, 1000, slack=1e-6)
    assert advanced.epsilon == pytest.approx(263.2, abs=0.05)
    assert advanced.delta == pytest.approx(0.001001, rel=1e-12)
    optimal = optimal_composition(0.4, 1e-6, 1000, total_delta=0.001001)
    assert 135.3 < optimal.epsilon < 136.05


def test_a_thousand_times_sampled() -> None:
    # With q = .01: the notes print .3098 and .4702. Each step is (.004906, 1e-8).
    step = sampling_amplification(0.4, 1e-6, 0.01)
    advanced = advanced_composition(step.epsilon, step.delta, 1000, slack=1e-6)
    assert advanced.epsilon == pytest.approx(0.8397, abs=5e-5)
    optimal = optimal_composition(step.epsilon, step.delta, 1000, total_delta=advanced.delta)
    assert optimal.epsilon == pytest.approx(0.6378, abs=5e-3)  # tighter than the closed form that was quoted


def largest(fits: object) -> float:
    low, high = 1e-6, 1e-2
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)  # type: ignore[operator]
    return low


def test_a_global_budget() -> None:
    # 50,000 queries within epsilon 1, delta 1e-6: the largest epsilon of a query.
    count, delta = 50_000, 1e-6
    assert largest(lambda e: basic_composition(e, 0.0, count).epsilon <= 1) == pytest.approx(2e-5, rel=1e-6)
    advanced = largest(lambda e: advanced_composition(e, 0.0, count, slack=delta).epsilon <= 1)
    assert advanced == pytest.approx(8.22e-4, abs=6e-7)
    zcdp = largest(lambda e: ZcdpAccountant().compose(ApproximateDPEvent(e), count).epsilon(delta) <= 1)
    classic = largest(lambda e: count * e**2 / 2 + 2 * math.sqrt(count * e**2 / 2 * math.log(1 / delta)) <= 1)
    assert classic == pytest.approx(8.36e-4, abs=6e-7)
    assert classic < zcdp < 1.0586e-3  # a better conversion, and still above the optimum


def test_a_global_budget_optimally() -> None:
    count, delta = 50_000, 1e-6
    scale = calibrate_noise(
        epsilon=1.0,
        delta=delta,
        template=lambda noise: SelfComposedEvent(ApproximateDPEvent(1 / noise), count),
    )
    assert 1 / scale == pytest.approx(1.0586e-3, rel=1e-4)


def test_when_advanced_beats_basic() -> None:
    # k > 2 ln(1/d') / (2 - e^eps)^2: at eps .1 and d' 1e-6 from k = 35 on.
    for count, wins in [(34, False), (35, True)]:
        advanced = advanced_composition(0.1, 0.0, count, slack=1e-6).epsilon
        assert (advanced < basic_composition(0.1, 0.0, count).epsilon) is wins
    # ... and never from epsilon = ln 2 on.
    for count in (10, 1000, 10**6):
        advanced = advanced_composition(math.log(2), 0.0, count, slack=1e-6).epsilon
        assert advanced > basic_composition(math.log(2), 0.0, count).epsilon


@settings(max_examples=40)
@given(st.floats(0.001, 1), st.floats(0, 1e-6), st.integers(1, 300))
def test_optimal_is_never_above_basic_or_advanced(epsilon: float, delta: float, count: int) -> None:
    advanced = advanced_composition(epsilon, delta, count, slack=1e-5)
    optimal = optimal_composition(epsilon, delta, count, total_delta=advanced.delta)
    assert optimal.epsilon <= min(advanced.epsilon, basic_composition(epsilon, delta, count).epsilon) * (1 + 1e-5)
    for kind in (BasicAccountant, AdvancedAccountant):
        classic = kind().compose(ApproximateDPEvent(epsilon, delta), count).epsilon(advanced.delta)
        assert optimal.epsilon <= classic * (1 + 1e-5)


@pytest.mark.parametrize(
    ("epsilon", "delta", "count"), [(0.5, 0.0, 7), (0.1, 1e-4, 20), (1.0, 1e-3, 12), (0.0, 0.01, 9)]
)
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_optimal_composition_by_enumeration(epsilon: float, delta: float, count: int, share: float) -> None:
    """Kairouz, Oh & Viswanath 2015, Theorem 3.3, summed term by term."""
    failure = 1 - (1 - delta) ** count
    total = failure + share * 0.5 * (1 - failure)

    def exact(at: float) -> float:
        terms = [
            math.comb(count, k) * max(math.exp((count - k) * epsilon) - math.exp(at + k * epsilon), 0.0)
            for k in range(count + 1)
        ]
        return 1 - (1 - delta) ** count * (1 - math.fsum(terms) / (1 + math.exp(epsilon)) ** count)

    optimal = optimal_composition(epsilon, delta, count, total_delta=total).epsilon
    assert exact(optimal) <= total * (1 + 1e-9)
    if optimal > 0:
        assert exact(optimal * (1 - 1e-4)) > total


def test_optimal_composition_below_the_failures_is_unbounded() -> None:
    assert optimal_composition(0.1, 1e-3, 100, total_delta=0.09).epsilon == math.inf
    assert optimal_composition(0.1, 1e-3, 100, total_delta=0.0953).epsilon < math.inf


def test_parallel() -> None:
    claims = [(0.3, 1e-6), (0.5, 1e-8)]
    together = parallel_composition(claims)
    assert (together.epsilon, together.delta) == (0.5, 1e-6)
    moved = parallel_composition(claims, relation=Relation.REPLACE)
    assert moved.epsilon >= 0.8  # leaves one part, enters another
    assert moved.delta >= 1e-6 + 1e-8
    with pytest.raises(InvalidArgument, match="^claims="):
        parallel_composition([])


@pytest.mark.parametrize("parts", [1, 2])
def test_a_record_that_is_replaced_leaves_and_enters(parts: int) -> None:
    """One bit, by which adding or removing costs exactly (3, 1e-6): its chain of two costs 2.1e-5 at 6, not 2e-6."""
    epsilon, delta = 3.0, 1e-6
    before, absent, after = math.exp(epsilon) * delta + delta, delta, 0.0  # how likely the bit is

    def hockey_stick(p: float, q: float, at: float) -> float:
        return max(p - math.exp(at) * q, 0.0) + max((1 - p) - math.exp(at) * (1 - q), 0.0)

    one_way = ((before, absent), (absent, before), (absent, after), (after, absent))
    assert max(hockey_stick(p, q, epsilon) for p, q in one_way) == pytest.approx(delta, rel=1e-9)
    stated = parallel_composition([(epsilon, delta)] * parts, relation=Relation.REPLACE)
    assert stated.relation is Relation.REPLACE
    truth = max(hockey_stick(before, after, stated.epsilon), hockey_stick(after, before, stated.epsilon))
    assert truth == pytest.approx(2.108553692e-5, rel=1e-9)
    assert truth <= stated.delta <= truth * (1 + 1e-9)


def test_groups_of_claims_cost_as_much_as_their_records_together() -> None:
    for event, cost in ((LaplaceEvent(10.0), 0.5), (SelfComposedEvent(LaplaceEvent(20.0), 3), 0.75)):
        assert BasicAccountant().compose(GroupEvent(event, 5)).epsilon(0.0) == pytest.approx(cost, rel=1e-12)
    sampled = PoissonSampledEvent(LaplaceEvent(1.0), 0.1)
    chained = 5 * BasicAccountant().compose(sampled).epsilon(0.0)
    assert BasicAccountant().compose(GroupEvent(sampled, 5)).epsilon(0.0) >= chained
    with pytest.raises(Unsupported, match="covers one record"):
        BasicAccountant().compose(GroupEvent(ApproximateDPEvent(0.1), 2))


@pytest.mark.parametrize("slack", [0, 1, -1, math.nan])
def test_slack_is_a_probability(slack: float) -> None:
    with pytest.raises(InvalidArgument, match="^slack="):
        advanced_composition(0.1, 0.0, 10, slack=slack)


def test_each_names_its_assumption() -> None:
    for claim in (
        advanced_composition(0.1, 0.0, 10, slack=1e-6),
        optimal_composition(0.1, 0.0, 10, total_delta=1e-6),
        sampling_amplification(0.1, 0.0, 0.1),
        parallel_composition([(0.1, 0.0)]),
    ):
        assert claim.assumptions
        assert claim.bound is Bound.UPPER


@pytest.mark.parametrize("kind", [BasicAccountant, AdvancedAccountant])
def test_deltas_that_add_up_to_one_guarantee_nothing(kind: type[BasicAccountant]) -> None:
    # A hundred failures of probability 1/2: 1 - 2^-100, which no delta below 1 covers.
    accountant = kind().compose(ApproximateDPEvent(0.1, 0.5), 100)
    assert accountant.epsilon(math.nextafter(1, 0)) == math.inf
    assert accountant.delta(1000.0) == 1


@pytest.mark.parametrize("epsilon", [710.0, 999.0])
def test_large_epsilons_do_not_overflow(epsilon: float) -> None:
    assert basic_composition(epsilon, 0.0, 2).epsilon == 2 * epsilon
    assert sampling_amplification(epsilon, 0.0, 0.5).epsilon == pytest.approx(epsilon + math.log(0.5))
    assert AdvancedAccountant().compose(ApproximateDPEvent(epsilon), 3).epsilon(1e-5) == pytest.approx(3 * epsilon)
