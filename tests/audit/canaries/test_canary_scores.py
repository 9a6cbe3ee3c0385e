"""Bounds from canaries: calibration over runs, confidence, and the best possible bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from hush.audit.canaries import audit_label_canaries, calibrated_scores
from hush.errors import InvalidArgument


def test_a_canarys_mean_over_other_runs_is_subtracted() -> None:
    """A canary that every model finds likely reveals nothing by being likely once more."""
    random = np.random.default_rng(2)
    coins = random.integers(0, 2, size=(10, 500)).astype(bool)
    baseline = 10 * random.normal(size=500)
    scores = baseline + 3.0 * coins + random.normal(size=(10, 500))
    single_run = audit_label_canaries(scores[0], coins[0], delta=1e-5)
    all_runs = audit_label_canaries(scores, coins, delta=1e-5)
    # Over 30 seeds 0.16 and 5.1, with standard deviations of 0.13 and 0.26.
    assert all_runs.epsilon_lower > 2 > single_run.epsilon_lower
    assert np.allclose(calibrated_scores(scores + baseline), calibrated_scores(scores))


def test_the_bound_keeps_its_confidence() -> None:
    """Randomised response on each coin, in four runs; the scores are the responses."""
    epsilon, failed = 1.0, 0
    random = np.random.default_rng(3)
    for _ in range(200):
        coins = random.integers(0, 2, size=(4, 100)).astype(bool)
        lie = random.random(size=coins.shape) > math.exp(epsilon) / (1 + math.exp(epsilon))
        responses = (coins ^ lie).astype(float) + 1e-6 * random.random(size=coins.shape)
        failed += audit_label_canaries(responses, coins, delta=0.0).epsilon_lower > epsilon
    assert binomtest(failed, 200, 0.05, alternative="greater").pvalue > 1e-7


@pytest.mark.parametrize("coins", [np.array(["0", "1"] * 50), np.array([-1, 1] * 50), np.array([np.nan, 0.0] * 50)])
def test_coins_are_true_or_false(coins: Any) -> None:
    with pytest.raises(InvalidArgument, match="included"):
        audit_label_canaries(np.arange(100.0), coins, delta=1e-5)


def test_the_best_possible_bound_is_reported() -> None:
    coins = np.array([True, False] * 100)
    perfect = audit_label_canaries(coins.astype(float), coins, delta=1e-5, guessed=1.0)
    assert perfect.epsilon_lower == pytest.approx(float(perfect.details["epsilon_at_best"]))
    blind = audit_label_canaries(np.zeros(200), coins, delta=1e-5, guessed=1.0)
    assert blind.details["epsilon_at_best"] == perfect.details["epsilon_at_best"]
    assert blind.epsilon_lower == 0
