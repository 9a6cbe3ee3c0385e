"""Limits on Poisson samples: what dropped examples cost."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hush.errors import InvalidArgument
from hush.training import (
    Flat,
    Poisson,
    TrainingPlan,
)
from training.loops import answered, run


def test_a_limit_makes_all_batches_alike_and_costs_delta() -> None:
    settings: dict[str, Any] = {"batch_size": 40, "num_steps": 30, "noise_multiplier": 2.0}
    private = run(max_batch_size=75, physical_batch_size=25, **settings)
    assert len(private.loader) == 30 * 3
    assert sum(1 for _ in answered(private)) == 30 * 3
    plain = run(**settings)
    generous = run(max_batch_size=300, **settings)
    costs = [limited.plan.guarantee().epsilon for limited in (plain, generous, private)]
    assert costs[0] <= costs[1] * (1 + 1e-9) <= costs[2] * (1 + 1e-9)
    assert costs[2] > costs[0] * 1.0001
    assert private.plan.guarantee().delta == 1e-5
    with pytest.raises(InvalidArgument, match="^max_batch_size=41"):
        run(batch_size=40, max_batch_size=41).plan.guarantee()
    with pytest.raises(InvalidArgument, match="^max_batch_size=41"):
        run(batch_size=40, max_batch_size=41, noise_multiplier=None, epsilon=1.0)
    target = run(batch_size=40, max_batch_size=80, noise_multiplier=None, epsilon=1.0)
    assert 0.999 < target.plan.guarantee().epsilon <= 1.0 + 1e-9


@pytest.mark.parametrize("limit", [4, 5])
@pytest.mark.parametrize("delta", [0.03, 0.035])
def test_dropping_examples_is_accounted_for(limit: int, delta: float) -> None:
    """One step on examples that all contribute 1: the exact divergence between ten and nine of them."""
    rate, noise = 0.1, 0.8
    grid = np.linspace(-8, 12, 200_001)

    def law(count: int) -> Any:
        sizes = np.arange(count + 1)
        weights = stats.binom.pmf(sizes, count, rate)
        return sum(
            weight * stats.norm.pdf(grid, min(size, limit), noise) for size, weight in zip(sizes, weights, strict=True)
        )

    plan = TrainingPlan(
        sampling=Poisson(1, limit),
        num_units=10,
        num_steps=1,
        clipping=Flat(1.0),
        noise_multiplier=noise,
        delta=delta,
        physical_batch_size=4,
    )
    promised = plan.guarantee()
    for first, second in ((law(10), law(9)), (law(9), law(10))):
        exact = float(np.maximum(first - math.exp(promised.epsilon) * second, 0).sum() * (grid[1] - grid[0]))
        assert exact <= promised.delta == delta
    plain = dataclasses.replace(plan, sampling=Poisson(1)).guarantee()
    assert promised.epsilon > plain.epsilon
