"""UNION ALL in subqueries: each row keeps its unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hush.sql import QueryRefused
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups
from hush.sql.syntax.releases import Quantity
from hush.sql.write.plan import QueryPlan

AMOUNTS = "SELECT uid, amount FROM orders"


@pytest.mark.parametrize(
    ("union", "words"),
    [
        (f"{AMOUNTS} UNION SELECT user_id, income FROM people", "UNION, INTERSECT and EXCEPT are refused"),
        (f"{AMOUNTS} UNION ALL SELECT user_id, income FROM people UNION {AMOUNTS}", "UNION, INTERSECT and EXCEPT"),
        (f"{AMOUNTS} EXCEPT ALL {AMOUNTS}", "UNION, INTERSECT and EXCEPT are refused"),
        (f"{AMOUNTS} UNION ALL BY NAME {AMOUNTS}", "not supported"),
        (f"{AMOUNTS} UNION ALL {AMOUNTS} LIMIT 3", "not supported"),
        (f"{AMOUNTS} UNION ALL SELECT user_id FROM people", "equally many columns"),
        (f"{AMOUNTS} UNION ALL SELECT user_id, note FROM people", "of the same kind"),
        (f"{AMOUNTS} UNION ALL SELECT user_id, NULL AS x FROM people", "of the same kind"),
        (f"{AMOUNTS} UNION ALL SELECT LENGTH(zone) AS a, weight FROM zones", "different units"),
        (f"{AMOUNTS} UNION ALL SELECT uid, SUM(amount) AS s FROM orders GROUP BY item", "belong to no unit"),
    ],
)
def test_refused(union: str, words: str, planned: Callable[..., QueryPlan]) -> None:
    with pytest.raises(QueryRefused, match=words):
        planned(f"SELECT COUNT(*) FROM ({union}) AS t")


def test_bounds_and_units_follow_from_all_parts(planned: Callable[..., QueryPlan]) -> None:
    text = f"SELECT SUM(x), COUNT(DISTINCT u) FROM ({AMOUNTS} UNION ALL SELECT user_id, income FROM people) AS t(u, x)"
    plan = planned(text)
    assert [(value.low, value.high) for value in plan.values] == [(0.0, 200_000.0)]
    with pytest.raises(QueryRefused, match="show single units"):
        planned(f"SELECT uid, COUNT(*) FROM ({AMOUNTS} UNION ALL SELECT user_id, income FROM people) AS t GROUP BY uid")


def test_a_column_is_one_value_per_unit_only_if_it_is_the_unit_in_all_parts(planned: Callable[..., QueryPlan]) -> None:
    """A person has one id, and as many of other numbers as there are rows that count."""
    for column, quantity, most in (("user_id", Quantity.UNITS, 1), ("num", Quantity.DISTINCT, 7)):
        union = f"SELECT uid AS u FROM orders UNION ALL SELECT {column} FROM people"
        for counted in ("u", "CASE WHEN u > 3 THEN u END"):
            (release,) = planned(f"SELECT COUNT(DISTINCT {counted}) FROM ({union}) AS t", rows_per_unit=7).releases
            assert (release.quantity, release.upper) == (quantity if counted == "u" else Quantity.DISTINCT, most)


def test_without_limits_the_numbers_are_those_of_the_engine(
    planned: Callable[..., QueryPlan], connection: Any, ranking_key: bytes
) -> None:
    text = (
        "WITH t(u, k, d) AS (SELECT uid, item, day FROM orders UNION ALL SELECT user_id, note, day FROM people WHERE "
        "user_id >= 0 UNION ALL SELECT uid, 'z', day FROM orders WHERE amount > 5) SELECT k, COUNT(*) AS n FROM t "
        "JOIN people p ON p.user_id = t.u AND p.day < t.d GROUP BY k"
    )
    plan = planned(text, groups_per_unit=1000, rows_per_unit=100_000)
    groups = exact_groups(plan, DuckDBEngine(connection=connection), ranking_key=ranking_key)
    assert {group.keys[0]: group.sums["a0"] for group in groups} == dict(connection.execute(text).fetchall())


def test_public_tables_may_be_united(planned: Callable[..., QueryPlan]) -> None:
    planned(
        "SELECT COUNT(*) FROM people p JOIN (SELECT region FROM zones UNION ALL SELECT zone FROM zones) AS z "
        "ON z.region = p.region"
    )
