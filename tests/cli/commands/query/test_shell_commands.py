"""The commands of the shell that are not SQL."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Ask = Callable[..., int]

COMMANDS = r"""\d
\d PEOPLE
\d zones
\epsilon 0.25
\delta 1e-7
\limits
\limits 3 auto
\limits 4
\?
\q
SELECT nothing;
"""


def test_commands(piped: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert piped(COMMANDS) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [" ".join(line.split()) for line in lines[1:3]] == [
        "people who within a month of day 1 2 who, age, region, day",
        "zones public region, zone",
    ]
    assert [" ".join(line.split()) for line in lines[4:8]] == [
        "who integer, the unit",
        "age integer, required 0 to 100",
        "region text north, NULL",
        "day date",
    ]
    assert lines[11:16] == [
        "epsilon 0.25 for each answer",
        "delta 1e-07 for each answer",
        "rows per unit: auto; groups per unit: auto",
        "rows per unit: 3; groups per unit: auto",
        "rows per unit: 4; groups per unit: auto",
    ]
    assert any(r"\d TABLE" in line for line in lines[16:])


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (r"\d nobody", "table 'nobody': expected one of people, zones."),
        (r"\epsilon nan", "epsilon nan: expected a finite number > 0."),
        (r"\epsilon much", "epsilon 'much': expected a finite number > 0."),
        (r"\delta 1", "delta 1: expected a number in [0, 1)."),
        (r"\limits 0", "limits 0: expected an integer >= 1."),
        (r"\limits many", "limits 'many': expected an integer >= 1."),
        (r"\x", "expected one of \\d, \\epsilon, \\delta, \\limits, \\?, \\q."),
    ],
)
def test_mistakes_in_commands(piped: Ask, capsys: pytest.CaptureFixture[str], command: str, words: str) -> None:
    assert piped(command) == 2
    assert words in capsys.readouterr().err
