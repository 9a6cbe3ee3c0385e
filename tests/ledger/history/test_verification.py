"""`Ledger.verify` finds whatever was done to a ledger behind its back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hush.accounting import LaplaceEvent
from hush.ledger import Ledger
from hush.ledger.storage import schema
from hush.ledger.storage.entry import COSTS
from ledger.ledgers import in_blocks, on_file, rehashed, spend, tampering, with_people


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = on_file(tmp_path)
    spend(made)
    return made


def abouts(ledger: Ledger, head: str | None = None) -> set[str]:
    return {finding.about for finding in ledger.verify(head).findings}


def test_nothing_is_wrong_with_what_nobody_touched(tmp_path: Path) -> None:
    ledger = on_file(tmp_path)
    assert ledger.verify().ok
    spend(ledger)
    in_blocks(ledger)
    with_people(ledger)
    result = ledger.verify()
    assert result.ok, result
    assert result.rows == len(ledger.entries())
    assert result.head == ledger.entries()[-1].hash
    assert "1 pending reservation" in " ".join(result.notes)


STORED = [column.name for column in schema.entries.c]
OTHER: dict[str, Any] = {
    "kind": "voided",
    "dataset": "others",
    "block": '["x"]',
    "unit": "example",
    "relation": "replace",
    "charge": 1,
    "event": LaplaceEvent(99.0).to_json(),
    "purpose": "nothing much",
    "author": "somebody",
    "question": "f" * 64,
    "request": "another",
    "renyi": 1,
    "pure": 1,
    "unbounded": 7,
    "delta": 1,
    "answer": "42",
    "details": "not json",
    "time": 1,
    "previous": "e" * 64,
    "gaussian": None,
    "smoothed": 7,
    "hash": "d" * 64,
}


@pytest.mark.parametrize("column", STORED[1:])
def test_an_edit_of_any_column_is_found_at_its_row(ledger: Ledger, column: str) -> None:
    with tampering(ledger) as connection:
        connection.execute(f"UPDATE hush_entries SET {column}=? WHERE id=3", (OTHER[column],))
    found = ledger.verify().findings
    assert any(finding.row == 3 and finding.about == "chain" for finding in found)


def test_a_number_that_became_text_is_found(ledger: Ledger) -> None:
    with tampering(ledger) as connection:
        connection.execute("UPDATE hush_entries SET pure='much', time='late' WHERE id=3")
        connection.execute("UPDATE hush_budgets SET pure='little'")
    assert {"chain", "row", "table"} <= abouts(ledger)


def test_text_that_is_none_is_found(ledger: Ledger) -> None:
    with tampering(ledger) as connection:
        connection.execute("UPDATE hush_entries SET purpose=CAST(x'ff00fe' AS TEXT) WHERE id=3")
    assert not ledger.verify().ok


@pytest.mark.parametrize("row", [1, 3, 8])
def test_a_removed_row_is_found(ledger: Ledger, row: int) -> None:
    with tampering(ledger) as connection:
        connection.execute("DELETE FROM hush_entries WHERE id=?", (row,))
    assert not ledger.verify().ok


def test_a_removed_row_is_found_although_others_moved_up(ledger: Ledger) -> None:
    with tampering(ledger) as connection:
        connection.execute("DELETE FROM hush_entries WHERE id=3")
        for row in range(4, 9):
            connection.execute("UPDATE hush_entries SET id=? WHERE id=?", (row - 1, row))
    assert any(finding.row == 3 and finding.about == "chain" for finding in ledger.verify().findings)


def test_swapped_rows_are_found(ledger: Ledger) -> None:
    with tampering(ledger) as connection:
        for before, after in ((2, 99), (3, 2), (99, 3)):
            connection.execute("UPDATE hush_entries SET id=? WHERE id=?", (after, before))
    assert {2, 3} <= {finding.row for finding in ledger.verify().findings}


def test_an_inserted_row_is_found(ledger: Ledger) -> None:
    columns = ", ".join(name for name in STORED if name not in ("id", "request"))
    with tampering(ledger) as connection:
        connection.execute(f"INSERT INTO hush_entries (id, {columns}) SELECT 9, {columns} FROM hush_entries WHERE id=2")
    assert any(finding.row == 9 and finding.about == "chain" for finding in ledger.verify().findings)
    assert "table" in abouts(ledger)  # the chain's end, and the budget


def truncated(ledger: Ledger) -> None:
    """Remove the last row, and everything that tells of it."""
    last = ledger.entries()[-1]
    with tampering(ledger) as connection:
        connection.execute("DELETE FROM hush_entries WHERE id=?", (last.id,))
        changes = ", ".join(f"{name}={name}-({getattr(last, name)})" for name in COSTS)
        connection.execute(f"UPDATE hush_budgets SET {changes}")
        rehashed(ledger, connection)
        connection.execute("UPDATE hush_head SET time=(SELECT max(time) FROM hush_entries)")


def test_a_removed_tail_is_found_with_a_head_that_was_kept(ledger: Ledger) -> None:
    head = ledger.verify().head
    assert ledger.verify(head).ok
    truncated(ledger)
    assert ledger.verify().ok  # nothing in the file itself can tell
    assert abouts(ledger, head) == {"chain"}


def test_a_head_that_was_kept_stays_good_as_the_ledger_grows(ledger: Ledger) -> None:
    head = ledger.verify().head
    ledger.budget("patients").charge(LaplaceEvent(50.0), purpose="one more")
    assert ledger.verify(head).ok


def test_a_ledger_written_anew_is_found_with_a_head_that_was_kept(ledger: Ledger) -> None:
    head = ledger.verify().head
    with tampering(ledger) as connection:
        connection.execute("UPDATE hush_entries SET purpose='nothing to see' WHERE id=2")
        rehashed(ledger, connection)
    assert ledger.verify().ok
    assert abouts(ledger, head) == {"chain"}


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE hush_budgets SET pure=0",
        "UPDATE hush_budgets SET renyi=renyi-1",
        "UPDATE hush_budgets SET unbounded=0",
        "UPDATE hush_budgets SET delta=0",
        "UPDATE hush_budgets SET most_renyi=most_renyi+1",
        "UPDATE hush_budgets SET most_pure=most_pure*2",
        "UPDATE hush_budgets SET most_delta=most_delta+1",
        "UPDATE hush_budgets SET retired=0 WHERE block='a'",
        "UPDATE hush_budgets SET expires=1",
        "DELETE FROM hush_budgets WHERE block='b'",
        "INSERT INTO hush_budgets VALUES ('visits', 'z', 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 0, NULL)",
        "UPDATE hush_shares SET most_pure=most_pure*2",
        "UPDATE hush_shares SET pure=0",
        "UPDATE hush_shares SET millionths=1000000",
        "DELETE FROM hush_shares",
        "UPDATE hush_people SET role='owner'",
        "DELETE FROM hush_people WHERE name='anna'",
        "INSERT INTO hush_people VALUES ('eve', 'owner', 'x')",
        "UPDATE hush_datasets SET details=replace(details, '4.0', '8.0') WHERE name='patients'",
        "UPDATE hush_datasets SET details='gone' WHERE name='patients'",
        "UPDATE hush_datasets SET unit='example' WHERE name='patients'",
        "UPDATE hush_datasets SET relation='replace' WHERE name='patients'",
        "UPDATE hush_datasets SET fingerprint='other' WHERE name='patients'",
        "DELETE FROM hush_datasets WHERE name='patients'",
        "UPDATE hush_head SET id=id+1",
        "UPDATE hush_head SET hash='0'",
        "UPDATE hush_head SET time=0",
        "DELETE FROM hush_head",
    ],
)
def test_an_edit_of_any_other_table_is_found(tmp_path: Path, edit: str) -> None:
    ledger = on_file(tmp_path)
    spend(ledger)
    in_blocks(ledger)
    with_people(ledger)
    with tampering(ledger) as connection:
        connection.execute(edit)
    assert abouts(ledger) == {"table"}


def test_ten_thousand_rows(tmp_path: Path) -> None:
    """Costs of equal events are computed once: no limit on time, but it would take minutes otherwise."""
    ledger = on_file(tmp_path)
    patients = ledger.budget("patients", epsilon=10, delta=1e-6, unit="patient")
    row = patients.charge(LaplaceEvent(1e6), purpose="a count")
    columns = ", ".join(name for name in STORED if name != "id")
    with tampering(ledger) as connection:
        connection.execute("BEGIN")
        connection.execute(
            f"WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
            f"INSERT INTO hush_entries (id, {columns}) SELECT i, {columns} FROM hush_entries, n WHERE id=2"
        )
        connection.execute("COMMIT")
    with tampering(ledger) as connection:
        connection.execute("BEGIN")
        rehashed(ledger, connection)
        for name in ("renyi", "pure", "gaussian", "smoothed"):
            connection.execute(f"UPDATE hush_budgets SET {name}=9999*{getattr(row, name)}")
        connection.execute("UPDATE hush_head SET time=(SELECT max(time) FROM hush_entries)")
        connection.execute("COMMIT")
    result = ledger.verify()
    assert result.ok
    assert result.rows == 10_000


@pytest.mark.postgres
def test_damage_in_postgres(postgres_ledger_url: str) -> None:
    ledger = Ledger(postgres_ledger_url)
    spend(ledger)
    in_blocks(ledger)
    assert ledger.verify().ok, ledger.verify()
    with ledger.store.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE hush_entries DISABLE TRIGGER ALL")
        connection.exec_driver_sql("UPDATE hush_entries SET purpose='nothing much' WHERE id=3")
    assert {(finding.row, finding.about) for finding in ledger.verify().findings} == {(3, "chain")}
    with ledger.store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE hush_budgets SET pure=0")
    assert "table" in abouts(ledger)
    ledger.close()
