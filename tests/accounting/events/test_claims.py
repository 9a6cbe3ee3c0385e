"""Claims: which numbers they accept, and that they are not one another."""

from __future__ import annotations

import pytest

from hush.accounting import ApproximateDPEvent, GaussianEvent, LaplaceEvent, ZeroConcentratedDPEvent
from hush.accounting.events import ExponentialMechanismEvent, RandomizedResponseEvent
from hush.errors import InvalidArgument


def test_equal_numbers_in_different_events_are_different_events() -> None:
    kinds = (GaussianEvent, LaplaceEvent, ApproximateDPEvent, ExponentialMechanismEvent)
    assert len({kind(2.0) for kind in kinds}) == 4
    assert LaplaceEvent(2) == LaplaceEvent(2.0)


def test_claims_of_nothing() -> None:
    assert ApproximateDPEvent(0).delta == ZeroConcentratedDPEvent(0).rho == 0
    for kind in (ExponentialMechanismEvent, RandomizedResponseEvent):
        with pytest.raises(InvalidArgument, match="^epsilon=0"):
            kind(0)


def test_a_delta_of_one_claims_nothing() -> None:
    with pytest.raises(InvalidArgument, match="^delta=1"):
        ApproximateDPEvent(1.0, 1.0)
