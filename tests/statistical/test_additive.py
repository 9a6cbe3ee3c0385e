"""Mechanisms that add noise: the distribution of their releases, and the coverage of their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from hush.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Mechanism, Staircase
from hush.randomness import TestSource
from statistical import laws
from statistical.budget import COMPARISONS, THRESHOLD

SIZE = 200_000
STAIRS = 12_000
CONFIDENCES = (0.5, 0.9, 0.99)
RELEASES = 2_500


def steps(mechanism: Any, value: float) -> NDArray[np.float64]:
    """Return the noise of a release of many equal numbers, in units of the grid."""
    released = mechanism.release(np.full(SIZE, value), TestSource(type(mechanism).__name__)).value
    spacing = mechanism._grid.spacing if hasattr(mechanism, "_grid") else 1
    return np.asarray((released - value) / spacing)


# A mechanism, the distribution of its noise, and the textbook's scale: the mechanism's is close to it, and not below.
ADDITIVE: dict[str, tuple[Callable[[], Any], laws.Law, float]] = {
    "Laplace": (lambda: Laplace(epsilon=0.5, sensitivity=3.0, size=SIZE), laws.floored_laplace, 6.0),
    "Gaussian": (
        lambda: Gaussian(epsilon=1.0, delta=1e-5, sensitivity=2.0, size=SIZE),
        laws.floored_gaussian,
        2 * 3.7306,  # the analytic Gaussian mechanism at (1, 1e-5)
    ),
    "DiscreteLaplace": (lambda: DiscreteLaplace(epsilon=0.25, sensitivity=2, size=SIZE), laws.discrete_laplace, 8.0),
    "DiscreteGaussian": (
        lambda: DiscreteGaussian(epsilon=1.0, delta=1e-5, sensitivity=2, size=SIZE),
        laws.discrete_gaussian,
        2 * 3.7306,  # a vector needs slightly more
    ),
}


@pytest.mark.parametrize("name", ADDITIVE)
def test_released_values_have_the_right_distribution(name: str) -> None:
    make, law, smallest = ADDITIVE[name]
    mechanism = make()
    assert smallest * (1 - 1e-3) <= mechanism.noise_scale <= smallest * 1.3
    scale = mechanism.noise_scale / (mechanism._grid.spacing if hasattr(mechanism, "_grid") else 1)
    noise = steps(mechanism, 100)
    assert min(laws.p_values(noise, law, scale)) > THRESHOLD
    for wrong in (0.97, 1.03):  # each missed with probability 2e-12 at most
        assert min(laws.p_values(noise, law, scale * wrong)) < THRESHOLD


def staircase(epsilon: float) -> laws.Law:
    """Return the distribution function of staircase noise, for a scale that is the sensitivity."""

    def law(x: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        magnitude = np.abs(x) / scale
        share = 1 / (1 + math.exp(epsilon / 2))  # the upper part of each step
        block, remainder = np.floor(magnitude), magnitude % 1
        total = share + (1 - share) * math.exp(-epsilon)
        within = np.where(remainder < share, remainder, share + (remainder - share) * math.exp(-epsilon)) / total
        inside = 1 - np.exp(-epsilon * block) + np.exp(-epsilon * block) * -math.expm1(-epsilon) * within
        return 0.5 + np.sign(x) * inside / 2

    return law


def test_the_staircase_has_the_right_distribution() -> None:
    mechanism, source = Staircase(epsilon=1.5, sensitivity=2.0), TestSource("staircase")
    noise = np.array([mechanism.release(5.0, source).value - 5.0 for _ in range(STAIRS)]) * 2**20  # of fine integers
    law, scale = staircase(1.5), 2.0 * 2**20
    assert min(laws.p_values(noise, law, scale)) > THRESHOLD
    for wrong in (0.9, 1.1):  # these and the next two are missed with probability 1e-30 at most
        assert min(laws.p_values(noise, law, scale * wrong)) < THRESHOLD
    assert min(laws.p_values(noise, staircase(1.3), scale)) < THRESHOLD
    assert min(laws.p_values(noise, staircase(1.7), scale)) < THRESHOLD


INTERVALS: dict[str, tuple[Any, Any]] = {
    "Laplace": (Laplace(epsilon=0.1, sensitivity=1.0), 3.3),
    "four Laplace": (Laplace(epsilon=0.1, sensitivity=1.0, size=4), np.array([1.0, -2.0, 0.1, 1e6])),
    "Gaussian": (Gaussian(epsilon=0.5, delta=1e-6, sensitivity=1.0), -7.1),
    "four Gaussian": (Gaussian(epsilon=0.5, delta=1e-6, sensitivity=1.0, size=4), np.array([1.0, -2.0, 0.1, 1e6])),
    "DiscreteLaplace": (DiscreteLaplace(epsilon=0.02), 12),
    "four DiscreteLaplace": (DiscreteLaplace(epsilon=0.02, size=4), np.array([1, -2, 0, 10**6])),
    "DiscreteGaussian": (DiscreteGaussian(epsilon=0.1, delta=1e-6), 12),
    "Staircase": (Staircase(epsilon=0.1, sensitivity=1.0), 0.7),
}


def covers(held: int, confidence: float) -> bool:
    """Return whether this coverage is plausible for an interval of this confidence."""
    return bool(binom.cdf(held, RELEASES, confidence) > THRESHOLD)


@pytest.mark.parametrize("name", INTERVALS)
def test_intervals_hold_what_they_promise(name: str) -> None:
    mechanism, value = INTERVALS[name]
    # False alarms: `budget`. Of four numbers, half of all intervals hold the truth in 59 %: 65 % has probability 4e-10.
    source = TestSource(f"interval {name}")
    releases = [mechanism.release(value, source) for _ in range(RELEASES)]
    errors = np.array([np.max(np.abs(np.asarray(release.value) - value)) for release in releases])
    for confidence in CONFIDENCES:
        reach = mechanism.accuracy(confidence)
        low, high = mechanism.interval(releases[0], confidence)
        assert np.all(low == releases[0].value - reach)
        assert np.all(high == releases[0].value + reach)
        held = int(np.count_nonzero(errors <= reach))
        assert covers(held, confidence)
        assert held < RELEASES * (confidence + 0.15)  # the interval is not far too wide
        # Control: an interval that is a third too narrow; missed with probability 7e-8 at most (the staircase, 0.99).
        assert not covers(int(np.count_nonzero(errors <= 2 / 3 * reach)), confidence)


def test_comparisons_are_counted() -> None:
    assert 2 * len(ADDITIVE) + 2 <= COMPARISONS["mechanisms"]
    assert len(INTERVALS) * len(CONFIDENCES) <= COMPARISONS["coverage"]


def test_every_additive_mechanism_is_here() -> None:
    tested = {type(mechanism) for mechanism, _ in INTERVALS.values()}
    assert tested == {kind for kind in _concrete(Mechanism) if hasattr(kind, "interval") and hasattr(kind, "_tail")}


def _concrete(kind: type) -> set[type]:
    below = {leaf for child in kind.__subclasses__() for leaf in _concrete(child)}
    return below or {kind}
