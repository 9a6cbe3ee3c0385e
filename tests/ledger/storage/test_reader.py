"""Auditors read a ledger's file without the right to write, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hush.accounting import LaplaceEvent
from hush.cli import main
from hush.ledger import Ledger, LedgerUnavailable, NotAllowed
from hush.ledger.storage import reader, schema
from ledger.ledgers import spend

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="another user's rights, or one's own, on Linux")
NOBODY = 65534


@pytest.fixture
def path() -> Iterator[Path]:
    """A ledger's file in a folder that everybody can enter, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="hush_ledger_"))
    folder.chmod(0o755)
    yield folder / "privacy.db"
    folder.chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def as_an_auditor(path: Path) -> Iterator[None]:
    """Act as a user who may read the file and its folder, and change neither."""
    folder, files = path.parent, list(path.parent.iterdir())
    for file in files:
        file.chmod(0o444)
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        assert not os.access(path, os.W_OK, effective_ids=True)
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)
        for file in files:
            if file.exists():
                file.chmod(0o644)


def opened(path: Path) -> Ledger:
    return Ledger(f"sqlite:///{path}")


def check(path: Path, spent: float, rows: int) -> None:
    """Check that everything can be read, and nothing changed."""
    before = sorted(file.name for file in path.parent.iterdir())
    with opened(path) as ledger:
        budget = ledger.budget("patients")
        assert (budget.spent, len(ledger.entries())) == (spent, rows)
        assert ledger.verify().ok
        assert [item.held_for() for item in budget.pending()] == [None]
        with pytest.raises(NotAllowed, match="You may read this ledger's file"):
            budget.charge(LaplaceEvent(9.0), purpose="x")
    assert sorted(file.name for file in path.parent.iterdir()) == before


def test_a_file_that_nobody_has_open(path: Path) -> None:
    budget = spend(opened(path))
    spent, rows = budget.spent, len(budget.entries())
    budget.store.close()
    assert not Path(f"{path}-wal").exists()
    with as_an_auditor(path):
        check(path, spent, rows)


def test_a_file_that_is_in_use(path: Path) -> None:
    """The last rows are in the log; the auditor sees them, and those that come later."""
    budget = spend(opened(path))
    spent, rows = budget.spent, len(budget.entries())
    assert Path(f"{path}-wal").stat().st_size
    with as_an_auditor(path):
        check(path, spent, rows)


def test_a_log_that_a_crash_has_left(path: Path) -> None:
    budget = spend(opened(path))
    spent, rows = budget.spent, len(budget.entries())
    for ending in ("", "-wal"):
        shutil.copy(f"{path}{ending}", f"{path}.copy{ending}")
    budget.store.close()
    path.unlink()
    for ending in ("", "-wal"):
        os.rename(f"{path}.copy{ending}", f"{path}{ending}")
    with as_an_auditor(path):
        check(path, spent, rows)


def test_the_command_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spend(opened(path)).store.close()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        report = Path(folder) / "report.html"
        with as_an_auditor(path):
            for action in (["show"], ["show", "patients"], ["pending"], ["verify"], ["export", str(report)]):
                assert main(["ledger", *action, "--db", f"sqlite:///{path}"]) == 0, capsys.readouterr().err
        assert "patients" in report.read_text()
    assert "inside this file" in capsys.readouterr().out


def test_an_older_ledger_is_read_as_it_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(schema.MIGRATIONS, 3, lambda _: None)  # the costs of version 4 are there; see test_schema.py
    ledger = opened(path)
    budget = spend(ledger)
    spent, rows = budget.spent, len(budget.entries())
    with ledger.store.writing() as connection:
        connection.exec_driver_sql("DROP TABLE hush_leases")
        connection.exec_driver_sql("UPDATE hush_ledger SET version = 1")
    ledger.close()
    before = path.read_bytes()
    with as_an_auditor(path):
        check(path, spent, rows)
    assert path.read_bytes() == before


def test_a_file_that_changes_while_it_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = spend(opened(path))
    budget.store.close()
    monkeypatch.setattr(reader, "may_write", lambda _: False)
    auditor = opened(path)
    monkeypatch.setattr(reader, "may_write", lambda _: True)

    def read_slowly() -> None:
        with auditor.store.reading(), opened(path) as other:
            other.budget("patients").charge(LaplaceEvent(50.0), purpose="meanwhile")

    with pytest.raises(LedgerUnavailable, match="The ledger was written to"):
        read_slowly()
    assert auditor.verify().ok
