"""Charges to a dataset's budget."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hush import Guarantee, Unit
from hush.accounting import (
    ApproximateDPEvent,
    GaussianEvent,
    LaplaceEvent,
    ParallelByIndexEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from hush.errors import HushError, Unsupported
from hush.ledger import Ledger, OverBudget
from ledger.ledgers import patients

Opened = Callable[..., Ledger]


FLU = "how many had the flu"


def test_many_small_charges_cost_less_than_their_sum(opened: Opened) -> None:
    data = patients(opened())
    for _ in range(36):
        data.charge(LaplaceEvent(10.0), purpose=FLU)
    assert data.spent < 3.0 < 36 * 0.1


def test_without_delta_only_epsilons_add_up(opened: Opened) -> None:
    data = opened().budget("pure", epsilon=1, unit="row")
    data.charge(LaplaceEvent(2.0), purpose=FLU)
    with pytest.raises(Unsupported, match="no delta to spare"):
        data.charge(GaussianEvent(100.0), purpose=FLU)
    data.charge(LaplaceEvent(2.0), purpose=FLU)
    assert (data.spent, data.left) == (1.0, 0.0)
    with pytest.raises(OverBudget, match="budget is used up"):
        data.charge(LaplaceEvent(1e5), purpose=FLU)


def test_the_guarantee_is_the_cap(opened: Opened) -> None:
    claim = patients(opened()).guarantee()
    assert isinstance(claim, Guarantee)
    assert (claim.epsilon, claim.delta, claim.unit) == (3.0, 1e-6, Unit.user())


def test_a_delta_on_a_sample_is_not_forgotten(opened: Opened) -> None:
    hidden = PoissonSampledEvent(ApproximateDPEvent(0.01, 0.99), 0.99)
    for terms in ({"delta": 0.0}, {"delta": 1e-6, "claims_delta": 1e-6}):
        data = opened().budget(f"{terms}", epsilon=1, unit="row", **terms)
        for event in (hidden, SelfComposedEvent(hidden, 2), ParallelByIndexEvent((hidden, LaplaceEvent(9.0)))):
            with pytest.raises(HushError):
                data.charge(event, purpose="x")
        with pytest.raises(HushError):
            data.charge(SelfComposedEvent(ApproximateDPEvent(1e-6, 0.5), 10**5), purpose="x")
        assert data.spent == 0
