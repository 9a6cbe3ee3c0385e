"""What was charged as a whole, at no price per part, covers the reserved event and its parts, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from hush.accounting import (
    ComposedEvent,
    Event,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ParallelByIndexEvent,
    ParallelEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from hush.accounting.budget import Box, Cap, Charge
from hush.accounting.events import is_part
from hush.errors import InvalidArgument
from hush.ledger import Ledger, LedgerBudget
from hush.ledger.accounts.reservation import Reserved

TRAINING = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.01), 200)


def _boxed(ledger: Ledger) -> Reserved:
    people = ledger.budget("people", epsilon=1.2, delta=1e-6, unit="person", box=Box({LaplaceEvent(50.0): 2}))
    return people.reserve(Charge(event=LaplaceEvent(50.0), purpose="a count"))


def _claimed(ledger: Ledger) -> Reserved:
    people = ledger.budget("people", epsilon=3, delta=1e-6, unit="person", claims_delta=5e-7)
    return people.plan([LaplaceEvent(8.0)], delta=1e-7, purpose="a plan")._reserved


def _first(ledger: Ledger) -> Reserved:
    people = ledger.budget("people", epsilon=1, delta=1e-5, unit="person")
    epsilon = people.price(TRAINING, delta=1e-5).alone
    tight: LedgerBudget = ledger.budget("tight", epsilon=epsilon, delta=1e-5, unit="person")
    return tight.reserve(Charge(event=TRAINING, purpose="training", delta=1e-5))


def _part(ledger: Ledger) -> Reserved:
    people = ledger.budget("people", epsilon=3, delta=1e-6, unit="person")
    plan = people.plan([GaussianEvent(9.0)] * 2, delta=1e-8, purpose="a plan")
    return plan.reserve(Charge(event=GaussianEvent(9.0), purpose="a mean"))


def _pending_part(ledger: Ledger) -> Reserved:
    part = _part(ledger)
    return next(reserved for reserved in part._budget.pending() if reserved.id == part.id)  # as after a crash


KINDS = {"boxed": _boxed, "claimed": _claimed, "first": _first, "part": _part, "pending part": _pending_part}


@pytest.mark.parametrize("kind", KINDS)
def test_a_larger_event_is_not_committed(kind: str, tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db")
    reserved = KINDS[kind](ledger)
    larger: list[Event] = [GaussianEvent(0.01), LaplaceEvent(0.5), ComposedEvent((reserved.event, reserved.event))]
    for event in larger:
        with pytest.raises(InvalidArgument, match="reserved"):
            reserved.commit(event)
    reserved.commit(reserved.event)
    assert ledger.verify().ok


@pytest.mark.parametrize("kind", KINDS)
def test_a_larger_event_that_another_program_commits_is_found(kind: str, tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db")
    reserved = KINDS[kind](ledger)
    with patch.object(Cap, "covers", return_value=True):
        reserved.commit(GaussianEvent(0.01))
    assert any("does not cover" in finding.what for finding in ledger.verify().findings)


def test_parts() -> None:
    step, count = GaussianEvent(2.0), LaplaceEvent(4.0)
    whole = ComposedEvent((count, SelfComposedEvent(step, 10)))
    assert is_part(ComposedEvent((step, count)), whole)
    assert not is_part(SelfComposedEvent(step, 11), whole)
    assert not is_part(ComposedEvent((count, count)), whole)
    assert is_part(GroupEvent(count, 3), GroupEvent(whole, 3))
    assert not is_part(GroupEvent(count, 4), GroupEvent(whole, 3))
    both = ParallelByIndexEvent((whole, step))
    assert is_part(count, both)
    assert is_part(replace(both, events=(step, step)), both)
    assert not is_part(ParallelEvent((step, step)), both), "a record that is replaced may change both"
    assert not is_part(ComposedEvent((step, step)), ParallelByIndexEvent((step, step)))
