"""The training to audit: settings and canaries that are refused."""

from __future__ import annotations

import pytest

from audit.training.step_setups import Probe, data, loss, setup
from hush.audit.training import Setup, observe
from hush.errors import InvalidArgument, Unsupported
from hush.randomness import TestSource
from hush.training import Adaptive, Curve, Schedule


def test_settings_that_change_between_steps_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="settings"):
        setup(num_steps=3)
    with pytest.raises(Unsupported, match="changing clip norm"):
        setup(clipping=Adaptive(1.0))
    with pytest.raises(Unsupported, match="steps that differ"):
        setup(schedule=Schedule(noise_multiplier=Curve.exponential(1.0, 2.0, num_steps=10)))
    with pytest.raises(InvalidArgument, match="1 or 2"):
        observe(setup(), runs=3)


def test_a_canary_without_a_gradient_is_refused() -> None:
    silent = Setup(
        model=Probe, data=data(canary=(0.0, 0.0)), loss=loss, settings={"noise_multiplier": 1.0, "clip_norm": 1.0}
    )
    with pytest.raises(InvalidArgument, match="not zero"):
        observe(silent, observations=1, source=TestSource(1))
