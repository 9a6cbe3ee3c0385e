"""Events: counting with ties, the shared error, and the search for thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hush.audit import epsilon_from_counts
from hush.audit.testers.events import EventCounts, OutputSet, best_events, epsilon_bounds, promise_of


def identity(rows: Any) -> Any:
    return rows[:, 0]


def event(**changes: Any) -> OutputSet:
    settings: dict[str, Any] = {
        "score": identity,
        "name": "x",
        "threshold": 1.0,
        "above": True,
        "swapped": False,
        "promise": 0.5,
    }
    return OutputSet(**{**settings, **changes})


SCORES = np.array([0.0, 1.0, 1.0, 2.0, np.nan])


@pytest.mark.parametrize(
    ("changes", "hits", "text"),
    [
        ({}, 3, "x >= 1, first input"),
        ({"above": False}, 3, "x <= 1, first input"),
        ({"tie": 0.0}, 1, "x > 1, first input"),
        ({"tie": 0.0, "above": False, "swapped": True}, 1, "x < 1, second input"),
    ],
)
def test_hits_are_on_one_side_of_the_threshold(changes: dict[str, Any], hits: int, text: str) -> None:
    counted = event(**changes)
    assert counted.hits(SCORES, np.random.default_rng(0)) == hits
    assert str(counted) == text


def test_ties_count_with_their_probability() -> None:
    scores = np.full(10_000, 1.0)
    hits = event(tie=0.3).hits(scores, np.random.default_rng(1))
    assert hits == pytest.approx(3000, abs=300)  # 6.5 standard deviations
    assert "= with probability 0.3" in str(event(tie=0.3))


def test_counts_add_up_over_blocks_and_directions() -> None:
    forward, backward = event(), event(threshold=0.5, above=False, swapped=True)
    counts = EventCounts([forward, backward], 0.0, np.random.default_rng(0))
    first, second = np.array([[2.0], [0.0]]), np.array([[0.0], [0.2]])
    counts.observe(first, second)
    counts.observe(first, second)
    # Forward: 2 of 4 on the first input, 0 on the second. Backward: 4 on the second, 2 on the first.
    evidence = counts.conclude(0.1)
    bounds = [float(epsilon_bounds(hits, other, 4, 0.0, 0.05)) for hits, other in ((2, 0), (4, 2))]
    assert evidence.epsilon_lower == max(bounds)
    assert evidence.details["num_events"] == 2
    assert counts.promise == 0.5


def test_the_bound_is_that_of_counts() -> None:
    expected = epsilon_from_counts(80, 100, 20, 100, delta=0.01, confidence=0.95).epsilon_lower
    assert float(epsilon_bounds(80, 20, 100, 0.01, 0.05)) == pytest.approx(expected)


def test_without_events_nothing_is_shown() -> None:
    evidence = EventCounts([], 0.0, np.random.default_rng(0)).conclude(0.05)
    assert (evidence.epsilon, evidence.epsilon_lower) == (0.0, 0.0)


def test_the_best_thresholds_separate_the_inputs() -> None:
    first, second = np.full((200, 1), 3.0), np.full((200, 1), 1.0)
    events = list(best_events("x", identity, first, second, 0.0))
    assert len(events) == 4
    best = max(events, key=lambda candidate: candidate.promise)
    assert best.promise == pytest.approx(promise_of(200, 0, 200, 0.0))
    counts = EventCounts([best], 0.0, np.random.default_rng(0))
    counts.observe(first, second)
    assert (counts.conclude(0.05).details["hits"], counts.conclude(0.05).details["other_hits"]) == (200, 0)


def test_scores_that_are_all_missing_have_no_events() -> None:
    rows = np.full((5, 1), np.nan)
    assert list(best_events("x", identity, rows, rows, 0.0)) == []
