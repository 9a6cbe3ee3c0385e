"""Versions of the tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from hush.accounting import LaplaceEvent
from hush.errors import HushError, Unsupported
from hush.ledger import EntryKind, Ledger, LedgerBudget
from hush.ledger.storage import schema

GOLDEN = Path(__file__).parents[2] / "golden" / "ledger_version_2.sql"
Opened = Callable[..., Ledger]


def patients(ledger: Ledger) -> LedgerBudget:
    return ledger.budget("patients", epsilon=3, delta=1e-6, unit="patient")


def test_a_newer_ledger_is_refused(opened: Opened) -> None:
    ledger = opened()
    with ledger.store.writing() as connection:
        connection.exec_driver_sql(f"UPDATE hush_ledger SET version = {schema.VERSION + 1}")
    with pytest.raises(Unsupported, match="Upgrade hush"):
        opened()


def test_an_older_ledger_becomes_one_of_this_version(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    patients(opened()).charge(LaplaceEvent(1.0), purpose="x")
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    broken = {schema.VERSION - 1: lambda connection: connection.exec_driver_sql("SELECT no_such_thing")}
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    with pytest.raises(HushError):
        opened()
    added = "ALTER TABLE hush_people ADD COLUMN office TEXT"
    monkeypatch.setattr(
        schema, "MIGRATIONS", {schema.VERSION - 1: lambda connection: connection.exec_driver_sql(added)}
    )
    for _ in range(2):
        ledger = opened()
        assert ledger.budget("patients").spent == 1.0
        with ledger.store.reading() as connection:
            assert connection.exec_driver_sql("SELECT version FROM hush_ledger").scalar_one() == schema.VERSION
            connection.exec_driver_sql("SELECT office FROM hush_people")


def test_a_stored_ledger_is_read_continued_and_settled(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "privacy.db")
    database.executescript(GOLDEN.read_text())
    database.close()
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db")
    budget = ledger.budget("patients")
    assert (budget.spent, budget.cap.epsilon) == (1.5, 3.0)
    (reservation,) = budget.pending()
    reservation.commit()
    budget.charge(LaplaceEvent(2.0), purpose="another count")
    assert budget.spent == 2.0
    assert [(row.kind, row.budget) for row in ledger.entries()][:2] == [
        (EntryKind.BUDGET, "patients"),
        (EntryKind.COMMITTED, "patients"),
    ]
    assert ledger.verify("89dd79b5b9b9fc4cbae58257a7d7285bd3f5dc0a5bd65074d741f85dcdec0522").ok
