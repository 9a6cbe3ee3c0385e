"""Ledgers that tests share."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hush.accounting import ApproximateDPEvent, GaussianEvent, LaplaceEvent, SelfComposedEvent
from hush.accounting.budget import Charge, run_sealed
from hush.ledger import Ledger, LedgerBudget, LedgerUnavailable, Role


def on_file(folder: Path) -> Ledger:
    return Ledger(f"sqlite:///{folder}/privacy.db")


def patients(ledger: Ledger, **terms: object) -> LedgerBudget:
    return ledger.budget("patients", **{"epsilon": 3.0, "delta": 1e-6, "unit": "patient", **terms})


def answers(data: LedgerBudget, count: int) -> list[str]:
    """Ask until refused; return the answers."""
    released = []
    for number in range(count):
        charge = Charge(event=LaplaceEvent(1e4), purpose="x" * 400, question=str(number))
        try:
            released.append(run_sealed(data, charge, lambda: "42" * 400))
        except LedgerUnavailable:
            break
    return released


def spend(ledger: Ledger) -> LedgerBudget:
    """Charge in every way that there is, and return the budget: rows 1 to 8."""
    budget = ledger.budget("patients", epsilon=4, delta=1e-6, unit="patient")
    budget.charge(LaplaceEvent(10.0), purpose="a count")
    budget.charge(ApproximateDPEvent(0.2, 1e-8), purpose="groups", request="mine")
    steps = SelfComposedEvent(GaussianEvent(30.0), 20)
    budget.reserve(Charge(event=steps, purpose="training")).commit(SelfComposedEvent(GaussianEvent(30.0), 5))
    budget.reserve(Charge(event=LaplaceEvent(5.0), purpose="failed")).void()
    budget.reserve(Charge(event=LaplaceEvent(8.0), purpose="left by a crash"))
    return budget


def in_blocks(ledger: Ledger) -> LedgerBudget:
    """Make a budget in blocks, a retired one among them, and charge some."""
    visits = ledger.budget("visits", epsilon=2, delta=1e-7, unit="row", blocks=["a", "b"])
    visits.at("a", "b").charge(GaussianEvent(20.0), purpose="both")
    visits.at("a").charge(LaplaceEvent(4.0), purpose="one")
    visits.add_block("c")
    visits.retire("a")
    return visits


def with_people(ledger: Ledger) -> tuple[str, str]:
    """Admit an owner and an analyst, who has a share and spends; return their tokens."""
    owner = ledger.admit("olga", Role.OWNER)
    url = str(ledger.store.url)
    boss = Ledger(url, token=owner)
    analyst = boss.admit("anna", Role.ANALYST)
    boss.budget("patients").share("anna", percent=50)
    Ledger(url, token=analyst).budget("patients").charge(LaplaceEvent(20.0), purpose="hers")
    return owner, analyst


@contextmanager
def tampering(ledger: Ledger) -> Iterator[sqlite3.Connection]:
    """Write to a ledger's file behind its back, without what guards it."""
    path = ledger.store.url.database
    assert path is not None
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for trigger in ("update", "delete"):
            connection.execute(f"DROP TRIGGER IF EXISTS hush_only_added_{trigger}")
        connection.execute("PRAGMA ignore_check_constraints=ON")
        yield connection


def rehashed(ledger: Ledger, connection: sqlite3.Connection) -> None:
    """Write all hashes anew, and the chain's end: what somebody with time does."""
    from dataclasses import replace

    last, previous = 0, "0" * 64
    for row in ledger.entries():
        new = replace(row, previous=previous)
        new = replace(new, hash=new.computed_hash())
        connection.execute("UPDATE hush_entries SET previous=?, hash=? WHERE id=?", (new.previous, new.hash, new.id))
        last, previous = new.id, new.hash
    connection.execute("UPDATE hush_head SET id=?, hash=?", (last, previous))
