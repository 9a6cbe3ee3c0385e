"""Time windows within which a user is protected. Each type states how time is divided, or that any stretch counts.

    CalendarWindows     the months of the calendar in one time zone, or its hours, days, weeks, quarters or years
    EqualWindows        windows of equal length, counted from midnight UTC of one day
    AnyWindow           every stretch of a length, wherever it starts
    UnrecordedWindows   what older versions stored: a length, but not where the windows begin

Two rows that are a day apart can be in two windows, so the start of the windows is part of the promise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import Any

from hush.errors import InvalidArgument, check_instance

EPOCH = date(1970, 1, 1)


class CalendarWindow(StrEnum):
    """Windows of the calendar. The values are the words that the command line and JSON use.

    >>> CalendarWindow("month") is CalendarWindow.MONTH
    True
    """

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"

    @property
    def shortest(self) -> timedelta:
        """The shortest possible length of such a window.

        >>> CalendarWindow.MONTH.shortest.days
        28
        """
        return timedelta(days=_DAYS[self][0])

    @property
    def longest(self) -> timedelta:
        """The longest possible length of such a window.

        >>> CalendarWindow.MONTH.longest.days
        31
        """
        return timedelta(days=_DAYS[self][1])


_DAYS = {
    CalendarWindow.HOUR: (1 / 24, 1 / 24),
    CalendarWindow.DAY: (1, 1),
    CalendarWindow.WEEK: (7, 7),
    CalendarWindow.MONTH: (28, 31),
    CalendarWindow.QUARTER: (90, 92),
    CalendarWindow.YEAR: (365, 366),
}


@dataclass(frozen=True, slots=True)
class CalendarWindows:
    """Calendar windows of one kind, in one time zone.

    >>> str(CalendarWindows(CalendarWindow.MONTH))
    'one calendar month (UTC)'
    """

    window: CalendarWindow
    zone: str = "UTC"

    def __post_init__(self) -> None:
        check_instance("window", self.window, CalendarWindow, "Such as CalendarWindow.MONTH")
        check_zone(self.zone)

    def __str__(self) -> str:
        return f"one calendar {self.window.value} ({self.zone})"


@dataclass(frozen=True, slots=True)
class EqualWindows:
    """Windows of equal length, counted in both directions from midnight UTC of one day.

    >>> str(EqualWindows(timedelta(days=28)))
    'one of the windows of 28 days from 1970-01-01'
    """

    length: timedelta
    origin: date = EPOCH

    def __post_init__(self) -> None:
        check_length(self.length)
        # A datetime is a date, too, and would keep its time of day from the text of the unit.
        if type(self.origin) is not date:
            raise InvalidArgument("origin", self.origin, "a datetime.date", "Windows are counted from midnight UTC")

    def __str__(self) -> str:
        return f"one of the windows of {duration(self.length)} from {self.origin.isoformat()}"


@dataclass(frozen=True, slots=True)
class AnyWindow:
    """Every stretch of a given length, wherever it starts, in one time zone.

    >>> str(AnyWindow(timedelta(days=28))), str(AnyWindow(timedelta(days=1)))
    ('any 28 consecutive days (UTC)', 'any 24 consecutive hours (UTC)')
    """

    length: timedelta
    zone: str = "UTC"

    def __post_init__(self) -> None:
        check_length(self.length)
        check_zone(self.zone)

    def __str__(self) -> str:
        number, noun = _counted(self.length, at_least=2)
        return f"any {number} consecutive {noun}s ({self.zone})"


@dataclass(frozen=True, slots=True)
class UnrecordedWindows:
    """Windows of at least a given length. Their start was not stored, so releases may have divided time differently.

    >>> str(UnrecordedWindows(timedelta(days=28)))
    'one window of 28 days or longer, as each release cut time (not recorded)'
    """

    length: timedelta

    def __post_init__(self) -> None:
        check_length(self.length)

    def __str__(self) -> str:
        return f"one window of {duration(self.length)} or longer, as each release cut time (not recorded)"


Windows = CalendarWindows | EqualWindows | AnyWindow | UnrecordedWindows


def check_length(window: Any) -> None:
    """Refuse a length that is not positive or has a fraction of a second."""
    advice = ("The window is part of the guarantee and is stored in whole seconds", "Pass e.g. timedelta(days=7)")
    if not isinstance(window, timedelta) or not window > timedelta(0) or window.microseconds:
        raise InvalidArgument("window", window, "a positive timedelta of whole seconds", *advice)


def check_zone(zone: Any) -> None:
    """Refuse anything that cannot be the name of a time zone.

    Whether the zone exists is checked where times are read.
    """
    if not isinstance(zone, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_+\-/]*", zone):
        raise InvalidArgument("zone", zone, "the name of a time zone", "Such as UTC or Europe/Berlin")


def duration(length: timedelta) -> str:
    """Return a length in words, in the largest unit of time that divides it."""
    number, noun = _counted(length)
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _counted(length: timedelta, at_least: int = 1) -> tuple[int, str]:
    """Return a length as a number of the largest unit of time that divides it at least so many times."""
    seconds = length.days * 86_400 + length.seconds
    for noun, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds % size == 0 and seconds // size >= at_least:
            return seconds // size, noun
    return seconds, "second"
