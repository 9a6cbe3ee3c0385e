"""The numbers that events accept."""

from __future__ import annotations

import math

import pytest

from hush.accounting import (
    GaussianEvent,
)
from hush.errors import InvalidArgument
from hush.guarantee import Relation

ADD_REMOVE = Relation.ADD_OR_REMOVE


def test_noise_is_limited_to_what_floats_can_analyse() -> None:
    for noise in (1e-3, 1e6):
        assert GaussianEvent(noise).noise_multiplier == noise
    for noise in (math.nextafter(1e-3, 0), math.nextafter(1e6, math.inf)):
        with pytest.raises(InvalidArgument, match="rounding errors dominate"):
            GaussianEvent(noise)
