"""`hush schema`: a template that shows nothing about the rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hush.cli import main
from hush.data import Schema
from runs import files


def test_names_and_no_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = files.write_rows(tmp_path / "t.csv", "age,name,y", ["123456,zebra,1", "77,hippo,0"])
    assert main(["schema", str(source)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    content = json.loads(printed.out)
    assert list(content["columns"]) == ["age", "name", "y"]
    assert not any(value in printed.out for value in ("123456", "zebra", "77", "hippo"))
    Schema.from_json(printed.out)


def test_the_template_is_the_same_for_other_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    templates = []
    for rows in (["1,a"], ["x,", ",,,", "9e99,b"], []):
        files.write_rows(tmp_path / "t.csv", "p,q", rows)
        assert main(["schema", str(tmp_path / "t.csv")]) == 0
        templates.append(capsys.readouterr().out)
    assert len(set(templates)) == 1


def test_types_where_the_file_declares_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", str(files.write_parquet(tmp_path / "t.parquet"))]) == 0
    kinds = {name: column["kind"] for name, column in json.loads(capsys.readouterr().out)["columns"].items()}
    assert kinds == {"a": "numeric", "b": "numeric", "y": "numeric"}


def test_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", str(files.write_images(tmp_path / "pictures"))]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["target"]["classes"] == ["left", "right"]
    assert content["columns"] == {}


def test_a_file_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, schema = files.write_csv(tmp_path / "t.csv"), tmp_path / "schema.json"
    assert main(["schema", str(source), "--output", str(schema)]) == 0
    assert str(schema) in capsys.readouterr().out
    schema.write_text("edited")
    assert main(["schema", str(source), "--output", str(schema)]) == 2
    assert schema.read_text() == "edited"
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["missing.csv"], ["t.csv", "--output", "no/such/folder/s.json"], ["."]])
def test_one_line_errors(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write_csv(tmp_path / "t.csv")
    monkeypatch.chdir(tmp_path)
    assert main(["schema", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("hush schema: ")


def test_used_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A template that is not filled in means that everything is learned."""
    pytest.importorskip("torch", reason="trains")
    source, schema = files.write_csv(tmp_path / "t.csv", 1500), tmp_path / "schema.json"
    assert main(["schema", str(source), "--output", str(schema)]) == 0
    result = files.train(
        capsys,
        source,
        "--schema",
        schema,
        "--target",
        "y",
        *files.CLASSES,
        "--epsilon",
        8,
        "--output",
        tmp_path / "run",
    )
    assert result["epsilon"] <= 8
    assert "learned privately" in (tmp_path / "run/report.html").read_text()
