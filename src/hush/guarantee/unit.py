"""The privacy unit: whose presence or contents a guarantee hides."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum

from hush.errors import InvalidArgument, check_count, check_instance


class UnitKind(StrEnum):
    """The kinds of privacy unit. The values are the words that the command line and JSON use.

    >>> UnitKind("user-window") is UnitKind.USER_WINDOW
    True
    """

    EXAMPLE = "example"
    USER = "user"
    USER_WINDOW = "user-window"


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
        """The shortest that such a window can be.

        >>> CalendarWindow.MONTH.shortest.days
        28
        """
        return timedelta(days=_SHORTEST_DAYS[self])


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is protected: one example, one user, one user within a time window, or a group of these.

    Build one with the named constructors:

    >>> str(Unit.example()), str(Unit.user()), str(Unit.user_window(timedelta(days=7)))
    ('example', 'user', 'user within 7 days')

    Attributes:
        kind: The kind of unit.
        window: The length of the time window, in whole seconds; for `UnitKind.USER_WINDOW` only.
        group_size: How many units are protected together. `Guarantee.for_group` sets it.
    """

    kind: UnitKind = UnitKind.EXAMPLE
    window: timedelta | None = None
    group_size: int = 1

    def __post_init__(self) -> None:
        check_instance("kind", self.kind, UnitKind, "Unit.example(), Unit.user() and Unit.user_window() choose it")
        object.__setattr__(self, "group_size", check_count("group_size", self.group_size))
        if self.kind is UnitKind.USER_WINDOW:
            _check_window(self.window)
        elif self.window is not None:
            raise InvalidArgument("window", self.window, "None for this kind of unit", "Use Unit.user_window(window)")

    @classmethod
    def example(cls) -> Unit:
        """Return the unit "one record", whoever contributed it; also known as event-level privacy."""
        return cls(kind=UnitKind.EXAMPLE)

    @classmethod
    def user(cls) -> Unit:
        """Return the unit "all records of one user"."""
        return cls(kind=UnitKind.USER)

    @classmethod
    def user_window(cls, window: timedelta) -> Unit:
        """Return the unit "all records of one user within one time window of this length"."""
        return cls(kind=UnitKind.USER_WINDOW, window=window)

    @classmethod
    def user_calendar(cls, window: CalendarWindow) -> Unit:
        """Return the unit "all records of one user within one calendar window", such as a month.

        The window's length is stated as the shortest that it can be, 28 days for a month: a guarantee must not claim
        more than what is protected.

        >>> str(Unit.user_calendar(CalendarWindow.MONTH))
        'user within 28 days'

        """
        check_instance("window", window, CalendarWindow, "Such as CalendarWindow.MONTH")
        return cls.user_window(window.shortest)

    @classmethod
    def from_text(cls, text: str) -> Unit:
        """Return the unit that prints as ``text``. Events and ledgers store units in this form.

        >>> Unit.from_text("user within 28 days") == Unit.user_calendar(CalendarWindow.MONTH)
        True
        """
        match = _TEXT.fullmatch(text)
        kinds = {noun: kind for kind, nouns in _NOUNS.items() for noun in nouns}
        if match is not None:
            size, noun, count, length = match.groups()
            with suppress(InvalidArgument, OverflowError):
                window = None if count is None else timedelta(**{f"{length}s": int(count)})
                unit = cls(kind=kinds[noun], window=window, group_size=int(size or 1))
                if str(unit) == text:  # one text for each unit, so that equal units have equal texts
                    return unit
        raise InvalidArgument("unit", text, "a unit as it prints: example, user, user within 28 days, ...")

    def group(self, size: int) -> Unit:
        """Return the unit made of ``size`` of these units taken together."""
        return replace(self, group_size=self.group_size * check_count("size", size))

    def __str__(self) -> str:
        singular, plural = _NOUNS[self.kind]
        window = "" if self.window is None else _duration(self.window)
        return f"{singular}{window}" if self.group_size == 1 else f"group of {self.group_size} {plural}{window}"


@dataclass(frozen=True, slots=True)
class UserWindow:
    """The privacy unit "one user within one time window", by the columns of a table that identify it.

    A user with rows in two windows counts as two units.

    Attributes:
        column: The column that identifies the user.
        time: The column that holds the date or time of a row.
        window: A window of the calendar; or a length, for windows of equal length that are counted from 1970.

    >>> monthly = UserWindow("patient", time="day", window=CalendarWindow.MONTH)
    >>> str(monthly.unit)
    'user within 28 days'
    """

    column: str
    time: str = field(kw_only=True)
    window: CalendarWindow | timedelta = field(kw_only=True)

    def __post_init__(self) -> None:
        check_instance("column", self.column, str, "Name the column that identifies the user")
        check_instance("time", self.time, str, "Name the column that holds the date or time of a row")
        advice = "Such as CalendarWindow.MONTH, or timedelta(days=7)"
        check_instance("window", self.window, (CalendarWindow, timedelta), advice)
        if isinstance(self.window, timedelta):
            _check_window(self.window)

    @property
    def unit(self) -> Unit:
        """The unit that a guarantee states."""
        if isinstance(self.window, CalendarWindow):
            return Unit.user_calendar(self.window)
        return Unit.user_window(self.window)


_SHORTEST_DAYS = {
    CalendarWindow.HOUR: 1 / 24,
    CalendarWindow.DAY: 1,
    CalendarWindow.WEEK: 7,
    CalendarWindow.MONTH: 28,
    CalendarWindow.QUARTER: 90,
    CalendarWindow.YEAR: 365,
}

# The singular and plural of each kind, up to the length of the window.
_NOUNS = {
    UnitKind.EXAMPLE: ("example", "examples"),
    UnitKind.USER: ("user", "users"),
    UnitKind.USER_WINDOW: ("user within ", "user windows of "),
}


_TEXT = re.compile(
    r"(?:group of (\d+) )?(examples?|users?|user within |user windows of )(?:(\d+) (day|hour|minute|second)s?)?"
)


def _check_window(window: timedelta | None) -> None:
    advice = ("The window is part of the guarantee and is stored in whole seconds", "Pass e.g. timedelta(days=7)")
    if not isinstance(window, timedelta) or not window > timedelta(0) or window.microseconds:
        raise InvalidArgument("window", window, "a positive timedelta of whole seconds", *advice)


def _duration(window: timedelta) -> str:
    """Format a duration in the largest unit of time that divides it."""
    seconds = window.days * 86_400 + window.seconds
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds % length == 0:
            return _plural(seconds // length, name)
    return _plural(seconds, "second")


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
