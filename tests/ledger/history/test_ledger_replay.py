"""What a replay finds in rows whose hash chain is in order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hush.accounting import ComposedEvent, GaussianEvent, LaplaceEvent, PoissonSampledEvent, SelfComposedEvent
from hush.accounting.budget import Charge, Cost
from hush.ledger import EntryKind, Ledger, LedgerBudget
from ledger.ledgers import on_file, rehashed, spend, tampering, with_people


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = on_file(tmp_path)
    spend(made)
    return made


def abouts(ledger: Ledger, head: str | None = None) -> set[str]:
    return {finding.about for finding in ledger.verify(head).findings}


def understate(ledger: Ledger, row: int, by: dict[str, int]) -> None:
    with tampering(ledger) as connection:
        for name, steps in by.items():
            connection.execute(f"UPDATE hush_entries SET {name}={name}-{steps} WHERE id=?", (row,))
            connection.execute(f"UPDATE hush_budgets SET {name}={name}-{steps}")
        rehashed(ledger, connection)


@pytest.mark.parametrize(("row", "by"), [(2, {"pure": 10**10}), (2, {"renyi": 10**7}), (3, {"delta": 10**9})])
def test_an_understated_charge_is_found_in_a_chain_in_order(ledger: Ledger, row: int, by: dict[str, int]) -> None:
    understate(ledger, row, by)
    (finding,) = ledger.verify().findings
    assert (finding.row, finding.about) == (row, "cost")


def test_a_settlement_that_gives_back_too_much_is_found(ledger: Ledger) -> None:
    understate(ledger, 5, {"renyi": 10**7})  # the commit of five steps
    assert [(finding.row, finding.about) for finding in ledger.verify().findings] == [(4, "cost")]
    understate(ledger, 5, {"renyi": 10**12})
    assert (5, "cost") in {(finding.row, finding.about) for finding in ledger.verify().findings}


def test_a_commit_that_does_not_say_what_was_run_is_found(ledger: Ledger) -> None:
    with tampering(ledger) as connection:
        connection.execute("UPDATE hush_entries SET event=NULL WHERE id=5")
        rehashed(ledger, connection)
    assert any(finding.row == 5 and "without saying" in finding.what for finding in ledger.verify().findings)


def test_a_void_of_what_was_settled_is_found(ledger: Ledger) -> None:
    with tampering(ledger) as connection:
        connection.execute("DROP INDEX hush_settled_once")
        connection.execute("UPDATE hush_entries SET charge=4 WHERE id=7")
        rehashed(ledger, connection)
    assert any(finding.row == 7 and "settled by row 5" in finding.what for finding in ledger.verify().findings)


def test_a_charge_beyond_the_cap_is_found(ledger: Ledger) -> None:
    with tampering(ledger) as connection:
        connection.execute("UPDATE hush_entries SET details=replace(details, '\"epsilon\": 4.0', '\"epsilon\": 0.05')")
        rehashed(ledger, connection)
    assert "cap" in abouts(ledger)


def test_whoever_may_not_is_found(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    spend(ledger)
    with_people(ledger)
    last = ledger.entries()[-1].id
    with tampering(ledger) as connection:
        connection.execute("UPDATE hush_entries SET author='anna' WHERE kind='share'")
        connection.execute("UPDATE hush_entries SET details=replace(details, 'analyst', 'auditor') WHERE kind='person'")
        rehashed(ledger, connection)
    found = ledger.verify().findings
    assert any(finding.what == "its author is not an owner" for finding in found)
    assert any(
        finding.row == last and finding.what == "its author is an auditor, who may only read" for finding in found
    )


def planned(ledger: Ledger) -> LedgerBudget:
    """Make a plan of two counts and a mean, and run one of each: its rows are 2, 3 to 4 and 5 to 6."""
    data = ledger.budget("visits", epsilon=3, delta=1e-6, unit="row", blocks=["a", "b"])
    plan = data.plan([LaplaceEvent(4.0), LaplaceEvent(4.0), GaussianEvent(9.0)], delta=1e-8, purpose="a plan")
    for event in (LaplaceEvent(4.0), GaussianEvent(9.0)):
        plan.reserve(Charge(event=event, purpose="a part")).commit(event)
    return data


def test_a_plan_is_followed(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    data = planned(ledger)
    assert ledger.verify().ok, ledger.verify()
    cost = data.cap.claimed_cost(ComposedEvent((LaplaceEvent(4.0), LaplaceEvent(4.0), GaussianEvent(9.0))), delta=1e-8)
    assert all(status.cost == cost for status in data.status())
    assert all(block.change == Cost() for block in ledger.recompute("visits").blocks)
    assert ledger.recompute("visits").blocks[0].composition.charges == 1
    ledger.export(tmp_path / "report.html")
    assert "part of row 2" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("edit", "row", "why"),
    [
        (f"event='{LaplaceEvent(1.0).to_json()}'", 3, "does not contain this event"),
        (f"event='{LaplaceEvent(4.0).to_json()}'", "5 OR id=6", None),  # the plan has two of those
        (f"event='{GaussianEvent(9.0).to_json()}'", 3, "does not contain this event"),
        ("details=replace(details, '\"part_of\": 2', '\"part_of\": 1')", 3, "belongs to no plan"),
        ("pure=pure-1000000", 2, "but its event costs"),
    ],
)
def test_what_is_no_part_of_a_plan_is_found(tmp_path: Path, edit: str, row: object, why: str | None) -> None:
    ledger = on_file(tmp_path)
    planned(ledger)
    with tampering(ledger) as connection:
        connection.execute(f"UPDATE hush_entries SET {edit} WHERE id={row}")
        rehashed(ledger, connection)
    found = [finding.what for finding in ledger.verify().findings if finding.about in ("row", "cost")]
    assert bool(found) is (why is not None)
    assert why is None or any(why in what for what in found)


def test_a_part_from_a_block_that_the_plan_did_not_pay_for_is_found(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    planned(ledger)
    with tampering(ledger) as connection:
        connection.execute("UPDATE hush_entries SET block='[\"a\"]' WHERE id=2")
        rehashed(ledger, connection)
    assert any(finding.row == 3 and "blocks" in finding.what for finding in ledger.verify().findings)


def test_a_plan_that_is_voided_after_a_part_was_run_is_found(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    data = planned(ledger)
    (reserved,) = [one for one in data.pending() if one.id == 2]
    reserved._settle(EntryKind.VOIDED, -reserved.row.cost, None, None)  # past what `void` refuses
    assert any("voids a plan" in finding.what for finding in ledger.verify().findings)


def test_what_only_fits_as_a_claim_is_followed(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    data = ledger.budget("visits", epsilon=3, delta=1e-6, unit="patient", claims_delta=5e-7)
    data.charge(LaplaceEvent(100.0), purpose="not the first")
    rare = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(0.1), 1e-7), 4)  # a rare loss that is very large
    data.reserve(Charge(event=rare, purpose="training", delta=4.5e-7)).commit(SelfComposedEvent(rare.event, 1))
    assert json.loads(ledger.entries()[2].details)["delta"] is not None, "the filter took it: choose another event"
    assert ledger.verify().ok, ledger.verify()
    assert ledger.recompute("visits").blocks[0].change == Cost()
