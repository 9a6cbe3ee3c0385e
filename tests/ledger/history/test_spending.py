"""The curve of what was spent over time."""

from __future__ import annotations

from pathlib import Path

from hush.accounting import LaplaceEvent
from hush.accounting.budget import Charge, Cost
from hush.ledger.history.spending import spending_history
from hush.ledger.history.verification import read
from ledger.ledgers import in_blocks, on_file, spend


def test_totals_follow_charges_and_refunds(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    data = ledger.budget("patients", epsilon=4, delta=1e-6, unit="patient")
    data.charge(LaplaceEvent(10.0), purpose="a count")
    data.reserve(Charge(event=LaplaceEvent(5.0), purpose="failed")).void()
    replay, _ = read(ledger.store)
    first, reserved, voided = (cost for _, cost in spending_history(replay).steps["patients", ""])
    assert first == data.cost(LaplaceEvent(10.0)) == voided
    assert reserved == first + data.cost(LaplaceEvent(5.0))
    ledger.close()


def test_the_last_total_is_what_the_budget_has_spent(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    spend(ledger)
    visits = in_blocks(ledger)
    steps = spending_history(read(ledger.store)[0]).steps
    for status in visits.status():
        last = steps["visits", status.block][-1][1] if steps["visits", status.block] else Cost()
        assert last == status.cost
    ledger.close()


def test_a_plot_shows_the_cap_and_is_left_out_where_nothing_was_charged(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    spend(ledger)
    ledger.budget("empty", epsilon=1, unit="row")
    replay, _ = read(ledger.store)
    history = spending_history(replay)
    plot = history.plot("patients", "", replay.budgets["patients"])
    assert plot is not None
    assert "The cap is 4" in str(plot)
    assert history.plot("empty", "", replay.budgets["empty"]) is None
    ledger.close()
