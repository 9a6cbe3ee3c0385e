"""Subqueries in WHERE: they read public tables, or rows of the unit that the condition is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hush.data.tables.catalog import Catalog
from hush.sql import QueryRefused
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups
from hush.sql.read.query import plan_query
from hush.sql.syntax.relation import NestedQuery
from hush.sql.write.plan import QueryPlan

OTHER_UNITS = "would read rows of other units"
REFUSED = [
    ("EXISTS (SELECT 1 FROM orders)", OTHER_UNITS),
    ("EXISTS (SELECT 1 FROM orders o WHERE o.day = p.day)", OTHER_UNITS),
    ("EXISTS (SELECT 1 FROM orders o WHERE o.uid = p.user_id OR o.amount > 1)", OTHER_UNITS),
    ("EXISTS (SELECT 1 FROM orders o WHERE o.uid <> p.user_id)", OTHER_UNITS),
    ("EXISTS (SELECT 1 FROM orders o WHERE o.uid = o.uid)", OTHER_UNITS),
    ("EXISTS (SELECT 1 FROM orders o, people q WHERE o.uid = p.user_id)", OTHER_UNITS),
    (
        "EXISTS (SELECT 1 FROM orders o LEFT JOIN people q ON q.age = o.amount WHERE o.uid = p.user_id)",
        "different units",
    ),
    ("EXISTS (SELECT 1 FROM zones z WHERE EXISTS (SELECT 1 FROM orders o WHERE o.item = z.zone))", OTHER_UNITS),
    ("EXISTS (SELECT uid, COUNT(*) AS n FROM orders GROUP BY uid)", OTHER_UNITS),
    ("EXISTS (SELECT uid FROM orders LIMIT 1)", "LIMIT in a subquery is refused"),
    ("p.age > (SELECT AVG(age) FROM people)", OTHER_UNITS),
    ("p.age > (SELECT AVG(amount) FROM orders o WHERE o.day = p.day)", OTHER_UNITS),
    ("p.age > (SELECT amount FROM orders o WHERE o.uid = p.user_id)", "must have one row"),
    ("p.age > (SELECT MAX(amount) FROM orders o WHERE o.uid = p.user_id GROUP BY o.item)", "must have one row"),
    ("p.age > (SELECT MAX(amount), MIN(amount) FROM orders o WHERE o.uid = p.user_id)", "must have one row"),
    ("p.age > (SELECT MAX(amount) + MAX(p.age) FROM orders o WHERE o.uid = p.user_id)", "no table of this name"),
    ("p.age > (SELECT amount + MAX(amount) FROM orders o WHERE o.uid = p.user_id)", "neither a key"),
    ("p.age > ALL (SELECT age FROM people)", "supported in WHERE only"),
    ("p.note IN (SELECT item FROM orders)", OTHER_UNITS),
    ("p.user_id IN (SELECT uid + 0 FROM orders)", OTHER_UNITS),
    ("p.user_id + 0 IN (SELECT uid FROM orders)", OTHER_UNITS),
    ("p.user_id IN (SELECT uid FROM orders UNION ALL SELECT num FROM people)", OTHER_UNITS),
    ("p.user_id IN (SELECT uid, amount FROM orders)", "one column"),
    ("p.user_id IN (SELECT zone FROM zones)", "different kinds"),
    ("(p.user_id, p.age) IN (SELECT uid, amount FROM orders)", "not supported"),
    ("p.region IN (SELECT nothing FROM zones)", "no column of this name"),
]


def about(condition: str) -> str:
    return f"SELECT COUNT(*) AS n FROM people p WHERE {condition}"


@pytest.mark.parametrize(("condition", "words"), REFUSED)
def test_refused(condition: str, words: str, planned: Callable[..., QueryPlan]) -> None:
    with pytest.raises(QueryRefused, match=words):
        planned(about(condition))


EXACT = [
    "EXISTS (SELECT * FROM orders o WHERE o.uid = p.user_id AND o.amount > p.age / 9)",
    "NOT EXISTS (SELECT 1 FROM orders WHERE uid = user_id AND item = 'item1')",
    "EXISTS (SELECT 1 FROM zones z WHERE z.region = p.region AND z.weight < p.age)",
    "EXISTS (SELECT 1 FROM zones z WHERE z.weight > 1 AND EXISTS (SELECT 1 FROM orders o WHERE o.uid = p.user_id AND "
    "o.amount > z.weight))",
    "p.region IN (SELECT region FROM zones)",
    "p.region NOT IN (SELECT region FROM zones WHERE weight > 1)",
    "p.region NOT IN (SELECT zone FROM zones)",  # never true: a zone is NULL
    "p.user_id IN (SELECT uid AS u FROM orders WHERE amount > 5)",
    "p.user_id NOT IN (SELECT uid FROM orders GROUP BY uid HAVING SUM(amount) > 9)",
    "p.user_id IN (SELECT uid FROM orders WHERE amount > 9 UNION ALL SELECT user_id FROM people WHERE age > 80)",
    "p.note IN (SELECT CONCAT('n', SUBSTRING(o.item, 5, 1)) FROM orders o WHERE o.uid = p.user_id) OR p.age < 9",
    "p.age > (SELECT 2 * AVG(o.amount) + 1 FROM orders o WHERE o.uid = p.user_id)",
    "(SELECT COUNT(*) FROM orders o WHERE o.uid = p.user_id AND o.amount < p.age) = 3",
    "p.age < (SELECT MAX(q.age) FROM people q WHERE q.user_id = p.user_id AND q.note = p.note)",
    "p.age > (SELECT MIN(weight) FROM zones z WHERE z.region = p.region)",
]


@pytest.mark.parametrize("condition", EXACT)
def test_without_limits_the_numbers_are_those_of_the_engine(
    condition: str, connection: Any, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    text = about(condition) + " AND p.user_id >= 0"
    plan = planned(text, rows_per_unit=1000)
    ((expected,),) = connection.execute(text).fetchall()
    (group,) = exact_groups(plan, DuckDBEngine(connection=connection), ranking_key=ranking_key)
    assert group.sums["a0"] == expected


def test_the_plan_equates_the_units(planned: Callable[..., QueryPlan]) -> None:
    """Whatever the condition says, rows of the same unit are read."""
    plan = planned(about("EXISTS (SELECT 1 FROM orders o, people q WHERE o.uid = q.user_id AND q.user_id = p.user_id)"))
    assert plan.where is not None
    query = plan.where.value
    assert isinstance(query, NestedQuery)
    assert query.units == (query.origin.first.alias, plan.origin.first.alias)
    assert all(join.on_unit for join in query.origin.joins)


def test_a_subquery_of_a_subquery_is_read(planned: Callable[..., QueryPlan], ranking_key: bytes) -> None:
    """Its relations are common table expressions like all others, each once."""
    text = (
        "WITH t AS (SELECT uid, MAX(amount) AS top FROM orders GROUP BY uid) SELECT COUNT(*) FROM people p WHERE "
        "p.user_id IN (SELECT uid FROM t WHERE top > 3) AND EXISTS (SELECT 1 FROM t WHERE t.uid = p.user_id)"
    )
    assert planned(text).sql(ranking_key=ranking_key).count("MAX(") == 1


def test_public_tables_with_a_private_subquery_are_refused(planned: Callable[..., QueryPlan]) -> None:
    with pytest.raises(QueryRefused, match="depend on all units"):
        planned("SELECT COUNT(*) FROM zones z WHERE EXISTS (SELECT 1 FROM people p WHERE p.region = z.region)")
    with pytest.raises(QueryRefused, match=OTHER_UNITS):
        planned("SELECT COUNT(*) FROM zones z WHERE z.region IN (SELECT region FROM people GROUP BY user_id, region)")


def test_subqueries_of_other_types_and_windows_are_refused(engine: Any, described: Callable[..., Catalog]) -> None:
    text = about("EXISTS (SELECT 1 FROM orders o WHERE o.uid = p.user_id)")
    people = described(engine).tables
    as_decimals = replace(people["orders"], columns={**people["orders"].columns, "uid": "DECIMAL(18, 0)"})
    with pytest.raises(QueryRefused, match="have different types"):
        plan_query(text, tables=Catalog({**people, "orders": as_decimals}))
    with pytest.raises(QueryRefused, match="within a window"):
        plan_query(text, tables=described(engine, time="day", window="month"))
