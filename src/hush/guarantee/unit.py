"""The unit of protection: whose presence or contents the guarantee hides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from hush.errors import InvalidArgument, check_count, check_instance


class UnitKind(StrEnum):
    """The kinds of unit that hush knows."""

    EXAMPLE = "example"
    USER = "user"
    USER_WINDOW = "user-window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is protected: one example, one user, one user within a time window, or a group of such units.

    The named constructors are the intended way in:

    >>> str(Unit.example()), str(Unit.user()), str(Unit.user_window(timedelta(days=7)))
    ('example', 'user', 'user within 7 days')

    Attributes:
        kind: Which kind of unit.
        window: The length of the time window, a whole number of seconds; only for `UnitKind.USER_WINDOW`.
        group_size: How many such units are protected together; `Guarantee.for_group` sets it.
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
        """One record of the data, whoever contributed it (others call this event-level privacy)."""
        return cls(kind=UnitKind.EXAMPLE)

    @classmethod
    def user(cls) -> Unit:
        """Everything that one person ever contributed."""
        return cls(kind=UnitKind.USER)

    @classmethod
    def user_window(cls, window: timedelta) -> Unit:
        """Everything that one person contributed within one time window of the given length."""
        return cls(kind=UnitKind.USER_WINDOW, window=window)

    @classmethod
    def user_calendar(cls, window: str) -> Unit:
        """Everything that one person contributed within one hour, day, week, month, quarter or year of the calendar.

        It is stated as the shortest that such a window can be: a promise must not be larger than what is protected.
        """
        if window not in CALENDAR:
            raise InvalidArgument("window", window, f"one of {', '.join(CALENDAR)}")
        return cls.user_window(timedelta(days=CALENDAR[window]))

    def group(self, size: int) -> Unit:
        """Return the unit made of ``size`` of these units taken together."""
        return replace(self, group_size=self.group_size * check_count("size", size))

    def __str__(self) -> str:
        one, many = _NOUNS[self.kind]
        window = "" if self.window is None else _duration(self.window)
        return f"{one}{window}" if self.group_size == 1 else f"group of {self.group_size} {many}{window}"


CALENDAR = {"hour": 1 / 24, "day": 1, "week": 7, "month": 28, "quarter": 90, "year": 365}
"""The windows of the calendar, and the fewest days that each has."""

# How one unit and several are written, up to the length of the window.
_NOUNS = {
    UnitKind.EXAMPLE: ("example", "examples"),
    UnitKind.USER: ("user", "users"),
    UnitKind.USER_WINDOW: ("user within ", "user windows of "),
}


def _check_window(window: timedelta | None) -> None:
    advice = ("The window is part of the promise and is stored in whole seconds", "Pass e.g. timedelta(days=7)")
    if not isinstance(window, timedelta) or not window > timedelta(0) or window.microseconds:
        raise InvalidArgument("window", window, "a positive timedelta of whole seconds", *advice)


def _duration(window: timedelta) -> str:
    """Write a duration in the largest unit that divides it."""
    seconds = window.days * 86_400 + window.seconds
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds % length == 0:
            return _plural(seconds // length, name)
    return _plural(seconds, "second")


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
