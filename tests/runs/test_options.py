"""Options: what follows from one declaration of a field."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

import pytest

from hush.runs.options import OptionGroup, command_words, documented, option, options_of, reported

GROUP = OptionGroup("numbers")


@documented
@dataclass(frozen=True, kw_only=True)
class Example:
    """Some settings."""

    path: str = option(help="the file", flag="PATH", label=None)
    rate: float = option(help="the rate", group=GROUP)
    count: int | None = option(None, help="how many", unset="all of them", flag="--number", label="number of items")
    names: tuple[str, ...] = option((), help="a name", unset="no names", commands=("first",))
    fast: bool = option(False, help="hurry")
    safe: bool = option(True, help="take care")
    note: str = "not an option"


OPTIONS = {item.name: item for item in options_of(Example)}


def test_what_follows_from_the_field() -> None:
    assert list(OPTIONS) == ["path", "rate", "count", "names", "fast", "safe"]
    assert [item.type for item in OPTIONS.values()] == [str, float, int, tuple, bool, bool]
    assert [item.flag for item in OPTIONS.values()] == ["PATH", "--rate", "--number", "--names", "--fast", "--no-safe"]
    assert [item.label for item in OPTIONS.values()] == [None, "rate", "number of items", "names", "fast", "safe"]
    assert OPTIONS["path"].is_positional
    assert OPTIONS["rate"].default is MISSING
    assert OPTIONS["rate"].group is GROUP


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("rate", "the rate"),
        ("count", "how many; if omitted, all of them"),
        ("fast", "hurry"),
        ("safe", "do not take care"),
    ],
)
def test_help_states_the_default(name: str, description: str) -> None:
    assert OPTIONS[name].description == description


def test_a_number_is_its_own_default() -> None:
    @dataclass(frozen=True)
    class Other:
        share: float = option(0.25, help="the share")

    assert options_of(Other)[0].description == "the share (default: 0.25)"


def test_commands_have_their_own_options() -> None:
    assert "names" in [item.name for item in options_of(Example, "first")]
    assert "names" not in [item.name for item in options_of(Example, "train")]


def test_words_leave_out_defaults() -> None:
    assert command_words(Example(path="a b", rate=3.0), "train") == ["a b", "--rate", "3"]
    settings = Example(path="a", rate=1e-07, count=2, names=("x", "y"), fast=True, safe=False)
    words = ["a", "--rate", "1e-07", "--number", "2", "--fast", "--no-safe"]
    assert command_words(settings, "train") == words
    assert command_words(settings, "first") == ["--names", "x", "--names", "y"]


def test_a_schema_is_named_by_its_file() -> None:
    from hush.data import Schema
    from hush.runs import Settings

    settings = Settings(data="t.csv", epsilon=1.0, schema=Schema(target="y"))
    words = command_words(settings, "train", schema=Path("run/schema.json"))
    assert words == ["t.csv", "--epsilon", "1", "--schema", "run/schema.json"]


def test_the_report_names_what_was_left_out() -> None:
    table = reported(Example(path="a", rate=0.5))
    assert table == {"rate": 0.5, "number of items": "all of them", "names": "no names", "fast": False, "safe": True}


def test_the_docstring_lists_the_options() -> None:
    assert "    Attributes:\n        path: The file.\n        rate: The rate." in (Example.__doc__ or "")
    assert "count: How many; if omitted, all of them." in (Example.__doc__ or "")
