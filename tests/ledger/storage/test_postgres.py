"""Lost connections to a PostgreSQL server, and locks on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import sqlalchemy as sa

from hush.accounting import LaplaceEvent
from hush.accounting.budget import Charge, run_sealed
from hush.ledger import EntryKind, Ledger, LedgerUnavailable
from hush.ledger.accounts.earlier_charges import hashed_question
from hush.ledger.storage import store as store_module
from ledger.ledgers import answers, patients


@contextmanager
def terminated(ledger: Ledger, event: str, times: int = 1) -> Iterator[None]:
    """End the server's side of whatever connection comes to a point, before that."""
    killer = sa.create_engine(ledger.store.engine.url, isolation_level="AUTOCOMMIT")
    left = [times]

    def kill(connection: Any, *_: Any) -> None:
        if left[0] > 0:
            left[0] -= 1
            backend = connection.connection.driver_connection.info.backend_pid
            with killer.connect() as other:
                other.exec_driver_sql(f"SELECT pg_terminate_backend({backend}, 5000)")

    sa.event.listen(ledger.store.engine, event, kill)
    try:
        yield
    finally:
        sa.event.remove(ledger.store.engine, event, kill)
        killer.dispose()


@pytest.mark.postgres
@pytest.mark.parametrize("point", ["begin", "before_cursor_execute", "commit", "rollback"])
def test_a_connection_that_is_lost(postgres_ledger_url: str, point: str) -> None:
    """Before, within and at the end of a transaction: refused, or charged; never told without a charge."""
    ledger = Ledger(postgres_ledger_url)
    data = patients(ledger)
    for times in (1, 2, 3):
        question = f"{point} {times}"
        charge = Charge(event=LaplaceEvent(10.0), purpose="x", question=question)
        told = None
        with terminated(ledger, point, times), suppress(LedgerUnavailable):
            told = run_sealed(data, charge, lambda: "42")
        stored = run_sealed(data, charge, lambda: "43")
        assert told is None or stored == told
        rows = [row for row in data.entries() if row.question == hashed_question(data, charge)]
        assert [row.kind for row in rows] == [EntryKind.RESERVED, EntryKind.COMMITTED]
    assert data.spent == pytest.approx(0.3)
    ledger.close()


@pytest.mark.postgres
def test_a_connection_that_is_lost_after_the_commit(postgres_ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is there, whoever wrote it was not told so; the same request again is the same charge."""
    ledger = Ledger(postgres_ledger_url)
    data = patients(ledger)
    durable = type(ledger.store)._durable

    def lose(self: Any, connection: sa.Connection) -> None:
        with terminated(ledger, "before_cursor_execute"):
            durable(self, connection)

    with monkeypatch.context() as patch:
        patch.setattr(type(ledger.store), "_durable", lose)
        with pytest.raises(LedgerUnavailable):
            data.charge(LaplaceEvent(1.0), purpose="x", request="key")
    assert data.spent == 1.0
    data.charge(LaplaceEvent(1.0), purpose="x", request="key")
    assert data.spent == 1.0
    ledger.close()


@pytest.mark.postgres
def test_a_server_where_somebody_holds_the_lock(postgres_ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(postgres_ledger_url)
    data = patients(ledger)
    holder = sa.create_engine(ledger.store.engine.url)
    with holder.begin() as connection, monkeypatch.context() as patch:
        connection.exec_driver_sql("SELECT * FROM hush_head FOR UPDATE")
        patch.setattr(store_module, "PATIENCE", 0.2)  # for the refusal alone
        assert answers(data, 1) == []
    assert answers(data, 1) == ["42" * 400]
    holder.dispose()
    ledger.close()
