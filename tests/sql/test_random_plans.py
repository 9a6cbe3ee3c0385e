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

from hush.sql import QueryRefused
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups
from hush.sql.read.query import plan_query
from hush.statistics import ContributionLimits
from sql.hosts import contents, largest_change
from sql.shop import FROM_CLAUSES as SHOP_FROM_CLAUSES
from sql.shop import delete, hostile_rows, insert, shop, shop_plan

# FROM, with the condition that WHERE then needs, and whether it has orders.
FROM_CLAUSES = [
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
        "COALESCE(k, 0) < 3",  # DuckDB's COUNT_IF of NULL alone is NULL
        False,
    ),
    (
        "(SELECT user_id, note, flag, age FROM people WHERE age > 30 UNION ALL SELECT q.user_id, 'n3', NOT flag, age "
        "FROM people q JOIN orders o ON q.user_id = o.uid) AS p (user_id, note, flag, age)",
        None,
        False,
    ),
    (
        "(SELECT user_id, note, flag, age, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY age, num, income, score, "
        "day) AS n, LAG(age) OVER (PARTITION BY user_id, flag ORDER BY num, age, income, score, day) AS last, "
        "MAX(age) OVER (PARTITION BY user_id) AS top FROM people) AS p",
        "n > 1 AND COALESCE(last, 0) <= top",
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
    "COUNT(DISTINCT p.age)",
    "COUNT(DISTINCT p.note) FILTER (WHERE p.flag)",
    "COUNT(DISTINCT CASE WHEN p.age > 40 THEN p.user_id END)",
]
OF_ORDERS = ["SUM(o.amount)", "SUM(o.amount * p.age)", "SUM(o.amount) FILTER (WHERE p.flag) / COUNT(o.amount)"]
KEYS = [
    [],
    ["p.note"],
    ["LENGTH(p.note)", "p.note"],
    ["p.note", "NOT p.flag"],
    ["LENGTH(p.note)"],
    ["p.age IS NOT NULL"],
]
CONDITIONS = [None, "p.age IS NOT NULL", "(p.age > 20 OR p.flag)", "p.note <> 'n3'", "NOT p.flag"]
NESTED = [
    "EXISTS (SELECT * FROM orders x WHERE x.uid = p.user_id AND x.amount < p.age / 9)",
    "NOT EXISTS (SELECT * FROM orders x, people y WHERE x.uid = y.user_id AND y.user_id = p.user_id AND x.amount > 8)",
    "p.user_id NOT IN (SELECT uid FROM orders GROUP BY uid HAVING SUM(amount) > 20)",
    "p.note NOT IN (SELECT zone FROM zones WHERE zone IS NOT NULL AND weight < p.age)",
    "p.age >= (SELECT AVG(x.amount) FROM orders x WHERE x.uid = p.user_id)",
    "(SELECT COUNT(*) FROM people y WHERE y.user_id = p.user_id AND y.note = p.note) < 4",
]


@dataclass(frozen=True)
class Query:
    """The parts of a query."""

    from_clause: tuple[str, str | None, bool]
    aggregates: tuple[str, ...]
    keys: tuple[str, ...]
    conditions: tuple[str | None, ...]
    grouping: str

    @property
    def group_columns(self) -> list[str]:
        """What tells groups apart: with several groupings, also which keys are left out."""
        is_set = self.grouping.startswith(("ROLLUP", "CUBE"))
        return [*self.keys, *(f"GROUPING({key})" for key in self.keys if is_set)]

    @property
    def text(self) -> str:
        tables, condition, _ = self.from_clause
        conditions = [part for part in (condition, *self.conditions, "p.user_id >= 0") if part]
        items = [f"{key} AS k{index}" for index, key in enumerate(self.group_columns)]
        items += [f"{aggregate} AS a{index}" for index, aggregate in enumerate(self.aggregates)]
        group_by = f" GROUP BY {self.grouping.format(', '.join(self.keys))}" if self.keys else ""
        return f"{SHARED}SELECT {', '.join(items)} FROM {tables} WHERE {' AND '.join(conditions)}{group_by}"


@st.composite
def queries(draw: st.DrawFn) -> Query:
    from_clause = draw(st.sampled_from(FROM_CLAUSES))
    aggregates = [*AGGREGATES, *(OF_ORDERS if from_clause[2] else ())]
    keys = draw(st.sampled_from(KEYS))
    # The parser takes no conditions in GROUPING.
    groupings = ["{}", "ALL"] if any(" " in key for key in keys) else ["{}", "ALL", "ROLLUP ({})", "CUBE ({})"]
    return Query(
        from_clause=from_clause,
        aggregates=tuple(draw(st.lists(st.sampled_from(aggregates), min_size=1, max_size=4, unique=True))),
        keys=tuple(keys),
        conditions=tuple(draw(st.lists(st.sampled_from(CONDITIONS), max_size=2)))
        + tuple(draw(st.lists(st.sampled_from(NESTED), max_size=1))),
        grouping=draw(st.sampled_from(groupings)),
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


@settings(max_examples=12, deadline=None, suppress_health_check=FIXED)
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


@settings(max_examples=20, deadline=None, suppress_health_check=FIXED)
@given(query=queries())
def test_without_limits_the_numbers_are_those_of_the_engine(
    query: Query, connection: Any, engine: DuckDBEngine, catalog: Any, ranking_key: bytes
) -> None:
    limits = ContributionLimits(groups_per_unit=1000, rows_per_unit=1000)
    plan = plan_query(query.text, tables=catalog, limits=limits)
    groups = exact_groups(plan, engine, ranking_key=ranking_key)
    num_keys = len(query.group_columns)
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


# Queries on tables that have their unit through others, and a new unit that takes the keys of others.


@st.composite
def shop_queries(draw: st.DrawFn) -> str:
    from_clause, condition, key = draw(st.sampled_from(SHOP_FROM_CLAUSES))
    alias = key.partition(".")[0]
    conditions = [part for part in (condition, draw(st.sampled_from([None, f"{key} IS NOT NULL"]))) if part]
    refers = {"l": "order_id", "o": "id", "t": None}.get(alias)
    if refers is not None and "UNION" not in from_clause and draw(st.booleans()):
        wanted = draw(st.sampled_from(["amount > 4", "part IN (SELECT part FROM parts WHERE weight > 1)"]))
        negated = draw(st.sampled_from(["", "NOT "]))
        conditions.append(f"{negated}EXISTS (SELECT * FROM lines w WHERE w.order_id = {alias}.{refers} AND {wanted})")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {key} AS k, COUNT(*) AS n, COUNT({key}) AS m FROM {from_clause}{where} GROUP BY {key}"


def check_shop(query: str, user: int, groups: int, rows: int, key: bytes) -> None:
    """Remove one unit, then add another with hostile keys; each time compare the groups before and after."""
    connection = shop()
    engine = DuckDBEngine(connection=connection)
    try:
        plan = shop_plan(query, engine, groups_per_unit=groups, rows_per_unit=rows)
    except QueryRefused:
        assert "(SELECT" in query  # a derived table without the column
        return
    before = contents(plan, engine, key)
    delete(connection, user)
    without = contents(plan, engine, key)
    for table, more in hostile_rows(connection, user):
        insert(connection, table, more)
    for large in (before, contents(plan, engine, key)):
        changed, broken = largest_change(plan, without, large)
        assert changed <= plan.groups_per_unit, query
        assert not broken, query


SHOP_NUMBERS = {
    "query": shop_queries(),
    "user": st.integers(0, 29),
    "groups": st.integers(1, 4),
    "rows": st.integers(1, 4),
}


@settings(max_examples=12, deadline=None, suppress_health_check=FIXED)
@given(**SHOP_NUMBERS)
def test_keys_of_others_move_no_rows_of_others(
    query: str, user: int, groups: int, rows: int, ranking_key: bytes
) -> None:
    check_shop(query, user, groups, rows, ranking_key)


@pytest.mark.slow
@settings(max_examples=500, deadline=None, suppress_health_check=FIXED)
@given(**SHOP_NUMBERS)
def test_keys_of_others_move_no_rows_of_others_at_length(
    query: str, user: int, groups: int, rows: int, ranking_key: bytes
) -> None:
    check_shop(query, user, groups, rows, ranking_key)
