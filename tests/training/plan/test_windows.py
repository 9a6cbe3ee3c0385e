"""Windows of time in training: two examples are in one window exactly if a calendar says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from hush.errors import InvalidArgument
from hush.guarantee import CalendarWindow, Unit
from hush.training import Users
from hush.training.plan.windows import window_numbers

LABELS = {
    CalendarWindow.HOUR: lambda time: (time.date(), time.hour),
    CalendarWindow.DAY: lambda time: time.date(),
    CalendarWindow.WEEK: lambda time: time.isocalendar()[:2],
    CalendarWindow.MONTH: lambda time: (time.year, time.month),
    CalendarWindow.QUARTER: lambda time: (time.year, (time.month - 1) // 3),
    CalendarWindow.YEAR: lambda time: time.year,
}


@given(
    st.lists(st.integers(-5 * 10**8, 5 * 10**9), min_size=2, max_size=30),
    st.sampled_from(CalendarWindow),
    st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns"]),
)
def test_windows_are_those_of_a_calendar(seconds: list[int], window: CalendarWindow, zone: str) -> None:
    numbers = window_numbers(np.array(seconds, dtype=np.float64), window, zone).tolist()
    labels = [LABELS[window](datetime.fromtimestamp(second, ZoneInfo(zone))) for second in seconds]
    assert all(
        (first == second) == (one == other)
        for first, one in zip(numbers, labels, strict=True)
        for second, other in zip(numbers, labels, strict=True)
    )


def test_users_say_how_time_is_cut() -> None:
    """Three rows of July are in three windows of 28 days from 1970, and in one month."""
    july = [datetime(2025, 7, day, tzinfo=UTC) for day in (1, 15, 31)]
    weeks = Users(["ann"] * 3, times=july, window=timedelta(days=28))
    assert [rows.tolist() for rows in weeks.rows(None, 3)] == [[0], [1], [2]]
    assert str(weeks.unit) == "user within one of the windows of 28 days from 1970-01-01"
    month = Users(["ann"] * 3, times=july, window=CalendarWindow.MONTH)
    assert [rows.tolist() for rows in month.rows(None, 3)] == [[0, 1, 2]]
    assert month.unit == Unit.user_calendar(CalendarWindow.MONTH)


def test_a_time_zone_moves_the_borders() -> None:
    times = [datetime(2024, 1, 31, 23, 30, tzinfo=UTC), datetime(2024, 1, 31, 22, 30, tzinfo=UTC)]
    berlin = Users(["ann"] * 2, times=times, window=CalendarWindow.MONTH, zone="Europe/Berlin")
    assert len(berlin.rows(None, 2)) == 2
    assert str(berlin.unit) == "user within one calendar month (Europe/Berlin)"
    with pytest.raises(InvalidArgument, match="^zone="):
        Users(["ann"] * 2, times=times, window=CalendarWindow.MONTH, zone="Mars/Base").rows(None, 2)
    with pytest.raises(InvalidArgument, match="^zone="):
        Users(["ann"] * 2, times=times, window=timedelta(days=1), zone="Europe/Berlin")
    with pytest.raises(InvalidArgument, match="^window="):
        Users(["ann"] * 2, times=times, window="month")  # type: ignore[arg-type]
