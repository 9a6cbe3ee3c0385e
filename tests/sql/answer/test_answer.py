"""Answers print as a table, and a ledger gets them back as they were."""

from __future__ import annotations

import dataclasses
import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from hush.accounting import GaussianEvent
from hush.guarantee import Guarantee, Unit
from hush.sql import QueryAnswer
from hush.sql.answer.answer import answer_from_json, answer_to_json

GUARANTEE = Guarantee(epsilon=1.0, delta=1e-6, unit=Unit.user(), method="noise", assumptions=("a",))


def answer_with(*rows: tuple[Any, ...], columns: tuple[str, ...] = ("k", "n"), **more: Any) -> QueryAnswer:
    return QueryAnswer(
        **more,
        columns=columns,
        rows=list(rows),
        guarantee=GUARANTEE,
        event=GaussianEvent(2.0),
        scales={"rows for n": 2.0},
        intervals=[{"n": (0.5, 2.5)} for _ in rows],
        confidence=0.95,
    )


@pytest.mark.parametrize(
    "key",
    [
        None,
        True,
        3,
        2.5,
        "text",
        b"\x00\xff",
        Decimal("1.20"),
        datetime.date(2024, 2, 29),
        datetime.time(23, 59, 59),
        datetime.datetime(2024, 2, 29, 12, 30, 1, 5),
    ],
)
def test_a_ledger_returns_the_answer_it_stored(key: Any) -> None:
    answer = answer_with((key, 1.5), (key, -0.0))
    stored = answer_from_json(answer_to_json(answer))
    assert stored == answer
    assert type(stored.rows[0][0]) is type(key)
    assert isinstance(stored.intervals[0]["n"], tuple)


def test_an_answer_of_an_earlier_version_has_intervals_of_the_noise() -> None:
    fields = json.loads(answer_to_json(answer_with(("a", 1.0))))
    del fields["noise_intervals"]
    assert answer_from_json(json.dumps(fields)).noise_intervals == [{"n": (0.5, 2.5)}]


def test_types_without_a_json_form_are_stored_as_text() -> None:
    answer = answer_with((complex(1, 2), 1.0))
    assert answer_from_json(answer_to_json(answer)).rows == [("(1+2j)", 1.0)]


def test_stored_answers_keep_their_format() -> None:
    """Ledgers hold answers of earlier versions: the names of these fields must not change."""
    fields = json.loads(answer_to_json(answer_with((datetime.date(2024, 1, 1), 1.0))))
    assert list(fields) == [
        "columns",
        "rows",
        "guarantee",
        "event",
        "scales",
        "intervals",
        "confidence",
        "limits",
        "noise_intervals",
        "answered",
    ]
    assert fields["rows"] == [[{"date": "2024-01-01"}, 1.0]]


def test_an_answer_prints_as_a_table() -> None:
    lines = str(answer_with(("north", 1234.5678), (None, 2.0))).splitlines()
    assert lines[:3] == ["k      n", "north  1234.57", "NULL   2"]
    assert lines[3:] == str(GUARANTEE).splitlines()


def test_a_replayed_answer_says_so() -> None:
    asked = datetime.datetime(2026, 11, 18, 9, 30, tzinfo=datetime.UTC)
    answer = answer_with(("north", 1), answered=asked)
    assert answer_from_json(answer_to_json(answer)).answered == asked
    assert answer.notes() == [str(GUARANTEE)]
    replayed = answer_with(("north", 1), answered=asked, replayed=True)
    note = "The ledger already had this answer, from 2026-11-18 09:30 UTC, so nothing was charged for it now."
    assert replayed.notes() == [note, str(GUARANTEE)]
    assert note in str(replayed)
    assert note in replayed._repr_html_()
    assert replayed == answer  # the same answer


def test_a_replay_of_an_older_version_has_no_date() -> None:
    fields = json.loads(answer_to_json(answer_with(("north", 1.0))))
    del fields["answered"]
    answer = answer_from_json(json.dumps(fields))
    assert answer.answered is None
    assert "from an earlier date" in str(dataclasses.replace(answer, replayed=True))


def test_answers_become_data_frames() -> None:
    for package in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(package)
    answer = answer_with(("north", 1), (None, 2))
    assert answer.to_pandas()["n"].tolist() == [1, 2]
    assert list(answer.to_pandas(intervals=True).columns) == ["k", "n", "n_low", "n_high"]
    assert answer.to_polars().rows() == [("north", 1), (None, 2)]
    assert answer.to_arrow(intervals=True).column("n_low").to_pylist() == [0.5, 0.5]
