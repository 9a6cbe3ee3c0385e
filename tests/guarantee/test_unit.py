"""Units: what they are called, what they refuse."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given

from hush.errors import InvalidArgument
from hush.guarantee import CalendarWindow, Unit, UserWindow
from hush.guarantee.unit import UnitKind
from hush.guarantee.windows import UnrecordedWindows
from strategies import units


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        (Unit(), "example"),
        (Unit.example(), "example"),
        (Unit.user(), "user"),
        (Unit.user_window(timedelta(days=1)), "user within one of the windows of 1 day from 1970-01-01"),
        (Unit.user_window(timedelta(hours=36)), "user within one of the windows of 36 hours from 1970-01-01"),
        (Unit.user_window(timedelta(minutes=90)), "user within one of the windows of 90 minutes from 1970-01-01"),
        (
            Unit.user_window(timedelta(seconds=61), origin=date(2024, 2, 29)),
            "user within one of the windows of 61 seconds from 2024-02-29",
        ),
        (Unit.user_calendar(CalendarWindow.WEEK), "user within one calendar week (UTC)"),
        (Unit.user_calendar(CalendarWindow.DAY, zone="Asia/Tokyo"), "user within one calendar day (Asia/Tokyo)"),
        (Unit.user_any_window(timedelta(days=28)), "user within any 28 consecutive days (UTC)"),
        (Unit.user_any_window(timedelta(hours=24)), "user within any 24 consecutive hours (UTC)"),
        (Unit.user_any_window(timedelta(seconds=1), zone="CET"), "user within any 1 consecutive seconds (CET)"),
        (Unit.example().group(3), "group of 3 examples"),
        (Unit.user().group(2).group(3), "group of 6 users"),
        (
            Unit.user_window(timedelta(days=7)).group(4),
            "group of 4 user windows, each one of the windows of 7 days from 1970-01-01",
        ),
    ],
)
def test_names(unit: Unit, text: str) -> None:
    assert str(unit) == text


def test_equal_windows_are_equal_units() -> None:
    assert Unit.user_window(timedelta(hours=24)) == Unit.user_window(timedelta(days=1))
    assert len({Unit.example(), Unit.user(), Unit()}) == 2


@pytest.mark.parametrize(
    "window", [None, 7, "7 days", timedelta(0), timedelta(days=-1), timedelta(seconds=1.5), math.nan, True]
)
def test_windows_are_positive_whole_seconds(window: Any) -> None:
    for unit in (Unit.user_window, Unit.user_any_window):
        with pytest.raises(InvalidArgument, match="^window="):
            unit(window)


@pytest.mark.parametrize("origin", [None, "1970-01-01", datetime(1970, 1, 1, 12), 0])
def test_windows_are_counted_from_a_day(origin: Any) -> None:
    with pytest.raises(InvalidArgument, match="^origin="):
        Unit.user_window(timedelta(days=7), origin=origin)


@pytest.mark.parametrize("zone", ["", None, "UTC)", "Europe/Berlin ", "a b", "\n", 3])
def test_zones_are_names(zone: Any) -> None:
    """A zone is a part of the unit's text, by which ledgers compare units."""
    for build in (
        lambda: Unit.user_calendar(CalendarWindow.DAY, zone=zone),
        lambda: Unit.user_any_window(timedelta(days=7), zone=zone),
        lambda: UserWindow("who", time="day", window=CalendarWindow.DAY, zone=zone),
    ):
        with pytest.raises(InvalidArgument, match="^zone="):
            build()


def test_only_windows_of_the_calendar_have_a_zone() -> None:
    with pytest.raises(InvalidArgument, match="^zone="):
        UserWindow("who", time="day", window=timedelta(days=7), zone="CET")


def test_units_that_cut_time_differently_are_different_units() -> None:
    """A month is at least 28 days long, and is none of the windows of 28 days."""
    length = timedelta(days=28)
    units = [
        Unit.user_calendar(CalendarWindow.MONTH),
        Unit.user_calendar(CalendarWindow.MONTH, zone="Europe/Berlin"),
        Unit.user_window(length),
        Unit.user_window(length, origin=date(1970, 1, 2)),
        Unit.user_any_window(length),
        Unit(kind=UnitKind.USER_WINDOW, window=UnrecordedWindows(length)),
    ]
    assert len(set(units)) == len({str(unit) for unit in units}) == len({unit.name for unit in units}) == 6


def test_only_a_user_window_has_a_window() -> None:
    weekly = Unit.user_window(timedelta(days=7))
    with pytest.raises(InvalidArgument, match="^window="):
        Unit(kind=UnitKind.USER, window=weekly.window)
    for window in (None, timedelta(days=7)):
        with pytest.raises(InvalidArgument, match="^window="):
            Unit(kind=UnitKind.USER_WINDOW, window=window)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["user", None, 1])
def test_kind_is_an_enum_member(kind: Any) -> None:
    with pytest.raises(InvalidArgument, match="^kind="):
        Unit(kind=kind)


@pytest.mark.parametrize("size", [0, -1, 1.0, True, None, "3"])
def test_group_sizes_are_counts(size: Any) -> None:
    with pytest.raises(InvalidArgument, match="^group_size="):
        Unit(group_size=size)
    with pytest.raises(InvalidArgument, match="^size="):
        Unit.user().group(size)


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (CalendarWindow.HOUR, "user within one calendar hour (UTC)"),
        (CalendarWindow.MONTH, "user within one calendar month (UTC)"),
        (CalendarWindow.YEAR, "user within one calendar year (UTC)"),
        (timedelta(days=3), "user within one of the windows of 3 days from 1970-01-01"),
    ],
)
def test_a_user_within_a_window_by_columns(window: CalendarWindow | timedelta, text: str) -> None:
    assert str(UserWindow("who", time="day", window=window).unit) == text


def test_a_word_is_no_window() -> None:
    """A misspelt word must not become another unit."""
    with pytest.raises(InvalidArgument, match="^window='month': expected CalendarWindow"):
        Unit.user_calendar("month")  # type: ignore[arg-type]


@pytest.mark.parametrize("window", ["month", 7, None, timedelta(0), timedelta(days=-1), timedelta(microseconds=1)])
def test_windows_of_columns_that_are_refused(window: Any) -> None:
    with pytest.raises(InvalidArgument, match="^window="):
        UserWindow("who", time="day", window=window)


def test_columns_are_names() -> None:
    for wrong in ({"column": 3}, {"time": None}):
        columns: dict[str, Any] = {"column": "who", "time": "day", **wrong}
        with pytest.raises(InvalidArgument, match=f"^{next(iter(wrong))}="):
            UserWindow(**columns, window=CalendarWindow.DAY)


@given(units)
def test_a_unit_is_read_from_its_name(unit: Unit) -> None:
    assert Unit.from_name(unit.name) == unit


@pytest.mark.parametrize(
    "text",
    [
        *("", "users", "patient", "user\n", "user within ", "example 3 days"),
        *("group of 0 users", "group of 1 users", "group of 2 user"),
        *("user within 24 hours", "user within 1 days", "user within 99999999999999 days"),
        *("user within one calendar moon (UTC)", "user within one of the windows of 28 days from 1970-13-01"),
        "user within one of the windows of 24 hours from 1970-01-01",  # it would print as 1 day
    ],
)
def test_other_texts_are_no_units(text: str) -> None:
    with pytest.raises(InvalidArgument, match="^unit="):
        Unit.from_name(text)
