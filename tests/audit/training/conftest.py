"""Observations of a step, which take seconds and do not change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hush.audit.training.observed_steps import Observations


@pytest.fixture(scope="session")
def observed() -> Observations:
    """600 observations with the canary and as many without it, of a step whose noise is as long as the clip norm."""
    from audit.training.step_setups import setup
    from hush.audit.training import observe
    from hush.randomness import TestSource

    return observe(setup(noise_multiplier=1.0), observations=600, source=TestSource(1))
