"""Arithmetic with dates: constants, bounds and refusals. `sql.test_engine_functions` has the values on all engines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import duckdb
import pytest

from hush.data.tables.catalog import Catalog
from hush.sql.write.plan import QueryPlan
from sql.refusing import check_refusal

REFUSED = [
    ("day + INTERVAL 4001 YEAR > '2024-01-01'", "more than 4000 years"),
    ("day + 1461001 > '2024-01-01'", "more than 4000 years"),
    ("day + INTERVAL (age) DAY > '2024-01-01'", "this interval is not supported"),
    ("day + INTERVAL '1.5 days' > '2024-01-01'", "this interval is not supported"),
    ("day + INTERVAL '1 day 2 hours' > '2024-01-01'", "this interval is not supported"),
    ("day + INTERVAL 3 MICROSECOND > '2024-01-01'", "this interval is not supported"),
    ("INTERVAL 3 DAY - day > '2024-01-01'", "expected a date"),
    ("INTERVAL 3 DAY = day", "an interval is supported where it is added to a date"),
    ("age + INTERVAL 3 DAY > 3", "expected a date here"),
    ("day < DATE '9999-12-30' + INTERVAL 1 MONTH", "outside years 1 to 9999"),
    ("day < DATE '0001-02-01' - INTERVAL 25 YEAR", "outside years 1 to 9999"),
    ("day * INTERVAL 3 DAY > '2024-01-01'", "expected a number here"),
    ("moment - day > 3", "expected a number here"),
    ("day + age > '2024-01-01'", "expected a number here"),
    ("DATE_DIFF('week', day, day) = 1", "Use one of year, quarter, month, day, hour, minute"),
    ("DATE_DIFF('day', age, day) = 1", "expected a date"),
    ("DAYOFWEEK(day) = 1", "Use EXTRACT(ISODOW FROM d)"),
]


@pytest.mark.parametrize(("condition", "words"), REFUSED, ids=[condition for condition, _ in REFUSED])
def test_refused(condition: str, words: str, catalog: Catalog) -> None:
    check_refusal(f"SELECT COUNT(*) FROM people WHERE {condition}", None, words, catalog)


@pytest.mark.parametrize("start", ["2024-02-29 13:05:00", "1999-12-31 00:00:00", "2023-01-30 23:59:59"])
@pytest.mark.parametrize("interval", ["1 MONTH", "-13 MONTH", "4 YEAR", "-7 QUARTER", "5 WEEK", "-90 DAY", "61 MINUTE"])
def test_constants_are_moved_as_duckdb_moves_them(
    start: str, interval: str, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    constant = f"TIMESTAMP '{start}' + INTERVAL '{interval.split()[0]}' {interval.split()[1]}"
    ((moved,),) = duckdb.connect().execute(f"SELECT {constant}").fetchall()
    assert isinstance(moved, datetime)
    text = planned(f"SELECT COUNT(*) FROM people WHERE moment < {constant}").sql(ranking_key=ranking_key)
    assert f"TIMESTAMP '{moved}'" in text
    assert "INTERVAL" not in text


def test_differences_have_bounds(planned: Callable[..., QueryPlan]) -> None:
    """A difference of dates can be summed, because dates are within years 1 to 9999."""
    plan = planned("SELECT SUM(DATE_DIFF('year', day, moment)), SUM(day - DATE '2024-01-01') FROM people")
    assert [release.upper * release.grid for release in plan.releases] == pytest.approx([9999, 3_652_059])


def test_moving_the_latest_dates_fails_on_no_row(
    connection: Any, engine: Any, ranking_key: bytes, planned: Any
) -> None:
    connection.execute("INSERT INTO people(user_id, day, moment) VALUES (77, '9999-12-31', '0001-01-08')")
    text = "SELECT COUNT(day + INTERVAL 4000 YEAR) AS n, COUNT(moment - INTERVAL 4000 YEAR), COUNT(LAST_DAY(day)), "
    text += "COUNT(day - 1461000) FROM people WHERE user_id = 77"
    (row,) = engine.run(planned(text).sql(ranking_key=ranking_key))
    assert row[1:] == (0, 0, 1, 1)
