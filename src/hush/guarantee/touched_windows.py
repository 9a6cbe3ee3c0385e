"""How many windows of a release one protected window can touch: the cost of promising other windows.

A release that protects a user within each window of one partition also protects them, as a group, within windows of
another. A window that lies wholly inside the protected one is removed: one change. One that lies partly inside keeps
the user's other rows: it is removed and put back without the protected rows, which makes two changes.

    protected            released              changes
    a calendar month     days                  31, each of a whole window
    any 28 days          calendar months       4: two months are touched, and both may keep other rows
    a calendar month     28 days from 1970     5: three are touched, and the middle one lies inside
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

from hush.guarantee.windows import AnyWindow, CalendarWindow, CalendarWindows, EqualWindows, Windows


@dataclass(frozen=True, slots=True)
class Touched:
    """The changes in a release's windows that one protected window amounts to.

    Attributes:
        changes: How many additions and removals of windows make up the worst change.
        whole: Whether all of them are removals, or all are additions, so that no touched window keeps any rows.
    """

    changes: int
    whole: bool


def touched(protected: Windows, released: Windows) -> Touched | None:
    """Return the changes in a release's windows that one protected window amounts to; None if unknown.

    >>> touched(CalendarWindows(CalendarWindow.MONTH), CalendarWindows(CalendarWindow.DAY))
    Touched(changes=31, whole=True)
    >>> touched(AnyWindow(timedelta(days=28)), CalendarWindows(CalendarWindow.MONTH))
    Touched(changes=4, whole=False)
    """
    if protected == released:
        return Touched(1, whole=True)
    # Windows of different time zones overlap in ways that depend on the zones' history.
    if _zone(protected) is None or _zone(protected) != _zone(released) or isinstance(released, AnyWindow):
        return None
    inside = _num_inside(protected, released)
    if inside:
        return Touched(inside, whole=True)
    if _num_inside(released, protected):
        return Touched(2, whole=False)
    # A stretch of length L touches at most ceil(L / W) + 1 windows of length W; all but the outer two lie inside.
    number = math.ceil(_lengths(protected)[1] / _lengths(released)[0]) + 1
    return Touched(number + 2, whole=False)


def read_windows(text: str) -> Windows | None:
    """Parse windows from their printed form; return None for any other text.

    >>> read_windows("one calendar month (UTC)")
    CalendarWindows(window=<CalendarWindow.MONTH: 'month'>, zone='UTC')
    """
    for pattern, read in _READERS:
        match = re.fullmatch(pattern, text)
        if match:
            return _printing(text, read, match.groups())
    return None


def _printing(text: str, read: Callable[..., Windows], words: tuple[str, ...]) -> Windows | None:
    """Return the windows that are read from words, if they print as the text."""
    try:
        windows = read(*words)
    except (ValueError, OverflowError):  # no such day, or no such length
        return None
    return windows if str(windows) == text else None


def _zone(windows: Windows) -> str | None:
    if isinstance(windows, EqualWindows):
        return "UTC"
    return windows.zone if isinstance(windows, (CalendarWindows, AnyWindow)) else None


def _lengths(windows: Windows) -> tuple[timedelta, timedelta]:
    """Return the lengths of the shortest and of the longest window."""
    if isinstance(windows, CalendarWindows):
        return windows.window.shortest, windows.window.longest
    return windows.length, windows.length


def _num_inside(outer: Windows, inner: Windows) -> int:
    """Return how many windows of a finer partition make up one of a coarser partition, at most; 0 if borders cross."""
    if isinstance(outer, CalendarWindows) and isinstance(inner, CalendarWindows):
        return _INSIDE.get((outer.window, inner.window), 0)
    if isinstance(outer, EqualWindows) and isinstance(inner, EqualWindows):
        shift = outer.origin - inner.origin
        return 0 if outer.length % inner.length or shift % inner.length else outer.length // inner.length
    return 0


def _read_calendar(word: str, zone: str) -> Windows:
    return CalendarWindows(CalendarWindow(word), zone)


def _read_equal(number: str, noun: str, year: str, month: str, day: str) -> Windows:
    return EqualWindows(int(number) * _NOUNS[noun], date(int(year), int(month), int(day)))


def _read_any(number: str, noun: str, zone: str) -> Windows:
    return AnyWindow(int(number) * _NOUNS[noun], zone)


_INSIDE = {
    (CalendarWindow.DAY, CalendarWindow.HOUR): 24,
    (CalendarWindow.WEEK, CalendarWindow.HOUR): 7 * 24,
    (CalendarWindow.WEEK, CalendarWindow.DAY): 7,
    (CalendarWindow.MONTH, CalendarWindow.HOUR): 31 * 24,
    (CalendarWindow.MONTH, CalendarWindow.DAY): 31,
    (CalendarWindow.QUARTER, CalendarWindow.HOUR): 92 * 24,
    (CalendarWindow.QUARTER, CalendarWindow.DAY): 92,
    (CalendarWindow.QUARTER, CalendarWindow.MONTH): 3,
    (CalendarWindow.YEAR, CalendarWindow.HOUR): 366 * 24,
    (CalendarWindow.YEAR, CalendarWindow.DAY): 366,
    (CalendarWindow.YEAR, CalendarWindow.MONTH): 12,
    (CalendarWindow.YEAR, CalendarWindow.QUARTER): 4,
}
_NOUNS = {noun: timedelta(**{f"{noun}s": 1}) for noun in ("day", "hour", "minute", "second")}
_ZONE = r"\(([A-Za-z][A-Za-z0-9_+\-/]*)\)"
_LENGTH = r"(\d{1,9}) (day|hour|minute|second)s?"
_READERS: tuple[tuple[str, Callable[..., Windows]], ...] = (
    (rf"one calendar ({'|'.join(CalendarWindow)}) {_ZONE}", _read_calendar),
    (rf"one of the windows of {_LENGTH} from (\d{{4}})-(\d{{2}})-(\d{{2}})", _read_equal),
    (rf"any (\d{{1,9}}) consecutive (day|hour|minute|second)s {_ZONE}", _read_any),
)
