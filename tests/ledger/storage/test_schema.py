"""Versions of the tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hush.accounting import LaplaceEvent
from hush.errors import HushError, Unsupported
from hush.ledger import Ledger, LedgerBudget
from hush.ledger.storage import schema

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
