"""Agreement with dp-accounting 0.6: its bounds and ours enclose the same epsilon."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as peer

from hush.accounting import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PldAccountant,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from hush.accounting.events import DiscreteGaussianEvent, DiscreteLaplaceEvent, RandomizedResponseEvent
from hush.guarantee import Relation

GRID = 1e-3  # theirs


def sampled_problems() -> dict[str, tuple[float, float, int, float]]:
    rng = np.random.default_rng(20240521)
    rows = zip(
        rng.uniform(-0.2, 0.7, 14),
        rng.uniform(-2.5, -0.2, 14),
        rng.integers(1, 400, 14),
        rng.uniform(-8, -3, 14),
        strict=True,
    )
    return {
        f"sigma{10**s:.3g}-q{10**q:.3g}-T{t}-delta{10**d:.2g}": (10**s, 10**q, int(t), 10**d) for s, q, t, d in rows
    }


def check(
    event: Event, count: int, delta: float, upper: object, lower: object, relation: Relation = Relation.ADD_OR_REMOVE
) -> None:
    """Check that their optimistic epsilon <= our upper bound, and our lower bound <= their pessimistic epsilon."""
    below, above = PldAccountant(relation=relation).compose(event, count).interval(delta)
    pessimistic = upper.self_compose(count).get_epsilon_for_delta(delta)  # type: ignore[attr-defined]
    optimistic = lower.self_compose(count).get_epsilon_for_delta(delta)  # type: ignore[attr-defined]
    wobble = 1e-6 + 1e-13 * count / delta  # their rounding
    assert optimistic <= above + wobble
    assert below <= pessimistic + wobble
    assert above <= pessimistic * (1 + 1e-5) + wobble, "theirs would be tighter"
    assert below >= optimistic * (1 - 1e-3) - wobble


PROBLEMS = sampled_problems()


@pytest.mark.parametrize(("sigma", "rate", "count", "delta"), PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.quick_cases(4)
def test_sampled_gaussian(sigma: float, rate: float, count: int, delta: float) -> None:
    upper, lower = (
        peer.from_gaussian_mechanism(
            sigma, sampling_prob=rate, value_discretization_interval=GRID, pessimistic_estimate=side
        )
        for side in (True, False)
    )
    check(PoissonSampledEvent(GaussianEvent(sigma), rate), count, delta, upper, lower)


@pytest.mark.parametrize(
    ("scale", "rate", "count"), [(1.0, 0.1, 100), (0.5, 0.02, 50), (3.0, 1.0, 40), (10.0, 1.0, 200)]
)
def test_sampled_laplace(scale: float, rate: float, count: int) -> None:
    upper, lower = (
        peer.from_laplace_mechanism(
            scale, sampling_prob=rate, value_discretization_interval=GRID, pessimistic_estimate=side
        )
        for side in (True, False)
    )
    check(PoissonSampledEvent(LaplaceEvent(scale), rate), count, 1e-6, upper, lower)


@pytest.mark.parametrize(
    ("sigma", "sensitivity", "rate", "count"), [(2.0, 1, 1.0, 10), (5.0, 3, 1.0, 20), (1.5, 1, 0.1, 50)]
)
def test_discrete_gaussian(sigma: float, sensitivity: int, rate: float, count: int) -> None:
    upper, lower = (
        peer.from_discrete_gaussian_mechanism(
            sigma,
            sensitivity=sensitivity,
            sampling_prob=rate,
            value_discretization_interval=GRID,
            pessimistic_estimate=side,
        )
        for side in (True, False)
    )
    check(PoissonSampledEvent(DiscreteGaussianEvent(sigma, sensitivity), rate), count, 1e-6, upper, lower)


@pytest.mark.parametrize(
    ("scale", "sensitivity", "rate", "count"), [(2.0, 1, 1.0, 30), (6.0, 2, 1.0, 40), (1.0, 1, 0.1, 50)]
)
def test_discrete_laplace(scale: float, sensitivity: int, rate: float, count: int) -> None:
    upper, lower = (
        peer.from_discrete_laplace_mechanism(
            1 / scale,
            sensitivity=sensitivity,
            sampling_prob=rate,
            value_discretization_interval=GRID,
            pessimistic_estimate=side,
        )
        for side in (True, False)
    )
    check(PoissonSampledEvent(DiscreteLaplaceEvent(scale, sensitivity), rate), count, 1e-6, upper, lower)


@pytest.mark.parametrize(("epsilon", "values", "count"), [(0.5, 2, 50), (1.0, 5, 20), (0.1, 3, 200)])
def test_randomized_response(epsilon: float, values: int, count: int) -> None:
    # Theirs keeps the true value with probability 1 - noise + noise / k.
    noise = values / (math.exp(epsilon) + values - 1)
    upper, lower = (
        peer.from_randomized_response(noise, values, value_discretization_interval=GRID, pessimistic_estimate=side)
        for side in (True, False)
    )
    check(RandomizedResponseEvent(epsilon, values), count, 1e-6, upper, lower, Relation.REPLACE)


def test_a_schedule() -> None:
    phases = [(1.0, 0.01, 40), (0.8, 0.02, 30), (2.0, 0.1, 50)]
    event = ComposedEvent(tuple(SelfComposedEvent(PoissonSampledEvent(GaussianEvent(s), q), t) for s, q, t in phases))
    totals = []
    for side in (True, False):
        composed = [
            peer.from_gaussian_mechanism(
                sigma, sampling_prob=rate, value_discretization_interval=GRID, pessimistic_estimate=side
            ).self_compose(count)
            for sigma, rate, count in phases
        ]
        total = functools.reduce(lambda first, second: first.compose(second), composed)
        totals.append(total.get_epsilon_for_delta(1e-6))
    below, above = PldAccountant().compose(event).interval(1e-6)
    pessimistic, optimistic = totals
    assert optimistic <= above + 1e-6
    assert below <= pessimistic + 1e-6
    assert above <= pessimistic * (1 + 1e-5)
