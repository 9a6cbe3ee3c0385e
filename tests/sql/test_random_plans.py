"""Random queries on neighbouring tables: one unit changes no more than the plan says, and without limits the plan's
numbers are those of the engine's own SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups
from hush.sql.read.query import plan_query
from hush.statistics import ContributionLimits
from sql.hosts import contents, largest_change

# FROM, with the condition that WHERE then needs, and whether it has orders.
SOURCES = [
    ("people p", None, False),
    ("people p, orders o", "p.user_id = o.uid", True),
    ("orders o, people p", "(o.uid = p.user_id)", True),
    ("people p CROSS JOIN orders o", "p.user_id = o.uid", True),
    ("orders o RIGHT JOIN people p ON p.user_id = o.uid AND o.amount > 2", None, True),
    ("orders o JOIN people p ON o.uid = p.user_id", None, True),
    ("people p, zones z, orders o", "p.region = z.region AND p.user_id = o.uid", True),
    ("people p NATURAL JOIN (SELECT uid AS user_id, amount FROM orders) AS o", None, True),
    ("zones z RIGHT JOIN people p ON p.region = z.region", None, False),
    ("(SELECT * FROM people WHERE age > 9) AS p", None, False),
    ("(SELECT q.*, zone FROM people q LEFT JOIN zones z USING (region)) AS p, orders o", "o.uid = p.user_id", True),
    (
        "(SELECT user_id, note, flag, MAX(age) AS age, COUNT_IF(flag) AS k FROM people GROUP BY ALL) AS p",
        "k < 3",
        False,
    ),
    ("shared AS p, shared AS q", "p.user_id = q.user_id AND p.age <= q.age", False),
]
SHARED = "WITH shared AS (SELECT user_id, note, flag, MAX(age) AS age FROM people GROUP BY user_id, note, flag) "
AGGREGATES = [
    "COUNT(*)",
    "COUNT_IF(p.age > 30)",
    "COUNT(*) FILTER (WHERE p.flag)",
    "SUM(p.age) FILTER (WHERE p.note LIKE 'n1%')",
    "SUM(p.age * p.age)",
    "SUM(p.age) / COUNT(*)",
    "SUM(p.age) / (COUNT_IF(p.age > 5) + 1)",
    "AVG(p.age) FILTER (WHERE NOT p.flag)",
    "AVG(GREATEST(p.age, 3))",
    "SUM(ROUND(p.age / 4))",
]
OF_ORDERS = ["SUM(o.amount)", "SUM(o.amount * p.age)", "SUM(o.amount) FILTER (WHERE p.flag) / COUNT(o.amount)"]
KEYS = [[], ["p.note"], ["p.note", "NOT p.flag"], ["LENGTH(p.note)"], ["p.age IS NOT NULL"]]
CONDITIONS = [None, "p.age IS NOT NULL", "(p.age > 20 OR p.flag)", "p.note <> 'n3'", "NOT p.flag"]


@dataclass(frozen=True)
class Query:
    """The parts of a query."""

    source: tuple[str, str | None, bool]
    aggregates: tuple[str, ...]
    keys: tuple[str, ...]
    conditions: tuple[str | None, ...]
    all_keys: bool

    @property
    def text(self) -> str:
        tables, condition, _ = self.source
        conditions = [part for part in (condition, *self.conditions, "p.user_id >= 0") if part]
        items = [f"{key} AS k{index}" for index, key in enumerate(self.keys)]
        items += [f"{aggregate} AS a{index}" for index, aggregate in enumerate(self.aggregates)]
        group_by = f" GROUP BY {'ALL' if self.all_keys else ', '.join(self.keys)}" if self.keys else ""
        return f"{SHARED}SELECT {', '.join(items)} FROM {tables} WHERE {' AND '.join(conditions)}{group_by}"


@st.composite
def queries(draw: st.DrawFn) -> Query:
    source = draw(st.sampled_from(SOURCES))
    aggregates = [*AGGREGATES, *(OF_ORDERS if source[2] else ())]
    return Query(
        source=source,
        aggregates=tuple(draw(st.lists(st.sampled_from(aggregates), min_size=1, max_size=4, unique=True))),
        keys=tuple(draw(st.sampled_from(KEYS))),
        conditions=tuple(draw(st.lists(st.sampled_from(CONDITIONS), max_size=2))),
        all_keys=draw(st.booleans()),
    )


ROWS = (
    "INSERT INTO people SELECT 99, ['north', 'new' || i][1 + i % 2], 1e5, CAST(i * 7 AS INT) - 50, '99', "
    "'n' || (i % 13), '2024-01-01', NULL, [TRUE, FALSE, NULL][1 + i % 3], i, i, i FROM range({0}) AS t(i)"
)
ORDERS = "INSERT INTO orders SELECT 99, CAST(i * i AS DOUBLE) - 5, 'item' || i, '2024-01-01' FROM range({0}) AS t(i)"
FIXED = [HealthCheck.function_scoped_fixture]
NUMBERS = {"query": queries(), "user": st.integers(0, 39), "groups": st.integers(1, 3), "rows": st.integers(1, 3)}


def check_neighbours(
    query: Query, user: int, groups: int, rows: int, connection: Any, described: Callable[..., Any], key: bytes
) -> None:
    """Remove one unit, then add another with many rows; each time compare the groups before and after."""
    engine = DuckDBEngine(connection=connection)
    limits = ContributionLimits(groups_per_unit=groups, rows_per_unit=rows)
    plan = plan_query(query.text, tables=described(engine), limits=limits)
    before = contents(plan, engine, key)
    connection.execute(f"DELETE FROM people WHERE user_id = {user}")
    connection.execute(f"DELETE FROM orders WHERE uid = {user}")
    without = contents(plan, engine, key)
    connection.execute(ROWS.format(20 * rows))
    connection.execute(ORDERS.format(4 * groups))
    for small, large in ((without, before), (without, contents(plan, engine, key))):
        changed, broken = largest_change(plan, small, large)
        assert changed <= plan.groups_per_unit, query.text
        assert not broken, query.text


@settings(max_examples=25, deadline=None, suppress_health_check=FIXED)
@given(**NUMBERS)
def test_one_unit_changes_no_more_than_its_bounds(
    query: Query, user: int, groups: int, rows: int, new_world: Callable[[], Any], described: Any, ranking_key: bytes
) -> None:
    check_neighbours(query, user, groups, rows, new_world(), described, ranking_key)


@settings(max_examples=10, deadline=None, suppress_health_check=FIXED)
@given(**NUMBERS)
def test_one_unit_changes_no_more_than_its_bounds_where_none_are_declared(
    query: Query, user: int, groups: int, rows: int, new_world: Callable[[], Any], described: Any, ranking_key: bytes
) -> None:
    def undeclared(engine: DuckDBEngine) -> Any:
        return described(engine, bounds={})

    check_neighbours(query, user, groups, rows, new_world(), undeclared, ranking_key)


@pytest.mark.slow
@settings(max_examples=500, deadline=None, suppress_health_check=FIXED)
@given(**NUMBERS)
def test_one_unit_changes_no_more_than_its_bounds_at_length(
    query: Query, user: int, groups: int, rows: int, new_world: Callable[[], Any], described: Any, ranking_key: bytes
) -> None:
    check_neighbours(query, user, groups, rows, new_world(), described, ranking_key)


@settings(max_examples=40, deadline=None, suppress_health_check=FIXED)
@given(query=queries())
def test_without_limits_the_numbers_are_those_of_the_engine(
    query: Query, connection: Any, engine: DuckDBEngine, catalog: Any, ranking_key: bytes
) -> None:
    limits = ContributionLimits(groups_per_unit=1000, rows_per_unit=1000)
    plan = plan_query(query.text, tables=catalog, limits=limits)
    groups = exact_groups(plan, engine, ranking_key=ranking_key)
    num_keys = len(query.keys)
    expected = {row[:num_keys]: row[num_keys:] for row in connection.execute(query.text).fetchall()}
    actual = {
        row[:num_keys]: row[num_keys:]
        for row in plan.answer((group.keys, group.sums) for group in groups if group.units)
    }
    if num_keys:
        assert actual.keys() == expected.keys()
    for keys, numbers in expected.items():
        for number, other in zip(numbers, actual.get(keys, [0.0] * len(numbers)), strict=True):
            # In a group without values, SQL has NULL, and the plan a number that says nothing.
            assert number is None or other == pytest.approx(number, rel=1e-4, abs=1e-4), query.text
