"""How many windows of one partition a window of another one touches, counted day by day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given

from hush.guarantee import CalendarWindow, Unit
from hush.guarantee.touched_windows import Touched, read_windows
from strategies import window_units

# All days of 28 years and more, after which weeks, months and leap years repeat.
DAYS = [date(1995, 1, 1) + timedelta(days=number) for number in range(29 * 366)]
Label = Callable[[date], object]


def equal(days: int, origin: date = date(1970, 1, 1)) -> tuple[Unit, Label]:
    return Unit.user_window(timedelta(days=days), origin=origin), lambda day: (day - origin).days // days


def quarter(day: date) -> object:
    return day.year, (day.month - 1) // 3


PARTITIONS: list[tuple[Unit, Label]] = [
    (Unit.user_calendar(CalendarWindow.DAY), lambda day: day),
    (Unit.user_calendar(CalendarWindow.WEEK), lambda day: day.isocalendar()[:2]),
    (Unit.user_calendar(CalendarWindow.MONTH), lambda day: (day.year, day.month)),
    (Unit.user_calendar(CalendarWindow.QUARTER), quarter),
    (Unit.user_calendar(CalendarWindow.YEAR), lambda day: day.year),
    equal(28),
    equal(7),
    equal(1),
    equal(14, date(1970, 1, 8)),
    equal(30),
    equal(366),
]


def windows_of(label: Label) -> list[list[date]]:
    """Return the days of each window, but for the first and the last, which may be cut off."""
    windows: dict[object, list[date]] = {}
    for day in DAYS:
        windows.setdefault(label(day), []).append(day)
    return list(windows.values())[1:-1]


def changes(stretch: list[date], label: Label, sizes: Counter[object]) -> tuple[int, bool]:
    """Return how many changes removing a stretch of days is: one for a whole window, two for a part of one."""
    inside = Counter(map(label, stretch))
    parts = [sizes[window] > count for window, count in inside.items()]
    return sum(2 if is_part else 1 for is_part in parts), not any(parts)


@pytest.mark.parametrize("protected", PARTITIONS, ids=lambda pair: str(pair[0]))
@pytest.mark.parametrize("released", PARTITIONS, ids=lambda pair: str(pair[0]))
@pytest.mark.quick_cases(40)
def test_no_window_is_more_changes_than_stated(protected: tuple[Unit, Label], released: tuple[Unit, Label]) -> None:
    (unit, own), (other, label) = protected, released
    touched = unit.touched(other)
    assert touched is not None
    sizes = Counter(map(label, DAYS))
    seen = [changes(stretch, label, sizes) for stretch in windows_of(own)]
    assert max(number for number, _ in seen) <= touched.changes
    assert not touched.whole or all(whole for _, whole in seen)


@pytest.mark.parametrize("released", PARTITIONS, ids=lambda pair: str(pair[0]))
@pytest.mark.parametrize("length", [1, 7, 28, 29, 31])
@pytest.mark.quick_cases(18)
def test_no_stretch_is_more_changes_than_stated(length: int, released: tuple[Unit, Label]) -> None:
    other, label = released
    touched = Unit.user_any_window(timedelta(days=length)).touched(other)
    assert touched is not None
    assert not touched.whole
    sizes = Counter(map(label, DAYS))
    starts = range(366, len(DAYS) - 366, 1 if length > 1 else 5)
    assert max(changes(DAYS[start : start + length], label, sizes)[0] for start in starts) <= touched.changes


def test_the_worst_case_occurs() -> None:
    """The issue's cases are not overpriced: some stretch is as many changes as stated."""
    month, any_month = PARTITIONS[2], Unit.user_any_window(timedelta(days=28))
    assert any_month.touched(month[0]) == Touched(4, whole=False)
    sizes = Counter(map(month[1], DAYS))
    assert max(changes(DAYS[start : start + 28], month[1], sizes)[0] for start in range(366, 2000)) == 4
    weeks, label = equal(28)
    assert month[0].touched(weeks) == Touched(5, whole=False)
    sizes = Counter(map(label, DAYS))
    assert max(changes(stretch, label, sizes)[0] for stretch in windows_of(month[1])) == 5


@pytest.mark.parametrize(
    "name",
    [
        "user",
        "example",
        "user within 28 days",
        "user within one calendar month (Europe/Berlin)",
        "user within any 28 consecutive days (UTC)",
        "group of 2 user windows, each one calendar month (UTC)",
    ],
)
def test_other_units_are_not_bounded(name: str) -> None:
    """No number of changes is stated for them, so that whoever asks refuses, and takes none for one window."""
    assert Unit.user_calendar(CalendarWindow.MONTH).touched(Unit.from_name(name)) is None


def test_units_without_windows_and_groups_touch_only_themselves() -> None:
    month = Unit.user_calendar(CalendarWindow.MONTH)
    for unit in (Unit.user(), Unit.example(), month.group(2)):
        assert unit.touched(unit) == Touched(1, whole=True)
        assert unit.touched(Unit.user_calendar(CalendarWindow.DAY)) is None


@given(window_units)
def test_a_text_names_one_unit(unit: Unit) -> None:
    """Ledgers store the text: what is read is the unit that was written, or nothing."""
    assert read_windows(str(unit).removeprefix("user within ")) == unit.window


def test_the_days_are_whole() -> None:
    assert all(second - first == timedelta(days=1) for first, second in pairwise(DAYS))
