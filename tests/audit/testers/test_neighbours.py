"""The search for the inputs on which a mechanism leaks most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hush.audit.testers import Batched, audit_worst_neighbours, patterns
from hush.errors import InvalidArgument
from hush.randomness import RandomSource, TestSource

Rows = NDArray[Any]


@pytest.mark.parametrize("length", [1, 2, 5])
def test_patterns_are_neighbours(length: int) -> None:
    for first, second in patterns(length, change=3.0).values():
        assert first.shape == second.shape == (length,)
        assert 0 < np.max(np.abs(first - second)) <= 3.0
    for first, second in patterns(length, one_entry=True).values():
        assert np.count_nonzero(first != second) == 1
        assert np.abs(first - second).sum() == 1.0


def largest(values: Rows, source: RandomSource, count: int) -> Rows:
    """The largest noisy value, at epsilon 1. It leaks only if several values rise together."""
    noise = np.random.default_rng(source.words(4)).laplace(scale=2.0, size=(count, len(values)))
    return np.asarray((values + noise).max(axis=1))


def test_the_worst_pattern_is_found() -> None:
    # False alarms: 1e-7. 1.91 is shown, with a standard deviation of 0.07 over seeds.
    settings: dict[str, Any] = {"samples": 40_000, "search_samples": 10_000, "confidence": 1 - 1e-7}
    result = audit_worst_neighbours(Batched(largest), patterns(5), source=TestSource(1), **settings)
    assert result.details["inputs"] in ("all above", "all below")
    assert result.compare(1.0).violated
    one_entry = audit_worst_neighbours(Batched(largest), patterns(5, one_entry=True), source=TestSource(1), **settings)
    assert not one_entry.compare(1.0).violated


def leaks_above_three(value: float, source: RandomSource, count: int) -> Rows:
    """Noise of scale 2, but far less for values above 3."""
    generator = np.random.default_rng(source.words(4))
    return value + generator.laplace(scale=2.0 if value <= 3 else 0.2, size=count)


def moved(pair: tuple[float, float], generator: np.random.Generator) -> tuple[float, float]:
    step = abs(float(generator.normal()))  # upwards: some step of 30 leads above 3, but for one in 10^12 searches
    return pair[0] + step, pair[1] + step


def test_hill_climbing_leaves_the_pattern() -> None:
    # False alarms: 1e-7. 5.8 or so is shown.
    settings: dict[str, Any] = {"samples": 20_000, "search_samples": 4_000, "confidence": 1 - 1e-7}
    start = {"start": (1.5, 2.5)}
    unchanged = audit_worst_neighbours(Batched(leaks_above_three), start, source=TestSource(1), **settings)
    assert not unchanged.compare(0.5).violated
    climbed = audit_worst_neighbours(
        Batched(leaks_above_three), start, change=moved, num_steps=30, source=TestSource(1), **settings
    )
    assert climbed.compare(0.5).violated
    assert int(climbed.details["changes"]) > 0


def test_invalid_searches_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="^inputs="):
        audit_worst_neighbours(Batched(largest), {}, samples=10, search_samples=10)
    with pytest.raises(InvalidArgument, match="^change="):
        audit_worst_neighbours(Batched(largest), patterns(2), samples=10, search_samples=10, num_steps=3)
    with pytest.raises(InvalidArgument, match="^length="):
        patterns(0)
