"""The noise of a reusable holdout: bounds on errors that hold in simulations, and none that are idle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from hush.randomness import TestSource
from hush.stability import ReusableHoldout
from hush.stability.holdout_noise import HoldoutNoise, most_overfits


def errors(delta: float, num_queries: int, seed: int) -> float:
    """Return the largest distance of an answer to the holdout's mean, for gaps around the tolerance."""
    gaps = np.linspace(0.0, 0.5, num_queries)
    training, held_out = np.tile(gaps, (200, 1)), np.zeros((200, num_queries))
    settings: dict[str, Any] = {"epsilon": 5.0, "delta": delta, "max_overfits": num_queries, "tolerance": 0.25}
    holdout = ReusableHoldout((training,), (held_out,), source=TestSource(seed), **settings)
    return max(abs(holdout.ask(lambda x, j=j: x[:, j]).value) for j in range(num_queries))


@pytest.mark.parametrize("delta", [0.0, 1e-2])
def test_the_sample_width_fails_as_rarely_as_it_says(delta: float) -> None:
    num_queries, error, runs = (2, 0.2, 100)
    noise = HoldoutNoise(num_rows=200, epsilon=5.0, delta=delta, max_overfits=2, tolerance=0.25)
    width = noise.sample_width(num_queries, error)
    failures = sum(errors(delta, num_queries, seed) > width for seed in range(runs))
    assert failures <= binom.isf(1e-6, runs, error)  # false alarms: 1e-6


def test_the_width_grows_with_queries_overfits_and_times() -> None:
    def width(times: int = 1, queries: int = 100, **settings: Any) -> float:
        arguments = {"num_rows": 10**5, "epsilon": 0.2, "delta": 0.0, "max_overfits": 10, "tolerance": 0.05}
        return HoldoutNoise(**arguments | settings).proven_width(times, queries, 0.95)

    assert width() < width(queries=10**4)
    assert width() < width(times=2)
    assert width() < width(max_overfits=60)
    assert width(epsilon=50.0) == 1.0  # vacuous


def test_most_overfits_is_the_last_that_fits() -> None:
    settings = {"epsilon": 1.0, "delta": 1e-6, "tolerance": 0.05}
    most = most_overfits(60_000, **settings)
    margins = [HoldoutNoise(num_rows=60_000, max_overfits=most + more, **settings).margin for more in (0, 1)]
    assert margins[0] <= 0.05 < margins[1]
    assert most_overfits(50, **settings) == 0
