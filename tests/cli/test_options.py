"""`--relation`, `--unit-kind` and `--window`: what they mean, and what they refuse."""

from __future__ import annotations

import argparse

import pytest

from hush.cli.options import add_relation, add_unit_kind, unit_of
from hush.errors import InvalidArgument
from hush.guarantee import CalendarWindow, Relation, Unit


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_relation(parser)
    add_unit_kind(parser)
    return parser.parse_args(words)


def test_relations(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse().relation is Relation.ADD_OR_REMOVE
    for relation in Relation:
        assert parse("--relation", relation.value).relation is relation
    with pytest.raises(SystemExit):
        parse("--relation", "swap")
    assert "--relation" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "unit"),
    [
        ((), Unit.example()),
        (("--unit-kind", "user"), Unit.user()),
        (("--unit-kind", "user", "--window", "month"), Unit.user_calendar(CalendarWindow.MONTH)),
    ],
)
def test_units(words: tuple[str, ...], unit: Unit) -> None:
    assert unit_of(parse(*words)) == unit


def test_a_window_is_of_a_user() -> None:
    message = "window='week': expected a user's window, not that of an example. Use --unit-kind user"
    with pytest.raises(InvalidArgument, match=message):
        unit_of(parse("--window", "week"))


def test_windows_are_those_of_the_calendar(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--unit-kind", "user", "--window", "7")
    assert "--window" in capsys.readouterr().err
