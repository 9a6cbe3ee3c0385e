"""The JSON form of windows of time, in guarantees and in ledgers."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from hush.errors import InvalidArgument, check_count, check_instance
from hush.guarantee.windows import (
    AnyWindow,
    CalendarWindow,
    CalendarWindows,
    EqualWindows,
    UnrecordedWindows,
    Windows,
)


def dump_windows(windows: Windows) -> dict[str, Any]:
    """Return windows as plain values.

    >>> dump_windows(CalendarWindows(CalendarWindow.MONTH))
    {'calendar': 'month', 'zone': 'UTC'}
    """
    if isinstance(windows, CalendarWindows):
        return {"calendar": windows.window.value, "zone": windows.zone}
    if isinstance(windows, EqualWindows):
        return {"seconds": _seconds(windows.length), "origin": windows.origin.isoformat()}
    if isinstance(windows, AnyWindow):
        return {"any_seconds": _seconds(windows.length), "zone": windows.zone}
    return {"unrecorded_seconds": _seconds(windows.length)}


def load_windows(value: Any) -> Windows:
    """Return the windows that `dump_windows` described, or refuse the values."""
    check_instance("window", value, dict)
    if value.keys() == {"calendar", "zone"}:
        return CalendarWindows(_calendar(value["calendar"]), value["zone"])
    if value.keys() == {"seconds", "origin"}:
        return EqualWindows(load_length("seconds", value["seconds"]), _date(value["origin"]))
    if value.keys() == {"any_seconds", "zone"}:
        return AnyWindow(load_length("any_seconds", value["any_seconds"]), value["zone"])
    if value.keys() == {"unrecorded_seconds"}:
        return UnrecordedWindows(load_length("unrecorded_seconds", value["unrecorded_seconds"]))
    raise InvalidArgument("window", value, "calendar and zone, seconds and origin, or any_seconds and zone")


def load_length(name: str, value: Any) -> timedelta:
    """Return a number of seconds as a length of time."""
    seconds = check_count(name, value)
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise InvalidArgument(name, value, "a length of time that a timedelta can hold") from None


def _calendar(value: Any) -> CalendarWindow:
    if value not in list(CalendarWindow):
        raise InvalidArgument("calendar", value, f"one of {', '.join(CalendarWindow)}")
    return CalendarWindow(value)


def _date(value: Any) -> date:
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise InvalidArgument("origin", value, "a date, such as 1970-01-01") from None


def _seconds(length: timedelta) -> int:
    return length.days * 86_400 + length.seconds
