"""Prepaid plans cost what their composed privacy loss distribution says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from hush.accounting import (
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    PldAccountant,
)
from hush.accounting.budget import Charge
from hush.errors import HushError, InvalidArgument
from hush.ledger import EntryKind, Ledger
from ledger.ledgers import patients

Opened = Callable[..., Ledger]


def test_a_plan_reserved_whole_costs_what_its_loss_distribution_says(opened: Opened) -> None:
    data = patients(opened(), claims_delta=1e-6)
    events = [LaplaceEvent(10.0)] * 20 + [GaussianEvent(30.0)] * 3
    plan = data.plan(events, delta=1e-6, purpose="the quarterly report")
    exact = PldAccountant().compose(ComposedEvent(tuple(events))).epsilon(1e-6)
    assert data.spent == pytest.approx(exact, abs=1e-6)
    for _ in range(3):
        plan.reserve(Charge(event=GaussianEvent(30.0), purpose="a table")).commit()
    with pytest.raises(InvalidArgument, match="event of the plan"):
        plan.reserve(Charge(event=GaussianEvent(30.0), purpose="one more"))
    with pytest.raises(InvalidArgument, match="event of the plan"):
        plan.reserve(Charge(event=GaussianEvent(31.0), purpose="another"))
    plan.close()
    assert data.spent == pytest.approx(exact, abs=1e-6)  # what was not run is not given back
    with pytest.raises(HushError):
        plan.reserve(Charge(event=LaplaceEvent(10.0), purpose="after the end"))


def test_a_plan_of_which_something_was_run_is_not_voided(opened: Opened) -> None:
    data = patients(opened(), claims_delta=1e-6)
    plan = data.plan([LaplaceEvent(1.0)] * 2, delta=1e-6, purpose="the quarterly report")
    plan.reserve(Charge(event=LaplaceEvent(1.0), purpose="a part")).commit()
    (pending,) = data.pending()
    with pytest.raises(InvalidArgument, match="no part was run"):
        pending.void()
    with pytest.raises(HushError) if data.store.url.get_backend_name() == "postgresql" else nullcontext():
        pending._settle(EntryKind.VOIDED, -pending.row.cost, None, None)  # PostgreSQL refuses by itself


def test_parts_of_a_plan_are_from_the_blocks_that_it_has_paid_for(opened: Opened) -> None:
    data = opened().budget("v", epsilon=3, delta=1e-6, claims_delta=1e-6, unit="row", blocks=["a"])
    plan = data.plan([LaplaceEvent(1.0)], delta=1e-6, purpose="all there is")
    data.add_block("b")
    plan.reserve(Charge(event=LaplaceEvent(1.0), purpose="a part")).commit()
    assert [row.block for row in data.entries() if row.kind == EntryKind.RESERVED] == ['["a"]'] * 2


def test_a_plan_of_which_nothing_was_run_is_given_back(opened: Opened) -> None:
    data = patients(opened(), claims_delta=1e-6)
    data.plan([LaplaceEvent(1.0)], delta=1e-6, purpose="the quarterly report").close()
    assert data.spent == 0


def test_a_closed_plan_takes_no_more_parts(opened: Opened) -> None:
    data = patients(opened(), claims_delta=1e-6)
    plan = data.plan([LaplaceEvent(1.0)], delta=1e-6, purpose="x")
    plan.close()  # no part was run: given back
    with pytest.raises(InvalidArgument, match="closed"):
        plan.reserve(Charge(event=LaplaceEvent(1.0), purpose="x"))
    assert data.spent == 0
