"""Errors name the flags that a person typed."""

from __future__ import annotations

from argparse import Namespace

import pytest

from hush.cli import build_parser, main
from hush.cli.messages import in_flags


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("delta=2: expected a number in [0, 1).", "--delta 2: expected a number in [0, 1)."),
        ("delta=-1: expected more.", "--delta -1: expected more."),
        ("epsilon=None: expected a number > 0.", "--epsilon: expected a number > 0."),
        ("bounds=.5: expected COLUMN=LOW:HIGH.", "--bounds .5: expected COLUMN=LOW:HIGH."),
        ("keys='k=1': expected a list.", "--keys k=1: expected a list."),
        (
            "Give rows_per_unit= and groups_per_unit=, or epsilon=.",
            "Give --rows-per-unit and --groups-per-unit, or --epsilon.",
        ),
        ("Pass delta=, or use LaplaceNoise().", "Pass --delta, or use --noise laplace."),
        ("Replace epsilon by f(delta=2).", "Replace epsilon by f(delta=2)."),  # a call in Python
        ("sql='epsilon=1': expected a SELECT.", "sql 'epsilon=1': expected a SELECT."),  # what the person wrote
        ("--db='...': expected an address.", "--db ...: expected an address."),
        ("block_column='b': expected a column.", "block_column 'b': expected a column."),  # no flag of this command
        ("noise_delta=2 is no flag.", "noise_delta=2 is no flag."),
        (
            "delta=0: expected more. At epsilon=1, or epsilon=0.5.",
            "--delta 0: expected more. At --epsilon 1, or --epsilon 0.5.",
        ),
        ("unit=None: expected a column.", "--unit: expected a column."),
        ("data=None: expected a file.", "DATA: expected a file."),
        ("radius=None: expected a number.", "radius is missing: expected a number."),
        ("tables.a.public=True: expected a list.", "tables.a.public true: expected a list."),
        ("bounds=['a=0:1', 'b']: expected COLUMN=LOW:HIGH.", "--bounds a=0:1 b: expected COLUMN=LOW:HIGH."),
        ("table='two words': expected one.", "table 'two words': expected one."),
        ("table='a\\n': expected one.", "table 'a\\n': expected one."),
        ("accuracy=0.1: expected None with epsilon=.", "accuracy 0.1: expected no value with --epsilon."),
        ("a=1: expected 2.\nb=None: expected 3.", "a 1: expected 2.\nb is missing: expected 3."),
        ("To pay again, pass --new-data (new_data=True).", "To pay again, pass --new-data."),
        ('Declare bounds={"x": (LOW, HIGH)}, --bounds x=LOW:HIGH.', "Declare --bounds x=LOW:HIGH."),
    ],
)
def test_names_become_flags(message: str, expected: str) -> None:
    given = {"delta": 2.0, "keys": ["k=1"], "bounds": [".5"], "epsilon": 1.0}
    assert in_flags(message, build_parser("query"), Namespace(command="query", **given)) == expected


def test_flags_of_actions_are_known_and_those_of_other_commands_are_not() -> None:
    options = Namespace(command="catalog", output="a", accuracy=2)
    assert in_flags("output='a': expected b.", build_parser(), options) == "--output a: expected b."
    assert in_flags("accuracy=2: expected b.", build_parser(), options) == "accuracy 2: expected b."


def test_values_from_elsewhere_keep_their_names() -> None:
    """A file of `hush account --events` has fields with the names of flags that nobody gave."""
    options = Namespace(command="account", num_steps=None)
    assert in_flags("num_steps=1.5: expected b.", build_parser("account"), options) == "num_steps 1.5: expected b."


def test_the_command_line_prints_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["account", "--laplace-scale", "2", "--delta", "2"]) == 2
    assert "--delta 2: expected" in capsys.readouterr().err
