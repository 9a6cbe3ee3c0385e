"""Backups are complete, take no charges, and become ledgers only if it is known, or accepted, what they lack."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from hush.accounting import LaplaceEvent
from hush.errors import InvalidArgument, Unsupported
from hush.ledger import Ledger, LedgerDamaged, NotAllowed, Role
from ledger.ledgers import on_file, spend, with_people


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    return tmp_path / "backup.db"


def opened(path: Path, token: str | None = None) -> Ledger:
    return Ledger(f"sqlite:///{path}", token=token)


def test_a_backup_has_what_a_copy_of_the_file_loses(tmp_path: Path, backup: Path) -> None:
    """While a ledger is open, its last rows are in the log beside the file."""
    ledger = on_file(tmp_path)
    spend(ledger)
    (tmp_path / "elsewhere").mkdir()
    copy = Path(shutil.copy(tmp_path / "privacy.db", tmp_path / "elsewhere" / "copy.db"))
    try:
        rows_of_copy = len(opened(copy).entries())
    except Exception:  # it lacks the tables, too
        rows_of_copy = 0
    assert rows_of_copy < len(ledger.entries())
    assert ledger.backup(backup) == ledger.verify().head
    assert opened(backup).entries() == ledger.entries()
    assert opened(backup).verify().ok
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.glob("backup*")) == ["backup.db"]


def test_a_backup_takes_no_charges(tmp_path: Path, backup: Path) -> None:
    ledger = on_file(tmp_path)
    spend(ledger)
    ledger.backup(backup)
    budget = opened(backup).budget("patients")
    assert budget.spent == ledger.budget("patients").spent
    with pytest.raises(NotAllowed, match="backup"):
        budget.charge(LaplaceEvent(9.0), purpose="x")
    with closing(sqlite3.connect(backup)) as other, pytest.raises(sqlite3.IntegrityError, match="this is a backup"):
        other.execute("INSERT INTO hush_entries SELECT * FROM hush_entries")  # whichever program writes


def test_nothing_is_overwritten(tmp_path: Path, backup: Path) -> None:
    ledger = on_file(tmp_path)
    spend(ledger)
    backup.write_text("a letter")
    for destination in (backup, tmp_path / "privacy.db", tmp_path / "no" / "folder.db", tmp_path):
        with pytest.raises(InvalidArgument, match="a new file"):
            ledger.backup(destination)
    assert backup.read_text() == "a letter"


def test_restored_with_the_last_head(tmp_path: Path, backup: Path) -> None:
    ledger = on_file(tmp_path)
    spend(ledger)
    head = ledger.backup(backup)
    opened(backup).restore(tmp_path / "again.db", head=head)
    again = opened(tmp_path / "again.db")
    assert again.budget("patients").spent == ledger.budget("patients").spent
    again.budget("patients").charge(LaplaceEvent(40.0), purpose="goes on")
    result = again.verify()
    assert result.ok
    assert any("restored from a backup." in note for note in result.notes)
    assert [row.kind for row in again.entries()][-2:] == ["restored", "committed"]


def test_a_backup_that_lacks_charges_is_not_restored_unless_forced(tmp_path: Path, backup: Path) -> None:
    """Otherwise, what was charged after it could be spent again, and nobody would know."""
    ledger = on_file(tmp_path)
    budget = spend(ledger)
    early = ledger.backup(backup)
    budget.charge(LaplaceEvent(2.0), purpose="after the backup")
    key, anchors = tmp_path / "key", tmp_path / "anchors"
    public_key = Ledger.new_key(key)
    head, again = ledger.anchor(anchors, key=key), tmp_path / "again.db"
    evidence = {"anchors": anchors, "public_key": public_key}
    for given in ({}, {"head": head}, evidence, {**evidence, "head": early}):
        with pytest.raises(InvalidArgument, match="would be lost"):
            opened(backup).restore(again, **given)  # type: ignore[arg-type]
    assert not again.exists()
    opened(backup).restore(again, force=True)
    result = opened(again).verify()
    assert result.ok
    assert any("they would be missing" in note for note in result.notes)
    assert not opened(again).verify(anchors=anchors, public_key=public_key).ok
    assert not opened(again).verify(head=head).ok


def test_restored_with_anchors(tmp_path: Path, backup: Path) -> None:
    ledger = on_file(tmp_path)
    spend(ledger)
    key, anchors = tmp_path / "key", tmp_path / "anchors"
    public_key = Ledger.new_key(key)
    ledger.anchor(anchors, key=key)
    ledger.backup(backup)
    opened(backup).restore(tmp_path / "again.db", anchors=anchors, public_key=public_key)
    assert opened(tmp_path / "again.db").verify(anchors=anchors, public_key=public_key).ok


def test_only_owners_restore_and_only_intact_backups(tmp_path: Path, backup: Path) -> None:
    ledger = on_file(tmp_path)
    spend(ledger)
    owner, analyst = with_people(ledger)
    head = opened(tmp_path / "privacy.db", owner).backup(backup)
    with pytest.raises(NotAllowed, match=f"needs an {Role.OWNER}"):
        opened(backup, analyst).restore(tmp_path / "again.db", head=head)
    with pytest.raises(InvalidArgument, match="hush ledger backup"):
        opened(tmp_path / "privacy.db", owner).restore(tmp_path / "again.db", head=head)
    with closing(sqlite3.connect(backup)) as connection, connection:
        connection.execute("UPDATE hush_budgets SET pure = 0")
    with pytest.raises(LedgerDamaged):
        opened(backup, owner).restore(tmp_path / "again.db", head=head)


@pytest.mark.postgres
def test_a_server_has_backups_of_its_own(postgres_ledger_url: str, tmp_path: Path) -> None:
    with Ledger(postgres_ledger_url) as ledger, pytest.raises(Unsupported, match="pg_dump"):
        ledger.backup(tmp_path / "backup.db")
