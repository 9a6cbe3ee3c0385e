"""Disparate impact: simultaneous intervals, planted disparities, and a twin that forgets to correct."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from hush.audit.fairness import disparate_impact
from hush.errors import InvalidArgument


def models(rng: np.random.Generator, accuracy: Any, lost: Any, won: Any) -> tuple[Any, Any]:
    """Return where a plain and a private model are correct; ``lost`` and ``won`` are probabilities of a change."""
    plain = rng.random(np.shape(accuracy)) < accuracy
    changes = rng.random(np.shape(accuracy))
    return plain, np.where(plain, changes >= lost, changes < won)


def test_a_planted_disparity_is_found_and_named() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b", "rare"], [2000, 2000, 1000])
    plain, private = models(rng, np.full(5000, 0.9), np.where(groups == "rare", 0.5, 0.05), 0.1)
    impact = disparate_impact(plain, private, groups, confidence=1 - 1e-7)
    # Over 30 seeds the loss is 0.440, the gap at least 0.274, the difference of losses 0.247; deviations below 0.02.
    assert impact.is_disparate
    assert impact.groups["rare"].loss.estimate > 0.3
    assert impact.groups["rare"].count == 1000
    assert impact.private_gap.low > 0.1
    assert impact.plain_gap.low == 0  # false alarms: 1e-7
    assert "'rare' loses the most" in str(impact)
    assert "are shown" in str(impact)


def test_equal_treatment_is_not_called_disparate() -> None:
    rng = np.random.default_rng(1)
    plain, private = models(rng, np.full(5000, 0.8), 0.2, 0.2)
    impact = disparate_impact(plain, private, rng.integers(0, 10, 5000), confidence=1 - 1e-7)
    assert not impact.is_disparate  # false alarms: 1e-7
    assert "are not shown" in str(impact)
    same = disparate_impact(plain, plain, rng.integers(0, 10, 5000))
    assert all(group.loss.estimate == 0 and group.loss.low < 0 < group.loss.high for group in same.groups.values())


def runs_that_hold(runs: int, confidence: float) -> int:
    """Count the runs in which all intervals hold. Truth: losses 0.9 * 0.3 - 0.1 * 0.2, in each of 12 groups of 60."""
    rng, groups = np.random.default_rng(2), np.repeat(np.arange(12), 60)
    truth = {"plain": 0.9, "private": 0.9 * 0.7 + 0.1 * 0.2, "loss": 0.9 * 0.3 - 0.1 * 0.2}

    def holds(impact: Any) -> bool:
        return impact.loss_gap.low == 0 and all(
            getattr(group, name).low <= value <= getattr(group, name).high
            for group in impact.groups.values()
            for name, value in truth.items()
        )

    pairs = (models(rng, np.full(720, 0.9), 0.3, 0.2) for _ in range(runs))
    return sum(holds(disparate_impact(*pair, groups, confidence=confidence)) for pair in pairs)


def test_all_intervals_hold_simultaneously() -> None:
    assert runs_that_hold(200, 0.95) >= binom.ppf(1e-7, 200, 0.95)  # false alarms: 1e-7


@pytest.mark.slow
def test_uncorrected_intervals_fail() -> None:
    # The twin corrects for the intervals of a group, not for the 12 groups: 0.80 hold, and fewer than 0.91 are noticed.
    assert runs_that_hold(800, 1 - 12 * 0.05) < binom.ppf(1e-7, 800, 0.95)


def test_small_groups_claim_little() -> None:
    impact = disparate_impact([1, 1, 0], [1, 0, 0], [1, 2, 2])
    assert impact.groups[1].plain.low < 0.05
    assert impact.groups[1].plain.high == 1
    assert not impact.is_disparate
    single_group = disparate_impact([1, 0], [1, 0], [5, 5])
    gap = single_group.plain_gap
    assert (gap.estimate, gap.low, gap.high) == (0, 0, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"plain_correct": [1.0, float("nan")]},
        {"private_correct": [1, 0, 1]},
        {"plain_correct": [2, 0]},
        {"groups": []},
        {"groups": [0.5, float("nan")]},
        {"confidence": 1.0},
        {"confidence": float("nan")},
    ],
)
def test_invalid_arguments_are_refused(change: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"plain_correct": [1, 0], "private_correct": [1, 0], "groups": ["a", "b"]}
    disparate_impact(**arguments)
    with pytest.raises(InvalidArgument):
        disparate_impact(**arguments | change)
