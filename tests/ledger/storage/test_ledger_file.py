"""Addresses and places of ledger files: one file has one name, one log, and so one budget."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hush.accounting import LaplaceEvent
from hush.cli import main
from hush.errors import HushError, InvalidArgument
from hush.ledger import Ledger, LedgerBudget
from hush.ledger.storage import ledger_file

CHARGE = (
    "import sys; from hush.ledger import Ledger; from hush.accounting import LaplaceEvent\n"
    "from hush.errors import HushError\n"
    "try: Ledger(sys.argv[1]).budget('patients').charge(LaplaceEvent(0.5), purpose='x'); print('charged')\n"
    "except HushError as error: print(type(error).__name__, error)\n"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "ledgers").mkdir()
    return tmp_path / "ledgers" / "privacy.db"


def patients(path: Path) -> LedgerBudget:
    return Ledger(f"sqlite:///{path}").budget("patients", epsilon=3, delta=1e-6, unit="patient")


def test_a_second_name_is_refused(path: Path, tmp_path: Path) -> None:
    """Each name has a log of its own, so each could spend the whole budget."""
    budget = patients(path)
    budget.charge(LaplaceEvent(0.5), purpose="by the first name")
    os.link(path, tmp_path / "second.db")
    for name in (path, tmp_path / "second.db"):
        with pytest.raises(InvalidArgument, match="a file with one name"):
            Ledger(f"sqlite:///{name}")
    rows = len(budget.entries())
    with pytest.raises(InvalidArgument, match="a file with one name"):  # also by who had it open before
        budget.charge(LaplaceEvent(5.0), purpose="x")
    assert len(budget.entries()) == rows
    (tmp_path / "second.db").unlink()
    budget.charge(LaplaceEvent(5.0), purpose="x")


def test_a_log_with_a_second_name_is_refused(path: Path, tmp_path: Path) -> None:
    budget = patients(path)
    os.link(f"{path}-wal", tmp_path / "log")
    with pytest.raises(InvalidArgument, match="a file with one name"):
        Ledger(f"sqlite:///{path}")
    assert budget.spent == 0


def test_a_symbolic_link_leads_to_the_same_log(path: Path, tmp_path: Path) -> None:
    budget = patients(path)
    (tmp_path / "link.db").symlink_to(path)
    other = Ledger(f"sqlite:///{tmp_path}/link.db").budget("patients")
    other.charge(LaplaceEvent(1.0), purpose="x")
    assert budget.spent == 1.0
    assert not (tmp_path / "link.db-wal").exists()


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="mounts, as root of a Linux")
def test_a_file_that_is_mounted_alone_is_refused(path: Path, tmp_path: Path) -> None:
    """What a container gets by `-v privacy.db:/data/privacy.db`. With its folder, all is well."""
    budget = patients(path)
    place = tmp_path / "container"
    place.mkdir()
    (place / "privacy.db").touch()
    outcomes = {}
    for what, source, target in (("file", path, place / "privacy.db"), ("folder", path.parent, place)):
        script = f'mount --bind {source} {target} && exec {sys.executable} -c "$0" sqlite:///{place}/privacy.db'
        command = ["unshare", "--mount", "sh", "-c", script, CHARGE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode and ("unshare" in done.stderr or "mount:" in done.stderr):
            pytest.skip("this process may not mount")
        outcomes[what] = done.stdout + done.stderr
    assert "a file whose folder is mounted" in outcomes["file"]
    assert outcomes["folder"] == "charged\n"
    assert budget.spent == 2.0


def mounted(monkeypatch: pytest.MonkeyPatch, folder: Path, *lines: str) -> None:
    """Let the system say what is mounted."""
    table = folder / "mountinfo"
    table.write_text("21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n" + "".join(f"{line}\n" for line in lines))
    monkeypatch.setattr(ledger_file, "MOUNTS", table)


@pytest.mark.parametrize(
    ("kind", "is_refused"),
    [
        *((name, True) for name in ("nfs4", "cifs", "9p", "fuse.sshfs", "fuse", "virtiofs", "lustre")),
        *((name, False) for name in ("ext4", "xfs", "overlay", "tmpfs", "btrfs", "fuseblk", "fuse.mergerfs")),
    ],
)
def test_file_systems(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_refused: bool) -> None:
    spaced = tmp_path / "a folder"
    spaced.mkdir()
    escaped = str(spaced).replace(" ", r"\040")
    mounted(monkeypatch, tmp_path, f"36 21 0:33 / {escaped} rw shared:7 master:1 - {kind} server:/x rw")
    patients(path)
    if is_refused:
        with pytest.raises(InvalidArgument, match="which other machines may use"):
            patients(spaced / "privacy.db")
        assert not (spaced / "privacy.db").exists()
    else:
        patients(spaced / "privacy.db")


def test_the_last_mount_at_a_place_counts(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = f"36 21 0:33 / {path.parent} rw - nfs server:/x rw"
    other = f"37 36 0:34 / {path.parent} rw - xfs /dev/sdb rw"
    mounted(monkeypatch, tmp_path, one, other)
    patients(path)
    mounted(monkeypatch, tmp_path, other, one)
    with pytest.raises(InvalidArgument, match="of type nfs"):
        patients(path)


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_mounts_of_single_files(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    patients(path)
    mounted(monkeypatch, tmp_path, f"36 21 254:0 /x {path}{ending} rw - ext4 /dev/vda rw")
    with pytest.raises(InvalidArgument, match="Mount the folder"):
        patients(path)


ODD = [
    "sqlite://",
    "sqlite:///",
    "sqlite:///:memory:",
    "sqlite:///file:{folder}/x.db?mode=ro&uri=true",
    "sqlite:///file:{folder}/x.db",
    "sqlite:///{folder}/x.db?timeout=soon",
    "sqlite:///{folder}/x.db?mode=ro",
    "sqlite://host/x.db",
    "sqlite://me:secret@host/x.db",
    "sqlite+aiosqlite:///{folder}/x.db",
    "sqlite+pysqlcipher://:secret@/{folder}/x.db",
    "sqlite:///{folder}",
    "sqlite:///{folder}/no/x.db",
    "sqlite:///{folder}/empty.db",
    "sqlite:///{folder}/pipe",
    "sqlite:///{folder}/letter.db",
    "sqlite:///{folder}/letter.db/x.db",
    "sqlite:///{folder}/cut.db",
    "sqlite:///{folder}/other.db",
    "sqlite:///{folder}/" + "x" * 300,
    "sqlite:///{folder}/a\0b",
    "sqlite:///{folder}/\udcff.db",
    "sqlite:////dev/null",
    "sqlite:///{folder}/circle",
    "sqlite:///{folder}/new.db-wal",
    "sqlite:///{folder}/log",
    "postgresql://host:port/x",
    "mysql://host/x",
    "no address",
    "",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of files that are no ledgers."""
    (tmp_path / "empty.db").touch()
    os.utime(tmp_path / "empty.db", (1e9, 1e9))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "log").symlink_to("whole.db-wal")
    (tmp_path / "letter.db").write_text("This file is a letter, and no database.")
    patients(tmp_path / "whole.db").store.close()
    (tmp_path / "cut.db").write_bytes((tmp_path / "whole.db").read_bytes()[:5000])
    with closing(sqlite3.connect(tmp_path / "other.db")) as other, other:
        other.execute("CREATE TABLE hush_ledger (version INTEGER)")
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="pipes")
@pytest.mark.parametrize("url", ODD)
def test_odd_addresses_are_our_errors(folder: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    filled = url.replace("{folder}", str(folder))
    with pytest.raises(HushError) as refusal:
        Ledger(filled)
    assert "secret" not in str(refusal.value)
    if filled:  # an empty one is the default
        for action in (["show"], ["verify"], ["create", "x", "--epsilon", "1", "--unit-name", "patient"]):
            assert main(["ledger", *action, "--db", filled]) in (1, 2)
            printed = capsys.readouterr()
            assert "Traceback" not in printed.err
            assert printed.err.count("\n") == 1


def test_a_file_that_was_emptied_is_no_new_ledger(path: Path) -> None:
    patients(path).store.close()
    path.write_bytes(b"")
    os.utime(path, (1e9, 1e9))
    with pytest.raises(InvalidArgument, match="This file is empty"):
        patients(path)


def test_a_file_that_another_process_is_creating_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patients(path).store.close()
    content = path.read_bytes()
    path.write_bytes(b"")
    monkeypatch.setattr(ledger_file.time, "sleep", lambda _: path.write_bytes(content))
    assert patients(path).spent == 0


def test_copies_are_told_apart_by_their_heads(path: Path, tmp_path: Path) -> None:
    """A copy is a ledger without any problem inside; a head that was kept shows that it is not the one."""
    patients(path).store.close()
    shutil.copy(path, tmp_path / "copy.db")
    patients(path).charge(LaplaceEvent(0.5), purpose="in the one")
    head = Ledger(f"sqlite:///{path}").verify().head
    patients(tmp_path / "copy.db").charge(LaplaceEvent(0.5), purpose="in the other")
    other = Ledger(f"sqlite:///{tmp_path}/copy.db")
    assert "inside this file" in str(other.verify())
    assert other.verify().ok
    assert not other.verify(head).ok
