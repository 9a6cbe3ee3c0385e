"""One process at a time works with a reservation, from its last state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hush.accounting import GaussianEvent, LaplaceEvent
from hush.accounting.budget import Charge, run_sealed
from hush.cli import ledger_text
from hush.errors import InvalidArgument
from hush.ledger import Ledger, LedgerBudget, Reserved
from hush.ledger.accounts import lease
from hush.ledger.storage import schema

Opened = Callable[..., Ledger]
DAY = 86_400 * 1_000_000


def patients(ledger: Ledger) -> LedgerBudget:
    return ledger.budget("patients", epsilon=3.0, delta=1e-6, unit="patient")


def reserve(budget: LedgerBudget) -> Reserved:
    """Reserve, or continue with what the same run has reserved."""
    return budget.reserve(Charge(event=GaussianEvent(9.0), purpose="training", request="run 1", resumes=True))


def set_beat(ledger: Ledger, change: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock by which leases are read be wrong by so many microseconds."""
    now = type(ledger.store).now
    monkeypatch.setattr(type(ledger.store), "now", lambda store, connection: now(store, connection) + change)


def test_a_second_process_has_to_wait(opened: Opened) -> None:
    first, second = reserve(patients(opened())), reserve(patients(opened()))
    assert first.held_for() is None
    first.hold(0)
    seconds = second.held_for()
    assert seconds is not None
    assert 0 <= seconds < lease.DURATION
    with pytest.raises(InvalidArgument, match="no other process is working on"):
        second.hold(0)
    first.hold(1)
    first.release()
    assert second.held_for() is None
    second.hold(1)
    with pytest.raises(InvalidArgument, match="Another process has continued this run"):
        first.hold(2)
    with pytest.raises(InvalidArgument, match="Another process has continued this run"):
        first.commit()
    second.commit()
    assert not patients(opened()).pending()


def test_an_older_copy_is_refused(opened: Opened) -> None:
    first, second = reserve(patients(opened())), reserve(patients(opened()))
    first.hold(0)
    first.hold(2)
    first.release()
    with pytest.raises(InvalidArgument, match="This is an older copy"):
        second.hold(1)
    second.hold(3)  # a crash may have come between storing a state and noting it
    second.release()


@pytest.mark.parametrize("change", [DAY, -DAY])
def test_a_lease_ends_without_signs_of_life(change: int, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the clock was wrong when it was taken: no lease lasts for ever."""
    ledger = opened()
    first, second = reserve(patients(ledger)), reserve(patients(opened()))
    first.hold(0)
    monkeypatch.setattr(lease, "_is_dead", lambda _: False)
    with monkeypatch.context() as patched:
        set_beat(ledger, change, patched)
        assert second.held_for() is None
        second.hold(0)
    with pytest.raises(InvalidArgument, match="Another process has continued this run"):
        first.hold(1)
    second.release()


def test_a_dead_process_holds_nothing(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = reserve(patients(opened())), reserve(patients(opened()))
    first.hold(0)
    monkeypatch.setattr(lease, "_started", lambda _: "")  # it is gone, or its number is another process's now
    assert second.held_for() is None
    second.hold(0)
    second.release()


def test_a_thread_shows_that_the_process_is_alive(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is set back when the lease is taken. Only a sign of life brings it to the present."""
    monkeypatch.setattr(lease, "_INTERVAL", 0.01)
    ledger = opened()
    reserved = reserve(patients(ledger))
    reserved.hold(0)
    columns = schema.leases.c

    def beat() -> int:
        with ledger.store.reading() as connection:
            return int(connection.execute(schema.leases.select().where(columns.charge == reserved.id)).one().beat)

    before = beat()
    while beat() == before:
        pass
    reserved.release()


def test_void(opened: Opened) -> None:
    budget = patients(opened())
    reserved = reserve(budget)
    reserved.hold(0)
    (other,) = patients(opened()).pending()
    with pytest.raises(InvalidArgument, match="one that no process is working on"):
        other.void()
    reserved.hold(1)
    reserved.release()
    with pytest.raises(InvalidArgument, match="The release was begun"):
        other.void()
    assert budget.spent > 0
    other.void(force=True)
    assert budget.spent == 0


def test_the_process_itself_can_void(opened: Opened) -> None:
    budget = patients(opened())
    reserved = reserve(budget)
    reserved.hold(0)
    reserved.void()
    assert budget.spent == 0


def test_an_older_ledger_gets_leases(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(schema.MIGRATIONS, 3, lambda _: None)  # the costs of version 4 are there; see test_schema.py
    ledger = opened()
    patients(ledger)
    with ledger.store.writing() as connection:
        connection.exec_driver_sql("DROP TABLE hush_leases")
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("DROP FUNCTION hush_lease, hush_grant, hush_admit, hush_end_blockers")
        connection.exec_driver_sql("UPDATE hush_ledger SET version = 1")
    reserved = reserve(patients(opened()))
    reserved.hold(0)
    reserved.commit()
    assert opened().verify().ok


def test_pending_shows_who_is_alive() -> None:
    row = {"id": 7, "time": "2026-11-01 10:00", "budget": "patients", "author": "anna", "epsilon": 0.25}
    shown = ledger_text.pending([{**row, "purpose": "training", "active_seconds_ago": 12.3}])
    assert "12 s ago" in shown


def test_an_unknown_process_is_alive() -> None:
    assert not lease._is_dead("another/machine 1 2 3")
    assert lease._is_dead(f"{lease._machine()} {2**22 + 1} 5 abc")


def test_a_release_that_failed_is_not_given_back_by_mistake(opened: Opened) -> None:
    """Whether it fails may depend on a single row, such as one that a view cannot convert."""
    people = patients(opened())

    def fails() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_sealed(people, Charge(event=LaplaceEvent(2.0), purpose="a count", question="how many"), fails)
    (pending,) = people.pending()
    assert pending.held_for() is None
    with pytest.raises(InvalidArgument, match="The release was begun"):
        pending.void()
    pending.void(force=True)
