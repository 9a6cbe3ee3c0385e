"""Plans made from arguments: what is filled in, calibrated and refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hush.errors import InvalidArgument
from hush.training import Adaptive, Curve, Poisson, Projected, Schedule
from training.loops import linear_run, run
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


def test_the_noise_on_a_count_can_be_chosen_with_an_epsilon() -> None:
    private = linear_run(noise_multiplier=None, epsilon=2.0, clipping=Adaptive(count_noise=5.0))
    assert private.plan.clipping == Adaptive(count_noise=5.0)
    assert 1.99 < private.plan.guarantee().epsilon <= 2.0
    with pytest.raises(InvalidArgument, match="^count_noise"):
        linear_run(
            clipping=Adaptive(count_noise=1.0), schedule=Schedule(noise_multiplier=Curve.piecewise({0: 1.0, 2: 3.0}))
        )


@pytest.mark.parametrize("name", ["batch_size", "max_batch_size"])
def test_a_sampling_sets_its_batch_size_itself(name: str) -> None:
    settings: dict[str, Any] = {"batch_size": None, name: 7}
    with pytest.raises(InvalidArgument, match=f"^{name}=7: expected no value, .*Give {name} or sampling, not both"):
        run(sampling=Poisson(20), **settings)


def test_delta_is_less_than_one_over_the_number_of_units() -> None:
    with pytest.raises(InvalidArgument, match="^delta=0.5"):
        linear_run(delta=0.5)


def test_few_projections_cannot_meet_an_epsilon() -> None:
    with pytest.raises(InvalidArgument, match="^projections=2"):
        linear_run(contribution=Projected(2), noise_multiplier=None, epsilon=3.0)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
def test_noise_is_calibrated_for_every_sampling(sampling: Any) -> None:
    private = sums_run(*sums_data(), sampling=sampling, noise_multiplier=None, epsilon=1.5, num_steps=12)
    assert 1.49 < private.plan.guarantee().epsilon <= 1.5
    assert private.guarantee().epsilon == 0
