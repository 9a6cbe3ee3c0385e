"""Full and failing disks: nothing is released, and nothing that counts is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from hush.accounting import LaplaceEvent
from hush.ledger import EntryKind, Ledger, LedgerUnavailable
from hush.ledger.storage.disk import Disk
from ledger.ledgers import answers, patients

HANGING = 600.0  # seconds; a machine may be slow, and nothing that works takes so long


def test_a_full_disk(file: Ledger, path: Path) -> None:
    data = patients(file)

    @sa.event.listens_for(file.store.engine, "checkout")
    def _limit(connection: Any, *_: Any) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={max(limit, pages)}")

    limit = 60
    told = answers(data, 500)
    assert 0 < len(told) < 500
    again = Ledger(f"sqlite:///{path}").budget("patients")
    committed = [row for row in again.entries() if row.kind == EntryKind.COMMITTED]
    assert len(committed) >= len(told)  # each was charged
    limit = 10**6
    assert again.charge(LaplaceEvent(10.0), purpose="there is room again").id


def test_a_limit_on_files(path: Path) -> None:
    """A write that the system refuses, in a process of its own."""
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from hush.ledger import Ledger; from hush.accounting import LaplaceEvent\n"
        "from hush.errors import HushError\n"
        "data = Ledger(sys.argv[1]).budget('patients', epsilon=3, delta=1e-6, unit='patient')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "for number in range(500):\n"
        "    try: data.charge(LaplaceEvent(1e4), purpose='x' * 400)\n"
        "    except HushError as error: print(number, type(error).__name__); break\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, f"sqlite:///{path}"], capture_output=True, text=True, check=True
    )
    allowed, why = done.stdout.split()
    assert why == "LedgerUnavailable"
    rows = Ledger(f"sqlite:///{path}").budget("patients").entries()
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
    with pytest.raises(LedgerUnavailable, match="The disk failed"):  # though it would say now that all is well
        data.charge(LaplaceEvent(10.0), purpose="again")
    assert Ledger(f"sqlite:///{path}").budget("patients").spent > 0  # what was written counts


def test_one_waits_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call returns after a wait that began after it; many share one."""
    path, disk, calls, gate = tmp_path / "log", Disk(), [], threading.Event()
    path.write_text("x")
    disk.sync(str(path))
    monkeypatch.setattr(os, "fsync", lambda _: (gate.wait(HANGING), calls.append(1)))
    threads = [threading.Thread(target=disk.sync, args=(str(path),)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for _ in range(round(HANGING / 0.001)):
        if disk._requested == 11:
            break
        time.sleep(0.001)
    gate.set()
    for thread in threads:
        thread.join(HANGING)
    assert disk._requested == 11
    assert len(calls) == 2  # those of the first one, and of all others together
    disk.close()
