"""A user within a window of time, in SQL: what is promised holds, and an audit finds a promise about other windows."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from unittest import mock

import pytest

from hush import Ledger, table
from hush.accounting import PldAccountant
from hush.audit import AuditResult, audit_scores
from hush.errors import Unsupported
from hush.guarantee import CalendarWindow, Guarantee, Unit, UserWindow
from hush.guarantee.touched_windows import Touched
from hush.randomness import TestSource
from hush.sql import JoinedTable, Table

duckdb = pytest.importorskip("duckdb")

COPIES = 2_000
QUESTION = "SELECT place, COUNT(*) AS n FROM visits GROUP BY place"
ANY_WEEKS = Unit.user_any_window(timedelta(days=28))


def visits(folder: Path, days: list[date], zone: str = "UTC") -> Table:
    """Return a table in which the user of each place has visits on these days, and another user always has one."""
    rows = " UNION ALL ".join(
        [
            f"SELECT 'other' || i AS who, i AS place, DATE '2024-01-10' AS day FROM range({COPIES}) t(i)",
            *(f"SELECT 'user' || i, i, DATE '{day}' FROM range({COPIES}) t(i)" for day in days),
        ]
    )
    path = folder / f"{len(days)}.parquet"
    duckdb.sql(f"COPY ({rows}) TO '{path}'")
    monthly = UserWindow("who", time="day", window=CalendarWindow.MONTH, zone=zone)
    limits = {"rows_per_unit": 1, "groups_per_unit": 1}
    return table(path, name="visits", unit=monthly, keys={"place": range(COPIES)}, **limits)


def audited(folder: Path, days: list[date]) -> tuple[AuditResult, Guarantee]:
    """Return what counts with and without a user's days reveal, and what any 28 days are promised.

    Each place is a run of its own, with its own user.
    """
    absent, present = (
        visits(folder, chosen).sql(QUESTION, epsilon=1.0, source=TestSource(number))
        for number, chosen in enumerate(([], days))
    )
    scores = [[count for _, count in answer.rows] for answer in (present, absent)]
    claim = PldAccountant(unit=ANY_WEEKS).compose(present.event).guarantee(delta=0)
    return audit_scores(*scores, confidence=1 - 1e-7, unit=ANY_WEEKS), claim


BOTH_SIDES = [date(2024, 1, 31), date(2024, 2, 1)]


def test_two_days_in_two_months_are_promised_what_they_get(tmp_path: Path) -> None:
    """It said "epsilon <= 1 per user within 28 days", and these two rows move a count by 2: epsilon 1.3 at least."""
    result, claim = audited(tmp_path, BOTH_SIDES)  # fixed key
    assert result.epsilon_lower > 1.3
    assert claim.epsilon == pytest.approx(4.0)
    assert result.compare(claim).verdict == "consistent"


def test_the_audit_catches_one_window_for_any_stretch(tmp_path: Path) -> None:
    """The twin takes any 28 days for one window of the release."""
    with mock.patch.object(Unit, "touched", return_value=Touched(1, whole=True)):
        result, claim = audited(tmp_path, BOTH_SIDES)  # fixed key
    assert claim.epsilon == pytest.approx(1.0)
    assert result.compare(claim).verdict == "violated"


def test_an_answer_says_how_time_is_cut(tmp_path: Path) -> None:
    guarantee = visits(tmp_path, [], "Europe/Berlin").price(QUESTION, epsilon=1.0).guarantee
    assert "per user within one calendar month (Europe/Berlin)" in str(guarantee)
    clocks = "day of visits is written in the time zone Europe/Berlin: its clocks begin and end windows"
    assert clocks in guarantee.assumptions


def test_a_budget_for_any_stretch_pays_for_four_changes(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db")
    people = visits(tmp_path, [])
    question = "SELECT COUNT(*) AS n FROM visits"
    for unit, cost in ((ANY_WEEKS, 0.4), (Unit.user_calendar(CalendarWindow.MONTH), 0.1)):
        budget = ledger.budget(str(unit), epsilon=3, delta=1e-6, unit=unit)
        people.sql(question, epsilon=0.1, budget=budget)
        assert budget.spent == pytest.approx(cost)
    in_berlin = Unit.user_calendar(CalendarWindow.MONTH, zone="Europe/Berlin")
    with pytest.raises(Unsupported, match="stated under"):
        people.sql(question, epsilon=0.1, budget=ledger.budget("berlin", epsilon=3, delta=1e-6, unit=in_berlin))


def test_only_the_tables_that_are_read_decide_on_the_window() -> None:
    """Another table of the catalog, by the hour, made every answer one "within 1 hour"."""
    connection = duckdb.connect()
    for name in ("visits", "calls"):
        connection.execute(f"CREATE TABLE {name} AS SELECT 1 AS who, TIMESTAMP '2024-01-10 10:00:00' AS day")
    monthly, hourly = (
        UserWindow("who", time="day", window=window) for window in (CalendarWindow.MONTH, CalendarWindow.HOUR)
    )
    calls = {"calls": JoinedTable(None, unit=hourly)}
    both = table(connection, name="visits", unit=monthly, private=calls, rows_per_unit=1)
    units = [
        str(both.price(f"SELECT COUNT(*) FROM {name}", epsilon=1.0).guarantee.unit) for name in ("visits", "calls")
    ]
    assert units == ["user within one calendar month (UTC)", "user within one calendar hour (UTC)"]
    union = "SELECT COUNT(*) FROM (SELECT who, day FROM visits UNION ALL SELECT who, day FROM calls) AS t"
    with pytest.raises(Unsupported, match="different windows"):
        both.price(union, epsilon=1.0)
