"""SVT against the iterated exponential mechanism, at the same epsilon."""

from __future__ import annotations

import pytest

from hush.errors import InvalidArgument
from hush.lab.lessons.top_counts import compare_top_counts
from hush.randomness import TestSource

COUNTS = [2000 / rank for rank in range(1, 121)]


def test_one_exponential_mechanism_for_each_of_the_best_beats_svt() -> None:
    # Fixed keys: the mean shares of 60 trials.
    result = compare_top_counts(COUNTS, 10, epsilon=0.2, delta=1e-6, trials=60, rng=1, source=TestSource(2))
    assert result.svt + 0.05 < result.exponential
    assert result.exponential < result.exponential_with_delta


def test_without_noise_all_are_found() -> None:
    result = compare_top_counts(COUNTS, 3, epsilon=1000.0, delta=1e-6, trials=3, rng=1, source=TestSource(2))
    assert result.exponential == result.exponential_with_delta == 1
    # The threshold is the third count, which noise lifts above it half of the time.
    assert result.svt >= 2 / 3


def test_all_counts_are_no_choice() -> None:
    with pytest.raises(InvalidArgument, match="k=3"):
        compare_top_counts([1.0, 2.0, 3.0], 3, epsilon=1.0, delta=1e-6, trials=1, rng=1)
