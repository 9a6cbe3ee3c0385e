"""Noise on votes: its distribution, and refused scales and counts."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hush.errors import InvalidArgument
from hush.estimators.pate import ConfidentGNMax, GNMax, LNMax
from hush.estimators.pate.noise import MAX_TEACHERS, check_counts, noisy_argmax, passes_threshold
from hush.randomness import TestSource, floored_gaussian, floored_laplace

EVERYTHING = Fraction(10**9)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf, True, "1"])
def test_noise_is_checked(wrong: Any) -> None:
    for make in (
        lambda: LNMax(scale=wrong),
        lambda: GNMax(sigma=wrong),
        lambda: ConfidentGNMax(threshold=1.0, sigma_threshold=wrong, sigma=1.0),
        lambda: ConfidentGNMax(threshold=wrong, sigma_threshold=1.0, sigma=1.0),
    ):
        with pytest.raises(InvalidArgument):
            make()


@pytest.mark.parametrize("wrong", [[1, 2], [[1.5, 2.0]], [[1]], [["a", "b"]]])
def test_counts_are_checked(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="counts"):
        GNMax(sigma=1.0).answer(np.array(wrong), TestSource(0), limit=EVERYTHING)


@pytest.mark.parametrize("gaussian", [True, False])
def test_the_probability_of_another_winner(gaussian: bool) -> None:
    """Against the exact tail of the difference of two noises, and a twin with half the noise."""
    votes, scale, count = np.tile([6, 3], (20_000, 1)), 2.0, 20_000
    draw = floored_gaussian if gaussian else floored_laplace
    labels = noisy_argmax(votes, draw, scale, TestSource("winner"))
    gap = 3 / scale
    exact = stats.norm.sf(gap / math.sqrt(2)) if gaussian else (2 + gap) * math.exp(-gap) / 4
    half = stats.norm.sf(2 * gap / math.sqrt(2)) if gaussian else (2 + 2 * gap) * math.exp(-2 * gap) / 4
    # False alarms: six standard errors of a share, 2e-9. The twin is 25 of them away, or more.
    error = 6 * math.sqrt(exact * (1 - exact) / count)
    assert abs(labels.mean() - exact) < error
    assert abs(half - exact) > 4 * error


def test_little_noise_keeps_the_order_and_ties_go_either_way() -> None:
    votes = np.array([[1 << 20, (1 << 20) - 1], [0, 1]])
    assert noisy_argmax(votes, floored_gaussian, 1e-3, TestSource(1)).tolist() == [0, 1]
    ties = noisy_argmax(np.full((2000, 2), 7), floored_gaussian, 1e-3, TestSource(2))
    # False alarms: P(|Binomial(2000, 0.5) - 1000| > 140) = 4e-10.
    assert abs(int(ties.sum()) - 1000) <= 140


def test_the_probability_of_passing_a_threshold() -> None:
    values = np.full(20_000, 8)
    passed = passes_threshold(values, 9.5, 3.0, TestSource("threshold")).mean()
    exact = stats.norm.cdf((8 - 9.5) / 3.0)
    # False alarms: six standard errors, 2e-9. Without noise nothing would pass.
    assert abs(passed - exact) < 6 * math.sqrt(exact * (1 - exact) / len(values))
    assert not passes_threshold(values, 9.5, 1e-3, TestSource(1)).any()
    assert passes_threshold(values, 7.5, 1e-3, TestSource(1)).all()


def test_counts_are_clamped_to_what_the_grid_holds() -> None:
    assert check_counts(np.array([[-5, 1 << 40]])).tolist() == [[0, MAX_TEACHERS]]
    assert check_counts(np.array([[3, 4]], dtype=np.uint8)).dtype == np.int64
