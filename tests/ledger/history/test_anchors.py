"""Anchors: an older copy, and a chain that was written anew, contradict what was signed before."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from hush.accounting import LaplaceEvent
from hush.errors import InvalidArgument
from hush.ledger import Ledger, LedgerDamaged, LedgerUnavailable
from ledger.ledgers import on_file, rehashed, spend, tampering


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "key.pem"


@pytest.fixture
def public_key(key: Path) -> str:
    return Ledger.new_key(key)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "anchors.jsonl"


def problems(ledger: Ledger, file: Path, public_key: str) -> str:
    result = ledger.verify(anchors=file, public_key=public_key)
    assert result.ok == (not result.findings)
    return " ".join(map(str, result.findings))


def test_an_intact_ledger(tmp_path: Path, key: Path, public_key: str, file: Path) -> None:
    ledger = on_file(tmp_path)
    budget = spend(ledger)
    head = ledger.anchor(file, key=key)
    budget.charge(LaplaceEvent(30.0), purpose="later")
    ledger.anchor(file, key=key)
    result = ledger.verify(anchors=file, public_key=public_key)
    assert (result.ok, result.anchors) == (True, 2)
    assert "2 anchors" in str(result)
    line = json.loads(file.read_text().splitlines()[0])
    assert line["head"] == head
    assert line["ledger"] == ledger.entries()[0].hash


def test_a_rollback_is_noticed(tmp_path: Path, key: Path, public_key: str, file: Path) -> None:
    """An older copy is a ledger without any problem inside: only the anchors know of the rows that it lacks."""
    ledger = on_file(tmp_path)
    budget = spend(ledger)
    ledger.close()
    before = (tmp_path / "privacy.db").read_bytes()
    budget = on_file(tmp_path).budget("patients")
    budget.charge(LaplaceEvent(30.0), purpose="to be forgotten")
    on_file(tmp_path).anchor(file, key=key)
    budget.store.close()
    for part in tmp_path.glob("privacy.db*"):
        part.unlink()
    (tmp_path / "privacy.db").write_bytes(before)
    older = on_file(tmp_path)
    assert older.verify().ok
    assert "inside this file" in str(older.verify())
    assert "rows were removed from the end" in problems(older, file, public_key)
    older.budget("patients").charge(LaplaceEvent(50.0), purpose="another, in its place")
    assert "the ledger was rewritten" in problems(older, file, public_key)


def test_a_chain_that_was_written_anew_is_noticed(tmp_path: Path, key: Path, public_key: str, file: Path) -> None:
    ledger = on_file(tmp_path)
    spend(ledger)
    ledger.anchor(file, key=key)
    with tampering(ledger) as connection:
        connection.execute("UPDATE hush_entries SET purpose = 'something else' WHERE id = 2")
        rehashed(ledger, connection)
    assert ledger.verify().ok
    assert "rewritten" in problems(ledger, file, public_key)
    with tampering(ledger) as connection:
        connection.execute("UPDATE hush_entries SET author = 'x' WHERE id = 1")
        rehashed(ledger, connection)
    assert "rewritten from its first row" in problems(ledger, file, public_key)


def test_anchors_of_another_key_and_changed_ones_are_refused(
    tmp_path: Path, key: Path, public_key: str, file: Path
) -> None:
    ledger = on_file(tmp_path)
    spend(ledger)
    ledger.anchor(file, key=key)
    other = Ledger.new_key(tmp_path / "other.pem")
    assert "not signed with this key" in problems(ledger, file, other)
    line = json.loads(file.read_text())
    for name, value in {"head": "0" * 64, "rows": 1, "ledger": "1" * 64, "time": 1}.items():
        file.write_text(json.dumps({**line, name: value}) + "\n")
        assert "not signed with this key" in problems(ledger, file, public_key)
    file.write_text("")
    assert "no anchors" in problems(ledger, file, public_key)


def test_half_a_line_is_told_and_harms_nothing_after_it(tmp_path: Path, key: Path, public_key: str, file: Path) -> None:
    ledger = on_file(tmp_path)
    spend(ledger)
    ledger.anchor(file, key=key)
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:70])
    ledger.anchor(file, key=key)
    result = ledger.verify(anchors=file, public_key=public_key)
    assert (result.ok, result.anchors) == (True, 2)
    assert any("Line 2 of the anchors is incomplete" in note for note in result.notes)


def test_every_head_can_be_signed(tmp_path: Path, key: Path, public_key: str, file: Path) -> None:
    """Threads append at the same time, and no line is lost or mixed with another one."""
    url = f"sqlite:///{tmp_path}/privacy.db"
    ledger = Ledger(url, anchors=file, key=key)
    budget = ledger.budget("patients", epsilon=4, delta=1e-6, unit="patient")

    def charge() -> None:
        for _ in range(5):
            budget.charge(LaplaceEvent(100.0), purpose="x")

    threads = [threading.Thread(target=charge) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result = ledger.verify(anchors=file, public_key=public_key)
    assert (result.ok, result.anchors, result.rows) == (True, 21, 21)


def test_nothing_is_released_if_the_anchor_cannot_be_written(tmp_path: Path, key: Path, public_key: str) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db", anchors=tmp_path / "no" / "anchors", key=key)
    with pytest.raises(LedgerUnavailable, match="The anchor cannot be written"):
        ledger.budget("patients", epsilon=4, unit="patient")


def test_keys(tmp_path: Path, key: Path, public_key: str, file: Path) -> None:
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(bytes.fromhex(public_key)) == 32
    with pytest.raises(InvalidArgument, match="never overwritten"):
        Ledger.new_key(key)
    ledger = on_file(tmp_path)
    with pytest.raises(InvalidArgument, match="There is no head to sign yet"):
        ledger.anchor(file, key=key)
    spend(ledger)
    key.chmod(0o644)
    if os.name == "posix":
        with pytest.raises(InvalidArgument, match="only you can read"):
            ledger.anchor(file, key=key)
    (tmp_path / "text").write_text("no key")
    (tmp_path / "text").chmod(0o600)
    with pytest.raises(InvalidArgument, match="a private key"):
        ledger.anchor(file, key=tmp_path / "text")
    assert not file.exists()


@pytest.mark.parametrize(
    "arguments", [{"anchors": "x"}, {"public_key": "0" * 64}, {"anchors": "missing", "public_key": "0" * 64}]
)
def test_anchors_need_a_key_and_a_file(tmp_path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        on_file(tmp_path).verify(**arguments)


def test_a_file_of_anchors_is_for_one_ledger(tmp_path: Path, key: Path, public_key: str, file: Path) -> None:
    ledger = on_file(tmp_path)
    spend(ledger)
    ledger.anchor(file, key=key)
    (tmp_path / "other").mkdir()
    other = on_file(tmp_path / "other")
    other.budget("others", epsilon=1, unit="patient")
    with pytest.raises(InvalidArgument, match="another one's anchors"):
        other.anchor(file, key=key)


def test_a_copy_of_a_budget_adds_anchors(tmp_path: Path, key: Path, public_key: str, file: Path) -> None:
    """Also in another process, such as those of cross_val_score(n_jobs=2)."""
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db", anchors=file, key=key)
    budget = ledger.budget("patients", epsilon=4, delta=1e-6, unit="patient")
    sent = pickle.dumps(budget)
    assert b"PRIVATE" not in sent
    for copied in (pickle.loads(sent), copy.deepcopy(budget)):
        copied.charge(LaplaceEvent(30.0), purpose="x")
    result = ledger.verify(anchors=file, public_key=public_key)
    assert (result.ok, result.anchors, result.rows) == (True, 3, 3)


def test_one_of_two_copies_goes_on(tmp_path: Path, key: Path, public_key: str, file: Path) -> None:
    """Each would pay with the whole rest of the budget. The first one to anchor a row keeps the other ones from it."""
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db", anchors=file, key=key)
    ledger.budget("patients", epsilon=4, delta=1e-6, unit="patient")
    ledger.close()
    shutil.copy(tmp_path / "privacy.db", tmp_path / "copy.db")
    first, second = (
        Ledger(f"sqlite:///{tmp_path}/{name}.db", anchors=file, key=key).budget("patients")
        for name in ("privacy", "copy")
    )
    first.charge(LaplaceEvent(30.0), purpose="x")
    for _ in range(2):
        with pytest.raises(LedgerDamaged, match="another copy was used"):
            second.charge(LaplaceEvent(30.0), purpose="x")
    first.charge(LaplaceEvent(30.0), purpose="x")
    assert ledger.verify(anchors=file, public_key=public_key).anchors == 3


def test_a_backup_is_restored_once_and_replaces_what_was_lost(
    tmp_path: Path, key: Path, public_key: str, file: Path
) -> None:
    lost = Ledger(f"sqlite:///{tmp_path}/privacy.db", anchors=file, key=key)
    budget = lost.budget("patients", epsilon=4, delta=1e-6, unit="patient")
    lost.backup(tmp_path / "backup.db")
    backup = Ledger(f"sqlite:///{tmp_path}/backup.db")
    backup.restore(tmp_path / "restored.db", anchors=file, public_key=public_key, key=key)
    with pytest.raises(LedgerDamaged, match="another copy was used"):
        budget.charge(LaplaceEvent(30.0), purpose="x")
    with pytest.raises(InvalidArgument, match="the head of the ledger when it was lost"):
        backup.restore(tmp_path / "another.db", anchors=file, public_key=public_key, key=key)
    restored = Ledger(f"sqlite:///{tmp_path}/restored.db", anchors=file, key=key)
    restored.budget("patients").charge(LaplaceEvent(30.0), purpose="x")
    assert restored.verify(anchors=file, public_key=public_key).ok
