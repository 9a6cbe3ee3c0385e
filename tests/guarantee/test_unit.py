"""Units: what they are called, what they refuse."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.errors import InvalidArgument
from hush.guarantee import CalendarWindow, Unit, UserWindow
from hush.guarantee.unit import UnitKind


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        (Unit(), "example"),
        (Unit.example(), "example"),
        (Unit.user(), "user"),
        (Unit.user_window(timedelta(days=1)), "user within 1 day"),
        (Unit.user_window(timedelta(days=365)), "user within 365 days"),
        (Unit.user_window(timedelta(hours=36)), "user within 36 hours"),
        (Unit.user_window(timedelta(minutes=90)), "user within 90 minutes"),
        (Unit.user_window(timedelta(seconds=61)), "user within 61 seconds"),
        (Unit.example().group(3), "group of 3 examples"),
        (Unit.user().group(2).group(3), "group of 6 users"),
        (Unit.user_window(timedelta(days=7)).group(4), "group of 4 user windows of 7 days"),
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
    with pytest.raises(InvalidArgument, match="^window="):
        Unit.user_window(window)


def test_only_a_user_window_has_a_window() -> None:
    with pytest.raises(InvalidArgument, match="^window="):
        Unit(kind=UnitKind.USER, window=timedelta(days=1))


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
        (CalendarWindow.HOUR, "user within 1 hour"),
        (CalendarWindow.WEEK, "user within 7 days"),
        (CalendarWindow.MONTH, "user within 28 days"),
        (CalendarWindow.QUARTER, "user within 90 days"),
        (CalendarWindow.YEAR, "user within 365 days"),
        (timedelta(days=3), "user within 3 days"),
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


@given(
    kind=st.sampled_from(UnitKind),
    seconds=st.integers(1, 10**9) | st.integers(1, 10**4).map(lambda days: 86_400 * days),
    size=st.integers(1, 10**6),
)
def test_a_unit_is_read_from_its_text(kind: UnitKind, seconds: int, size: int) -> None:
    window = timedelta(seconds=seconds) if kind is UnitKind.USER_WINDOW else None
    unit = Unit(kind=kind, window=window, group_size=size)
    assert Unit.from_text(str(unit)) == unit


@pytest.mark.parametrize(
    "text",
    [
        *("", "users", "patient", "user\n", "user within ", "example 3 days"),
        *("group of 0 users", "group of 1 users", "group of 2 user"),
        *("user within 24 hours", "user within 1 days", "user within 99999999999999 days"),
    ],
)
def test_other_texts_are_no_units(text: str) -> None:
    with pytest.raises(InvalidArgument, match="^unit="):
        Unit.from_text(text)
