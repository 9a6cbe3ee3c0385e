"""JSON: an exact round trip, and a reader that refuses everything else."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.errors import InvalidArgument
from hush.guarantee import Bound, CalendarWindow, Guarantee, LedgerRow, Relation, Unit
from strategies import guarantees

EXAMPLE = Guarantee(
    epsilon=2.9211,
    delta=1e-5,
    unit=Unit.user_window(timedelta(days=7)),
    relation=Relation.REPLACE,
    bound=Bound.ESTIMATE,
    method="central limit theorem",
    assumptions=("Batches are drawn by Poisson sampling.",),
)
DOCUMENT: dict[str, Any] = {
    "format": "hush.guarantee/3",
    "epsilon": 2.9211,
    "delta": 1e-5,
    "unit": "user within one of the windows of 7 days from 1970-01-01",
    "relation": "replace",
    "bound": "estimate",
    "method": "central limit theorem",
    "assumptions": ["Batches are drawn by Poisson sampling."],
}
SECOND_UNIT: dict[str, Any] = {
    "kind": "user-window",
    "window": {"seconds": 604_800, "origin": "1970-01-01"},
    "group_size": 1,
}
REST = {name: value for name, value in DOCUMENT.items() if name != "format"}
SECOND = {**REST, "schema": "hush.guarantee/2", "unit": SECOND_UNIT}


def read(**changes: Any) -> Guarantee:
    return Guarantee.from_json(json.dumps({**DOCUMENT, **changes}))


def refuse_constant(literal: str) -> None:
    raise AssertionError(f"{literal} is not strict JSON")


def test_the_document_is_what_version_3_means() -> None:
    assert json.loads(EXAMPLE.to_json()) == DOCUMENT
    assert read() == EXAMPLE


@given(guarantees())
def test_round_trip_is_exact(claim: Guarantee) -> None:
    text = claim.to_json()
    json.loads(text, parse_constant=refuse_constant)
    assert Guarantee.from_json(text) == claim


def test_an_unbounded_epsilon_is_a_word() -> None:
    claim = Guarantee(epsilon=math.inf, delta=1e-5)
    assert json.loads(claim.to_json())["epsilon"] == "unbounded"
    assert Guarantee.from_json(claim.to_json()) == claim


def test_whole_numbers_are_numbers() -> None:
    assert read(epsilon=3).epsilon == 3.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", "hush.guarantee/4"),
        ("format", "hush.event/1"),
        ("format", None),
        ("format", 1),
        ("format", ["hush.guarantee/3"]),
        ("epsilon", "3"),
        ("epsilon", "inf"),
        ("epsilon", True),
        ("epsilon", None),
        ("epsilon", -1),
        ("delta", 1),
        ("delta", "1e-5"),
        ("delta", False),
        ("relation", "swap"),
        ("relation", 1),
        ("relation", None),
        ("bound", "UPPER"),
        ("bound", ["upper"]),
        ("method", ""),
        ("method", 3),
        ("assumptions", "one sentence"),
        ("assumptions", [1]),
        ("assumptions", None),
        ("unit", "patient"),
        ("unit", None),
        ("unit", {"kind": "example"}),
    ],
)
def test_wrong_values_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{field}="):
        read(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "household"),
        ("kind", 1),
        ("window", 604_800),
        ("window", {}),
        ("window", {"seconds": 604_800}),
        ("window", {"seconds": 604_800, "origin": "1970-01-01", "zone": "UTC"}),
        ("seconds", 1.5),
        ("seconds", 0),
        ("seconds", True),
        ("seconds", 10**30),
        ("origin", "1970-13-01"),
        ("origin", None),
        ("group_size", 0),
        ("group_size", "2"),
        ("group_size", None),
    ],
)
def test_wrong_units_are_refused_by_name(field: str, value: Any) -> None:
    is_window = field in ("seconds", "origin")
    window = {**SECOND_UNIT["window"], field: value}
    unit = {**SECOND_UNIT, **({"window": window} if is_window else {field: value})}
    with pytest.raises(InvalidArgument, match=rf"^{field}="):
        Guarantee.from_json(json.dumps({**SECOND, "unit": unit}))


def test_a_window_without_its_kind_and_a_kind_without_its_window() -> None:
    for change in ({"kind": "user"}, {"window": None}):
        with pytest.raises(InvalidArgument, match="^window="):
            Guarantee.from_json(json.dumps({**SECOND, "unit": {**SECOND_UNIT, **change}}))


def test_version_2_is_read() -> None:
    assert Guarantee.from_json(json.dumps(SECOND)) == EXAMPLE
    months = {"kind": "user-window", "window": {"calendar": "month", "zone": "UTC"}, "group_size": 2}
    read_months = Guarantee.from_json(json.dumps({**SECOND, "unit": months}))
    assert read_months.unit == Unit.user_calendar(CalendarWindow.MONTH).group(2)
    days = {"kind": "user-window", "window": {"any_seconds": 86_400, "zone": "UTC"}, "group_size": 1}
    read_days = Guarantee.from_json(json.dumps({**SECOND, "unit": days}))
    assert read_days.unit == Unit.user_any_window(timedelta(days=1))
    unrecorded = {"kind": "user-window", "window": {"unrecorded_seconds": 86_400}, "group_size": 1}
    assert Guarantee.from_json(json.dumps({**SECOND, "unit": unrecorded})).unit.name == "user within 1 day"


def test_version_1_says_how_long_windows_are_and_not_where_they_begin() -> None:
    """It stored 28 days for the months of a calendar and for windows from 1970. The claim that is read is neither."""
    stored = {**REST, "schema": "hush.guarantee/1"}
    first = {**stored, "unit": {"kind": "user-window", "window_seconds": 28 * 86_400, "group_size": 1}}
    claim = Guarantee.from_json(json.dumps(first))
    assert str(claim.unit) == "user within one window of 28 days or longer, as each release cut time (not recorded)"
    assert claim.unit.name == "user within 28 days"  # as its events and rows are stored
    assert claim.unit not in (Unit.user_calendar(CalendarWindow.MONTH), Unit.user_window(timedelta(days=28)))
    assert Guarantee.from_json(claim.to_json()) == claim
    users = {**stored, "unit": {"kind": "user", "window_seconds": None, "group_size": 2}}
    assert Guarantee.from_json(json.dumps(users)).unit == Unit.user().group(2)


def test_the_versions_do_not_mix() -> None:
    first_unit = {"kind": "user-window", "window_seconds": 60, "group_size": 1}
    for version, unit in ((1, SECOND_UNIT), (1, DOCUMENT["unit"]), (2, first_unit), (2, "user"), (3, SECOND_UNIT)):
        with pytest.raises(InvalidArgument, match="^unit="):
            read(format=f"hush.guarantee/{version}", unit=unit)


def test_an_infinite_lower_bound_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="^epsilon=inf"):
        read(epsilon="unbounded", bound="lower")


@pytest.mark.parametrize("field", sorted(DOCUMENT))
def test_every_field_is_required(field: str) -> None:
    rest = {name: value for name, value in DOCUMENT.items() if name != field}
    with pytest.raises(InvalidArgument, match=field):
        Guarantee.from_json(json.dumps(rest))


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="Unknown or missing: 'confidence'"):
        read(confidence=0.95)
    with pytest.raises(InvalidArgument, match="Unknown or missing: 'radius'"):
        Guarantee.from_json(json.dumps({**SECOND, "unit": {**SECOND_UNIT, "radius": 1}}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "null",
        '"text"',
        json.dumps(DOCUMENT).replace("2.9211", "NaN"),
        json.dumps(DOCUMENT).replace("2.9211", "Infinity"),
        json.dumps(DOCUMENT).replace("1e-05", "-Infinity"),
        json.dumps(DOCUMENT) + "{}",
        "[" * 100_000,
        json.dumps(DOCUMENT).replace("2.9211", "9" * 10_000),
    ],
)
def test_what_is_not_a_strict_json_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="^text="):
        Guarantee.from_json(text)


@pytest.mark.parametrize("number", ["1e999", "9" * 400])
def test_a_number_beyond_floats_does_not_pass_for_unbounded(number: str) -> None:
    with pytest.raises(InvalidArgument, match="^epsilon="):
        Guarantee.from_json(json.dumps(DOCUMENT).replace("2.9211", number))


def test_duplicate_fields_are_refused_at_every_level() -> None:
    text = json.dumps(SECOND)
    with pytest.raises(InvalidArgument, match="^field='epsilon'"):
        Guarantee.from_json(text.replace('"delta"', '"epsilon": 1, "delta"'))
    with pytest.raises(InvalidArgument, match="^field='kind'"):
        Guarantee.from_json(text.replace('"group_size"', '"kind": "user", "group_size"'))


@pytest.mark.parametrize("text", [None, b"{}", 3, DOCUMENT])
def test_only_text_is_read(text: Any) -> None:
    with pytest.raises(InvalidArgument, match="^text="):
        Guarantee.from_json(text)


@given(st.text())
def test_any_other_text_is_refused_politely(text: str) -> None:
    with pytest.raises(InvalidArgument):
        Guarantee.from_json(text)


def test_the_row_that_paid_is_kept_and_changes_no_claim() -> None:
    claim = Guarantee(epsilon=1.0, delta=1e-6)
    paid = replace(claim, charged=LedgerRow("people", 7, "0f" * 32))
    assert paid == claim
    stored = json.loads(paid.to_json())
    assert stored["charged"] == {"budget": "people", "row": 7, "hash": "0f" * 32}
    assert Guarantee.from_json(paid.to_json()).charged == paid.charged
    assert "charged" not in json.loads(claim.to_json())
    for wrong in (7, {}, {"budget": "people", "row": 0, "hash": ""}, {"budget": 1, "row": 7, "hash": ""}):
        with pytest.raises(InvalidArgument):
            Guarantee.from_json(json.dumps({**stored, "charged": wrong}))
