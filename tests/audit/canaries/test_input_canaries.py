"""Canaries with wrong labels: their labels and coins, calibration over runs, and the bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from hush.audit.canaries import audit_label_canaries, calibrated_scores, label_canaries
from hush.errors import InvalidArgument
from hush.randomness import TestSource


def test_labels_of_canaries_are_wrong_and_coins_fair() -> None:
    labels = np.random.default_rng(1).integers(-1, 4, size=5000)
    canaries = label_canaries(labels, num_classes=4, num_canaries=2000, source=TestSource(1))
    assert len(np.unique(canaries.units)) == 2000
    assert np.all(canaries.labels != labels[canaries.units])
    assert set(canaries.labels.tolist()) == {0, 1, 2, 3}
    assert binomtest(int(canaries.included.sum()), 2000).pvalue > 1e-7
    again = canaries.again(TestSource(2))
    assert np.array_equal(again.units, canaries.units)
    assert not np.array_equal(again.included, canaries.included)


@pytest.mark.parametrize(
    ("labels", "classes", "count"), [([0, 1], 1, 1), ([0, 5], 2, 1), ([0, 1], 2, 3), ([0.5, 1.0], 2, 1)]
)
def test_invalid_canaries_are_refused(labels: list[float], classes: int, count: int) -> None:
    with pytest.raises(InvalidArgument):
        label_canaries(labels, num_classes=classes, num_canaries=count)


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
