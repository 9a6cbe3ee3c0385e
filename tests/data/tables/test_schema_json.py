"""The file form of a schema: read as written, and strict about what is misspelt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hush import data
from hush.errors import InvalidArgument

FULL = data.Schema(
    columns={
        "age": data.Numeric(lower=0, upper=120),
        "income": data.Numeric(lower=0),
        "job": data.Category(values=("cook", "nurse")),
        "town": data.Category(),
        "note": data.Text(vocabulary=("good", "bad")),
        "id": data.Ignore(),
    },
    target="y",
    classes=("no", "yes"),
    unit="user",
    groups=("sex",),
)


@pytest.mark.parametrize(
    "schema", [FULL, data.Schema(), data.Schema(images=data.Images(lower=0, upper=255, shape=(3, 32, 32)))]
)
def test_round_trip(tmp_path: Path, schema: data.Schema) -> None:
    schema.save(tmp_path / "s.json")
    assert data.Schema.load(tmp_path / "s.json") == schema


def load(tmp_path: Path, **changes: Any) -> data.Schema:
    FULL.save(tmp_path / "s.json")
    content = {**json.loads((tmp_path / "s.json").read_text()), **changes}
    (tmp_path / "s.json").write_text(json.dumps(content))
    return data.Schema.load(tmp_path / "s.json")


def test_help_is_ignored_wherever_it_is(tmp_path: Path) -> None:
    columns = {"help": "ages of people", "age": {"kind": "numeric", "lower": 0, "upper": 9, "help": "in years"}}
    schema = load(tmp_path, columns=columns, target={"column": "y", "classes": [0, 1], "help": "?"})
    assert schema.columns == {"age": data.Numeric(lower=0, upper=9)}
    assert schema.classes == ("0", "1")


def test_the_version_was_a_field_of_its_own(tmp_path: Path) -> None:
    assert load(tmp_path, format="hush-schema", version=1, unit="who").unit == "who"


def test_a_vocabulary_may_be_a_file_beside_the_schema(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("Good\nbad\n\ngood\n")
    schema = load(tmp_path, columns={"note": {"kind": "text", "vocabulary": "words.txt"}})
    assert schema.columns == {"note": data.Text(vocabulary=("good", "bad"))}
    with pytest.raises(InvalidArgument, match="one word per line"):
        load(tmp_path, columns={"note": {"kind": "text", "vocabulary": "absent.txt"}})


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "hush.schema/2"},
        {"format": "hush-schema", "version": 2},
        {"format": "other"},
        {"version": 1},
        {"colums": {}},
        {"columns": {"a": {"kind": "number"}}},
        {"columns": {"a": {"kind": ["numeric"]}}},
        {"columns": {"a": {"kind": "numeric", "min": 0}}},
        {"columns": {"a": {"kind": "numeric", "lower": 1, "upper": 1}}},
        {"columns": {"a": {"kind": "numeric", "lower": "0"}}},
        {"columns": {"a": {"kind": "numeric", "lower": True}}},
        {"columns": {"a": {"kind": "numeric", "upper": 10**400}}},
        {"columns": {"a": {"kind": "category", "values": "ab"}}},
        {"columns": {"a": {"kind": "category", "values": ["a", "a"]}}},
        {"columns": {"a": {"kind": "category", "values": [1.5]}}},
        {"columns": {"a": {"kind": "text"}}},
        {"columns": {"a": {"kind": "text", "vocabulary": ["two words"]}}},
        {"columns": {"a": "numeric"}},
        {"columns": ["a"]},
        {"target": "y"},
        {"target": {"column": "y", "classes": ["one"]}},
        {"target": {"column": 3}},
        {"unit": 3},
        {"groups": "sex"},
        {"images": {"lower": 0}},
        {"images": {"lower": 0, "upper": 1, "shape": [3, 3]}},
        {"images": {"lower": 0, "upper": 1, "shape": "3"}},
    ],
    ids=str,
)
def test_what_is_misspelt_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        load(tmp_path, **changes)


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"format": NaN}', "\xff"):
        (tmp_path / "s.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(InvalidArgument):
            data.Schema.load(tmp_path / "s.json")
    with pytest.raises(InvalidArgument, match="hush schema DATA"):
        data.Schema.load(tmp_path / "absent.json")
