"""`hush catalog`: templates that show nothing about the rows, and checks that name every mistake."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from hush.cli import main
from hush.data.tables.catalog_toml import _has_password
from runs import files
from sql.hosts import OnPostgres

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")


def test_from_a_template_to_a_catalog(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    people = files.write_rows(tmp_path / "data" / "people.csv", "who,age", ["1,123456", "zebra,77"])
    output = tmp_path / "clinic.toml"
    assert main(["catalog", "init", str(people), "--output", str(output)]) == 0
    assert capsys.readouterr().out == (
        f"Written to {output}. Fill in what is public, then run hush catalog check {output}\n"
    )
    text = output.read_text()
    assert not any(value in text for value in ("123456", "zebra", "77"))
    assert tomllib.loads(text)["tables"]["people"]["data"] == "data/people.csv"
    assert main(["catalog", "check", str(output)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert printed.err.startswith("tables.people.unit '': expected the column that identifies a person.")
    output.write_text(text.replace('unit = ""', 'unit = "who"').replace("# bounds.age", "bounds.age"))
    assert main(["catalog", "check", str(output)]) == 0
    assert capsys.readouterr().out == f"{output} has no mistakes.\n"
    assert main(["query", "--catalog", str(output), "SELECT AVG(age) AS a FROM people", "--epsilon", "1"]) == 0


def test_the_template_is_the_same_for_other_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    templates = []
    for rows in (["1,a"], ["x,", ",,,", "9e99,b"], []):
        files.write_rows(tmp_path / "t.csv", "p,q", rows)
        assert main(["catalog", "init", str(tmp_path / "t.csv")]) == 0
        templates.append(capsys.readouterr().out)
    assert len(set(templates)) == 1


def test_kinds_where_the_file_declares_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "init", str(files.write_parquet(tmp_path / "t.parquet"))]) == 0
    printed = capsys.readouterr().out
    assert "# Columns: a (number), b (number), y (integer)" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.csv"], "DATA none.csv: expected an existing .csv, .xlsx or .parquet file."),
        (["t.csv", "more/T.csv"], "DATA T.csv: expected files of different names."),
        (["t.csv", "--table", "t"], "--table t: expected none for files."),
        (["bare.csv"], "expected a file whose first line names its columns."),
        (["t.csv", "--output", "t.csv"], "output t.csv: expected a file that does not exist yet."),
        (["t.csv", "--output", "no/t.toml"], "output no/t.toml: expected a file that can be written."),
        (["postgresql://ann@host/db"], "--table: expected one address, and --table NAME for each table"),
        (["postgresql://ann:geheim@host/db", "--table", "t"], "DATA ...: expected an address without a password."),
        (["mysql://ann:geheim@host/db", "--table", "t"], "DATA ...: expected an address that starts with postgresql"),
    ],
)
def test_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more").mkdir()
    for name, header in (("t.csv", "who,age"), ("more/T.csv", "who"), ("bare.csv", "ann,1985")):
        files.write_rows(tmp_path / name, header, [])
    assert main(["catalog", "init", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert "geheim" not in printed.err
    assert "ann," not in printed.err


def test_all_mistakes_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.toml"
    file.write_text('format = "hush.catalog/1"\n[tables.a]\nunit = 5\nbound = 6\n[tables.b]\ndata = "b.csv"\n')
    assert main(["catalog", "check", str(file)]) == 2
    places = [re.split(" ['5]| is missing", line)[0] for line in capsys.readouterr().err.splitlines()]
    assert places == ["tables.a", "tables.a.unit", "tables.b.unit", "tables.a: tables.a.data", "tables.b: data"]


@pytest.mark.postgres
def test_a_template_for_a_database(tmp_path: Path, postgres_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    host = OnPostgres(postgres_url)
    address = f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-csearch_path%3D{host.schema}"
    if _has_password(address) or not address.startswith("postgres"):
        pytest.skip("the server needs a password")
    try:
        host.put("people", "who BIGINT, age INT", [(1, 30)])
        output = tmp_path / "c.toml"
        assert main(["catalog", "init", address, "--table", "people", "--output", str(output)]) == 0
        assert tomllib.loads(output.read_text())["database"] == address
        output.write_text(output.read_text().replace('unit = ""', 'unit = "who"'))
        assert main(["catalog", "check", str(output)]) == 0
        assert main(["catalog", "init", address, "--table", "nobody"]) == 2
        assert "table nobody: expected an existing table or view." in capsys.readouterr().err
    finally:
        host.close()
