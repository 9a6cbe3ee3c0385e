"""The privacy unit: that which a guarantee protects, by hiding its presence or contents."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from enum import StrEnum

from hush.errors import InvalidArgument, check_count, check_instance
from hush.guarantee.touched_windows import Touched, read_windows, touched
from hush.guarantee.windows import (
    EPOCH,
    AnyWindow,
    CalendarWindow,
    CalendarWindows,
    EqualWindows,
    UnrecordedWindows,
    Windows,
    duration,
)


class UnitKind(StrEnum):
    """The kinds of privacy unit. The values are the words that the command line and JSON use.

    >>> UnitKind("user-window") is UnitKind.USER_WINDOW
    True
    """

    EXAMPLE = "example"
    USER = "user"
    USER_WINDOW = "user-window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The privacy unit: one example, one user, one user within a window of time, or a group of these.

    Create one with a named constructor:

    >>> print(Unit.user_calendar(CalendarWindow.MONTH, zone="Europe/Berlin"))
    user within one calendar month (Europe/Berlin)
    >>> print(Unit.user_window(timedelta(days=7)))
    user within one of the windows of 7 days from 1970-01-01
    >>> print(Unit.user_any_window(timedelta(days=28)))
    user within any 28 consecutive days (UTC)

    Attributes:
        kind: The kind of unit.
        window: How time is cut into windows; for `UnitKind.USER_WINDOW` only.
        group_size: How many units are protected together. `Guarantee.for_group` sets it.
    """

    kind: UnitKind = UnitKind.EXAMPLE
    window: Windows | None = None
    group_size: int = 1

    def __post_init__(self) -> None:
        check_instance("kind", self.kind, UnitKind, "Unit.example(), Unit.user() and Unit.user_window() choose it")
        object.__setattr__(self, "group_size", check_count("group_size", self.group_size))
        if self.kind is UnitKind.USER_WINDOW:
            if not isinstance(self.window, Windows):
                raise InvalidArgument("window", self.window, "windows of time", "Use Unit.user_window(length)")
        elif self.window is not None:
            raise InvalidArgument("window", self.window, "None for this kind of unit", "Use Unit.user_window(length)")

    @classmethod
    def example(cls) -> Unit:
        """Return the unit "one record", regardless of who contributed it (event-level privacy)."""
        return cls(kind=UnitKind.EXAMPLE)

    @classmethod
    def user(cls) -> Unit:
        """Return the unit "all records of one user"."""
        return cls(kind=UnitKind.USER)

    @classmethod
    def user_window(cls, length: timedelta, *, origin: date = EPOCH) -> Unit:
        """Return the unit "all records of one user within one of the windows of this length".

        Windows are counted from midnight UTC of ``origin``. A user with records in two windows counts as two units,
        even if the records are a second apart.
        """
        return cls(kind=UnitKind.USER_WINDOW, window=EqualWindows(length, origin))

    @classmethod
    def user_calendar(cls, window: CalendarWindow, *, zone: str = "UTC") -> Unit:
        """Return the unit "all records of one user within one calendar window", such as a month.

        Args:
            window: The kind of window.
            zone: The time zone in which it begins and ends.
        """
        return cls(kind=UnitKind.USER_WINDOW, window=CalendarWindows(window, zone))

    @classmethod
    def user_any_window(cls, length: timedelta, *, zone: str = "UTC") -> Unit:
        """Return the unit "all records of one user within any stretch of this length", wherever it starts.

        It is a stronger promise than fixed windows of the same length: a stretch can touch two of them, and both may
        keep other records of the user. A release with such fixed windows is charged as a group of 4.
        """
        return cls(kind=UnitKind.USER_WINDOW, window=AnyWindow(length, zone))

    @property
    def name(self) -> str:
        """The text that stands for the unit in events and ledgers.

        It is what the unit prints as, except for windows that older versions stored: they called them "user within 28
        days".
        """
        if not isinstance(self.window, UnrecordedWindows):
            return str(self)
        length = duration(self.window.length)
        return _WITHIN + length if self.group_size == 1 else f"group of {self.group_size} user windows of {length}"

    @classmethod
    def from_name(cls, name: str) -> Unit:
        """Return the unit of that name.

        >>> Unit.from_name("user within one calendar month (UTC)") == Unit.user_calendar(CalendarWindow.MONTH)
        True
        """
        with suppress(ValueError, OverflowError):
            unit = _named(name)
            if unit is not None and unit.name == name:  # one name for each unit, so that equal units have equal names
                return unit
        raise InvalidArgument("unit", name, "a unit as it prints: example, user, user within one calendar month (UTC)")

    def touched(self, released: Unit) -> Touched | None:
        """Return the changes in a release's units that this unit amounts to; None if there is no bound.

        >>> Unit.user_any_window(timedelta(days=28)).touched(Unit.user_calendar(CalendarWindow.MONTH))
        Touched(changes=4, whole=False)
        """
        if self == released:
            return Touched(1, whole=True)
        if self.window is None or released.window is None or self.group_size != 1 or released.group_size != 1:
            return None
        return touched(self.window, released.window)

    def group(self, size: int) -> Unit:
        """Return the unit that consists of ``size`` of these units together."""
        return replace(self, group_size=self.group_size * check_count("size", size))

    def __str__(self) -> str:
        if self.window is not None:
            return _WITHIN + str(self.window) if self.group_size == 1 else self._windows_text(self.window)
        return self.kind.value if self.group_size == 1 else f"group of {self.group_size} {self.kind.value}s"

    def _windows_text(self, window: Windows) -> str:
        return f"group of {self.group_size} user windows, each {window}"


@dataclass(frozen=True, slots=True)
class UserWindow:
    """The privacy unit "one user within one time window", by the columns of a table that identify it.

    A user with rows in two windows counts as two units.

    Attributes:
        column: The column that identifies the user.
        time: The column that holds the date or time of a row.
        window: A window of the calendar; or a length, for windows of equal length that are counted from 1970.
        zone: The time zone in which the column's dates and times are written.

    >>> monthly = UserWindow("patient", time="day", window=CalendarWindow.MONTH)
    >>> str(monthly.unit)
    'user within one calendar month (UTC)'
    """

    column: str
    time: str = field(kw_only=True)
    window: CalendarWindow | timedelta = field(kw_only=True)
    zone: str = field(kw_only=True, default="UTC")

    def __post_init__(self) -> None:
        check_instance("column", self.column, str, "Name the column that identifies the user")
        check_instance("time", self.time, str, "Name the column that holds the date or time of a row")
        advice = "Such as CalendarWindow.MONTH, or timedelta(days=7)"
        check_instance("window", self.window, (CalendarWindow, timedelta), advice)
        if isinstance(self.window, timedelta) and self.zone != "UTC":
            raise InvalidArgument("zone", self.zone, "UTC", "Windows of equal length are counted in UTC")
        _ = self.unit  # refuses a wrong length or zone

    @property
    def unit(self) -> Unit:
        """The unit that a guarantee states."""
        if isinstance(self.window, CalendarWindow):
            return Unit.user_calendar(self.window, zone=self.zone)
        return Unit.user_window(self.window)


_WITHIN = "user within "
_ALONE_NAME = re.compile(r"(?:group of (\d+) )?(example|user)s?")
_WINDOWS_NAME = re.compile(r"(?:user within |group of (\d+) user windows(?:, each| of) )(.+)")
_LENGTH = re.compile(r"(\d+) (day|hour|minute|second)s?")


def _named(name: str) -> Unit | None:
    """Return the unit that a name describes; None for other texts."""
    alone = _ALONE_NAME.fullmatch(name)
    if alone is not None:
        return Unit(kind=UnitKind(alone[2]), group_size=int(alone[1] or 1))
    windows = _WINDOWS_NAME.fullmatch(name)
    if windows is None:
        return None
    window = read_windows(windows[2]) or _unrecorded(windows[2])
    return None if window is None else Unit(kind=UnitKind.USER_WINDOW, window=window, group_size=int(windows[1] or 1))


def _unrecorded(text: str) -> UnrecordedWindows | None:
    """Return the windows that older versions called by their length alone."""
    match = _LENGTH.fullmatch(text)
    return None if match is None else UnrecordedWindows(timedelta(**{f"{match[2]}s": int(match[1])}))
