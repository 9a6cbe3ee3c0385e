"""The interactive aggregator: where it asks, and what its checks cost."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import log_ndtr

from estimators.pate.exact import ORDERS, Counts, neighbours, winners
from hush.estimators.pate import InteractiveGNMax, VoteAggregator, costs
from hush.estimators.pate.aggregators import VoteAnswers
from hush.randomness import TestSource

EVERYTHING = Fraction(10**9)


def test_interactive_asks_where_the_student_is_wrong_and_reinforces_where_it_is_right() -> None:
    aggregator = InteractiveGNMax(threshold=50.0, sigma_threshold=1.0, sigma=1.0, reinforce=0.9)
    counts = np.array([[95, 5], [95, 5], [55, 45]])
    guesses = np.array([[0.95, 0.05], [0.05, 0.95], [0.6, 0.4]])
    answers = aggregator.answer(counts, TestSource(2), limit=EVERYTHING, predictions=guesses, num_teachers=100)
    assert answers.labels.tolist() == [0, 0, -1]
    assert answers.consulted.tolist() == [False, True, False]


INTERACTIVE = InteractiveGNMax(threshold=4.0, sigma_threshold=3.0, sigma=3.0)


def query_cost(
    aggregator: VoteAggregator, counts: Counts, expected: Counts, *, passed: bool, order: float
) -> costs.RawCost:
    """Return the cost of one query, by its outcome."""
    answers = VoteAnswers(np.array([-1]), np.array([passed]), 1, Fraction(0), expected[None])
    return costs.raw_cost(counts[None], answers, aggregator, num_teachers=20, order=order, beta=0.05)


def outcomes(counts: Counts, expected: Counts) -> NDArray[np.float64]:
    """Return the exact probabilities of no answer and of each class."""
    excess = (counts - expected).max()
    passes = np.exp(log_ndtr((excess - INTERACTIVE.threshold) / INTERACTIVE.sigma_threshold))
    return np.array([1 - passes, *(passes * winners(counts, stats.norm(scale=INTERACTIVE.sigma)))])


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([14, 3, 3], [2, 9, 9]), ([14, 3, 3], [14, 4, 2]), ([20, 0, 0], [20, 0, 0]), ([9, 8, 3], [0, 0, 0])],
)
def test_the_loss_of_an_interactive_query_is_bounded_after_the_fact(counts: list[int], expected: list[int]) -> None:
    # E exp((order - 1)(loss - cost)) <= 1 over outcomes, for every neighbour. The conversion to epsilon rests on it.
    votes, guess = np.array(counts), np.array(expected)
    exact = outcomes(votes, guess)
    others = [outcomes(neighbour, guess) for neighbour in neighbours(votes)]
    for order in ORDERS:
        silent, spoken = (query_cost(INTERACTIVE, votes, guess, passed=p, order=order).cost for p in (False, True))
        paid = np.array([silent, *[spoken] * 3])
        means = [float(np.sum(exact * np.exp((order - 1) * (np.log(exact / other) - paid)))) for other in others]
        assert max(means) <= 1 + 1e-9
        free = [
            float(np.sum(exact * np.exp((order - 1) * (np.log(exact / other) - paid + silent)))) for other in others
        ]
        if votes.tolist() == [14, 3, 3] and order == 8.0:
            assert max(free) > 1, "a twin that does not pay for checks is caught"


def test_an_interactive_check_is_cheap_where_the_student_is_right_or_clearly_wrong() -> None:
    aggregator = InteractiveGNMax(threshold=100.0, sigma_threshold=20.0, sigma=20.0)
    rows = np.array([[240, 10]])
    exact_costs = []
    for guess in ([240, 10], [0, 250], [140, 110]):
        answers = VoteAnswers(np.array([0]), np.array([False]), 1, Fraction(0), np.array([guess]))
        exact_costs.append(costs.raw_cost(rows, answers, aggregator, num_teachers=250, order=14.0, beta=0.05))
    right, wrong, unsure = exact_costs
    assert right.cost < 0.1 * right.worst
    assert wrong.cost < 0.1 * wrong.worst
    assert unsure.cost == pytest.approx(unsure.worst)


@pytest.mark.parametrize("guess", [[0, 0, 0], [10, 0, 0], [3, 4, 3]])
def test_the_smooth_bound_holds_for_any_prediction(guess: list[int]) -> None:
    teachers, order, beta = 10, 4.0, 0.1
    aggregator = InteractiveGNMax(threshold=3.0, sigma_threshold=1.5, sigma=1.2)
    every = [counts for counts in itertools.product(range(teachers + 1), repeat=3) if sum(counts) <= teachers]
    answers = VoteAnswers(np.array([0]), np.array([True]), 1, Fraction(0), np.array([guess]))
    settings: dict[str, Any] = {"num_teachers": teachers, "order": order, "beta": beta}
    costs_of = {counts: costs.raw_cost(np.array([counts]), answers, aggregator, **settings) for counts in every}
    for counts, before in costs_of.items():
        for neighbour in neighbours(np.array(counts)):
            after = costs_of.get(tuple(neighbour.tolist()))
            if after is not None:
                assert abs(before.cost - after.cost) <= before.smooth * (1 + 1e-9)
                assert before.smooth <= after.smooth * math.exp(beta) * (1 + 1e-9)
