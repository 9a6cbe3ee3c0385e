"""Boxes of a ledger's budget: declared releases in any order, and what happens beyond them."""

from __future__ import annotations

import json
from collections.abc import Callable
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
from hush.accounting.budget import Box, Charge
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Unit
from hush.ledger import Ledger, LedgerBudget, OverBudget
from hush.ledger.accounts.terms.boxes import block_limit, kind_block
from ledger.ledgers import on_file, rehashed, tampering

Opened = Callable[..., Ledger]
MEAN, COUNT = GaussianEvent(9.0), LaplaceEvent(10.0)
BOX = Box({MEAN: 3, COUNT: 2})


def boxed(ledger: Ledger, epsilon: float = 1.5) -> LedgerBudget:
    return ledger.budget("people", epsilon=epsilon, delta=1e-6, unit="person", box=BOX)


def composed() -> float:
    return PldAccountant(unit=Unit.user()).compose(MEAN, 3).compose(COUNT, 2).epsilon(1e-6)


def test_a_box_costs_what_its_loss_distribution_says_whatever_the_order(opened: Opened) -> None:
    people = boxed(opened())
    assert people.spent == pytest.approx(composed(), rel=1e-4)
    before = people.spent
    for event in (COUNT, MEAN, MEAN, COUNT, MEAN):
        people.charge(event, purpose="declared")
    assert (people.spent, people.box_left) == (before, (0, 0))
    assert opened().verify().ok


def test_a_box_that_uses_the_whole_cap_is_accepted_and_nothing_else(opened: Opened) -> None:
    people = boxed(opened(), epsilon=composed() * (1 + 1e-6))
    people.charge(MEAN, purpose="declared")
    with pytest.raises(OverBudget):
        people.charge(LaplaceEvent(200.0), purpose="not declared")
    with pytest.raises(InvalidArgument, match="^box="):
        opened().budget("others", epsilon=composed() * 0.999, delta=1e-6, unit="person", box=BOX)


def test_what_was_not_declared_goes_on_top(opened: Opened) -> None:
    people = boxed(opened())
    before = people.spent
    for _ in range(4):  # the fourth exceeds the number declared
        people.charge(MEAN, purpose="a mean")
    assert people.box_left == (0, 2)
    assert people.spent > before
    together = PldAccountant(unit=Unit.user()).compose(MEAN, 4).compose(COUNT, 2).epsilon(1e-6)
    assert together <= people.spent <= 1.03 * together
    while people.price(MEAN).fits:
        people.charge(MEAN, purpose="a mean")
    with pytest.raises(OverBudget):
        people.charge(MEAN, purpose="a mean")
    people.charge(COUNT, purpose="still declared")
    assert people.price(COUNT).fits
    assert not people.price(MEAN).fits


def test_a_voided_release_can_be_used_again(opened: Opened) -> None:
    people = boxed(opened())
    reservation = people.reserve(Charge(event=COUNT, purpose="failed", request="mine"))
    assert people.box_left == (3, 1)
    reservation.void()
    assert people.box_left == (3, 2)
    again = people.reserve(Charge(event=COUNT, purpose="again", request="other"))
    again.commit()
    assert people.box_left == (3, 1)
    assert opened().verify().ok


def test_a_question_out_of_the_box_is_answered_once(opened: Opened) -> None:
    people = boxed(opened())
    charge = Charge(event=COUNT, purpose="a count", question="how many", sealed=True, request="key")
    people.reserve(charge).commit(answer="7")
    assert people.reserve(charge).answer == "7"
    assert people.box_left == (3, 1)


def test_less_than_was_declared_is_not_refunded(opened: Opened) -> None:
    ledger = opened()
    training = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(2.0), 0.01), 100)
    people = ledger.budget("people", epsilon=2, delta=1e-6, unit="person", box=Box({training: 1}))
    before = people.spent
    people.reserve(Charge(event=training, purpose="training")).commit(SelfComposedEvent(training.event, 10))
    assert (people.spent, people.box_left) == (before, (0,))
    assert ledger.verify().ok


def test_a_training_with_held_out_units_costs_what_its_loss_distribution_says(opened: Opened) -> None:
    """As `hush train` charges it by default. Once, such a box needed a cap of 1.4 times the truth."""
    training = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.01), 200)
    event = ParallelByIndexEvent((ComposedEvent((GaussianEvent(30.0), training)), GaussianEvent(8.0)))
    truth = PldAccountant(unit=Unit.user()).compose(event).epsilon(1e-6)
    ledger = opened()
    people = ledger.budget("people", epsilon=1.001 * truth, delta=1e-6, unit="person", box=Box({event: 1}))
    people.reserve(Charge(event=event, purpose="training")).commit()
    assert people.box_left == (0,)
    assert ledger.verify().ok


def test_a_box_is_a_term_that_cannot_be_changed(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    boxed(ledger)
    assert ledger.budget("people", box=BOX).cap.box == BOX
    with pytest.raises(InvalidArgument, match="^box="):
        ledger.budget("people", box=Box({MEAN: 4}))
    with pytest.raises(Unsupported, match="box"):
        ledger.budget("b", epsilon=1, delta=1e-6, unit="row", blocks=["a"], box=BOX)


def test_without_a_delta_a_box_of_pure_releases_adds_up(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    people = ledger.budget("people", epsilon=1, unit="person", box=Box({COUNT: 4}))
    assert people.spent == pytest.approx(0.4)
    people.charge(LaplaceEvent(2.0), purpose="on top")
    assert people.spent == pytest.approx(0.9)
    with pytest.raises(OverBudget):
        people.charge(LaplaceEvent(5.0), purpose="too much")


def test_a_release_that_is_charged_to_another_kind_is_found(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    people = boxed(ledger)
    people.charge(COUNT, purpose="a count")
    with tampering(ledger) as connection:
        connection.execute("UPDATE hush_entries SET event=? WHERE id=2", (LaplaceEvent(0.1).to_json(),))
        rehashed(ledger, connection)
    assert any(finding.row == 2 and "kind" in finding.what for finding in ledger.verify().findings)


def test_a_larger_box_than_was_paid_is_found(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    boxed(ledger)
    with tampering(ledger) as connection:
        connection.execute(f"UPDATE hush_budgets SET most_renyi=9 * most_renyi WHERE block='{kind_block(0)}'")
    assert any("most_renyi" in finding.what for finding in ledger.verify().findings)


def test_limits_of_kinds() -> None:
    from hush.accounting.budget import Cap

    cap = Cap(epsilon=1.5, delta=1e-6, unit=Unit.user(), box=BOX)
    assert block_limit(cap, "") == cap.limit
    assert block_limit(cap, "box 1").renyi == 3 * block_limit(cap, "box 2").renyi // 2


@pytest.mark.parametrize("text", ["{}", '[{"event": 1}]', '[{"event": {"kind": "x"}, "number": 1}]', "[]"])
def test_bad_boxes_are_refused(text: str) -> None:
    with pytest.raises((InvalidArgument, Unsupported)):
        Box.from_json(json.loads(text))


def test_an_empty_box_and_odd_numbers_are_refused() -> None:
    for kinds in ({}, {MEAN: 0}, {MEAN: 10**7}, {"mean": 3}):
        with pytest.raises(InvalidArgument):
            Box(kinds)  # type: ignore[arg-type]
    assert BOX.kinds == ((MEAN, 3), (COUNT, 2))
