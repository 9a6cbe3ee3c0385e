"""FROM, joins and names: a query is refused if its rows could belong to several units, or to none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hush.data.tables.catalog import Catalog, PrivateTable
from hush.sql import QueryRefused
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups
from hush.sql.read.query import plan_query
from hush.sql.write.plan import QueryPlan
from sql.refusing import check_refusal

# The query, the line and column that the refusal points to (None for any), and words of the reason.
REFUSED = [
    # the join, and the unit
    ("SELECT COUNT(*) FROM people, orders", None, "rows of different units"),
    ("SELECT COUNT(*) FROM people p JOIN orders o ON p.day = o.day", None, "rows of different units"),
    ("SELECT COUNT(*) FROM people p JOIN orders o ON p.user_id = o.uid OR TRUE", None, "rows of different units"),
    ("SELECT COUNT(*) FROM people p JOIN orders o ON p.user_id < o.uid", None, "rows of different units"),
    ("SELECT COUNT(*) FROM people p JOIN orders o ON p.user_id = o.uid + 1", None, "rows of different units"),
    ("SELECT COUNT(*) FROM people p JOIN people q ON p.user_id = p.user_id", None, "rows of different units"),
    ("SELECT COUNT(*) FROM people p JOIN people q USING (region)", None, "rows of different units"),
    (
        "SELECT COUNT(*) FROM people p LEFT JOIN orders o ON p.user_id = o.uid JOIN people q ON o.uid = q.user_id",
        None,
        "different units",
    ),
    ("SELECT COUNT(*) FROM zones z LEFT JOIN people p ON p.region = z.region", None, "depends on all units"),
    (
        "SELECT COUNT(*) FROM people p JOIN zones z ON p.region = z.region RIGHT JOIN orders o ON p.user_id = o.uid",
        None,
        "RIGHT JOIN",
    ),
    ("SELECT COUNT(*) FROM people p RIGHT JOIN zones z ON p.region = z.region", None, "depends on all units"),
    ("SELECT COUNT(*) FROM people p RIGHT JOIN orders o ON p.age = o.amount", None, "rows of different units"),
    ("SELECT COUNT(*) FROM people p, orders o WHERE p.user_id = o.amount", None, "rows of different units"),
    ("SELECT COUNT(*) FROM people p, orders o WHERE p.user_id = o.uid OR p.age > 3", None, "rows of different units"),
    ("SELECT COUNT(*) FROM people p, orders o WHERE NOT p.user_id = o.uid", None, "rows of different units"),
    ("SELECT COUNT(*) FROM people p, orders o WHERE p.user_id + 0 = o.uid", None, "rows of different units"),
    ("SELECT COUNT(*) FROM people p, orders o WHERE p.user_id = p.user_id", None, "rows of different units"),
    ("SELECT COUNT(*) FROM people p, orders o WHERE p.user_id <= o.uid", None, "rows of different units"),
    (
        "SELECT COUNT(*) FROM people p LEFT JOIN orders o ON p.age = o.amount WHERE p.user_id = o.uid",
        None,
        "rows of different units",
    ),
    (
        "SELECT COUNT(*) FROM (SELECT * FROM people p JOIN orders o ON p.user_id = o.uid) AS t",
        (1, 30),
        "two tables have a column named day",
    ),
    ("SELECT COUNT(*) FROM (SELECT * EXCLUDE (age) FROM people) AS t", None, "not supported"),
    ("SELECT COUNT(*) FROM (SELECT q.* FROM people) AS t", (1, 30), "FROM has no table of this name"),
    ("SELECT COUNT(*) FROM people p FULL JOIN orders o ON p.user_id = o.uid", None, "FULL JOIN"),
    ("SELECT COUNT(*) FROM people NATURAL JOIN orders", None, "rows of different units"),
    ("SELECT COUNT(*) FROM people ASOF JOIN zones ON people.region = zones.region", None, "ASOF JOIN"),
    ("SELECT COUNT(*) FROM people SEMI JOIN orders ON user_id = uid", None, "SEMI JOIN"),
    ("SELECT COUNT(*) FROM people ASOF JOIN orders ON user_id = uid", None, "not supported"),
    ("SELECT COUNT(*) FROM zones", None, "all tables are public"),
    ("SELECT COUNT(*) FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region) AS t", None, "belong to no unit"),
    ("SELECT COUNT(*) FROM (SELECT COUNT(*) AS n FROM people) AS t", None, "belong to no unit"),
    (
        "SELECT COUNT(*) FROM (SELECT user_id + 0 AS u, COUNT(*) AS n FROM people GROUP BY user_id + 0) AS t",
        None,
        "no unit",
    ),
    ("SELECT COUNT(*) FROM (SELECT user_id FROM people LIMIT 5) AS t", None, "other units' rows"),
    ("SELECT COUNT(*) FROM (SELECT user_id FROM people ORDER BY income) AS t", None, "other units' rows"),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT region FROM people) AS t", None, "DISTINCT would return rows"),
    ("SELECT COUNT(*) FROM people USING SAMPLE 10", None, ""),
    ("SELECT COUNT(*) FROM people TABLESAMPLE (10 PERCENT)", None, "TABLESAMPLE is not supported"),
    ("SELECT COUNT(*) FROM (PIVOT people ON region USING COUNT(*)) AS t", None, ""),
    # names
    ("SELECT COUNT(*) AS n, SUM(age) AS N FROM people", None, "already taken"),
    ("SELECT COUNT(*) AS income FROM people HAVING income > 3", None, "already taken"),
    ("SELECT region AS note, COUNT(*) FROM people GROUP BY note", None, "already taken"),
    ("SELECT COUNT(*), COUNT(*) FROM people", None, "two columns of the answer"),
    ("SELECT COUNT(*) FROM people p JOIN orders P ON p.user_id = P.uid", None, "used twice"),
    ("WITH people AS (SELECT user_id FROM people) SELECT COUNT(*) FROM people", None, "already taken"),
    (
        "WITH t AS (SELECT user_id FROM people), T AS (SELECT uid FROM orders) SELECT COUNT(*) FROM t",
        None,
        "already taken",
    ),
    ("WITH t(x) AS (SELECT user_id, age FROM people) SELECT COUNT(*) FROM t", None, "not as many as the columns"),
    ("WITH t(x, X) AS (SELECT user_id, age FROM people) SELECT COUNT(*) FROM t", None, "not distinct"),
    ("SELECT COUNT(*) FROM (SELECT user_id, age AS a, note AS A FROM people) AS t", None, "two columns are named"),
    (
        "SELECT COUNT(*) FROM people p JOIN zones z ON p.region = z.region WHERE region = 'x'",
        (1, 73),
        "more than one table",
    ),
    ("SELECT COUNT(*) FROM people WHERE nothing = 1", (1, 35), "no column of this name"),
    ("SELECT COUNT(*) FROM people WHERE q.age = 1", None, "no table of this name"),
    ("SELECT COUNT(*) FROM nobody", (1, 22), "no table of this name"),
    ("SELECT COUNT(*) FROM (SELECT user_id FROM people)", None, "needs a name"),
    ("SELECT COUNT(*) FROM people AS t(a, b)", None, "not supported"),
    ("SELECT a AS b, b AS a, COUNT(*) FROM people", None, "no column of this name"),
]


@pytest.mark.parametrize(("text", "position", "words"), REFUSED, ids=[text[:70] for text, _, _ in REFUSED])
def test_refused(text: str, position: tuple[int, int] | None, words: str, catalog: Catalog) -> None:
    check_refusal(text, position, words, catalog)


@pytest.mark.parametrize("declared", ["VARCHAR", "DECIMAL(18, 0)", "UBIGINT"])
def test_units_of_different_types_are_not_joined(declared: str) -> None:
    """An engine would cast one to the other, and raise on values that do not fit."""
    tables = Catalog(
        {name: PrivateTable(columns={"who": kind}, unit="who") for name, kind in (("a", "BIGINT"), ("b", declared))}
    )
    with pytest.raises(QueryRefused, match="different types|different kinds"):
        plan_query("SELECT COUNT(*) FROM a JOIN b ON a.who = b.who", tables=tables)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT COUNT(*) FROM people p JOIN orders o ON p.user_id = o.uid", "within a window"),
        ("SELECT COUNT(*) FROM (SELECT user_id, COUNT(*) AS n FROM people GROUP BY user_id) AS t", "within a window"),
        ("SELECT user_id, COUNT(*) FROM people GROUP BY user_id", "show single units"),
    ],
)
def test_users_within_a_window_allow_less(
    text: str, words: str, engine: object, described: Callable[..., Catalog]
) -> None:
    with pytest.raises(QueryRefused, match=words):
        plan_query(text, tables=described(engine, time="day", window="month"))


def test_names_ignore_case_and_quotes(planned: Callable[..., QueryPlan]) -> None:
    plain = planned("SELECT COUNT(*) AS n FROM people WHERE age > 3")
    assert planned('SELECT COUNT(*) AS n FROM "PEOPLE" AS P WHERE p."Age" > 3').where == plain.where


def test_using_merges_the_columns_of_both_sides(planned: Callable[..., QueryPlan]) -> None:
    plan = planned("SELECT region, COUNT(*) AS n FROM people JOIN zones USING (region) GROUP BY region")
    assert plan.columns == ("region", "n")
    (join,) = plan.origin.joins
    assert join.condition is not None
    assert join.condition.op == "eq"
    assert not join.on_unit


def test_rows_that_a_table_excludes_are_not_read(
    engine: DuckDBEngine, described: Callable[..., Catalog], ranking_key: bytes
) -> None:
    tables = described(engine, only="\"note\" IN ('n1', 'n2')")
    plan = plan_query("SELECT note, COUNT(DISTINCT user_id) FROM people GROUP BY note", tables=tables)
    assert {group.keys for group in exact_groups(plan, engine, ranking_key=ranking_key)} == {("n1",), ("n2",)}
