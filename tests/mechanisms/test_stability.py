"""Private stability tests: distances, thresholds and noisy bounds, checked against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from hush.errors import InvalidArgument
from hush.mechanisms import NoisyLocalSensitivity, ProposeTestRelease, StableValue, median_distance
from hush.randomness import TestSource
from mechanisms.small_datasets import BOUNDS, datasets, distance, local_sensitivity


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("proposed", [0.0, 0.5, 1.0, 2.0, 3.0, 4.0])
def test_the_distance_of_a_median(size: int, proposed: float) -> None:
    for records in datasets(size):
        exact = [distance(records, other) for other in datasets(size) if local_sensitivity(other) > proposed]
        assert median_distance(records, BOUNDS, proposed) == (min(exact) if exact else size + 1)


def passing(threshold: int, scale: float) -> float:
    """Return P(k >= threshold) for discrete Laplace noise k."""
    return math.exp(-threshold / scale) / (1 + math.exp(-1 / scale))


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01, 0.4])
def test_tests_pass_at_distance_zero_with_probability_delta_at_most(epsilon: float, delta: float) -> None:
    for mechanism in (
        ProposeTestRelease(epsilon=epsilon, delta=delta, proposed_bound=1.0),
        StableValue(epsilon=epsilon, delta=delta),
    ):
        assert passing(mechanism._threshold, mechanism._scale) <= delta
        if mechanism._threshold > 1:
            assert passing(mechanism._threshold - 1, mechanism._scale) > delta, "the threshold is no larger than needed"


def test_values_next_to_another_one_are_not_released() -> None:
    """At distance 1 a neighbour has another value, so the release probability is delta, not e^epsilon delta."""
    mechanism = StableValue(epsilon=2.0, delta=0.05)
    source = TestSource(21)
    released = sum(mechanism.release("x", 1, source).value is not None for _ in range(10_000))
    assert released <= binom.isf(1e-7, 10_000, 0.05)  # false alarms: 1e-7 at most
    assert mechanism.release("x", 1000, source).value == "x"


def test_stable_values_are_released() -> None:
    for mechanism in (
        ProposeTestRelease(epsilon=1.0, delta=1e-6, proposed_bound=1.0),
        StableValue(epsilon=1.0, delta=1e-6),
    ):
        source = TestSource(22)
        needed = mechanism.distance_needed(0.9)
        results = [mechanism.release(3.0, needed, source).value for _ in range(2000)]
        assert sum(result is not None for result in results) >= binom.ppf(1e-7, 2000, 0.9)  # false alarms: 1e-7


def test_the_noisy_bound_is_rarely_too_small() -> None:
    mechanism = NoisyLocalSensitivity(epsilon=1.0, delta=0.02, bound_sensitivity=0.5)
    source = TestSource(23)
    bounds = np.array([mechanism.release(7.0, 3.0, source).value[1] for _ in range(10_000)])
    assert (bounds < 3.0).sum() <= binom.isf(1e-7, 10_000, 0.02)  # false alarms: 1e-7
    # Half a unit is e^0.5 times as probable, 0.033: P(Binomial(10000, 0.033) <= 200) = 4e-15.
    assert (bounds < 3.0 + 0.5).mean() > 0.02, "the bound is no larger than needed"


def test_a_capped_bound_caps_the_value() -> None:
    mechanism = NoisyLocalSensitivity(epsilon=1.0, delta=1e-6, bound_sensitivity=1.0)
    values = [abs(mechanism.release(1e200, 1e200).value[0]) for _ in range(20)]
    assert max(values) < 1e153


def test_a_median_needs_records() -> None:
    with pytest.raises(InvalidArgument, match="^records.shape="):
        median_distance([], (0, 1), 0.5)


@pytest.mark.parametrize("delta", [0.0, 1e-281, 1.0, math.nan])
def test_deltas_that_no_threshold_fits_are_refused(delta: float) -> None:
    for make in (
        lambda: StableValue(epsilon=1.0, delta=delta),
        lambda: ProposeTestRelease(epsilon=1.0, delta=delta, proposed_bound=1.0),
        lambda: NoisyLocalSensitivity(epsilon=1.0, delta=delta, bound_sensitivity=1.0),
    ):
        with pytest.raises(InvalidArgument, match="^delta="):
            make()
