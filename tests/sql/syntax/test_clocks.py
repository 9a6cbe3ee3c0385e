"""Clocks of time zones show what Python's own conversion shows, at every change and between them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from unittest import mock
from zoneinfo import ZoneInfo, available_timezones

import pytest

from hush.sql.syntax import clocks
from hush.sql.syntax.clocks import END, FIRST, moved_clock, steps, zone_named

# Clocks change by half an hour (Lord Howe), by a whole day (Apia), or by another calendar (Morocco).
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Europe/Dublin",
    "Africa/Casablanca",
)


def shown(moment: datetime, start: str, end: str) -> datetime:
    """Return what Python's conversion shows. A time that a clock shows twice is the first of the two (PEP 495)."""
    return moment.replace(tzinfo=ZoneInfo(start)).astimezone(UTC).astimezone(ZoneInfo(end)).replace(tzinfo=None)


def near_changes(start: str, end: str) -> list[datetime]:
    """Return timestamps around all changes of two clocks, and far from them."""
    changes = [since for pair in ((start, end), (end, start)) for since, _ in steps(*pair)]
    near = [
        since + timedelta(seconds=s) for since in changes for s in (-86400, -7200, -3600, -1, 0, 1, 1800, 3600, 86400)
    ]
    return [moment for moment in [*near, FIRST, END - timedelta(microseconds=1)] if FIRST <= moment < END]


def check(start: str, end: str) -> None:
    since = [moment for moment, _ in steps(start, end)]
    assert since[0] == FIRST
    assert since == sorted(since)
    assert all(before != after for (_, before), (_, after) in pairwise(steps(start, end)))
    for moment in near_changes(start, end):
        assert moved_clock(moment, start, end) == shown(moment, start, end), moment


@pytest.mark.parametrize("zone", ZONES[:3])
def test_clocks_show_what_python_shows(zone: str) -> None:
    check("UTC", zone)
    check(zone, "UTC")


def test_one_step_leads_from_one_clock_to_another() -> None:
    check("America/New_York", "Europe/Berlin")


@pytest.mark.slow
@pytest.mark.parametrize("zone", sorted(name for name in available_timezones() if "/" in name))
def test_all_clocks_show_what_python_shows(zone: str) -> None:
    check("UTC", zone)
    check(zone, "UTC")
    if zone != "Europe/London":  # moved to itself, a clock stays as it is, also at times that it skips
        check(zone, "Europe/London")


def twice_is_later(offsets: tuple[clocks.Step, ...]) -> list[clocks.Step]:
    return [(moment + timedelta(seconds=offset), offset) for moment, offset in offsets]


@pytest.mark.parametrize("twin", [twice_is_later, lambda offsets: list(offsets)])
def test_a_wrong_reading_is_caught(twin: Callable[[tuple[clocks.Step, ...]], list[clocks.Step]]) -> None:
    steps.cache_clear()
    with mock.patch.object(clocks, "_readings", twin), pytest.raises(AssertionError):
        check("Europe/Berlin", "UTC")
    steps.cache_clear()


def test_outside_the_years_there_is_no_result() -> None:
    for moment in (datetime(1, 1, 1), FIRST - timedelta(microseconds=1), END, datetime.max):
        assert moved_clock(moment, "UTC", "Europe/Berlin") is None
        assert moved_clock(moment, "UTC", "UTC") == moment


def test_names_are_places_or_utc() -> None:
    assert [zone_named(text) for text in ("UTC", "utc", "EUROPE/berlin")] == ["UTC", "UTC", "Europe/Berlin"]
    # What engines read differently, what depends on the machine, and what no message may take for a path.
    for text in ("CET", "EST", "+02:00", "UTC+2", "localtime", "posixrules", "right/UTC", "../etc/passwd", "", "'"):
        assert zone_named(text) is None
