"""Numbers the time window of each example."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument
from hush.guarantee import CalendarWindow

_Numbers = NDArray[np.int64]

_FIRST_MONDAY = 4  # 1970-01-05, in days
_MONTHS = {CalendarWindow.MONTH: 1, CalendarWindow.QUARTER: 3, CalendarWindow.YEAR: 12}


def window_numbers(seconds: NDArray[np.float64], window: CalendarWindow | timedelta, zone: str) -> _Numbers:
    """Return the number of each time's window. Two times are in the same window if the numbers are equal.

    Args:
        seconds: Times in seconds since 1970.
        window: Windows of the calendar, or a length, for windows that are counted from 1970.
        zone: The time zone of the calendar.

    >>> seconds = np.array([0.0, 31 * 86400 - 1, 31 * 86400])
    >>> window_numbers(seconds, CalendarWindow.MONTH, "UTC").tolist()
    [0, 0, 1]
    """
    if isinstance(window, timedelta):
        return np.floor_divide(seconds, window.total_seconds()).astype(np.int64)
    clock = np.floor(seconds if zone == "UTC" else _on_clocks(seconds, zone)).astype(np.int64)
    hours = clock // 3_600
    if window is CalendarWindow.HOUR:
        return hours
    days = hours // 24
    if window is CalendarWindow.DAY:
        return days
    if window is CalendarWindow.WEEK:
        return (days - _FIRST_MONDAY) // 7
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return months // _MONTHS[window]


def _on_clocks(seconds: NDArray[np.float64], zone: str) -> NDArray[np.float64]:
    """Return the local time in a time zone, as if it were UTC."""
    try:
        clocks = ZoneInfo(zone)
    except (KeyError, OSError, ValueError):  # no such zone is a KeyError
        raise InvalidArgument(
            "zone", zone, "a time zone that this machine knows", "Install tzdata, or use UTC"
        ) from None
    whole = np.floor(seconds)
    epoch = datetime(1970, 1, 1, tzinfo=clocks).replace(tzinfo=None)
    shown = [datetime.fromtimestamp(time, clocks).replace(tzinfo=None) - epoch for time in whole.tolist()]
    return np.array([86_400.0 * time.days + time.seconds for time in shown], dtype=np.float64)
