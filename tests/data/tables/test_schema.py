"""Schemas: what they check without the data, and files beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hush import data
from hush.errors import InvalidArgument


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": ["a"]},
        {"columns": {1: data.Numeric()}},
        {"columns": {"a": "numeric"}},
        {"target": 3},
        {"unit": ["u"]},
        {"groups": "sex"},
        {"groups": ("sex", "sex")},
        {"classes": ("yes",)},
        {"classes": ("yes", " yes ")},
        {"images": (0, 255)},
    ],
    ids=str,
)
def test_declarations_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        data.Schema(**wrong)


def test_a_schema_owns_its_columns() -> None:
    columns = {"a": data.Numeric(lower=0, upper=1)}
    schema = data.Schema(columns=columns, classes=[0, 1])  # type: ignore[arg-type]
    columns["b"] = data.Numeric()
    assert list(schema.columns) == ["a"]
    assert schema.classes == ("0", "1")  # the data are compared as text


def test_a_schema_is_saved_as_its_text(tmp_path: Path) -> None:
    schema = data.Schema(columns={"é": data.Category(values=("x",))}, target="y")
    schema.save(tmp_path / "s.json")
    assert (tmp_path / "s.json").read_text(encoding="utf-8") == schema.to_json()
    assert "é" in schema.to_json()
    assert data.Schema.from_json(schema.to_json()) == data.Schema.load(tmp_path / "s.json") == schema


def test_vocabularies_are_found_beside_the_schema_or_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "words.txt").write_text("good\n")
    text = data.Schema(columns={"note": data.Ignore()}).to_json()
    text = text.replace('"kind": "ignore"', '"kind": "text", "vocabulary": "words.txt"')
    (tmp_path / "s.json").write_text(text)
    assert data.Schema.load(tmp_path / "s.json").columns["note"] == data.Text(vocabulary=("good",))
    monkeypatch.chdir(tmp_path)
    assert data.Schema.from_json(text).columns["note"] == data.Text(vocabulary=("good",))
