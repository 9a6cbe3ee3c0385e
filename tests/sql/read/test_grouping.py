"""Subqueries that aggregate per unit, and expressions over groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pytest

from hush.data.tables.catalog import Catalog, PrivateTable
from hush.sql import QueryRefused
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups
from hush.sql.read.query import plan_query
from hush.sql.syntax.relation import PerUnit, Projection
from hush.sql.write.plan import QueryPlan

INNER = "SELECT user_id, COUNT(*) AS n, SUM(age) AS s FROM people GROUP BY user_id"


def test_a_subquery_is_a_projection_of_aggregates_per_unit(planned: Callable[..., QueryPlan]) -> None:
    plan = planned(f"SELECT COUNT(*) FROM ({INNER} HAVING n > 2) AS t")
    outer = plan.origin.first.relation
    assert isinstance(outer.body, Projection)
    assert isinstance(outer.body.origin.first.relation.body, PerUnit)
    assert outer.units == 1
    assert outer.body.where is not None  # HAVING
    assert [field.name for field in outer.fields] == ["user_id", "n", "s"]


def test_equal_aggregates_are_computed_once(planned: Callable[..., QueryPlan]) -> None:
    text = "SELECT user_id, SUM(age) AS a, SUM(age) + 1 AS b, COUNT(*) AS n FROM people GROUP BY user_id"
    body = planned(f"SELECT COUNT(*) FROM ({text}) AS t").origin.first.relation.body
    assert isinstance(body, Projection)
    inner = body.origin.first.relation.body
    assert isinstance(inner, PerUnit)
    assert len(inner.aggregates) == 2


def test_sums_of_numbers_do_not_depend_on_the_order_of_rows(ranking_key: bytes) -> None:
    """In floating point, 0.1 + 0.2 + 0.3 depends on the order. On the grid it does not."""
    seen = set()
    for values in ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1]):
        connection = duckdb.connect()
        connection.execute("CREATE TABLE t (who BIGINT, x DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (1, ?)", [[value] for value in values])
        engine = DuckDBEngine(connection=connection)
        tables = Catalog({"t": PrivateTable(columns=engine.columns("t"), unit="who", bounds={"x": (0, 1)})})
        inner = "SELECT who, SUM(x) AS s FROM t GROUP BY who"
        plan = plan_query(f"SELECT s, COUNT(*) AS n FROM ({inner}) AS q GROUP BY s", tables=tables)
        (group,) = exact_groups(plan, engine, ranking_key=ranking_key)
        seen.add(group.keys)
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT user_id, COUNT(DISTINCT age, note) AS n FROM people GROUP BY user_id", "takes one column"),
        ("SELECT user_id, age + 1, COUNT(*) AS n FROM people GROUP BY 1, 2", "needs a name"),
        ("SELECT user_id, COUNT(*) AS n, MAX(age) AS N FROM people GROUP BY user_id", "already taken"),
        ("SELECT user_id, people.user_id, COUNT(*) AS n FROM people GROUP BY user_id", "the same name"),
        ("SELECT user_id, MEDIAN(age) AS m FROM people GROUP BY user_id", "not allowed here"),
        ("SELECT user_id, note, COUNT(*) AS n FROM people GROUP BY user_id", "neither a key"),
        ("SELECT user_id, COUNT(*) AS n FROM people GROUP BY 7", "no column at this position"),
    ],
)
def test_subqueries_that_are_refused(text: str, words: str, planned: Callable[..., QueryPlan]) -> None:
    with pytest.raises(QueryRefused, match=words):
        planned(f"SELECT COUNT(*) AS c FROM ({text}) AS t")


@pytest.mark.parametrize(
    "clauses",
    [
        "GROUP BY note HAVING n > 3 ORDER BY n",
        "GROUP BY 1 HAVING COUNT(*) > 3 ORDER BY 2",
        "GROUP BY people.note HAVING n > 3 ORDER BY COUNT(*)",
    ],
)
def test_keys_and_aggregates_may_be_named_numbered_or_repeated(clauses: str, planned: Any) -> None:
    plan = planned(f"SELECT note, COUNT(*) AS n FROM people {clauses}")
    assert len(plan.keys) == len(plan.statistics) == 1
    assert plan.having is not None
    assert plan.order[0].expression.op == "statistic"
