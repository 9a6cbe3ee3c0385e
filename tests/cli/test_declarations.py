"""Declarations as flags: what they mean, alone and together with a schema file."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from hush.cli.declarations import add_declarations, parse_bounds, parse_pair, parse_values, schema_of
from hush.data import Category, Ignore, Numeric, Schema, Text
from hush.errors import HushError, InvalidArgument


def declare(*words: str) -> Schema | None:
    parser = argparse.ArgumentParser()
    add_declarations(parser, "a file")
    return schema_of(parser.parse_args(words))


def test_nothing_is_declared() -> None:
    assert declare() is None


def test_every_kind_of_column(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("good\nbad\n")
    schema = declare(
        "--bounds", "age=0:100", "--bounds", "temperature=-5.5:4e1", "--category", "sex=f, m", "--category", "city",
        "--vocabulary", f"note={tmp_path / 'words.txt'}", "--ignore", "name", "--classes", "no,yes",
    )  # fmt: skip
    assert schema == Schema(
        columns={
            "age": Numeric(lower=0, upper=100),
            "temperature": Numeric(lower=-5.5, upper=40),
            "sex": Category(values=("f", "m")),
            "city": Category(values=None),
            "note": Text.from_file(tmp_path / "words.txt"),
            "name": Ignore(),
        },
        classes=("no", "yes"),
    )


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    stored = Schema(columns={"a": Numeric(lower=0, upper=1), "b": Ignore()}, target="y", classes=("0", "1"), unit="who")
    stored.save(tmp_path / "schema.json")
    assert declare("--schema", str(tmp_path / "schema.json")) == stored
    schema = declare("--schema", str(tmp_path / "schema.json"), "--bounds", "a=-9:9")
    assert schema is not None
    assert schema.columns == {"a": Numeric(lower=-9, upper=9), "b": Ignore()}
    assert (schema.target, schema.classes, schema.unit) == ("y", ("0", "1"), "who")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--bounds", "age"), "COLUMN=LOW:HIGH"),
        (("--bounds", "=0:1"), "COLUMN=LOW:HIGH"),
        (("--bounds", "age=0"), "two numbers"),
        (("--bounds", "age=0:x"), "two numbers"),
        (("--bounds", "age=0:inf"), "two numbers"),
        (("--bounds", "age=nan:1"), "two numbers"),
        (("--bounds", "age=1:0"), "upper=0"),
        (("--category", "sex=f,,m"), "category='sex=f,,m': expected values separated by commas"),
        (("--vocabulary", "note"), "COLUMN=FILE"),
        (("--vocabulary", "note=missing.txt"), "vocabulary"),
        (("--classes", ",0"), "classes=',0'"),
        (("--schema", "missing.json"), "schema="),
    ],
)
def test_mistakes(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(HushError, match=message):
        declare(*words)


def test_the_parts_of_a_flag() -> None:
    assert parse_pair("public", "zones=a=b.csv", "NAME=FILE") == ("zones", "a=b.csv")
    assert parse_bounds(["a=0:1", "a=0:2"]) == {"a": (0.0, 2.0)}  # the last one counts
    assert parse_values("keys", "k=a, b", "a, b") == ("a", "b")
    with pytest.raises(InvalidArgument, match="keys='k='"):
        parse_values("keys", "k=", "")
