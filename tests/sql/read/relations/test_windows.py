"""Window functions in subqueries: over the rows of one unit, in an order that no other unit can change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import duckdb
import pytest

from hush.data.tables.catalog import Catalog, PrivateTable
from hush.sql import QueryRefused
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups
from hush.sql.read.query import plan_query
from hush.sql.read.relations import windows
from hush.sql.write.plan import QueryPlan


def about(window: str, table: str = "people") -> str:
    return f"SELECT COUNT(*) AS n FROM (SELECT user_id, {window} AS w FROM {table}) AS t WHERE w IS NOT NULL"


@pytest.mark.parametrize(
    ("window", "words"),
    [
        ("ROW_NUMBER() OVER (ORDER BY age)", "of a single unit's rows"),
        ("SUM(age) OVER ()", "of a single unit's rows"),
        ("SUM(age) OVER (PARTITION BY region)", "of a single unit's rows"),
        ("SUM(age) OVER (PARTITION BY user_id % 2)", "of a single unit's rows"),
        ("RANK() OVER (PARTITION BY user_id)", "a rank needs ORDER BY"),
        ("SUM(big) OVER (PARTITION BY user_id)", "a sum needs bounds"),
        ("SUM(age) OVER (PARTITION BY user_id ORDER BY day ROWS 3 PRECEDING)", "frames of windows"),
        ("LAG(age, age) OVER (PARTITION BY user_id ORDER BY day)", "expected a constant"),
        ("LAG(age, 2000) OVER (PARTITION BY user_id ORDER BY day)", "from 0 to 1000"),
        ("LAG(age, 1, 7) OVER (PARTITION BY user_id ORDER BY day)", "DEFAULT is not supported"),
        ("NTILE(4) OVER (PARTITION BY user_id ORDER BY day)", "NTILE is not supported"),
        ("COUNT(DISTINCT age) OVER (PARTITION BY user_id)", "no function of a window"),
        ("BOOL_OR(flag) OVER (PARTITION BY user_id)", "no function of a window"),
        ("MIN(flag) OVER (PARTITION BY user_id)", "no function of a window"),
        ("MEDIAN(age) OVER (PARTITION BY user_id)", "not allowed here"),
        ("SUM(SUM(age) OVER (PARTITION BY user_id)) OVER (PARTITION BY user_id)", "over rows are refused"),
        ("FIRST_VALUE(age) IGNORE NULLS OVER (PARTITION BY user_id ORDER BY day)", "no function of a window"),
    ],
)
def test_refused(window: str, words: str, planned: Callable[..., QueryPlan]) -> None:
    with pytest.raises(QueryRefused, match=words):
        planned(about(window))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT SUM(AVG(age) OVER (PARTITION BY user_id)) FROM people",
        "SELECT COUNT(*) FROM people WHERE ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY age) = 1",
        "SELECT COUNT(*) FROM (SELECT user_id, SUM(SUM(age)) OVER (PARTITION BY user_id) AS s FROM people "
        "GROUP BY user_id) AS t",
    ],
)
def test_windows_stand_in_subqueries_of_rows(text: str, planned: Callable[..., QueryPlan]) -> None:
    with pytest.raises(QueryRefused, match="window|inside an aggregate"):
        planned(text)


def test_a_unit_within_a_calendar_window_has_no_windows(engine: Any, described: Callable[..., Catalog]) -> None:
    with pytest.raises(QueryRefused, match="of a single unit's rows"):
        plan_query(about("SUM(age) OVER (PARTITION BY user_id)"), tables=described(engine, time="day", window="month"))


def test_windows_of_public_tables_need_no_unit(planned: Callable[..., QueryPlan]) -> None:
    text = "SELECT COUNT(*) FROM people p JOIN (SELECT region, RANK() OVER (ORDER BY weight) AS r FROM zones) AS z "
    planned(text + "ON z.region = p.region WHERE z.r < 3")


def firsts(values: list[tuple[int, str]], key: bytes) -> dict[Any, int]:
    """Return how many units have each value of x in their first row by day, with rows stored in this order."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (who BIGINT, x VARCHAR, day BIGINT)")
    connection.executemany("INSERT INTO t VALUES (?, ?, 7)", values)
    engine = DuckDBEngine(connection=connection)
    tables = Catalog({"t": PrivateTable(columns=engine.columns("t"), unit="who")})
    inner = "SELECT who, x, ROW_NUMBER() OVER (PARTITION BY who ORDER BY day) AS n FROM t"
    plan = plan_query(f"SELECT x, COUNT(*) AS m FROM ({inner}) AS q WHERE n = 1 GROUP BY x", tables=tables)
    return {group.keys[0]: group.sums["a0"] for group in exact_groups(plan, engine, ranking_key=key)}


def test_rows_that_tie_have_an_order_of_their_own(ranking_key: bytes) -> None:
    """Another unit may change the order in which an engine reads rows. It must not change which row is first."""
    rows = [(who, x) for who in range(5) for x in "bac"]
    assert firsts(rows, ranking_key) == firsts(rows[::-1], ranking_key) == {"a": 5}
    with mock.patch.object(windows, "_all_columns", return_value=[]):
        assert firsts(rows, ranking_key) != firsts(rows[::-1], ranking_key)
