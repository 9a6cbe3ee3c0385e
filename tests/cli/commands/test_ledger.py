"""`hush ledger`: budgets, charges, reservations, checks and people, as commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hush.accounting import LaplaceEvent
from hush.accounting.budget import Charge
from hush.cli import main
from hush.ledger import Ledger
from ledger.ledgers import rehashed, tampering


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a folder and an environment of its own."""
    monkeypatch.chdir(tmp_path)
    for name in ("HUSH_LEDGER", "HUSH_LEDGER_TOKEN", "HUSH_LEDGER_ANCHORS", "HUSH_LEDGER_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def patients(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "create", "patients", "--epsilon", "3", "--delta", "1e-6", "--unit-name", "patient"]) == 0
    capsys.readouterr()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["ledger", *arguments]) == 0
    return capsys.readouterr().out


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(run(capsys, *arguments, "--json"))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 2) -> str:
    assert main(["ledger", *arguments]) == status
    out, error = capsys.readouterr()
    assert not out
    assert error.count("\n") == 1
    return error


def test_from_the_first_budget_to_the_report(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    text = run(capsys, "create", "patients", "--epsilon", "3", "--delta", "1e-6", "--unit-name", "patient")
    assert "epsilon <= 3" in text
    assert (folder / "privacy.db").exists()
    assert "It fits" in run(capsys, "price", "patients", "--epsilon", "0.5")
    assert read(capsys, "show", "patients")["blocks"][0]["spent"] == 0  # a price is free
    said = run(capsys, "charge", "patients", "--epsilon", "1.5", "--purpose", "counts")
    assert said.startswith("Charged to patients (row 2): epsilon 1.5, ")
    assert "So far epsilon <= 1.5 of 3; 15 of 100 standard queries are left, each with Gaussian noise of 15.9" in said
    shown = run(capsys, "show")
    assert " 15 of 100             1.5   3  1e-06" in shown
    run(capsys, "charge", "patients", "--epsilon", "1.3", "--purpose", "more counts")
    assert "; epsilon 0.2 still fits, with Laplace noise" in run(capsys, "show")
    assert "counts" in run(capsys, "show", "patients")
    assert "no problems" in run(capsys, "verify")
    assert "unchanged" in run(capsys, "recompute", "patients")
    written = run(capsys, "export", "report.html")
    assert read(capsys, "verify")["head"] in written
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert "does not exist" in refused(capsys, "export", "report.html")


@pytest.mark.usefixtures("patients")
def test_charges(capsys: pytest.CaptureFixture[str]) -> None:
    event = '{"noise_multiplier": 2, "sampling_rate": 0.01, "num_steps": 100}'
    price = read(capsys, "price", "patients", "--event", event)
    first = read(capsys, "charge", "patients", "--event", event, "--purpose", "training", "--request", "key")
    again = read(capsys, "charge", "patients", "--event", event, "--purpose", "training", "--request", "key")
    assert first["id"] == again["id"]
    assert first["spent"] == price["after"] == again["spent"]
    claim = read(capsys, "charge", "patients", "--epsilon", "0.1", "--delta", "1e-9", "--purpose", "groups")
    assert claim["spent"] > first["spent"]
    error = refused(capsys, "charge", "patients", "--epsilon", "5", "--purpose", "too much")
    for word in (
        "asked for epsilon = 5",
        "so far epsilon = ",
        " of 100 standard queries are left",
        "The largest charge that fits",
    ):
        assert word in error
    assert "delta" in refused(capsys, "price", "patients", "--event", event, "--delta", "1e-9")
    assert "expected a key of a phase" in refused(capsys, "price", "patients", "--event", '{"a": 1}')
    assert "epsilon nan" in refused(capsys, "charge", "patients", "--epsilon", "nan", "--purpose", "x")
    assert "a name that no budget has" in refused(capsys, "create", "patients", "--epsilon", "9", "--unit-name", "row")
    assert read(capsys, "verify")["rows"] == 3


def test_the_unit_keeps_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    create = ("create", "patients", "--epsilon", "3", "--unit-name", "patient")
    created, shown = read(capsys, *create), read(capsys, "show", "patients")
    for content in (created, shown):
        assert (content["unit"], content["unit_name"]) == ("user", "patient")
    assert "patient (user)" in run(capsys, "show")


@pytest.mark.usefixtures("patients")
def test_a_budget_has_one_key(capsys: pytest.CaptureFixture[str]) -> None:
    """The same word as in Python and in the tables of all actions."""
    Ledger("sqlite:///privacy.db").budget("patients").reserve(Charge(event=LaplaceEvent(4.0), purpose="x"))
    contents = [read(capsys, *action) for action in (("show", "patients"), ("recompute", "patients"))]
    contents += [*read(capsys, "show"), *read(capsys, "pending")]
    read(capsys, "create", "visits", "--epsilon", "1", "--unit-name", "row", "--blocks", "a")
    visits = [read(capsys, "add-block", "visits", "b"), read(capsys, "retire", "visits", "a")]
    assert {content["budget"] for content in contents} == {"patients"}
    assert {content["budget"] for content in visits} == {"visits"}
    assert not any("dataset" in content or "name" in content for content in (*contents, *visits))


@pytest.mark.usefixtures("patients")
def test_pending(capsys: pytest.CaptureFixture[str]) -> None:
    dataset = Ledger("sqlite:///privacy.db").budget("patients")
    first, second = (dataset.reserve(Charge(event=LaplaceEvent(4.0), purpose=f"crash {i}")) for i in (1, 2))
    shown = run(capsys, "pending")
    assert "crash 1" in shown
    assert "--void ID" in shown
    assert [row["id"] for row in read(capsys, "pending")] == [first.id, second.id]
    assert read(capsys, "pending", "--void", str(first.id)) == {"id": first.id, "status": "voided"}
    assert "committed" in run(capsys, "pending", "--commit", str(second.id))
    assert dataset.spent == 0.25
    assert "a pending reservation" in refused(capsys, "pending", "--void", str(second.id))
    assert "Nothing is pending" in run(capsys, "pending")


@pytest.mark.usefixtures("patients")
def test_a_run_that_is_going_on_is_not_settled_by_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    """Committed by somebody else, it could publish nothing, although it is paid for."""
    reserved = Ledger("sqlite:///privacy.db").budget("patients").reserve(Charge(event=LaplaceEvent(4.0), purpose="run"))
    reserved.hold(0)
    for action in ("--void", "--commit"):
        assert "no process is working on" in refused(capsys, "pending", action, str(reserved.id))
    assert reserved.is_open()
    assert "committed" in run(capsys, "pending", "--commit", str(reserved.id), "--force")
    reserved.release()


def test_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "create", "visits", "--epsilon", "1", "--unit-name", "patient-month", "--blocks", "2026-09, 2026-10")
    run(capsys, "charge", "visits", "--epsilon", "0.75", "--purpose", "autumn", "--blocks", "2026-09")
    run(capsys, "add-block", "visits", "2026-11", "--expires", "2999-01-01T00:00+00:00")
    run(capsys, "retire", "visits", "2026-09")
    blocks = {block["block"]: block for block in read(capsys, "show", "visits")["blocks"]}
    assert {name: block["spent"] for name, block in blocks.items()} == {"2026-09": 0.75, "2026-10": 0, "2026-11": 0}
    assert blocks["2026-09"]["retired"]
    assert "retired" in run(capsys, "show")
    assert "values separated by commas" in refused(
        capsys, "create", "x", "--epsilon", "1", "--unit-name", "row", "--blocks", "a,,b"
    )
    assert "a time" in refused(capsys, "add-block", "visits", "2026-12", "--expires", "soon")


def test_a_box(capsys: pytest.CaptureFixture[str]) -> None:
    box = '[{"event": {"noise_multiplier": 9}, "number": 2}, {"event": {"laplace_scale": 20}, "number": 5}]'
    run(capsys, "create", "people", "--epsilon", "2", "--delta", "1e-6", "--unit-name", "person", "--box", box)
    run(capsys, "charge", "people", "--event", '{"noise_multiplier": 9}', "--purpose", "a mean")
    shown = read(capsys, "show", "people")
    assert [(kind["left"], kind["number"]) for kind in shown["box"]] == [(1, 2), (5, 5)]
    assert 0 < shown["blocks"][0]["spent"] < 2
    assert "Declared releases, which are paid" in run(capsys, "show", "people")
    assert "no problems" in run(capsys, "verify")
    common = ("--epsilon", "2", "--delta", "1e-6", "--unit-name", "person", "--box")
    for broken in ("{}", "[]", '[{"event": 3, "number": 1}]', '[{"event": {"noise_multiplier": 9}}]', "["):
        refused(capsys, "create", "others", *common, broken)


def test_a_fingerprint(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "data.csv").write_text("a,b\n1,2\n")
    run(capsys, "create", "one", "--epsilon", "1", "--unit-name", "row", "--fingerprint", "data.csv")
    again = ("create", "two", "--epsilon", "1", "--unit-name", "row", "--fingerprint")
    assert "no other budget" in refused(capsys, *again, "data.csv")
    assert "expected a file" in refused(capsys, *again, "gone.csv")


@pytest.mark.usefixtures("patients")
def test_people(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "owner, for the first" in refused(capsys, "admit", "anna", "--role", "analyst")
    owner = read(capsys, "admit", "olga", "--role", "owner")["token"]
    assert "token" in refused(capsys, "show")  # from now on, tokens decide
    monkeypatch.setenv("HUSH_LEDGER_TOKEN", owner)
    shown = run(capsys, "admit", "anna", "--role", "analyst")
    assert "shown only once" in shown
    run(capsys, "share", "patients", "anna", "--percent", "40")
    monkeypatch.setenv("HUSH_LEDGER_TOKEN", shown.split()[-1])
    run(capsys, "charge", "patients", "--epsilon", "0.5", "--purpose", "hers")
    assert "your share" in refused(capsys, "charge", "patients", "--epsilon", "1", "--purpose", "too much")
    assert "owner" in refused(capsys, "recompute", "patients")
    assert read(capsys, "verify")["ok"]


def test_where_the_ledger_is(capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terms = ("--epsilon", "1", "--unit-name", "row")
    assert "hush ledger create" in refused(capsys, "show")
    assert not (folder / "privacy.db").exists()  # looking creates nothing
    run(capsys, "create", "a", *terms, "--db", "sqlite:///first.db")
    monkeypatch.setenv("HUSH_LEDGER", "sqlite:///second.db")
    run(capsys, "create", "b", *terms)
    assert [budget["budget"] for budget in read(capsys, "show")] == ["b"]
    assert [budget["budget"] for budget in read(capsys, "show", "--db", "sqlite:///first.db")] == ["a"]
    assert "sqlite:///file" in refused(capsys, "show", "--db", "nonsense")
    assert "mysql" in refused(capsys, "show", "--db", "mysql://host/x")
    (folder / "text.db").write_text("this is no database, and long enough to be seen as none" * 20)
    refused(capsys, "show", "--db", "sqlite:///text.db", status=1)


def test_no_password_is_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg", reason="needs psycopg")
    monkeypatch.setenv("HUSH_LEDGER_TOKEN", "hunter2token")
    error = refused(capsys, "show", "--db", "postgresql://olga@127.0.0.1:1/none", status=1)
    assert "hunter2token" not in error
    assert "hunter3" not in refused(capsys, "show", "--db", "postgresql://olga:hunter3@127.0.0.1:1/none", status=1)


@pytest.mark.usefixtures("patients")
def test_anchors(capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    public_key = read(capsys, "key", "key.pem")["public_key"]
    assert "Signed: " in run(capsys, "anchor", "anchors.jsonl", "--key", "key.pem")
    older = (folder / "privacy.db").read_bytes()
    monkeypatch.setenv("HUSH_LEDGER_ANCHORS", str(folder / "anchors.jsonl"))
    monkeypatch.setenv("HUSH_LEDGER_KEY", str(folder / "key.pem"))
    run(capsys, "charge", "patients", "--epsilon", "0.1", "--purpose", "anchored by itself")
    evidence = ("--anchors", "anchors.jsonl", "--public-key", public_key)
    assert "compared with 2 anchors" in run(capsys, "verify", *evidence)
    assert read(capsys, "verify", *evidence)["anchors"] == 2
    assert "inside this file" in run(capsys, "verify")
    for path in folder.glob("privacy.db*"):
        path.unlink()
    (folder / "privacy.db").write_bytes(older)
    assert "no problems inside this file" in run(capsys, "verify")
    assert main(["ledger", "verify", *evidence]) == 2
    assert "rows were removed from the end" in capsys.readouterr().out
    assert "anchors" in refused(capsys, "verify", "--anchors", "anchors.jsonl")
    assert "never overwritten" in refused(capsys, "key", "key.pem")


@pytest.mark.usefixtures("patients")
def test_backup_and_restore(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    head = read(capsys, "backup", "backup.db")["head"]
    backup = ("--db", "sqlite:///backup.db")
    assert "patients" in run(capsys, "show", *backup)
    refusal = refused(capsys, "charge", "patients", "--epsilon", "1", "--purpose", "x", *backup)
    assert "hush ledger restore" in refusal
    assert "new file" in refused(capsys, "backup", "backup.db")
    assert "would be lost" in refused(capsys, "restore", "again.db", *backup)
    assert "A row of it records this" in run(capsys, "restore", "again.db", "--head", head, *backup)
    run(capsys, "restore", "forced.db", "--force", *backup)
    run(capsys, "charge", "patients", "--epsilon", "1", "--purpose", "x", "--db", "sqlite:///again.db")
    assert "Row 2: the ledger was restored from a backup." in run(capsys, "verify", "--db", "sqlite:///again.db")
    assert "would be missing" in run(capsys, "verify", "--db", "sqlite:///forced.db")


@pytest.mark.usefixtures("patients")
def test_damage(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "charge", "patients", "--epsilon", "0.5", "--purpose", "counts")
    head = read(capsys, "verify")["head"]
    assert read(capsys, "verify", "--head", head)["ok"]
    ledger = Ledger("sqlite:///privacy.db")
    with tampering(ledger) as connection:
        connection.execute("UPDATE hush_entries SET purpose=? WHERE id=2", ("\x1b[2Jgone",))
    assert main(["ledger", "verify", "--json"]) == 2
    out, error = capsys.readouterr()
    assert json.loads(out)["findings"][0]["row"] == 2
    assert "1 finding" in error
    assert main(["ledger", "verify"]) == 2
    assert "Row 2: the row was edited" in capsys.readouterr().out
    assert "\x1b" not in run(capsys, "show", "patients")
    assert "damaged" in refused(capsys, "recompute", "patients")
    with tampering(ledger) as connection:
        rehashed(ledger, connection)
    assert read(capsys, "verify")["ok"]
    assert main(["ledger", "verify", "--head", head]) == 2
    capsys.readouterr()
    assert "DAMAGED" not in run(capsys, "export", "report.html")
