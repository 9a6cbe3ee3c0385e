"""Forks, kills, and what another process has written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hush.accounting import LaplaceEvent
from hush.accounting.budget import Charge, run_sealed
from hush.ledger import Ledger
from ledger.ledgers import patients

Opened = Callable[..., Ledger]


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
        "from hush.ledger import Ledger; from hush.accounting import LaplaceEvent\n"
        "from hush.accounting.budget import *\n"
        "data = Ledger(sys.argv[1]).budget('patients', epsilon=3, delta=1e-6, unit='patient')\n"
        "data.reserve(Charge(event=LaplaceEvent(1.0), purpose='x'))\n"
        "sealed = Charge(event=LaplaceEvent(1.0), purpose='x', question='q')\n"
        "run_sealed(data, sealed, lambda: os.kill(os.getpid(), 9))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, f"sqlite:///{path}"], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    data = Ledger(f"sqlite:///{path}").budget("patients")
    assert data.spent == 2.0
    assert len(data.pending()) == 2
    assert run_sealed(data, Charge(event=LaplaceEvent(1.0), purpose="x", question="q"), lambda: "42") == "42"
    assert data.spent == 2.0
