"""Budgets in other processes: a copy charges the same ledger, and no password travels with it."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from hush import Ledger
from hush.accounting import LaplaceEvent
from hush.errors import BudgetExceeded, Unsupported
from hush.ledger import LedgerUnavailable

CHARGE = """
import pickle, sys
from hush.accounting import LaplaceEvent
budget = pickle.loads(bytes.fromhex(sys.argv[1]))
budget.charge(LaplaceEvent(2.0), purpose="from afar")
"""


def test_a_copy_is_no_second_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = Ledger("sqlite:///privacy.db").budget("rows", epsilon=1, delta=1e-6, unit="row")
    sent = pickle.dumps(rows)
    monkeypatch.chdir("/")  # a relative address would be another file here
    for number, other in enumerate((pickle.loads(sent), copy.deepcopy(rows)), 1):
        other.charge(LaplaceEvent(10.0), purpose="a count")
        assert rows.spent == pytest.approx(number / 10)
    subprocess.run([sys.executable, "-c", CHARGE, sent.hex()], check=True, timeout=600)
    assert rows.spent == pytest.approx(0.7)
    with pytest.raises(BudgetExceeded):
        pickle.loads(sent).charge(LaplaceEvent(2.0), purpose="too much")


def test_a_copy_opens_no_new_ledger(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db")
    sent = pickle.dumps(ledger.budget("rows", epsilon=1, delta=1e-6, unit="row"))
    ledger.close()
    moved = sent.replace(b"privacy.db", b"another.db")
    with pytest.raises(LedgerUnavailable, match="not there"):
        pickle.loads(moved)
    assert not (tmp_path / "another.db").exists()


def test_a_password_is_not_written_down(tmp_path: Path) -> None:
    rows = Ledger(f"sqlite:///{tmp_path}/privacy.db").budget("rows", epsilon=1, delta=1e-6, unit="row")
    rows.store.url = sa.make_url("postgresql://ada:secret@host/ledger")
    with pytest.raises(Unsupported, match="PGPASSWORD") as refusal:
        pickle.dumps(rows)
    assert "secret" not in str(refusal.value)


@pytest.mark.slow
def test_cross_validation_in_two_processes_charges_every_fold(tmp_path: Path) -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    from hush.estimators import PrivateGaussianNB

    rows = Ledger(f"sqlite:///{tmp_path}/privacy.db").budget("rows", epsilon=9, delta=1e-6, unit="row")
    model = PrivateGaussianNB(epsilon=0.5, bounds=(-1, 1), classes=[0, 1], budget=rows)
    scores = selection.cross_val_score(model, np.zeros((40, 2)), np.arange(40) % 2, cv=4, n_jobs=2)
    assert np.isfinite(scores).all()
    assert rows.spent == pytest.approx(2.0)
