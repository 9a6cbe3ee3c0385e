"""`--relation` and `--unit`: what they mean, and what they refuse."""

from __future__ import annotations

import argparse
from datetime import timedelta

import pytest

from hush.cli.options import add_relation, add_unit, unit_of
from hush.errors import InvalidArgument
from hush.guarantee import Relation, Unit


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_relation(parser)
    add_unit(parser)
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
        ((), (Unit.example(), 1)),
        (("--unit", "user", "--rows-per-unit", "5"), (Unit.user(), 5)),
        (
            ("--unit", "user-window", "--rows-per-unit", "2", "--window-days", "0.5"),
            (Unit.user_window(timedelta(hours=12)), 2),
        ),
    ],
)
def test_units(words: tuple[str, ...], unit: tuple[Unit, int]) -> None:
    assert unit_of(parse(*words)) == unit


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rows-per-unit", "5"), "rows_per_unit=5: expected no value with --unit example. Use --unit user"),
        (("--window-days", "7"), "window_days=7: expected no value with --unit example"),
        (("--unit", "user"), "rows_per_unit=None: expected a number with --unit user"),
        (("--unit", "user-window", "--rows-per-unit", "2"), "window_days=None: expected a number"),
        (("--unit", "user-window", "--rows-per-unit", "2", "--window-days", "nan"), "window_days=nan"),
    ],
)
def test_bounds_that_do_not_fit_the_unit(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        unit_of(parse(*words))
