"""`hush test`: what is declared chooses the test, a ledger is charged, power reads no data, and mistakes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from hush.cli import main

pytest.importorskip("duckdb")

ARMS = ["--between", "arm", "--keys", "arm=a,b"]
SPEND = ["--unit", "who", "--epsilon", "1"]
RATE = [*ARMS, "--outcome", "bought", "--keys", "bought=no,yes"]


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HUSH_LEDGER", raising=False)
    monkeypatch.delenv("HUSH_LEDGER_TOKEN", raising=False)
    lines = ["who,arm,bought,age,plan"]
    for index in range(1200):
        arm, bought = "ab"[index % 2], "yes" if index % (3 if index % 2 else 10) == 0 else "no"
        lines.append(f"{index},{arm},{bought},{20 + index % 50},{'xyz'[index % 3]}")
    file = tmp_path / "people.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def answer(capsys: pytest.CaptureFixture[str], *words: Any) -> dict[str, Any]:
    assert main(["test", *map(str, words), "--json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


@pytest.mark.usefixtures("fixed_key")
def test_declarations_choose_the_test(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rates = answer(capsys, people, *RATE, *SPEND)
    assert rates["hypothesis"] == "the outcome is equally frequent in all groups"
    # Fixed key: the true difference is 1/3 - 1/5; with 600 in each group its error is some 0.03.
    assert rates["low"] < 1 / 3 - 1 / 5 < rates["high"]
    assert rates["guarantee"]["epsilon"] == 1.0
    assert rates["guarantee"]["unit"] == "user"
    means = answer(capsys, people, *ARMS, "--outcome", "age", "--bounds", "age=0:100", *SPEND)
    assert means["hypothesis"] == "all groups have the same mean"
    tables = answer(capsys, people, *ARMS, "--outcome", "plan", "--keys", "plan=x,y,z", *SPEND)
    assert tables["hypothesis"] == "the two columns are independent"
    pairs = ["--between", "who", "--outcome", "age", "--bounds", "who=0:2000", "--bounds", "age=0:100"]
    linked = answer(capsys, people, *pairs, "--unit", "row", "--epsilon", 1)
    assert linked["hypothesis"] == "the two columns are independent"
    assert linked["guarantee"]["unit"] == "example"
    shares = answer(capsys, people, "--outcome", "plan", "--shares", "x=0.2,y=0.4,z=0.4", *SPEND)
    assert shares["p_value"] < 0.001


def test_for_people(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(people), *RATE, *SPEND]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("p = ")
    assert printed.err.startswith("epsilon <= 1, delta = 0 per user")


def test_a_ledger_is_charged(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sqlalchemy")
    db = f"sqlite:///{people.parent / 'privacy.db'}"
    cap = ["--epsilon", "1.5", "--delta", "1e-6", "--unit-name", "person", "--db", db]
    assert main(["ledger", "create", "people", *cap]) == 0
    capsys.readouterr()
    charged = answer(capsys, people, *RATE, *SPEND, "--budget", "people", "--db", db)["charged"]
    assert charged["epsilon"] == 1.0
    assert charged["so_far"] > 0.5
    assert main(["test", str(people), *RATE, *SPEND, "--budget", "people", "--db", db]) == 2
    assert capsys.readouterr().out == ""


def test_an_empty_file_is_answered(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether there are rows is about people, too. At this epsilon, noise of 8 and more has a probability of e^-80."""
    people.write_text("who,arm,bought\n")
    hidden = answer(capsys, people, *RATE, "--unit", "who", "--epsilon", 10)
    assert (hidden["p_value"], hidden["is_hidden"]) == (1.0, True)


def test_all_that_is_missing_is_named_at_once_with_a_command_that_works(
    people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(people), "--between", "arm", "--outcome", "bought", "--epsilon", "0.5"]
    assert main(["test", *words]) == 2
    error = " ".join(capsys.readouterr().err.split())
    for phrase in ("--keys or --bounds of bought", "--keys or --bounds of arm", "and --unit", "hush query first"):
        assert phrase in error
    _, _, command = error.partition("with your own names: ")
    advised = shlex.split(command.removesuffix("."))
    assert advised[:2] == ["hush", "test"]
    assert answer(capsys, *(word.replace("user_id", "who") for word in advised[2:]))["p_value"] <= 1
    assert main(["test", "--epsilon", "0.5"]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "a file, --outcome, --between and --unit" in error
    assert "people.csv --between group --outcome outcome --keys group=a,b --keys outcome=no,yes --unit user_id" in error
    assert main(["test", str(people), "--shares", "a=0.5,b=0.5", "--epsilon", "0.5"]) == 2
    assert "--outcome and --unit" in " ".join(capsys.readouterr().err.split())


def test_power_reads_no_data(capsys: pytest.CaptureFixture[str]) -> None:
    power = answer(capsys, "--power", "0.1,0.2", "--sizes", "500,500", "--epsilon", 1)
    assert power["power"] > 0.9
    assert power["factor_for_0.8"] < 1
    assert (
        main(
            ["test", "--power", "40,45", "--sizes", "99,99", "--stds", "9,9", "--bounds", "age=0:100", "--epsilon", "1"]
        )
        == 0
    )
    assert "No data were read." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*ARMS, "--outcome", "bought", *SPEND], "--keys: expected a declaration of the column bought"),
        ([*RATE, "--bounds", "bought=0:1", *SPEND], "--keys: expected a declaration of the column bought"),
        ([*RATE, "--keys", "plan=x,y", *SPEND], "--keys plan: expected a column of this test"),
        ([*RATE, "--epsilon", "1"], "--unit: expected the column that identifies the privacy unit"),
        ([*RATE, "--unit", "nobody", "--epsilon", "1"], "--unit nobody: expected one of the columns"),
        (["--outcome", "plan", "--keys", "plan=x,y", *SPEND], "--between: expected the groups to compare"),
        (["--outcome", "plan", *SPEND], "--between: expected --between and --keys or --bounds of plan"),
        ([*ARMS, *SPEND], "--outcome: expected the column to compare"),
        ([*RATE, "--shares", "no=1", *SPEND], "--shares no=1: expected none with --between"),
        (["--outcome", "plan", "--shares", "x=a", *SPEND], "--shares"),
        (
            ["--outcome", "plan", "--shares", "x=0.5,y=0.6", *SPEND],
            "--shares x=0.5,y=0.6: expected two positive shares",
        ),
        (
            ["--outcome", "plan", "--shares", "x=0.5,y=nan", *SPEND],
            "--shares x=0.5,y=nan: expected two positive shares",
        ),
        (["--outcome", "plan", "--shares", "x=0.5,x=1", *SPEND], "--shares x=0.5,x=1: expected the value x once"),
        (
            ["--outcome", "age", "--shares", "20=0.5,21=0.5", "--bounds", "age=0:9", *SPEND],
            "--shares 20=0.5,21=0.5: expected none with --keys or --bounds",
        ),
        (
            ["--outcome", "plan", "--shares", "x=0.5,y=0.5", "--confidence", "0.9", *SPEND],
            "--confidence 0.9: expected none. Only means and proportions have an interval",
        ),
        ([*ARMS, "--outcome", "plan", "--keys", "plan=x,y,z", "--confidence", "0.9", *SPEND], "--confidence 0.9"),
        ([*RATE, "--level", "0.01", *SPEND], "--level 0.01: expected none without --power"),
        ([*RATE, "--sizes", "9,9", *SPEND], "--sizes 9,9: expected none without --power"),
        ([*RATE, "--confidence", "nan", *SPEND], "--confidence nan: expected a number in (0, 1)"),
        ([*ARMS, "--outcome", "arm", *SPEND], "--between arm: expected another column than --outcome"),
        ([*RATE, "--keys", "arm=a,c", *SPEND], "--keys arm=a,c: expected the column arm once"),
        (
            [*ARMS, "--outcome", "plan", "--keys", "plan=x,x,y", *SPEND],
            "--keys plan=x,x,y: expected two categories or more, each of them once",
        ),
        (
            [*ARMS, "--outcome", "plan", "--keys", "plan=x", *SPEND],
            "--keys plan=x: expected two categories or more, each of them once",
        ),
        (["--between", "age", "--outcome", "arm", "--bounds", "age=0:9", "--keys", "arm=a,b", *SPEND], "--between age"),
        ([*RATE, "--unit", "who", "--epsilon", "-1"], "--epsilon -1: expected a finite number > 0"),
        ([*RATE, *SPEND, "--power", "0.1,0.2", "--sizes", "9,9"], "--power 0.1,0.2: expected no data beside it"),
    ],
)
def test_mistakes(words: list[str], message: str, people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(people), *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"hush test: {message}" in printed.err


def test_other_mistakes(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "nothing.csv", *RATE, *SPEND]) == 2
    assert main(["test", "--power", "0.1,x", "--sizes", "9,9", "--epsilon", "1"]) == 2
    assert main(["test", "--power", "1,2", "--sizes", "9,9", "--stds", "1,1", "--epsilon", "1"]) == 2
    assert main(["test", "--power", "0.1,0.2", "--epsilon", "1"]) == 2
    people.write_text("row,arm,bought\n1,a,no\n")
    assert main(["test", str(people), *RATE, "--unit", "row", "--epsilon", "1"]) == 2
    assert capsys.readouterr().out == ""


# A catalog declares what flags would.

CATALOG = """
format = "hush.catalog/1"
[tables.people]
data = "people.csv"
unit = "who"
bounds.age = [0, 100]
keys.arm = ["a", "b"]
keys.bought = ["no", "yes"]
keys.plan = ["x", "y", "z"]
[tables.plans]
data = "plans.csv"
public = true
"""


@pytest.fixture
def catalog(people: Path) -> Path:
    (people.parent / "plans.csv").write_text("plan,price\nx,1\ny,2\nz,3\n")
    file = people.parent / "clinic.toml"
    file.write_text(CATALOG)
    return file


@pytest.mark.parametrize(
    ("columns", "flags"),
    [
        (["--between", "arm", "--outcome", "bought"], ["--keys", "arm=a,b", "--keys", "bought=no,yes"]),
        (["--between", "arm", "--outcome", "age"], ["--keys", "arm=a,b", "--bounds", "age=0:100"]),
        (["--outcome", "plan", "--shares", "x=0.2,y=0.4,z=0.4"], []),
    ],
)
def test_a_catalog_declares_the_same_test(
    people: Path, catalog: Path, capsys: pytest.CaptureFixture[str], columns: list[str], flags: list[str]
) -> None:
    by_catalog = answer(capsys, "--catalog", catalog, *columns, "--epsilon", 1)
    by_flags = answer(capsys, people, *columns, *flags, *SPEND)
    for name in ("hypothesis", "guarantee", "noise_scale"):
        assert by_catalog[name] == by_flags[name]
    named = answer(capsys, "--catalog", catalog, "--table", "people", *columns, "--epsilon", 1)
    assert named["hypothesis"] == by_flags["hypothesis"]


ON_RATES = ["--between", "arm", "--outcome", "bought", "--epsilon", "1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["people.csv", *ON_RATES], "none with --catalog"),
        ([*ON_RATES, "--unit", "who"], "none with --catalog"),
        ([*ON_RATES, "--keys", "arm=a,b"], "none with --catalog"),
        ([*ON_RATES, "--bounds", "age=0:1"], "none with --catalog"),
        ([*ON_RATES, "--table", "plans"], "one of the tables with a unit: people"),
        ([*ON_RATES, "--power", "0.1,0.2", "--sizes", "9,9"], "no data beside it"),
        (["--between", "arm", "--outcome", "who", "--epsilon", "1"], "give who keys, or else bounds"),
    ],
)
def test_a_catalog_and_flags_do_not_contradict_each_other(
    catalog: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["test", *words, "--catalog", str(catalog)]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('unit = "who"', 'unit = {column = "who", time = "day", window = "month"}', "window of time"),
        ('keys.arm = ["a", "b"]', 'keys.arm = ["a", {null = true}]', "texts, whole numbers"),
        ('keys.arm = ["a", "b"]', 'keys.arm = ["a"]', "two categories"),
        ('keys.arm = ["a", "b"]', 'key.arm = ["a", "b"]', "without mistakes"),
        ('data = "people.csv"', "", "catalog"),
    ],
)
def test_what_a_catalog_declares_and_a_test_cannot_take_is_refused(
    catalog: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    catalog.write_text(CATALOG.replace(old, new, 1))
    assert main(["test", "--catalog", str(catalog), *ON_RATES]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_table_is_named_without_a_catalog(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(people), *RATE, *SPEND, "--table", "people"]) == 2
    assert "none without --catalog" in " ".join(capsys.readouterr().err.split())
