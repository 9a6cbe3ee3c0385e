"""`--budget` and `--db`: which budget a command charges."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from hush.cli import main
from hush.cli.charging import add_charging, budget_of, open_ledger
from hush.errors import InvalidArgument, Unsupported

pytest.importorskip("sqlalchemy")


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HUSH_LEDGER", "HUSH_LEDGER_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_charging(parser)
    return parser.parse_args(words)


def test_without_a_budget_nothing_is_charged() -> None:
    assert budget_of(parse()) is None
    with pytest.raises(InvalidArgument, match="the ledger of a budget"):
        budget_of(parse("--db", "sqlite:///a.db"))


def test_the_ledger_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("privacy", "variable", "option"):
        ledger = open_ledger(f"sqlite:///{name}.db", create=True)
        ledger.budget(name, epsilon=1, delta=0, unit="row")
    assert budget_of(parse("--budget", "privacy")).name == "privacy"  # type: ignore[union-attr]
    monkeypatch.setenv("HUSH_LEDGER", "sqlite:///variable.db")
    assert budget_of(parse("--budget", "variable")).name == "variable"  # type: ignore[union-attr]
    options = parse("--budget", "option", "--db", "sqlite:///option.db")
    assert budget_of(options).name == "option"  # type: ignore[union-attr]


def test_looking_creates_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="a ledger that exists. `hush ledger create` starts one"):
        open_ledger("sqlite:///nothing.db")
    assert not list(tmp_path.iterdir())


def test_a_broken_address_is_not_shown() -> None:
    with pytest.raises(InvalidArgument, match=r"--db='...'") as caught:
        open_ledger("postgresql:/olga:hunter2@host")
    assert "hunter2" not in str(caught.value)


def test_sqlalchemy_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(Unsupported, match="ledgers need sqlalchemy"):
        open_ledger(None)


@pytest.mark.parametrize("command", ["train", "tune"])
def test_a_run_that_charges_nothing_says_so(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it was told to be quiet, and before it reads anything."""
    pytest.importorskip("safetensors")
    pytest.importorskip("torch")
    monkeypatch.setenv("HUSH_LEDGER", f"sqlite:///{tmp_path}/privacy.db")
    assert main([command, str(tmp_path / "none.csv"), "--epsilon", "1", "--quiet"]) != 0
    assert "Nothing is charged to the ledger in $HUSH_LEDGER" in capsys.readouterr().err
