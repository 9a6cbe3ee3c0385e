"""Plans and templates, from names and types alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from data.files import KEY, write_columns
from hush import data
from hush.data.preparation.plan import resolve
from hush.data.tables.table import RowTable
from hush.errors import InvalidArgument


@pytest.fixture
def nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("rows were read")

    monkeypatch.setattr(RowTable, "__init__", fail)


@pytest.mark.usefixtures("nothing_is_read")
def test_templates_read_no_values(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b,y\n" + bytes(range(256)) * 50)
    source = data.open_data(path, target="y")
    template = data.template(source)
    assert template == data.Schema(columns=dict.fromkeys("aby", data.Numeric()))
    assert data.needs_learning(source, "y") == [
        "bounds of column 'a'",
        "bounds of column 'b'",
        "classes of the target",
    ]
    with pytest.raises(AssertionError, match="rows were read"):  # the fixture does notice
        data.prepare(source, target="y", learn=data.Learn(noise_multiplier=1.0), key=bytes(32))
    template.save(tmp_path / "s.json")
    assert data.Schema.load(tmp_path / "s.json") == template


@pytest.mark.usefixtures("nothing_is_read")
def test_templates_of_parquet_have_declared_types(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    duckdb.connect().execute(f"COPY (SELECT 1 a, 'x' b, [1] c, DATE '2020-01-01' d) TO '{path}' (FORMAT parquet)")
    expected = {"a": data.Numeric(), "b": data.Category(), "c": data.Ignore(), "d": data.Numeric()}
    assert data.template(data.open_data(path)).columns == expected


def test_templates_of_images(tmp_path: Path) -> None:
    assert data.template(data.open_data("digits")).classes == tuple("0123456789")
    with pytest.raises(InvalidArgument, match="Images have labels, and no columns"):
        data.needs_learning(data.open_data("digits"), "y")
    with pytest.raises(InvalidArgument, match="Images have labels, and no columns"):
        data.needs_learning(data.open_data("digits"), unit="user")


def test_schema_and_arguments_must_agree(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,2,0\n")
    source = data.open_data(path)
    assert data.needs_learning(source, schema=data.Schema(target="y", classes=("0", "1"))) == [
        "bounds of column 'a'",
        "bounds of column 'b'",
    ]
    for target, schema in (
        ("a", data.Schema(target="y")),
        (None, data.Schema()),
        ("y", data.Schema(columns={"z": data.Numeric()})),
    ):
        with pytest.raises(InvalidArgument):
            data.needs_learning(source, target, schema)
    with pytest.raises(InvalidArgument, match="a column other than the target"):
        data.needs_learning(source, "y", unit="y")
    with pytest.raises(InvalidArgument, match="at least one column to predict from"):
        data.needs_learning(source, "y", unit="a", groups=["b"])
    with pytest.raises(InvalidArgument, match="Use the schema of a preparation"):
        data.transform(data.Schema(columns={"a": data.Numeric()}), source)


SCHEMA = data.Schema(columns={"a": data.Numeric(lower=0, upper=1e6)}, target="y", classes=("0", "1"))


def test_unit_and_groups_are_no_features(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,sex,user,y\n" + "".join(f"{n},{'fm'[n % 2]},{n},{n % 2}\n" for n in range(60)))
    result = data.prepare(data.open_data(path), schema=SCHEMA, unit="user", groups=["sex"], key=KEY)
    assert result.shape == (1,)
    assert set(result.train.groups["sex"].tolist()) == {"f", "m"}
    assert len(result.test.groups["sex"]) == len(result.test)
    declared = data.Schema(
        columns={**SCHEMA.columns, "sex": data.Category(values=("f",))}, target="y", classes=("0", "1"), groups=("sex",)
    )
    result = data.prepare(data.open_data(path), schema=declared, unit="user", key=KEY)
    assert result.shape == (3,)
    assert set(result.train.groups["sex"].tolist()) == {"f", "(other)"}


def test_each_row_can_be_a_unit(tmp_path: Path) -> None:
    source = write_columns(tmp_path / "t.csv", {"a": [1, 2], "y": [0, 1]})
    assert resolve(source, "y", None, "row", ()) == resolve(source, "y", None, None, ())
    named = write_columns(tmp_path / "named.csv", {"row": [1, 2], "a": [1, 2], "y": [0, 1]})
    with pytest.raises(InvalidArgument, match="^unit='row': .* a column called row"):
        resolve(named, "y", None, "row", ())
