"""Plans: their cost, calibration, limits on batches, and combinations that are refused."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import hush
from hush.accounting import PldAccountant
from hush.accounting import epsilon as accounted
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation, Unit
from hush.training import (
    Adaptive,
    BufferedToeplitz,
    FixedSize,
    Flat,
    InOrder,
    PiecewiseCurve,
    Poisson,
    Projected,
    Schedule,
    TrainingPlan,
    UserGroups,
    Users,
)
from training.loops import LINEAR_COUNT, answered, linear_run, run, start, train
from training.sums import SAMPLINGS
from training.sums import data as sums_data
from training.sums import run as sums_run


@pytest.mark.parametrize(
    "settings",
    [
        {"noise_multiplier": None},
        {"num_steps": None},
        {"epochs": 3},
        {"batch_size": 301},
        {"delta": 0.0},
        {"clip_norm": 0.0},
        {"clip_norm": math.nan},
    ],
)
def test_plans_are_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        run(**settings)


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


def test_full_batches_are_gradient_descent() -> None:
    private = train(run(batch_size=None))
    assert "DP-GD" in private.guarantee().method
    expected = accounted(noise_multiplier=1.0, sampling_rate=1.0, num_steps=6, delta=1e-5)
    assert private.guarantee().epsilon == pytest.approx(expected)


def test_a_unit_without_ids_is_assumed_to_have_one_example() -> None:
    assert "each user has one example" in run(unit=hush.Unit.user()).guarantee().assumptions
    with pytest.raises(InvalidArgument, match="^unit="):
        run(unit=hush.Unit.example().group(5))


@pytest.mark.parametrize("noise", [1e-6, 1e9])
def test_noise_beyond_the_accountant_is_refused_at_once(noise: float) -> None:
    with pytest.raises(InvalidArgument, match="^noise_multiplier="):
        start(nn.Linear(3, 1), (torch.ones(8, 3),), noise_multiplier=noise)


def test_the_noise_on_a_count_can_be_chosen_with_an_epsilon() -> None:
    private = linear_run(noise_multiplier=None, epsilon=2.0, clipping=Adaptive(count_noise=5.0))
    assert private.plan.clipping == Adaptive(count_noise=5.0)
    assert 1.99 < private.plan.guarantee().epsilon <= 2.0
    with pytest.raises(InvalidArgument, match="^count_noise"):
        linear_run(
            clipping=Adaptive(count_noise=1.0), schedule=Schedule(noise_multiplier=PiecewiseCurve({0: 1.0, 2: 3.0}))
        )


def test_events_are_for_their_unit_and_relation() -> None:
    event = linear_run(unit=Users(np.arange(LINEAR_COUNT) // 2), batch_size=5).plan.event()
    PldAccountant(unit=Unit.user()).compose(event)
    with pytest.raises(Unsupported, match="per user"):
        PldAccountant().compose(event)


def test_delta_is_less_than_one_over_the_number_of_units() -> None:
    with pytest.raises(InvalidArgument, match="^delta=0.5"):
        linear_run(delta=0.5)


def test_few_projections_cannot_meet_an_epsilon() -> None:
    with pytest.raises(InvalidArgument, match="^projections=2"):
        linear_run(contribution=Projected(2), noise_multiplier=None, epsilon=3.0)


def test_adaptive_clipping_is_not_correlated() -> None:
    with pytest.raises(Unsupported, match="^Adaptive"):
        linear_run(sampling=InOrder(10), clipping=Adaptive(), correlated=BufferedToeplitz())


@pytest.mark.parametrize(
    "settings",
    [
        {"sampling": FixedSize(5), "contribution": Projected(6)},
        {"sampling": Poisson(5), "contribution": Projected(6), "relation": Relation.REPLACE},
        {"sampling": Poisson(5), "unit": UserGroups(np.arange(LINEAR_COUNT) // 2, 2), "relation": Relation.REPLACE},
    ],
)
def test_combinations_without_an_analysis_are_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        linear_run(**settings)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
def test_noise_is_calibrated_for_every_sampling(sampling: Any) -> None:
    private = sums_run(*sums_data(), sampling=sampling, noise_multiplier=None, epsilon=1.5, num_steps=12)
    assert 1.49 < private.plan.guarantee().epsilon <= 1.5
    assert private.guarantee().epsilon == 0
