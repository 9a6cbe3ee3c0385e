"""Schedules: curves, and plans that follow them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hush.errors import InvalidArgument
from hush.training import Curve, Schedule
from training.sums import data as sums_data
from training.sums import run as sums_run


def test_ramps_rise_in_few_levels() -> None:
    curve = Curve.linear(1.0, 2.0, num_steps=1000)
    values = [curve.at(step) for step in range(1500)]
    assert len(set(values)) <= 65
    assert values == sorted(values)
    assert (values[0], values[-1]) == (1.0, 2.0)


def test_schedules_are_accounted_for_step_by_step() -> None:
    plain = sums_run(*sums_data(), batch_size=8, num_steps=4).plan
    curve = Curve.piecewise({0: 1.0, 2: 0.5})
    less = sums_run(*sums_data(), batch_size=8, num_steps=4, schedule=Schedule(noise_multiplier=curve)).plan
    assert [less.setting(step) for step in range(4)] == [(2.0, 8), (2.0, 8), (1.0, 8), (1.0, 8)]
    assert less.guarantee(2).epsilon == pytest.approx(plain.guarantee(2).epsilon)
    assert less.guarantee().epsilon > 1.5 * plain.guarantee().epsilon
    clips = sums_run(
        *sums_data(), batch_size=8, num_steps=4, schedule=Schedule(clip_norm=Curve.exponential(1.0, 0.01, num_steps=3))
    ).plan
    assert clips.guarantee().epsilon == plain.guarantee().epsilon, "noise moves with the clip norm"
    target = sums_run(
        *sums_data(),
        batch_size=8,
        num_steps=4,
        schedule=Schedule(noise_multiplier=curve),
        noise_multiplier=None,
        epsilon=1.0,
    )
    assert 0.999 < target.plan.guarantee().epsilon <= 1.0
    stopped = sums_run(
        *sums_data(), batch_size=8, num_steps=400, schedule=Schedule(noise_multiplier=curve), epsilon=2.0
    )
    assert stopped.plan.num_steps < 400
    assert stopped.plan.guarantee().epsilon <= 2.0 < stopped.plan.guarantee(stopped.plan.num_steps).epsilon * 1.5


def test_piecewise_curves_jump_at_their_steps() -> None:
    curve = Curve.piecewise({0: 1.0, 10: 0.5, 20: 3.0})
    assert [curve.at(step) for step in (0, 9, 10, 19, 20, 10_000)] == [1.0, 1.0, 0.5, 0.5, 3.0, 3.0]


def test_ramps_end_where_they_should() -> None:
    for curve in (Curve.linear(4.0, 1.0, num_steps=50), Curve.exponential(4.0, 1.0, num_steps=50)):
        assert curve.at(0) == 4.0
        assert curve.at(50) == curve.at(51) == 1.0
    assert Curve.linear(4.0, 1.0, num_steps=64).at(32) == pytest.approx(2.5)
    assert Curve.exponential(4.0, 1.0, num_steps=64).at(32) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Curve.piecewise({}), "starts"),
        (lambda: Curve.piecewise({5: 1.0}), "starts"),
        (lambda: Curve.piecewise({0: math.nan}), "factor"),
        (lambda: Curve.piecewise({-1: 1.0, 0: 1.0}), "step"),
        (lambda: Curve.linear(0.0, 1.0, num_steps=5), "start"),
        (lambda: Curve.exponential(1.0, math.inf, num_steps=5), "end"),
        (lambda: Curve.linear(1.0, 2.0, num_steps=0), "num_steps"),
        (lambda: Schedule(clip_norm=2.0), "clip_norm"),  # type: ignore[arg-type]
    ],
)
def test_refusals(make: Any, name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name}="):
        make()
