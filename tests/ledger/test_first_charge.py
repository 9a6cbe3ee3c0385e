"""The first charge of an untouched budget may take all of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hush.accounting import (
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    ParallelByIndexEvent,
    PldAccountant,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from hush.accounting.budget import Charge, Cost
from hush.errors import HushError, InvalidArgument
from hush.guarantee import Unit
from hush.ledger import EntryKind, Ledger, LedgerBudget, OverBudget
from hush.ledger.accounts.charging import append_row

Opened = Callable[..., Ledger]
TRAINING = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.01), 400)


def calibrated(ledger: Ledger) -> LedgerBudget:
    """Return a budget of exactly what a training costs."""
    epsilon = PldAccountant(unit=Unit.user()).compose(TRAINING).epsilon(1e-5)
    return ledger.budget("people", epsilon=epsilon, delta=1e-5, unit="person")


def test_a_training_calibrated_to_the_cap_is_accepted_on_an_untouched_budget(opened: Opened) -> None:
    ledger = opened()
    people = calibrated(ledger)
    assert people.price(TRAINING).fits
    people.reserve(Charge(event=TRAINING, purpose="training", request="run")).commit()
    assert (people.spent, people.left) == (people.cap.epsilon, 0)
    with pytest.raises(OverBudget):
        people.charge(LaplaceEvent(1000.0), purpose="more")
    assert ledger.verify().ok
    assert ledger.recompute("people").blocks[0].change == Cost()


def test_so_is_one_with_held_out_units_and_nothing_is_left(opened: Opened) -> None:
    """As `hush train` charges it by default."""
    ledger, event = opened(), ParallelByIndexEvent((ComposedEvent((GaussianEvent(30.0), TRAINING)), GaussianEvent(3.0)))
    epsilon = PldAccountant(unit=Unit.user()).compose(event).epsilon(1e-5)
    people = ledger.budget("people", epsilon=epsilon, delta=1e-5, unit="person")
    people.reserve(Charge(event=event, purpose="training", request="run")).commit()
    assert (people.spent, people.left) == (people.cap.epsilon, 0)
    with pytest.raises(OverBudget):
        people.charge(GaussianEvent(1e6), purpose="more")
    assert ledger.verify().ok
    assert ledger.recompute("people").blocks[0].change == Cost()


def test_an_event_of_several_cases_that_a_filter_accepts_leaves_the_rest(opened: Opened) -> None:
    event = ParallelByIndexEvent((ComposedEvent((GaussianEvent(30.0), TRAINING)), GaussianEvent(3.0)))
    epsilon = 1.15 * PldAccountant(unit=Unit.user()).compose(event).epsilon(1e-5)
    people = opened().budget("people", epsilon=epsilon, delta=1e-5, unit="person")
    people.charge(event, purpose="training")
    assert people.left > 0


def test_so_does_one_that_fits_as_a_claim_only(opened: Opened) -> None:
    """As the first charge it would take everything."""
    event = ParallelByIndexEvent((ComposedEvent((LaplaceEvent(4.0), GaussianEvent(5.0))), LaplaceEvent(1.5)))
    claim = PldAccountant(unit=Unit.user()).compose(event).epsilon(4e-6)
    people = opened().budget("people", epsilon=1.01 * claim, delta=1e-5, unit="person", claims_delta=8e-6)
    assert not people.cap.fits(people.cost(event))
    people.charge(event, purpose="a claim")
    assert people.spent < people.cap.epsilon
    people.charge(LaplaceEvent(200.0), purpose="a count")


def test_after_any_other_charge_it_is_refused(opened: Opened) -> None:
    people = calibrated(opened())
    people.charge(LaplaceEvent(1e6), purpose="next to nothing")
    with pytest.raises(OverBudget):
        people.charge(TRAINING, purpose="training")


def test_it_is_refused_if_something_was_charged_meanwhile(opened: Opened) -> None:
    """Another process charges after the price was found: the check is made again where the row is written."""
    people = calibrated(opened())
    cost = people.cap.first_cost(TRAINING)
    details = json.dumps({"delta": None, "first": True, "sealed": False})
    row = people.row(EntryKind.RESERVED, Charge(event=TRAINING, purpose="training"), cost, details=details)
    calibrated(opened()).charge(LaplaceEvent(1e6), purpose="meanwhile")
    with pytest.raises(OverBudget):
        append_row(people, row, cost)
    assert len(people.entries()) == 2


def test_a_voided_first_charge_leaves_the_budget_untouched(opened: Opened) -> None:
    ledger = opened()
    people = calibrated(ledger)
    people.reserve(Charge(event=TRAINING, purpose="failed")).void()
    assert people.spent == 0.0
    people.charge(TRAINING, purpose="training")
    assert ledger.verify().ok


def test_a_first_charge_that_others_follow_stays(opened: Opened) -> None:
    """Otherwise a later answer decides whether it is run, and delta is spent on both kinds of outcomes."""
    ledger = opened()
    epsilon = 1.1 * PldAccountant(unit=Unit.user()).compose(TRAINING).epsilon(1e-5)
    people = ledger.budget("people", epsilon=epsilon, delta=1e-5, unit="person")
    first = people.reserve(Charge(event=TRAINING, purpose="training"))
    query = people.reserve(Charge(event=GaussianEvent(100.0), purpose="a mean"))
    for force in (False, True):
        with pytest.raises(InvalidArgument, match="the only one so far"):
            first.void(force=force)
    assert people.spent == epsilon
    query.void()  # nothing was released: it decides nothing
    first.void()
    assert people.spent == 0.0
    assert ledger.verify().ok


def test_a_first_charge_that_another_program_voids_is_found(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db")
    epsilon = 1.1 * PldAccountant(unit=Unit.user()).compose(TRAINING).epsilon(1e-5)
    people = ledger.budget("people", epsilon=epsilon, delta=1e-5, unit="person")
    first = people.reserve(Charge(event=TRAINING, purpose="training"))
    people.charge(GaussianEvent(100.0), purpose="a mean")
    values = {"id": 0, "kind": EntryKind.VOIDED, "charge": first.id, "event": None, "details": "{}"}
    ledger.store.append(replace(first.row, **values, **asdict(-first.row.cost)))
    assert "voids a first event" in str(ledger.verify().findings)


def test_no_part_of_a_first_charge_is_refunded(opened: Opened) -> None:
    """How far a run comes may depend on what it saw."""
    ledger = opened()
    people = calibrated(ledger)
    people.reserve(Charge(event=TRAINING, purpose="training")).commit(SelfComposedEvent(TRAINING.event, 10))
    assert people.spent == people.cap.epsilon
    assert ledger.verify().ok


def test_a_row_that_pretends_to_be_the_first_is_found(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db")
    people = calibrated(ledger)
    people.charge(LaplaceEvent(1e6), purpose="next to nothing")
    cost = people.cap.first_cost(TRAINING)
    details = json.dumps({"delta": None, "first": True})
    row = people.row(EntryKind.COMMITTED, Charge(event=TRAINING, purpose="training"), cost, details=details)
    with contextlib.suppress(HushError):
        ledger.store.append(replace(row, delta=0, gaussian=1))
    assert not ledger.verify().ok
