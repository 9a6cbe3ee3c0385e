"""Clocks of time zones: how far to move a timestamp from one clock to another, for each stretch of time.

Engines have data about time zones of different age, and different rules for what a clock skips or shows twice. So no
engine's own function is used, and no setting of a session matters. The steps are computed here, before data are read,
from the time zone database of Python (`zoneinfo`), and become constants of the plan. Engines only compare and add.

- A timestamp with a time zone is a moment. Plans hold it as a timestamp in UTC.
- What a clock shows twice, when it is set back, counts as the first of the two. What it skips, when it is set forward,
  is read as if it had not been set yet. This is `datetime.fold` 0 of Python (PEP 495).
- Outside the years 1900 to 2099, the result is NULL. Rules of time zones have no end, but a plan needs one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

# From this timestamp on, so many seconds are added.
Step = tuple[datetime, int]

FIRST, END = datetime(1900, 1, 1), datetime(2100, 1, 1)
MOMENT = "UTC"  # the clock of timestamps with a time zone
_MARGIN = timedelta(days=3)  # more than the difference of any two clocks


@lru_cache
def _zones() -> dict[str, str]:
    """Return the names of places by their lower case. Abbreviations such as CET mean different things on engines."""
    return {name.casefold(): name for name in available_timezones() if "/" in name} | {"utc": MOMENT}


def zone_named(text: str) -> str | None:
    """Return the name of a time zone as it is written, or None if there is none of this name.

    >>> zone_named("europe/berlin"), zone_named("CET")
    ('Europe/Berlin', None)
    """
    return _zones().get(text.casefold())


@lru_cache
def steps(start: str, end: str) -> tuple[Step, ...]:
    """Return how timestamps of one clock become those of another, in the order of time.

    >>> winter, summer = [shift for since, shift in steps("UTC", "Europe/Berlin") if since.year == 2026][::-1]
    >>> winter, summer
    (3600, 7200)
    """
    pieces = [] if start == MOMENT else [(since, -offset) for since, offset in _readings(_offsets(start))]
    moved = list(_composed(pieces or [(FIRST - _MARGIN, 0)], _offsets(end)))
    first = max(index for index, (since, _) in enumerate(moved) if since <= FIRST)
    inside = [(max(since, FIRST), shift) for since, shift in moved[first:] if since < END]
    return tuple(step for before, step in zip([None, *inside], inside, strict=False) if not _same(before, step))


def moved_clock(moment: datetime, start: str, end: str) -> datetime | None:
    """Return a timestamp on another clock, as engines move it; None outside the years of `steps`.

    >>> moved_clock(datetime(2026, 7, 1, 12), "UTC", "Europe/Berlin")
    datetime.datetime(2026, 7, 1, 14, 0)
    """
    if start == end or not FIRST <= moment < END:
        return moment if start == end else None
    shift = next(shift for since, shift in reversed(steps(start, end)) if since <= moment)
    return moment + timedelta(seconds=shift)


@lru_cache
def _offsets(zone: str) -> tuple[Step, ...]:
    """Return the distance of a zone's clock from UTC, with the moments in UTC at which it changes."""
    day, place = timedelta(days=1), ZoneInfo(zone)

    def offset(moment: datetime) -> int:
        distance = moment.replace(tzinfo=UTC).astimezone(place).utcoffset()
        assert distance is not None
        return distance.days * 86_400 + distance.seconds

    moment = FIRST - _MARGIN
    changes = [(moment, offset(moment))]
    while moment < END + _MARGIN:  # no clock was ever changed twice on a day
        later = moment + day
        if offset(later) != changes[-1][1]:
            low, high = moment, later
            while high - low > timedelta(seconds=1):
                middle = low + timedelta(seconds=(high - low).total_seconds() // 2)
                low, high = (middle, high) if offset(middle) == changes[-1][1] else (low, middle)
            changes.append((high, offset(high)))
        moment = later
    return tuple(changes)


def _readings(offsets: tuple[Step, ...]) -> list[Step]:
    """Return the changes of a clock by what it shows, rather than by the moment: the old offset holds to its end."""
    first, *others = offsets
    shown = [first]
    for moment, offset in others:
        since = moment + timedelta(seconds=max(offset, shown[-1][1]))
        shown.append((since, offset))
    return shown


def _composed(pieces: list[Step], offsets: tuple[Step, ...]) -> Iterator[Step]:
    """Yield the steps of going to UTC by pieces, and from there by the offsets of another clock."""
    ends = [since for since, _ in pieces[1:]] + [datetime.max]
    for (since, shift), end in zip(pieces, ends, strict=True):
        to_utc = timedelta(seconds=shift)
        before = [offset for moment, offset in offsets if moment <= since + to_utc] or [offsets[0][1]]
        yield since, shift + before[-1]
        for moment, offset in offsets:
            if since + to_utc < moment and moment - to_utc < end:
                yield moment - to_utc, shift + offset


def _same(before: Step | None, step: Step) -> bool:
    return before is not None and before[1] == step[1]
