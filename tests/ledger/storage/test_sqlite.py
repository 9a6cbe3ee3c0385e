"""Ledger files that are locked, removed, replaced, damaged or read-only."""

from __future__ import annotations

import gc
import os
import sqlite3
import stat
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from hush.accounting import LaplaceEvent
from hush.errors import InvalidArgument
from hush.ledger import Ledger, LedgerUnavailable
from hush.ledger.storage import sqlite as sqlite_module
from hush.ledger.storage import store as store_module
from hush.ledger.storage.disk import Disk
from ledger.ledgers import answers, patients


def test_a_file_that_cannot_be_written(file: Ledger, path: Path) -> None:
    data = patients(file)
    data.charge(LaplaceEvent(1.0), purpose="before")
    reader = Ledger(f"sqlite:///{path}")
    sa.event.listen(reader.store.engine, "checkout", lambda each, *_: each.execute("PRAGMA query_only=ON"))
    again = reader.budget("patients")
    assert again.spent == 1.0
    assert answers(again, 1) == []
    with pytest.raises(LedgerUnavailable, match="readonly"):
        again.charge(LaplaceEvent(10.0), purpose="x")
    reader.close()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(file: Ledger, path: Path) -> None:
    patients(file)
    file.close()
    path.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(LedgerUnavailable):
            Ledger(f"sqlite:///{path}").budget("patients").charge(LaplaceEvent(10.0), purpose="x")
    finally:
        path.parent.chmod(stat.S_IRWXU)


def test_a_name_that_points_elsewhere_is_as_durable(file: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patients(file)
    link = path.with_name("link.db")
    link.symlink_to(path)
    synced: list[str] = []
    sync = Disk.sync
    monkeypatch.setattr(Disk, "sync", lambda self, log: (synced.append(log), sync(self, log))[1])
    other = Ledger(f"sqlite:///{link}")
    other.budget("patients").charge(LaplaceEvent(10.0), purpose="x")
    other.close()
    assert synced == [f"{path}-wal"]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_removed_while_open(file: Ledger, path: Path, replaced: bool) -> None:
    data = patients(file)
    for each in path.parent.iterdir():
        each.unlink()
    if replaced:
        other = Ledger(f"sqlite:///{path}")
        patients(other)
        other.close()
    assert answers(data, 1) == []


def test_a_damaged_file(file: Ledger, path: Path) -> None:
    patients(file)
    file.close()
    path.write_bytes(b"not a database" * 500)
    with pytest.raises(LedgerUnavailable):
        Ledger(f"sqlite:///{path}")


def test_a_file_that_is_locked_for_long(file: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patients(file)
    monkeypatch.setattr(
        store_module, "PATIENCE", 0.2
    )  # how long SQLite waits for who has the lock, and for nothing else
    other = Ledger(f"sqlite:///{path}")
    data = other.budget("patients")
    holder = sqlite3.connect(path)
    holder.execute("BEGIN IMMEDIATE")
    assert answers(data, 1) == []
    holder.close()
    assert answers(data, 1) == ["42" * 400]
    other.close()


def open_files() -> list[str]:
    return [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_link(name)]


def _is_link(name: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{name}")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_ledger_that_is_dropped_closes_its_files(path: Path) -> None:
    data = patients(Ledger(f"sqlite:///{path}"))
    data.charge(LaplaceEvent(10.0), purpose="x")
    assert [name for name in open_files() if str(path) in name]
    del data
    gc.collect()
    assert [name for name in open_files() if str(path) in name] == []


def test_a_block_closes_the_ledger(path: Path) -> None:
    with Ledger(f"sqlite:///{path}") as ledger:
        patients(ledger)
    assert ledger.store.engine.pool.checkedin() == 0


def test_a_clock_that_is_wrong_for_a_while(file: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that expires is closed while the clock says so: not for good, because a clock was wrong once."""
    data = file.budget("visits", epsilon=1, delta=1e-6, unit="row", blocks=["a"])
    data.add_block("b", expires=datetime.now(UTC) + timedelta(hours=1))
    data.at("b").charge(LaplaceEvent(100.0), purpose="in time")
    now = time.time_ns()
    with monkeypatch.context() as patch:  # years ahead
        patch.setattr(sqlite_module.time, "time_ns", lambda: now + 10**9 * 10**9)
        data.at("a").charge(LaplaceEvent(100.0), purpose="by a wrong clock")
        with pytest.raises(InvalidArgument, match="nor expired"):
            data.at("b").charge(LaplaceEvent(100.0), purpose="too late, it seems")
        assert [status.retired for status in data.status()] == [False, True]
    data.at("b").charge(LaplaceEvent(100.0), purpose="in time")
    assert [status.retired for status in data.status()] == [False, False]
    result = file.verify()
    assert result.ok
    assert any("one of the two clocks was wrong" in note for note in result.notes)
