"""Selections have exactly the distribution that their theorem is about."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hush.errors import InvalidArgument
from hush.guarantee import Relation
from hush.mechanisms import (
    AboveThreshold,
    ExponentialMechanism,
    IteratedTopK,
    Monotone,
    OneShotTopK,
    PermuteAndFlip,
    ReportNoisyMax,
    ReportNoisyMaxWithGap,
)
from hush.randomness import TestSource

SCORES = [2.0, 1.0, 0.5, -1.0]
FALSE_ALARM = 1e-8  # of each comparison; no test makes more than two


def drawn(mechanism: Any, scores: Any, count: int, seed: int) -> Counter[Any]:
    source = TestSource(seed)
    values = (mechanism.release(scores, source).value for _ in range(count))
    return Counter(tuple(value) if isinstance(value, list) else value for value in values)


def fits(counts: Counter[Any], law: dict[Any, float]) -> bool:
    total = counts.total()
    assert set(counts) <= set(law)
    observed = [counts[outcome] for outcome in law]
    expected = [total * probability for probability in law.values()]
    return bool(stats.chisquare(observed, expected).pvalue > FALSE_ALARM)


def softmax(rate: float, scores: Any = SCORES) -> dict[int, float]:
    weights = np.exp(rate * np.array(scores))
    return dict(enumerate(weights / weights.sum()))


def flips(rate: float) -> dict[int, float]:
    """Return the distribution of permute-and-flip by its definition: every order of the candidates, every coin."""
    best, law = max(SCORES), dict.fromkeys(range(len(SCORES)), 0.0)
    for order in itertools.permutations(range(len(SCORES))):
        reached = 1.0
        for candidate in order:
            accepted = math.exp(rate * (SCORES[candidate] - best))
            law[candidate] += reached * accepted / math.factorial(len(SCORES))
            reached *= 1 - accepted
    return law


def noisy_max(rate: float) -> dict[int, float]:
    """Return P(i wins), the integral of i's density times the other distribution functions."""
    grid = np.linspace(-60, 60, 400_001)
    law = {}
    for candidate, score in enumerate(SCORES):
        product = stats.laplace.pdf(grid, loc=rate * score)
        for other, other_score in enumerate(SCORES):
            if other != candidate:
                product = product * stats.laplace.cdf(grid, loc=rate * other_score)
        law[candidate] = float(product.sum() * (grid[1] - grid[0]))
    return law


@pytest.mark.parametrize(
    ("kind", "law"), [(ExponentialMechanism, softmax), (PermuteAndFlip, flips), (ReportNoisyMax, noisy_max)]
)
@pytest.mark.parametrize(("sensitivity", "rate"), [(2.0, 1.5 / 4), (Monotone(2.0), 1.5 / 2)])
@pytest.mark.quick_cases(3)
def test_the_distribution_is_that_of_the_theorem(kind: Any, law: Any, sensitivity: Any, rate: float) -> None:
    counts = drawn(kind(epsilon=1.5, sensitivity=sensitivity), SCORES, 8_000, 1)
    assert fits(counts, law(rate))
    # Missed with probability 3e-12 at most, by the noncentral chi-squared law.
    assert not fits(counts, law(1.4 * rate)), "too little noise must be noticed"
    assert not fits(counts, law(0.6 * rate)), "too much noise must be noticed"


def test_iterated_top_k_is_the_exponential_mechanism_repeated() -> None:
    mechanism = IteratedTopK(epsilon=3.0, k=2)
    law = {}
    for first, p in softmax(0.75).items():
        others = [i for i in range(len(SCORES)) if i != first]
        rest = softmax(0.75, [SCORES[i] for i in others])
        law.update({(first, other): p * rest[position] for position, other in enumerate(others)})
    assert fits(drawn(mechanism, SCORES, 5_000, 2), law)
    assert not fits(drawn(IteratedTopK(epsilon=5.0, k=2), SCORES, 5_000, 2), law)  # missed with 1e-80


def test_a_delta_leaves_more_epsilon_to_each_choice() -> None:
    pure, approximate = (IteratedTopK(epsilon=1.0, k=20, delta=delta)._per_choice for delta in (0.0, 1e-6))
    assert pure == pytest.approx(0.05)
    assert approximate > 1.7 * pure


def test_one_shot_top_k_orders_by_noisy_score() -> None:
    assert OneShotTopK(epsilon=1e3, k=3).release([5.0, 900.0, 20.0, 300.0]).value == [1, 3, 2]
    assert sorted(OneShotTopK(epsilon=1.0, k=9).release([1.0, 2.0]).value) == [0, 1], "all, if there are fewer"
    spread = drawn(OneShotTopK(epsilon=1.0, k=1), SCORES, 8_000, 3)
    assert fits(spread, {(i,): p for i, p in noisy_max(0.5).items()}), "for k = 1 it is report noisy max"


def test_the_gap_is_that_of_laplace_noise() -> None:
    source = TestSource(4)
    mechanism = ReportNoisyMaxWithGap(epsilon=1.0, sensitivity=1.0)
    results = [mechanism.release([0.0, 0.0], source).value for _ in range(2500)]
    # The gap of two Laplace variables of scale 2: |difference| has the density (1 + x / 2) e^(-x / 2) / 4.
    gaps = np.array([gap for _, gap in results])
    assert (gaps >= 0).all()

    def law(x: Any, scale: float = 2.0) -> Any:
        return 1 - (1 + x / (2 * scale)) * np.exp(-x / scale)

    assert stats.kstest(gaps, law).pvalue > FALSE_ALARM
    # A scale of 1.5 is 0.120 away, the alarm at 0.062: missed by 5.8 standard deviations of at most 0.01.
    assert stats.kstest(gaps, lambda x: law(x, 1.5)).pvalue < FALSE_ALARM
    with pytest.raises(InvalidArgument, match="^scores.shape="):
        mechanism.release([1.0])


def test_large_scores_lose_no_accuracy() -> None:
    """1e15 and 1e15 + 1 differ by one: so much that the exponential mechanism sees it."""
    mechanism = ExponentialMechanism(epsilon=2.0)
    counts = drawn(mechanism, [1e15, 1e15 + 1], 4000, 5)
    assert fits(counts, softmax(1.0, [0.0, 1.0]))


@pytest.mark.parametrize("scores", [[], [[1.0, 2.0]], 5.0])
def test_scores_are_a_list(scores: Any) -> None:
    for kind in (ExponentialMechanism, PermuteAndFlip, ReportNoisyMax):
        with pytest.raises(InvalidArgument, match="^scores.shape="):
            kind(epsilon=1.0).release(scores)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, None])
def test_k_is_a_count(wrong: Any) -> None:
    for kind in (OneShotTopK, IteratedTopK):
        with pytest.raises(InvalidArgument, match="^k="):
            kind(epsilon=1.0, k=wrong)


@pytest.mark.parametrize("scores", [[1e20] + [0.0] * 5000, [5.0] + [-np.inf] * 5000, [1e20, 1e20] + [0.0] * 5000])
def test_far_winners_cost_no_exact_arithmetic(scores: list[float]) -> None:
    """All others were once within the error of the winner's deficit, and were sorted exactly, which took minutes."""
    for mechanism in (
        IteratedTopK(epsilon=1.0, k=2),
        IteratedTopK(epsilon=1.0, k=40),
        ReportNoisyMaxWithGap(epsilon=1.0),
    ):
        mechanism.release(scores)


def test_replacements_are_not_monotone() -> None:
    for kind in (ExponentialMechanism, AboveThreshold):
        with pytest.raises(InvalidArgument, match=r"^sensitivity=Monotone.* Pass sensitivity=1\.$"):
            kind(epsilon=1.0, sensitivity=Monotone(), relation=Relation.REPLACE)


def test_the_guarantee_says_in_how_many_directions_scores_may_move() -> None:
    for kind in (PermuteAndFlip, AboveThreshold):
        (both,), (single,) = (
            kind(epsilon=1.0, sensitivity=sensitivity).guarantee().assumptions for sensitivity in (3.0, Monotone(3.0))
        )
        assert both.endswith("moves by at most 3")
        assert single.endswith("moves in one direction by at most 3")


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan, True, "1", None])
def test_sensitivities_are_positive_numbers(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="^largest_change="):
        Monotone(wrong)
    for kind in (ExponentialMechanism, AboveThreshold):
        with pytest.raises(InvalidArgument, match="^sensitivity="):
            kind(epsilon=1.0, sensitivity=wrong)
