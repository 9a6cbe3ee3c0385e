"""Reservations count until they are voided; the same question is charged once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from hush.accounting.budget import Charge
from hush.errors import InvalidArgument
from hush.ledger import EntryKind, Ledger, OverBudget
from ledger.ledgers import patients

Opened = Callable[..., Ledger]


FLU = "how many had the flu"


def test_a_reservation_counts_until_it_is_voided(opened: Opened) -> None:
    data = patients(opened())
    reserved = data.reserve(Charge(event=LaplaceEvent(0.5), purpose="training"))
    assert data.spent == 2.0
    with pytest.raises(OverBudget):
        data.reserve(Charge(event=LaplaceEvent(0.5), purpose="another"))
    (pending,) = opened().budget("patients").pending()  # after a crash, another process sees it
    assert pending.id == reserved.id
    pending.void()
    assert data.spent == 0
    assert not data.pending()
    for settle in (reserved.void, reserved.commit):
        with pytest.raises(InvalidArgument, match="voided before"):
            settle()


def test_only_the_steps_taken_are_committed(opened: Opened) -> None:
    data = patients(opened())
    step = PoissonSampledEvent(GaussianEvent(1.0), 0.01)
    reserved = data.reserve(Charge(event=SelfComposedEvent(step, 1000), purpose="training"))
    whole = data.spent
    reserved.commit(SelfComposedEvent(step, 10))
    assert data.spent <= whole
    run, cost = data.cost(SelfComposedEvent(step, 10)), data.status()[0].cost
    assert replace(cost, gaussian=run.gaussian) == run
    # The price in Gaussian noise is that of all steps: when to stop may follow from what the first ones showed.
    assert cost.gaussian == data.cost(SelfComposedEvent(step, 1000)).gaussian
    assert data.cost(step).gaussian * 1000 > cost.gaussian
    other = data.reserve(Charge(event=SelfComposedEvent(step, 10), purpose="training"))
    with pytest.raises(InvalidArgument, match="at most what was reserved"):
        other.commit(SelfComposedEvent(step, 11))


def test_parts_that_were_priced_one_by_one_are_refunded(opened: Opened) -> None:
    """Such as a training that was refused after learning: it costs what learning costs, under every rule."""
    ledger = opened()
    data = patients(ledger)
    learning, training = GaussianEvent(50.0), SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.01), 100)
    reserved = data.reserve(Charge(event=ComposedEvent((learning, training)), purpose="training"))
    parts = data.cost(learning) + data.cost(training)
    assert data.status()[0].cost.gaussian == parts.gaussian
    reserved.commit(learning)
    assert data.status()[0].cost == data.cost(learning)
    assert ledger.verify().ok


def test_a_refund_of_steps_in_gaussian_noise_is_found(tmp_path: Path) -> None:
    """Another program refunds what hush does not."""
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db")
    data = patients(ledger)
    step = PoissonSampledEvent(GaussianEvent(1.0), 0.01)
    run, first_steps = (SelfComposedEvent(step, number) for number in (1000, 10))
    forged = data.reserve(Charge(event=run, purpose="training"))
    change = data.cost(first_steps) + -forged.row.cost
    values = {
        "id": 0,
        "kind": EntryKind.COMMITTED,
        "charge": forged.id,
        "event": first_steps.to_json(),
        "details": "{}",
    }
    data.store.append(replace(forged.row, **values, **asdict(change)))
    assert not ledger.verify().ok


def test_the_same_question_is_answered_once(opened: Opened) -> None:
    data = patients(opened())
    asked = Charge(event=LaplaceEvent(2.0), purpose=FLU, question="flu", sealed=True)
    assert data.reserve(asked).commit(answer="41.7") == "41.7"
    again = opened().budget("patients").reserve(asked)
    assert again.answer == "41.7"
    assert data.spent == 0.5
    with pytest.raises(InvalidArgument):
        again.commit(answer="another")


def test_two_who_ask_the_same_at_once_get_one_answer(opened: Opened) -> None:
    data = patients(opened())
    asked = Charge(event=LaplaceEvent(2.0), purpose=FLU, question="flu", sealed=True)
    first, second = data.reserve(asked), opened().budget("patients").reserve(asked)
    assert first.id == second.id
    assert first.commit(answer="41.7") == "41.7"
    assert second.commit(answer="39.2") == "41.7"  # its own is forgotten
    assert data.spent == 0.5


def test_a_sealed_charge_goes_on_after_a_crash_and_others_do_not(opened: Opened) -> None:
    data = patients(opened())
    sealed = Charge(event=LaplaceEvent(2.0), purpose=FLU, question="flu", sealed=True)
    assert data.reserve(sealed).id == data.reserve(sealed).id
    seen = Charge(event=LaplaceEvent(2.0), purpose="training", request="a run")
    data.reserve(seen)
    with pytest.raises(InvalidArgument, match="pending"):
        data.reserve(seen)
    assert data.spent == 1.0


def test_a_request_is_charged_once(opened: Opened) -> None:
    data = patients(opened())
    first = data.charge(LaplaceEvent(2.0), purpose=FLU, request="key 1")
    assert data.charge(LaplaceEvent(2.0), purpose=FLU, request="key 1").id == first.id
    assert data.spent == 0.5
    with pytest.raises(InvalidArgument, match="used for another"):
        data.charge(LaplaceEvent(1.0), purpose=FLU, request="key 1")
    run = data.for_run("run 7")
    begun = run.reserve(Charge(event=LaplaceEvent(4.0), purpose="training"))
    assert not begun.resumed
    gone_on = run.reserve(Charge(event=LaplaceEvent(4.0), purpose="training"))
    assert gone_on.resumed
    assert gone_on.id == begun.id
    gone_on.commit()
    with pytest.raises(InvalidArgument, match="committed"):
        run.reserve(Charge(event=LaplaceEvent(4.0), purpose="training"))


def test_a_key_that_was_voided_pays_for_nothing(opened: Opened) -> None:
    data = patients(opened())
    data.reserve(Charge(event=LaplaceEvent(1.0), purpose="x", request="k")).void()
    with pytest.raises(InvalidArgument, match="a new key"):
        data.charge(LaplaceEvent(1.0), purpose="x", request="k")
    for request in ("plan 2 part 0", "plan "):
        with pytest.raises(InvalidArgument, match="start with"):
            data.charge(LaplaceEvent(1.0), purpose="x", request=request)


def test_the_same_words_about_another_event_have_no_answer(opened: Opened) -> None:
    data = patients(opened())
    data.reserve(Charge(event=ApproximateDPEvent(1e-6), purpose="x", question="q", sealed=True)).commit(answer="forged")
    real = data.reserve(Charge(event=LaplaceEvent(1.0), purpose="x", question="q", sealed=True))
    assert real.answer is None
