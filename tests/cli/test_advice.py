"""Advice on epsilon, delta and method: the words that fit the numbers."""

from __future__ import annotations

import math

import pytest

from hush.cli.advice import advice


def lines(epsilon: float, num_units: int = 1000, **changes: float) -> list[str]:
    settings = {"delta": 1e-6, "epsilon_at_square": 2 * epsilon} | changes
    return advice(epsilon=epsilon, num_units=num_units, **settings)


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [
        (0.001, "is useless"),
        (0.1, "is strong"),
        (1.0, "is the usual promise"),
        (8.0, "is common in learning"),
        (11.0, "promises little"),
        (math.inf, "nothing is guaranteed"),
    ],
)
def test_epsilon(epsilon: float, words: str) -> None:
    assert words in lines(epsilon)[0]


def test_the_odds_are_rounded_up_and_cover_delta() -> None:
    # e / (1 + e) = 0.73106; with delta 0.1, 1 - 0.9 / (1 + e) = 0.75795.
    assert "may be right 73.2 %" in lines(1.0)[0]
    assert "may be right 75.8 %" in lines(1.0, delta=0.1)[0]


def test_delta() -> None:
    assert "1e-06 is 0.001 over the number of units" in lines(1.0)[1]
    assert "At 1 over its square, 1e-06, epsilon is 2." in lines(1.0)[1]
    assert "epsilon is unbounded." in lines(1.0, epsilon_at_square=math.inf)[1]


@pytest.mark.parametrize(
    ("num_units", "delta", "words"),
    [(9_999, 1e-5, ""), (10_000, 1e-5, ""), (60_000, 1e-5, "--delta 1e-06."), (99_999, 1e-5, "--delta 1e-06."),
     (100_001, 1e-6, "--delta 1e-07."), (100_000, 1e-6, "")],
)  # fmt: skip
def test_a_delta_near_one_over_the_number_of_units_is_much(num_units: int, delta: float, words: str) -> None:
    sentence = lines(1.0, num_units=num_units, delta=delta)[1]
    assert ("That is much" in sentence) == bool(words)
    assert words in sentence


def test_method() -> None:
    assert "objective perturbation or on noisy sums" in lines(1.0)[2]
    assert "any network" in lines(1.0, num_units=100_000)[2]
