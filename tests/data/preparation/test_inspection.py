"""What follows from names and types, and what is asked: all at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hush import data
from hush.data import Category, Date, HashedText, Ignore, Numeric, OpenQuestions, Schema, inspect
from hush.errors import InvalidArgument


def inspected(path: Path, target: str | None = "y", fewest: float = 10.0, **more: Any) -> Any:
    settings: dict[str, Any] = {"schema": None, "unit": None, "groups": (), "task": None, **more}
    return inspect(data.open_data(path), target=target, fewest_units=lambda *_: fewest, **settings)


def write(path: Path, header: str, row: str, rows: int = 100) -> Path:
    path.write_text("\n".join([header, *[row] * rows]) + "\n", encoding="utf-8")
    return path


def test_kinds_of_a_csv_file(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "n,kind,note,day,when,y", "1,x,some words,2020-01-31,31.12.2020 10:00,no")
    assert inspected(path).schema.columns == {
        "n": Numeric(),
        "kind": Category(),
        "note": HashedText(),
        "day": Date(),
        "when": Date(),
    }
    few = inspected(path, fewest=20.0).schema.columns  # of 100 rows: no value would be found
    assert few["kind"] == HashedText(num_features=32)


def test_types_of_parquet_are_used(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    select = "SELECT true b, 'x' c, [1] l, DATE '2020-01-01' d, TIMESTAMP '2020-01-01' m, 0.5::DOUBLE f, 1 i, 'no' y"
    duckdb.connect().execute(f"COPY ({select} FROM range(100)) TO '{path}' (FORMAT parquet)")
    result = inspected(path)
    columns = result.schema.columns
    assert columns["b"] == Numeric(lower=0, upper=1)
    assert (columns["c"], columns["l"]) == (Category(), Ignore())
    assert columns["d"] == columns["m"] == Date()
    assert any("'l' is left out" in note for note in result.notes)
    assert inspected(path, "f").schema.target_range == Numeric()
    assert inspected(path, "b").schema.classes == ("false", "true")
    assert inspected(path, "d").schema.target_range == Date()
    assert inspected(path, "b,i").schema.labels == ("b", "i")
    with pytest.raises(OpenQuestions, match="holds numbers"):
        inspected(path, "i")


def test_everything_is_asked_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "user_id,email,age,y", "u1,a@b,30,5")
    with pytest.raises(OpenQuestions) as caught:
        inspected(path, schema=Schema(columns={"agee": Ignore()}), groups=("zz",))
    answers = [question.add for question in caught.value.questions if question.add]
    assert answers == [("--unit", "user_id"), ("--ignore", "email"), ("--task", "regression")]
    assert [question.wrong for question in caught.value.questions if question.wrong] == ["zz", "agee"]
    command = ["train", "t.csv", "--group", "zz", "--ignore", "agee"]
    expected = "hush train t.csv --ignore age --unit user_id --ignore email --task regression"
    assert caught.value.in_words(command).endswith(expected)


def test_no_message_quotes_a_value(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "name,x,y", "zebra,giraffe,77")
    with pytest.raises(OpenQuestions) as caught:
        inspected(path, schema=Schema(columns={"x": Numeric(lower=0, upper=1)}), fewest=1e9)
    assert not any(value in str(caught.value) for value in ("zebra", "giraffe", "77"))


def test_one_row_decides_no_kind(tmp_path: Path) -> None:
    """Kinds follow from more than half of all rows: one row changes them at exactly one half only."""
    rows = ["1,2020-01-01,0"] * 60 + ["x,y,0"] * 39
    for odd in ("", "zebra", "2020-13-77", "1e999", "nan"):
        path = tmp_path / "t.csv"
        path.write_text("\n".join(["a,d,label", *rows, f"{odd},{odd},{odd}"]) + "\n", encoding="utf-8")
        assert inspected(path, "label").schema.columns == {"a": Numeric(), "d": Date()}


def test_what_is_declared_is_not_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "id,x,y", "u1,2,5")
    schema = Schema(columns={"id": Ignore(), "y": Numeric(lower=0, upper=9)})
    result = inspected(path, schema=schema)
    assert result.schema.target_range == Numeric(lower=0, upper=9)
    assert "y" not in result.schema.columns
    assert inspected(path, unit="id", fewest=0.1, task="classification").schema.columns == {"x": Numeric()}


def test_too_few_units_for_classes_are_noticed_before(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "x,y", "1,no")
    assert inspected(path, fewest=33.0).schema.classes is None
    with pytest.raises(OpenQuestions, match="--classes A,B"):
        inspected(path, fewest=34.0)
    assert inspected(path, fewest=34.0, schema=Schema(classes=("no", "yes"))).schema.classes == ("no", "yes")


def test_names_of_groups_are_asked_for_before_anything_is_spent(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "x,city,y", "1,Rome,no")
    with pytest.raises(OpenQuestions, match="--category city=A,B") as caught:
        inspected(path, groups=("city",))
    command = ["train", "t.csv", "--group", "city", "--ignore", "city"]
    assert caught.value.corrected(command) == ["train", "t.csv", "--group", "city", "--category", "city=A,B"]
    for undeclared in (Ignore(), HashedText()):
        with pytest.raises(OpenQuestions, match="--category city=A,B"):
            inspected(path, groups=("city",), schema=Schema(columns={"city": undeclared}))
    for category in (Category(values=("Rome", "Oslo")), Category()):  # declared, or learned privately
        declared = Schema(columns={"city": category})
        assert inspected(path, groups=("city",), schema=declared).schema.columns["city"] == category


def test_groups_need_classes(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "x,city,y", "1,Rome,5")
    with pytest.raises(OpenQuestions) as caught:
        inspected(path, groups=("city",))
    answers = [question.add for question in caught.value.questions]
    assert answers == [("--category", "city=A,B"), ("--task", "classification")]


def test_the_corrected_command_raises_no_new_question(tmp_path: Path) -> None:
    """Wrong names are put right first: the unit is not ignored, and no column is asked about twice."""
    path = write(tmp_path / "t.csv", "patient_id,age,city,diagnosis", "u1,30,Rome,no")
    wrong = Schema(columns={"patientid": Ignore(), "agee": Numeric(lower=0, upper=99)})
    with pytest.raises(OpenQuestions) as caught:
        inspected(path, "diagnossis", schema=wrong, unit="patient", groups=("citty",), fewest=0.1)
    command = "train a.csv --target diagnossis --ignore patientid --bounds agee=0:99 --unit patient --group citty"
    right = "train a.csv --target diagnosis --bounds age=0:99 --unit patient_id --group city --category city=A,B"
    assert " ".join(caught.value.corrected(command.split())) == right
    schema = Schema(columns={"age": Numeric(lower=0, upper=99), "city": Category(values=("A", "B"))})
    inspected(path, "diagnosis", schema=schema, unit="patient_id", groups=("city",), fewest=0.1)


def test_labels_that_are_not_true_or_false_are_asked_about(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "x,city,flu,cold,age", "1,Rome,yes,0,30")
    with pytest.raises(OpenQuestions) as caught:
        inspected(path, "city,flu,age,cold", task="multi-label")
    assert [question.wrong for question in caught.value.questions] == ["city", "age"]
    command = ["train", "t.csv", "--target", "city,flu,age,cold"]
    assert caught.value.corrected(command) == ["train", "t.csv", "--target", "flu,cold"]
    assert "Rome" not in str(caught.value)
    assert inspected(path, "flu,cold", task="multi-label").schema.labels == ("flu", "cold")


@pytest.mark.parametrize(("true", "false"), [("TRUE", "FALSE"), ("t", "f"), ("Y", "N"), ("1", "0"), ("1.0", "0.0")])
def test_labels_may_be_rare_and_often_missing(tmp_path: Path, true: str, false: str) -> None:
    path = tmp_path / "t.csv"
    rows = [*[f"1,{true},0"] * 2, *[f"1,{false},0"] * 20, *["1,,0"] * 40, *["1,unknown,0"] * 30]
    path.write_text("\n".join(["x,a,b", *rows]) + "\n", encoding="utf-8")
    assert inspected(path, "a,b").schema.labels == ("a", "b")
    truths = data.open_data(path).table.truths("a")  # type: ignore[attr-defined]
    assert [int((truths == value).sum()) for value in (1, 0, -1)] == [2, 20, 70]


@pytest.mark.parametrize("target", ["amount_claimed", "windspeed", "time_elapsed", "readmitted", "Survived", "y"])
def test_numbers_are_classes_by_no_ending(tmp_path: Path, target: str) -> None:
    """Learning the classes of a number spent a share of the budget, and ended without a model."""
    path = write(tmp_path / "t.csv", f"x,{target}", "1,7.5")
    with pytest.raises(OpenQuestions, match=r"--task classification .* --classes A,B") as caught:
        inspected(path, target)
    assert [question.add[0] for question in caught.value.questions] == ["--task"]
    assert inspected(path, target, schema=Schema(classes=("0", "1"))).schema.classes == ("0", "1")
    assert inspected(path, target, task="regression").schema.target_range == Numeric()


TEXTS, NUMBERS = "code,Mon,no", "17,2020-01-31,1"


def write_units(path: Path, rows_of_one: int) -> Path:
    """Write a table of 200 units with one row, of whom 45 % have text, and one with many rows of text."""
    rows = [f"u{number},{TEXTS if number % 20 < 9 else NUMBERS}" for number in range(200)]
    path.write_text("\n".join(["who,code,day,y", *rows, *[f"v,{TEXTS}"] * rows_of_one]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("rows_of_one", [0, 1, 300])
def test_one_unit_with_many_rows_decides_no_kind(tmp_path: Path, rows_of_one: int) -> None:
    path = write_units(tmp_path / "t.csv", rows_of_one)
    settings: dict[str, Any] = {"schema": Schema(classes=("no", "1")), "fewest": 0.1}
    schema = inspected(path, unit="who", **settings).schema
    assert schema.columns == {"code": Numeric(), "day": Date()}
    bounded = replace(schema, columns={"code": Numeric(lower=0, upper=9), "day": Date(lower=0, upper=1)}, unit="who")
    assert len(data.prepare(data.open_data(path), target="y", schema=bounded, key=bytes(32)).train) > 150
    # A broken twin, in which every row has a vote: with many rows, one unit decides.
    columns = inspected(path, unit="row", **settings | {"schema": replace(schema, columns={"who": Ignore()})}).schema
    by_rows = {"code": Category(), "day": Category()} if rows_of_one == 300 else {"code": Numeric(), "day": Date()}
    assert {name: columns.columns[name] for name in ("code", "day")} == by_rows


def test_text_of_most_units_is_refused_as_numbers(tmp_path: Path) -> None:
    """One unit, with most of all rows, cannot pass a column of text for numbers."""
    path = tmp_path / "t.csv"
    rows = [*[f"u{number},x,no" for number in range(30)], *["v,1,no"] * 300]
    path.write_text("\n".join(["who,a,y", *rows]) + "\n", encoding="utf-8")
    schema = Schema(columns={"a": Numeric(lower=0, upper=9)}, classes=("no", "yes"))
    with pytest.raises(InvalidArgument, match="text column"):
        data.prepare(data.open_data(path), target="y", schema=schema, unit="who", key=bytes(32))
    with pytest.raises(OpenQuestions, match="holds text"):
        inspected(path, schema=schema, unit="who")


def test_labels_are_judged_by_units(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [*[f"u{number},1,yes,no" for number in range(30)], *["v,1,Rome,no"] * 300, *[",1,Rome,no"] * 300]
    path.write_text("\n".join(["who,x,a,b", *rows]) + "\n", encoding="utf-8")
    assert inspected(path, "a,b", unit="who").schema.labels == ("a", "b")
    with pytest.raises(OpenQuestions, match="label 'a'"):
        inspected(path, "a,b", unit="row", schema=Schema(columns={"who": Ignore()}))
