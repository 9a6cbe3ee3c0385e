"""What `hush ledger` prints, for budgets in every state."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")

from hush.accounting import ApproximateDPEvent, ComposedEvent, LaplaceEvent
from hush.accounting.budget import Charge
from hush.cli import ledger_text as text
from hush.ledger import Ledger, LedgerBudget


@pytest.fixture
def budget(tmp_path: Path) -> LedgerBudget:
    ledger = Ledger(f"sqlite:///{tmp_path}/budgets.db")
    return ledger.budget("patients", epsilon=2, delta=1e-6, unit="patient-month", blocks=["2026-09", "2026-10"])


def spend(budget: LedgerBudget, epsilon: float, times: int = 1) -> None:
    for number in range(times):
        budget.charge(ApproximateDPEvent(epsilon, 0.0), purpose=f"counts {number}")


def test_the_status_is_json(budget: LedgerBudget) -> None:
    spend(budget, 0.5)
    status = json.loads(json.dumps(text.status(budget), allow_nan=False))
    assert (status["budget"], status["epsilon"], status["pending"]) == ("patients", 2, 0)
    assert (status["unit"], status["unit_name"]) == (str(budget.cap.unit), "patient-month")
    assert [block["block"] for block in status["blocks"]] == ["2026-09", "2026-10"]
    assert all(block["spent"] == 0.5 and not block["retired"] for block in status["blocks"])


def test_budgets_have_bars(budget: LedgerBudget) -> None:
    spend(budget, 1.0)
    budget.retire("2026-09")
    lines = text.budget_table([budget]).splitlines()
    assert lines[1].split()[:2] == ["patients", "2026-09"]
    left = [status.left for status in budget.status()]
    assert left[0] == left[1] < 100
    assert f"{left[0]:3} of 100" in lines[1]
    assert lines[1].endswith("retired")
    assert budget.status()[1].standard_query in lines[2]
    assert text.budget_table([]).startswith("There are no budgets yet.")


def test_only_the_last_charges_are_listed(budget: LedgerBudget) -> None:
    spend(budget, 0.01, times=12)
    shown = text.budget_page(budget)
    assert "The last 10 of 12 charges" in shown
    assert "counts 11" in shown
    assert "counts 1 " not in shown


def test_a_settled_reservation_is_shown_as_settled(budget: LedgerBudget) -> None:
    charges = [Charge(event=ApproximateDPEvent(0.1, 0.0), purpose=purpose) for purpose in ("one", "two", "three")]
    open_one, committed, voided = (budget.reserve(charge) for charge in charges)
    committed.commit()
    voided.void()
    shown = text.budget_page(budget).splitlines()
    statuses = {line.split()[-1]: line.split()[-3] for line in shown if line.endswith(("one", "two", "three"))}
    assert statuses == {"one": "reserved", "two": "committed", "three": "voided"}
    open_one.void()


def test_prices(budget: LedgerBudget) -> None:
    fits = text.price(budget.price(ApproximateDPEvent(0.5, 0.0)), budget)
    assert fits.startswith("It fits. Alone: epsilon = 0.5. Afterwards, 0.5 of 2 would be spent.")
    assert text.price(budget.price(ApproximateDPEvent(5.0, 0.0)), budget).startswith("It does NOT fit.")


def test_reservations() -> None:
    row = {"id": 7, "time": "2026-11-01 10:00", "budget": "patients", "author": "anna", "epsilon": 0.25}
    row |= {"purpose": "a \x1b[2J run", "active_seconds_ago": None}
    shown = text.pending([row, {**row, "active_seconds_ago": 12.3}])
    assert "0.25" in shown
    assert shown.count("12 s ago") == 1
    assert "--void ID" in shown
    assert "\x1b" not in shown  # nothing moves the terminal's cursor
    assert text.pending([]) == "Nothing is pending."


def test_times_and_counts() -> None:
    assert text.written_time(0) == "1970-01-01 00:00"
    assert [text.counted(number) for number in (0, 1, 1234)] == ["0 findings", "1 finding", "1,234 findings"]


def test_a_part_that_was_run_is_shown_at_its_own_price(tmp_path: Path) -> None:
    """Such as a training that was refused after learning."""
    people = Ledger(f"sqlite:///{tmp_path}/people.db").budget("people", epsilon=2, unit="person")
    learning, rest = LaplaceEvent(10.0), LaplaceEvent(1.0)
    for purpose in ("learning", "nothing"):
        reserved = people.reserve(Charge(event=ComposedEvent((learning, rest)), purpose=purpose))
        if purpose == "nothing":
            reserved.void()
        else:
            reserved.commit(learning)
    lines = text.budget_page(people).splitlines()
    shown = {line.split()[-1]: line.split()[-2] for line in lines[-2:]}
    assert shown == {"learning": "0.1", "nothing": "0"}
