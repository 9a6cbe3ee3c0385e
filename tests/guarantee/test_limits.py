"""What an (epsilon, delta) pair allows an attacker: reference values, laws, extremes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hush.errors import InvalidArgument
from hush.guarantee import Bound, Guarantee
from strategies import deltas, epsilons, fractions, guarantees, not_numbers

CAPPING = (Bound.UPPER, Bound.ESTIMATE)


def claim(epsilon: float, delta: float = 0.0) -> Guarantee:
    return Guarantee(epsilon=epsilon, delta=delta)


# TPR at FPR 0.001 and 0.01 for delta 1e-5, computed independently and given with these digits.
@pytest.mark.parametrize(
    ("epsilon", "at_one_in_1000", "at_one_in_100", "digits"),
    [(1, 0.00273, 0.02719, 5), (2, 0.0074, 0.0739, 4), (4, 0.0546, 0.546, 3)],
)
def test_max_tpr_reference(epsilon: float, at_one_in_1000: float, at_one_in_100: float, digits: int) -> None:
    tolerance = 0.6 * 10.0**-digits
    assert claim(epsilon, 1e-5).max_tpr(0.001) == pytest.approx(at_one_in_1000, abs=tolerance)
    assert claim(epsilon, 1e-5).max_tpr(0.01) == pytest.approx(at_one_in_100, abs=tolerance)


# Tight membership advantage for delta = 0 (Humphries et al. 2023), computed independently.
@pytest.mark.parametrize(
    ("epsilon", "advantage", "digits"),
    [(0.1, 0.05, 3), (0.5, 0.2449, 4), (1, 0.4621, 4), (2, 0.7616, 4), (4, 0.964, 3)],
)
def test_advantage_reference(epsilon: float, advantage: float, digits: int) -> None:
    assert claim(epsilon).advantage() == pytest.approx(advantage, abs=0.6 * 10.0**-digits)


def test_posterior_reference() -> None:
    assert claim(math.log(3)).posterior(0.5) == pytest.approx(0.75, rel=1e-15)
    assert claim(math.log(9)).posterior(0.1) == pytest.approx(0.5, rel=1e-15)


class TestMaxTpr:
    @given(guarantees(bounds=CAPPING), fractions, fractions)
    def test_monotone_in_fpr_and_between_guessing_and_certainty(self, any_claim: Guarantee, a: float, b: float) -> None:
        low, high = sorted((a, b))
        assert low <= any_claim.max_tpr(low) <= any_claim.max_tpr(high) <= 1

    @given(epsilons, epsilons, deltas, fractions)
    def test_monotone_in_epsilon(self, a: float, b: float, delta: float, fpr: float) -> None:
        low, high = sorted((a, b))
        assert claim(low, delta).max_tpr(fpr) <= claim(high, delta).max_tpr(fpr) * (1 + 1e-15)

    @given(epsilons, deltas, deltas, fractions)
    def test_monotone_in_delta(self, epsilon: float, a: float, b: float, fpr: float) -> None:
        low, high = sorted((a, b))
        assert claim(epsilon, low).max_tpr(fpr) <= claim(epsilon, high).max_tpr(fpr) * (1 + 1e-15)

    @given(st.floats(0, 10), st.floats(0, 0.5), fractions)
    def test_symmetric_between_accusing_and_clearing(self, epsilon: float, delta: float, fpr: float) -> None:
        # The region of reachable (FPR, TPR) is symmetric under swapping the two worlds: (1 - TPR, 1 - FPR).
        tpr = claim(epsilon, delta).max_tpr(fpr)
        assume(tpr < 1)
        assert claim(epsilon, delta).max_tpr(1 - tpr) == pytest.approx(1 - fpr, abs=1e-9 * math.exp(epsilon))

    @given(st.floats(0, 20), st.floats(0, 0.9))
    def test_its_largest_gap_is_the_advantage(self, epsilon: float, delta: float) -> None:
        guarantee = claim(epsilon, delta)
        corner = (1 - delta) / (math.exp(epsilon) + 1)  # where the two lines of the trade-off curve meet
        assert guarantee.max_tpr(corner) - corner == pytest.approx(guarantee.advantage(), abs=1e-12)

    def test_without_false_alarms_only_delta_is_left(self) -> None:
        assert claim(1000, 1e-5).max_tpr(0) == 1e-5
        assert claim(0, 0).max_tpr(0) == 0


class TestPosterior:
    @given(guarantees(), fractions)
    def test_between_prior_and_certainty(self, any_claim: Guarantee, prior: float) -> None:
        assert prior <= any_claim.posterior(prior) <= 1

    @given(epsilons, fractions, fractions)
    def test_monotone_in_prior(self, epsilon: float, a: float, b: float) -> None:
        low, high = sorted((a, b))
        assert claim(epsilon).posterior(low) <= claim(epsilon).posterior(high) * (1 + 1e-15)

    @given(st.floats(0, 20), st.floats(0.001, 0.999))
    def test_odds_grow_by_the_factor(self, epsilon: float, prior: float) -> None:
        after = claim(epsilon).posterior(prior)
        doubt = (1 - prior) * math.exp(-epsilon) / prior
        assert after == pytest.approx(1 / (1 + doubt), rel=1e-12)

    def test_certainty_stays(self) -> None:
        assert (claim(5).posterior(0), claim(5).posterior(1)) == (0, 1)
        assert claim(math.inf).posterior(1e-300) == 1


@given(guarantees(bounds=CAPPING))
def test_advantage_is_a_share(any_claim: Guarantee) -> None:
    assert 0 <= any_claim.advantage() <= 1


@pytest.mark.parametrize("epsilon", [709, 710, 1000, 1e300, math.inf])
def test_large_epsilon_does_not_overflow(epsilon: float) -> None:
    guarantee = claim(epsilon, 1e-5)
    assert (guarantee.max_tpr(0.001), guarantee.posterior(0.5), guarantee.advantage()) == (1, 1, 1)


@given(st.one_of(not_numbers, st.sampled_from([-1e-9, 1 + 1e-9, math.inf, -math.inf])))
def test_rates_that_are_no_shares_are_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="^fpr="):
        claim(1).max_tpr(value)
    with pytest.raises(InvalidArgument, match="^prior="):
        claim(1).posterior(value)


class TestPoisoned:
    @given(epsilons, deltas, fractions, st.integers(0, 50))
    def test_ranges_contain_the_probability_and_grow_with_the_number(
        self, epsilon: float, delta: float, rate: float, size: int
    ) -> None:
        low, high = claim(epsilon, delta).poisoned(rate, size)
        assert 0 <= low <= rate <= high <= 1
        wider = claim(epsilon, delta).poisoned(rate, size + 1)
        assert wider[0] <= low + 1e-9
        assert wider[1] >= high - 1e-9

    @given(epsilons, deltas, fractions, st.integers(1, 20))
    def test_it_is_the_guarantee_of_a_group(self, epsilon: float, delta: float, rate: float, size: int) -> None:
        try:
            group = claim(epsilon, delta).for_group(size)
        except InvalidArgument:  # a group's delta is 1
            assert claim(epsilon, delta).poisoned(rate, size) == (0.0, 1.0)
            return
        low, high = claim(epsilon, delta).poisoned(rate, size)
        assert high == pytest.approx(group.max_tpr(rate), abs=1e-9)
        assert low == pytest.approx(1 - group.max_tpr(1 - rate), abs=1e-9)

    @pytest.mark.parametrize("size", [1, 3, 8])
    def test_randomised_response_reaches_the_bounds(self, size: int) -> None:
        # Votes of three persons, kept with odds e^epsilon each: poisoning k of them moves all-true from its least
        # to its most likely case.
        epsilon, kept = 0.7, math.exp(0.7) / (1 + math.exp(0.7))
        unlikely, likely = (1 - kept) ** size, kept**size
        low, high = claim(epsilon).poisoned(unlikely, size)
        assert likely <= high
        assert likely == pytest.approx(math.exp(size * epsilon) * unlikely)
        assert low <= unlikely
        assert likely > claim(epsilon * 0.9).poisoned(unlikely, size)[1]  # a broken twin

    @given(epsilons, deltas, fractions, fractions)
    def test_the_largest_number_is_certified_and_one_more_is_not(
        self, epsilon: float, delta: float, a: float, b: float
    ) -> None:
        upper, lower = sorted((a, b))
        most = claim(epsilon, delta).most_poisons(lower, upper)
        assert 0 <= most <= 10**12
        if most and most < 10**12:
            stays = [
                claim(epsilon, delta).poisoned(lower, size)[0] > claim(epsilon, delta).poisoned(upper, size)[1]
                for size in (most, most + 1)
            ]
            assert stays == [True, False]

    def test_the_cost_of_an_attack_is_that_of_the_paper(self) -> None:
        # Ma, Zhu & Hsu 2019, Theorem 4: e^(-k eps) (J + delta / (e^eps - 1)) - delta / (e^eps - 1).
        epsilon, delta, cost, size = 0.3, 1e-3, 0.4, 4
        slack = delta / math.expm1(epsilon)
        expected = math.exp(-size * epsilon) * (cost + slack) - slack
        assert claim(epsilon, delta).poisoned(cost, size)[0] == pytest.approx(expected, abs=1e-9)

    def test_nothing_is_certified_at_a_tie_and_everything_without_dependence(self) -> None:
        assert claim(0.1).most_poisons(0.5, 0.5) == 0
        assert claim(0.0).most_poisons(0.6, 0.4) == 10**12
        assert claim(math.inf).most_poisons(1.0, 0.0) == 0

    def test_wrong_arguments_are_refused(self) -> None:
        for probability, changes in ((1.5, 1), (math.nan, 1), (0.5, -1), (0.5, 1.0)):
            with pytest.raises(InvalidArgument):
                claim(1.0).poisoned(probability, changes)  # type: ignore[arg-type]
