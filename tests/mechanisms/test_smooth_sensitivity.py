"""Smooth bounds: checked against their definition on every small dataset, and by exact divergences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hush.errors import InvalidArgument
from hush.guarantee import Relation
from hush.mechanisms import SmoothCauchy, SmoothLaplace
from hush.randomness import TestSource
from mechanisms.small_datasets import BOUNDS, datasets, distance, local_sensitivity, neighbours

REPLACE = Relation.REPLACE


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "mechanism",
    [
        SmoothCauchy(epsilon=3.0, bounds=BOUNDS, relation=REPLACE),
        SmoothLaplace(epsilon=3.0, delta=1e-3, bounds=BOUNDS, relation=REPLACE),
        SmoothCauchy(epsilon=0.1, bounds=BOUNDS, relation=REPLACE),
    ],
)
def test_the_bound_is_smooth_and_at_least_the_local_sensitivity(
    size: int, mechanism: SmoothCauchy | SmoothLaplace
) -> None:
    bound = {records: mechanism.smooth_bound_of_median(np.array(records)) for records in datasets(size)}
    for records in bound:
        assert bound[records] >= local_sensitivity(records)
        for other in neighbours(records):
            assert bound[records] <= math.exp(mechanism.beta) * bound[other] * (1 + 1e-12)
        exact = max(math.exp(-mechanism.beta * distance(records, other)) * local_sensitivity(other) for other in bound)
        assert bound[records] == pytest.approx(exact, rel=1e-9), "the smallest smooth bound"


def test_local_sensitivity_is_not_smooth() -> None:
    """The broken twin: the local sensitivity itself is not smooth."""
    violated = [
        (records, other)
        for records in datasets(5)
        for other in neighbours(records)
        if local_sensitivity(records) > math.exp(0.5) * local_sensitivity(other)
    ]
    assert violated


def test_medians_need_a_public_number_of_records() -> None:
    with pytest.raises(InvalidArgument, match="^relation="):
        SmoothCauchy(epsilon=1.0, bounds=(0, 1)).median([0.5])
    with pytest.raises(InvalidArgument, match="^records.shape="):
        SmoothCauchy(epsilon=1.0, bounds=(0, 1), relation=REPLACE).median([])


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 11.0, 16.0, 60.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.01, 0.1])
@pytest.mark.quick_cases(7)
def test_smooth_laplace_holds_for_every_epsilon(epsilon: float, delta: float) -> None:
    """The exact hockey-stick divergence of scales S and S e^beta, S apart: the lemma's beta failed from 11 on."""
    mechanism = SmoothLaplace(epsilon=epsilon, delta=delta, bounds=(0, 1))
    growth = float(np.exp(mechanism.beta))
    scale = 2 / epsilon
    # The value moves by the smaller of the two smooth bounds at most.
    x = np.linspace(-60 * growth * scale, 60 * growth * scale, 2_000_001)

    def density(centre: float, width: float) -> Any:
        return np.exp(-np.abs(x - centre) / width) / (2 * width)

    for first, second in (((0.0, growth * scale), (1.0, scale)), ((0.0, scale), (1.0, growth * scale))):
        excess = np.maximum(density(*first) - np.exp(epsilon) * density(*second), 0.0)
        assert float(excess.sum() * (x[1] - x[0])) <= delta * 1.001
    if epsilon <= 1:
        assert mechanism.beta == pytest.approx(epsilon / (2 * np.log(2 / delta))), "the lemma's own"


def largest_loss(factor: float, beta: float) -> float:
    """Return the largest log ratio of two Cauchy densities, by search: bounds of 1 and up to e^beta, values 1 apart."""
    # Dense around both centres, and far into the tails.
    steps = factor * np.geomspace(1e-4, 1e6, 3000)
    outcomes = np.concatenate([centre + sign * steps for centre in (0.0, 1.0) for sign in (-1, 1)])
    losses = []
    for growth in np.exp(np.linspace(0.0, beta, 9)):
        small = np.log(factor / (factor**2 + outcomes**2))
        large = np.log(factor * growth / ((factor * growth) ** 2 + (outcomes - 1) ** 2))
        losses.append(float(np.abs(small - large).max()))
    return max(losses)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 0.56, 1.0, 3.0, 10.0, 30.0])
def test_smooth_cauchy_costs_epsilon_and_no_less(epsilon: float) -> None:
    mechanism = SmoothCauchy(epsilon=epsilon, bounds=(0, 1))
    factor, beta = mechanism.factor, mechanism.beta
    assert largest_loss(factor, beta) <= epsilon * (1 + 1e-9)
    assert largest_loss(factor, beta) >= epsilon * (1 - 1e-3), "not tight"
    assert largest_loss(0.97 * factor, beta) > epsilon * (1 + 1e-4), "too little noise must be noticed"
    assert largest_loss(factor, 1.1 * beta) > epsilon * (1 + 1e-4), "too rough a bound must be noticed"
    # Nissim, Raskhodnikova & Smith 2007 ask for six times 1 / epsilon, and a smoother bound.
    assert factor <= 1.2 / epsilon
    assert beta >= 0.49 * epsilon


@pytest.mark.parametrize("epsilon", [200.0, 1000.0])
def test_next_to_no_noise_is_not_none(epsilon: float) -> None:
    mechanism = SmoothCauchy(epsilon=epsilon, bounds=(0, 1))
    assert 0 < mechanism.factor < 1e-20
    assert 99 < mechanism.beta <= 100


@pytest.mark.parametrize("bounds", [(1, 0), (0, 0), (0, math.inf), (math.nan, 1), 5, (1, 2, 3), ("a", "b"), None])
def test_bounds_are_two_public_numbers(bounds: Any) -> None:
    with pytest.raises(InvalidArgument, match="^bounds="):
        SmoothCauchy(epsilon=1.0, bounds=bounds)


@pytest.mark.parametrize("smooth_bound", [math.nan, -1.0, math.inf, 1e300])
def test_an_unusable_smooth_bound_counts_as_the_distance_of_the_bounds(smooth_bound: float) -> None:
    mechanism = SmoothLaplace(epsilon=1.0, delta=1e-6, bounds=BOUNDS)
    largest = BOUNDS[1] - BOUNDS[0]
    values = [mechanism.release(1.0, bound, TestSource(1)).value for bound in (smooth_bound, largest)]
    assert values[0] == values[1]


def test_a_small_epsilon_is_refused_for_laplace_noise() -> None:
    with pytest.raises(InvalidArgument, match="^epsilon=0.0078: expected at least 0.0079"):
        SmoothLaplace(epsilon=0.0078, delta=1e-6, bounds=BOUNDS)
    assert SmoothLaplace(epsilon=0.0079, delta=1e-6, bounds=BOUNDS).factor == 2 / 0.0079
