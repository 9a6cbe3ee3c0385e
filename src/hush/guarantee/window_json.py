"""The JSON form in which earlier versions stored windows of time, in guarantees and in ledgers.

Today a unit is stored by its name.
"""

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


def load_windows(value: Any) -> Windows:
    """Return the windows that these values describe, or refuse the values.

    >>> print(load_windows({"calendar": "month", "zone": "UTC"}))
    one calendar month (UTC)
    """
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
