"""Who pays for privacy: intervals that hold together, planted disparities, and a twin that forgets to correct."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from hush.audit.fairness import disparate_impact
from hush.errors import InvalidArgument


def models(rng: np.random.Generator, accuracy: Any, lost: Any, won: Any) -> tuple[Any, Any]:
    """Return whether a plain and a private model are right: ``lost`` and ``won`` are chances of changing."""
    plain = rng.random(np.shape(accuracy)) < accuracy
    changes = rng.random(np.shape(accuracy))
    return plain, np.where(plain, changes >= lost, changes < won)


def test_a_planted_disparity_is_found_and_named() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b", "rare"], [2000, 2000, 1000])
    plain, private = models(rng, np.full(5000, 0.9), np.where(groups == "rare", 0.5, 0.05), 0.1)
    found = disparate_impact(plain, private, groups, confidence=1 - 1e-7)
    # Over 30 seeds the loss is 0.440, the gap at least 0.274, the difference of losses 0.247; deviations below 0.02.
    assert found.is_disparate
    assert found.groups["rare"].loss.estimate > 0.3
    assert found.groups["rare"].count == 1000
    assert found.private_gap.low > 0.1
    assert found.plain_gap.low == 0  # false alarms: 1e-7
    assert "'rare' loses most" in str(found)
    assert "is shown" in str(found)


def test_equal_treatment_is_not_called_disparate() -> None:
    rng = np.random.default_rng(1)
    plain, private = models(rng, np.full(5000, 0.8), 0.2, 0.2)
    found = disparate_impact(plain, private, rng.integers(0, 10, 5000), confidence=1 - 1e-7)
    assert not found.is_disparate  # false alarms: 1e-7
    assert "is not shown" in str(found)
    same = disparate_impact(plain, plain, rng.integers(0, 10, 5000))
    assert all(group.loss.estimate == 0 and group.loss.low < 0 < group.loss.high for group in same.groups.values())


def runs_that_hold(runs: int, confidence: float) -> int:
    """In how many runs all intervals hold. Truth: losses 0.9 * 0.3 - 0.1 * 0.2, in each of 12 groups of 60."""
    rng, groups = np.random.default_rng(2), np.repeat(np.arange(12), 60)
    truth = {"plain": 0.9, "private": 0.9 * 0.7 + 0.1 * 0.2, "loss": 0.9 * 0.3 - 0.1 * 0.2}

    def holds(found: Any) -> bool:
        return found.loss_gap.low == 0 and all(
            getattr(group, name).low <= value <= getattr(group, name).high
            for group in found.groups.values()
            for name, value in truth.items()
        )

    pairs = (models(rng, np.full(720, 0.9), 0.3, 0.2) for _ in range(runs))
    return sum(holds(disparate_impact(*pair, groups, confidence=confidence)) for pair in pairs)


def test_all_intervals_hold_at_once() -> None:
    assert runs_that_hold(200, 0.95) >= binom.ppf(1e-7, 200, 0.95)  # false alarms: 1e-7


@pytest.mark.slow
def test_uncorrected_intervals_do_not() -> None:
    # The twin corrects for the intervals of a group, not for the 12 groups: 0.80 hold, and fewer than 0.91 are noticed.
    assert runs_that_hold(800, 1 - 12 * 0.05) < binom.ppf(1e-7, 800, 0.95)


def test_small_groups_claim_little() -> None:
    found = disparate_impact([1, 1, 0], [1, 0, 0], [1, 2, 2])
    assert found.groups[1].plain.low < 0.05
    assert found.groups[1].plain.high == 1
    assert not found.is_disparate
    alone = disparate_impact([1, 0], [1, 0], [5, 5])
    assert (alone.plain_gap.estimate, alone.plain_gap.low, alone.plain_gap.high) == (0, 0, 0)


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
def test_refusals(change: dict[str, Any]) -> None:
    given: dict[str, Any] = {"plain_correct": [1, 0], "private_correct": [1, 0], "groups": ["a", "b"]}
    disparate_impact(**given)
    with pytest.raises(InvalidArgument):
        disparate_impact(**given | change)
