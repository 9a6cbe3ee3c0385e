"""Versions of the tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from hush.accounting import GaussianEvent, LaplaceEvent, SelfComposedEvent
from hush.errors import HushError, Unsupported
from hush.ledger import EntryKind, Ledger, OverBudget
from hush.ledger.storage import schema
from ledger.ledgers import on_file, patients, tampering

GOLDEN = Path(__file__).parents[2] / "golden"
HEADS = {
    2: "89dd79b5b9b9fc4cbae58257a7d7285bd3f5dc0a5bd65074d741f85dcdec0522",
    3: "f3276caea8ef0c54997365cd92a96617b44f15c471c66f06c3cf6658a65e5009",
}
Opened = Callable[..., Ledger]


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


def stored(folder: Path, version: int) -> Ledger:
    """Open a ledger that an older version of hush wrote."""
    database = sqlite3.connect(folder / "privacy.db")
    database.executescript((GOLDEN / f"ledger_version_{version}.sql").read_text())
    database.close()
    return Ledger(f"sqlite:///{folder}/privacy.db")


def test_a_budget_of_an_older_version_keeps_its_rule(tmp_path: Path) -> None:
    ledger = stored(tmp_path, 3)
    budget = ledger.budget("patients")
    cap = budget.cap
    assert (cap.gaussian_rule.most, cap.limit.gaussian, cap.limit.smoothed) == (-1, -1, -1)
    assert (cap.order, cap.claims_delta) == (8.2605, 1e-7)
    assert cap.limit.renyi == 1_502_511_257_122  # as it was
    with ledger.store.reading() as connection:
        (row,) = connection.execute(schema.budgets.select())
    assert (row.most_renyi, row.most_gaussian, row.gaussian) == (cap.limit.renyi, -1, 0)
    (reservation,) = budget.pending()
    reservation.commit(SelfComposedEvent(GaussianEvent(30.0), 5))
    budget.charge(GaussianEvent(30.0), purpose="another mean")
    assert budget.status()[0].cost.gaussian == 0
    assert ledger.verify(HEADS[3]).ok, ledger.verify(HEADS[3])
    assert [row.gaussian for row in ledger.entries()] == [None] * 4 + [0] * 2
    assert ledger.budget("new", epsilon=1, delta=1e-6, unit="person").cap.gaussian_rule.most > 0
    assert ledger.verify(HEADS[3]).ok


def test_costs_that_were_removed_from_a_row_are_found(tmp_path: Path) -> None:
    """Rows of older versions are hashed without the later costs; rows of this one are not."""
    ledger = on_file(tmp_path)
    patients(ledger).charge(GaussianEvent(20.0), purpose="x")
    with tampering(ledger) as connection:
        connection.execute("UPDATE hush_entries SET gaussian=NULL, smoothed=NULL WHERE id=2")
    assert not ledger.verify().ok


@pytest.mark.postgres
def test_postgres_migrates_tables_of_version_3(postgres_ledger_url: str) -> None:
    ledger = Ledger(postgres_ledger_url)
    before = "delta <= most_delta AND (renyi <= most_renyi OR (unbounded = 0 AND pure <= most_pure))"
    with ledger.store.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE hush_entries DROP COLUMN gaussian, DROP COLUMN smoothed")
        for table, name in (("hush_budgets", "hush_within_cap"), ("hush_shares", "hush_within_share")):
            dropped = ", ".join(f"DROP COLUMN {column}" for column in ("gaussian", "smoothed"))
            limits = ", ".join(f"DROP COLUMN most_{column}" for column in ("gaussian", "smoothed"))
            connection.exec_driver_sql(f"ALTER TABLE {table} {dropped}, {limits}")
            connection.exec_driver_sql(f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({before})")
        connection.exec_driver_sql(
            "ALTER TABLE hush_budgets ADD CONSTRAINT hush_not_negative "
            "CHECK (renyi >= 0 AND pure >= 0 AND unbounded >= 0 AND delta >= 0)"
        )
        connection.exec_driver_sql("UPDATE hush_ledger SET version = 3")
    ledger.close()
    ledger = Ledger(postgres_ledger_url)
    budget = patients(ledger)
    budget.charge(GaussianEvent(20.0), purpose="x")
    with pytest.raises(OverBudget):
        budget.charge(GaussianEvent(1.0), purpose="too much")
    assert ledger.verify().ok
    ledger.close()


def test_a_stored_ledger_is_read_continued_and_settled(tmp_path: Path) -> None:
    ledger = stored(tmp_path, 2)
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
    assert ledger.verify(HEADS[2]).ok
