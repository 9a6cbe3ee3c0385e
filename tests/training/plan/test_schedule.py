"""Schedules: curves, and plans that follow them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hush.errors import InvalidArgument
from hush.training import ExponentialCurve, LinearCurve, PiecewiseCurve, Schedule
from training.loops import run


def test_ramps_have_few_stairs() -> None:
    curve = LinearCurve(1.0, 2.0, 1000)
    values = [curve.at(step) for step in range(1500)]
    assert len(set(values)) <= 65
    assert values == sorted(values)
    assert (values[0], values[-1]) == (1.0, 2.0)


def test_schedules_are_accounted_for_step_by_step() -> None:
    x, y = data()
    plain = run(x, y, batch_size=8, num_steps=4).plan
    curve = PiecewiseCurve({0: 1.0, 2: 0.5})
    less = run(x, y, batch_size=8, num_steps=4, schedule=Schedule(noise_multiplier=curve)).plan
    assert [less.setting(step) for step in range(4)] == [(2.0, 8), (2.0, 8), (1.0, 8), (1.0, 8)]
    assert less.guarantee(2).epsilon == pytest.approx(plain.guarantee(2).epsilon)
    assert less.guarantee().epsilon > 1.5 * plain.guarantee().epsilon
    clips = run(x, y, batch_size=8, num_steps=4, schedule=Schedule(clip_norm=ExponentialCurve(1.0, 0.01, 3))).plan
    assert clips.guarantee().epsilon == plain.guarantee().epsilon, "noise moves with the clip norm"
    target = run(
        x, y, batch_size=8, num_steps=4, schedule=Schedule(noise_multiplier=curve), noise_multiplier=None, epsilon=1.0
    )
    assert 0.999 < target.plan.guarantee().epsilon <= 1.0
    stopped = run(x, y, batch_size=8, num_steps=400, schedule=Schedule(noise_multiplier=curve), epsilon=2.0)
    assert stopped.plan.num_steps < 400
    assert stopped.plan.guarantee().epsilon <= 2.0 < stopped.plan.guarantee(stopped.plan.num_steps).epsilon * 1.5
