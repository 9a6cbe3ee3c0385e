"""What breaks around a ledger: it refuses or recovers, and never lets anything out that is not charged."""

from __future__ import annotations

import gc
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from hush.accounting import LaplaceEvent
from hush.accounting.budget import Charge, run_sealed
from hush.errors import HushError, InvalidArgument, Unsupported
from hush.ledger import Dataset, EntryKind, Ledger, LedgerUnavailable
from hush.ledger.storage import schema
from hush.ledger.storage import sqlite as sqlite_module
from hush.ledger.storage import store as store_module
from hush.ledger.storage.disk import Disk

Opened = Callable[..., Ledger]
HANGING = 600.0  # seconds; a machine may be slow, and nothing that works takes so long


def patients(ledger: Ledger) -> Dataset:
    return ledger.dataset("patients", epsilon=3, delta=1e-6, unit="patient")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "privacy.db"


@pytest.fixture
def file(path: Path) -> Iterator[Ledger]:
    ledger = Ledger(f"sqlite:///{path}")
    yield ledger
    ledger.close()


def answers(data: Dataset, count: int) -> list[str]:
    """Ask until refused; return what was told."""
    told = []
    for number in range(count):
        charge = Charge(event=LaplaceEvent(1e4), purpose="x" * 400, question=str(number))
        try:
            told.append(run_sealed(data, charge, lambda: "42" * 400))
        except LedgerUnavailable:
            break
    return told


# The disk


def test_a_full_disk(file: Ledger, path: Path) -> None:
    data = patients(file)

    @sa.event.listens_for(file.store.engine, "checkout")
    def _limit(connection: Any, *_: Any) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={max(limit, pages)}")

    limit = 60
    told = answers(data, 500)
    assert 0 < len(told) < 500
    again = Ledger(f"sqlite:///{path}").dataset("patients")
    committed = [row for row in again.entries() if row.kind == EntryKind.COMMITTED]
    assert len(committed) >= len(told)  # each was charged
    limit = 10**6
    assert again.charge(LaplaceEvent(10.0), purpose="there is room again").id


def test_a_limit_on_files(path: Path) -> None:
    """A write that the system refuses, in a process of its own."""
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from hush.ledger import Ledger; from hush.accounting import Laplace; from hush.errors import HushError\n"
        "data = Ledger(sys.argv[1]).dataset('patients', epsilon=3, delta=1e-6, unit='patient')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "for number in range(500):\n"
        "    try: data.charge(Laplace(1e4), purpose='x' * 400)\n"
        "    except HushError as error: print(number, type(error).__name__); break\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, f"sqlite:///{path}"], capture_output=True, text=True, check=True
    )
    allowed, why = done.stdout.split()
    assert why == "LedgerUnavailable"
    rows = Ledger(f"sqlite:///{path}").dataset("patients").entries()
    assert len(rows) - 1 >= int(allowed) > 0


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), OSError(28, "No space left on device")])
def test_a_disk_that_fails_is_not_asked_again(
    file: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    data = patients(file)

    def fail(_: int) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        assert answers(data, 3) == []
    with pytest.raises(LedgerUnavailable, match="The disk has failed"):  # though it would say now that all is well
        data.charge(LaplaceEvent(10.0), purpose="again")
    assert Ledger(f"sqlite:///{path}").dataset("patients").spent > 0  # what was written counts


def test_one_waits_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call returns after a wait that began after it; many share one."""
    path, disk, calls, gate = tmp_path / "log", Disk(), [], threading.Event()
    path.write_text("x")
    disk.sync(str(path))
    monkeypatch.setattr(os, "fsync", lambda _: (gate.wait(HANGING), calls.append(1)))
    threads = [threading.Thread(target=disk.sync, args=(str(path),)) for _ in range(10)]
    for thread in threads:
        thread.start()
    while disk._asked < 11:
        time.sleep(0.001)
    gate.set()
    for thread in threads:
        thread.join(HANGING)
    assert len(calls) == 2  # those of the first one, and of all others together
    disk.close()


def test_a_file_that_cannot_be_written(file: Ledger, path: Path) -> None:
    data = patients(file)
    data.charge(LaplaceEvent(1.0), purpose="before")
    reader = Ledger(f"sqlite:///{path}")
    sa.event.listen(reader.store.engine, "checkout", lambda each, *_: each.execute("PRAGMA query_only=ON"))
    again = reader.dataset("patients")
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
            Ledger(f"sqlite:///{path}").dataset("patients").charge(LaplaceEvent(10.0), purpose="x")
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
    other.dataset("patients").charge(LaplaceEvent(10.0), purpose="x")
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
    data = other.dataset("patients")
    holder = sqlite3.connect(path)
    holder.execute("BEGIN IMMEDIATE")
    assert answers(data, 1) == []
    holder.close()
    assert answers(data, 1) == ["42" * 400]
    other.close()


# Connections that nobody closes


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


# Versions


def test_a_newer_ledger_is_refused(opened: Opened) -> None:
    ledger = opened()
    with ledger.store.writing() as connection:
        connection.exec_driver_sql(f"UPDATE hush_ledger SET version = {schema.VERSION + 1}")
    with pytest.raises(Unsupported, match="newer hush"):
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
        assert ledger.dataset("patients").spent == 1.0
        with ledger.store.reading() as connection:
            assert connection.exec_driver_sql("SELECT version FROM hush_ledger").scalar_one() == schema.VERSION
            connection.exec_driver_sql("SELECT office FROM hush_people")


# Time, and processes


def test_a_clock_that_goes_backwards(file: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = file.dataset("visits", epsilon=1, delta=1e-6, unit="patient-month", blocks=["a"])
    data.add_block("b", expires=datetime.now(UTC) + timedelta(hours=1))
    data.at("b").charge(LaplaceEvent(100.0), purpose="in time")
    now = time.time_ns()
    for shift in (2 * 3600, -(10**6)):  # two hours later; then the clock is set back by days
        monkeypatch.setattr(sqlite_module.time, "time_ns", lambda shift=shift: now + shift * 10**9)
        data.at("a").charge(LaplaceEvent(100.0), purpose="x")
        with pytest.raises(InvalidArgument, match="not expired"):
            data.at("b").charge(LaplaceEvent(100.0), purpose="too late")
    times = [row.time for row in file.entries()]
    assert times == sorted(times)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_after_opening(opened: Opened) -> None:
    data = patients(opened())
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for _ in range(5):
                    data.charge(LaplaceEvent(100.0), purpose="child")
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    for _ in range(5):
        data.charge(LaplaceEvent(100.0), purpose="parent")
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    assert len(data.entries()) == 21
    assert data.spent == pytest.approx(0.2)


# A server that goes away


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
        rows = [row for row in data.entries() if row.question == data.hashed(charge)]
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


# What others wrote


def test_what_another_wrote_is_acted_on_when_it_is_on_the_disk(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """One has committed and not waited yet; another who finds that row must wait before using it."""
    data = patients(opened())
    charge = Charge(event=LaplaceEvent(10.0), purpose="x", question="q")
    run_sealed(data, charge, lambda: "42")
    data.charge(LaplaceEvent(10.0), purpose="x", request="key")
    waited: list[int] = []
    store = type(data.store)
    durable = store._durable
    monkeypatch.setattr(store, "_durable", lambda self, connection: (waited.append(1), durable(self, connection))[1])
    run_sealed(data, charge, lambda: "43")
    assert waited
    waited.clear()
    data.charge(LaplaceEvent(10.0), purpose="x", request="key")
    assert waited


def test_a_killed_process_leaves_what_counts(path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from hush.ledger import Ledger; from hush.accounting import Laplace; from hush.accounting.budget import *\n"
        "data = Ledger(sys.argv[1]).dataset('patients', epsilon=3, delta=1e-6, unit='patient')\n"
        "data.reserve(Charge(event=Laplace(1.0), purpose='x'))\n"
        "run_sealed(data, Charge(event=Laplace(1.0), purpose='x', question='q'), lambda: os.kill(os.getpid(), 9))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, f"sqlite:///{path}"], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    data = Ledger(f"sqlite:///{path}").dataset("patients")
    assert data.spent == 2.0
    assert len(data.pending()) == 2
    assert run_sealed(data, Charge(event=LaplaceEvent(1.0), purpose="x", question="q"), lambda: "42") == "42"
    assert data.spent == 2.0
