"""Short forms of SQL are read as the longer ones that they stand for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlglot import exp, parse_one

from hush.sql import QueryRefused
from hush.sql.read.shorthand import expand, plain_aggregate
from hush.sql.syntax.refusal import Refuser
from hush.sql.write.plan import QueryPlan

SAME = [
    (
        "SELECT region, COUNT(*) AS n FROM people GROUP BY ALL",
        "SELECT region, COUNT(*) AS n FROM people GROUP BY region",
    ),
    (
        "SELECT SUM(age) AS s, FLOOR(age / 10) AS d, 7 AS c, note FROM people GROUP BY ALL",
        "SELECT SUM(age) AS s, FLOOR(age / 10) AS d, 7 AS c, note FROM people GROUP BY FLOOR(age / 10), note",
    ),
    ("SELECT COUNT(*) AS n FROM people GROUP BY ALL", "SELECT COUNT(*) AS n FROM people"),
    ("SELECT COUNT_IF(age > 3) AS n FROM people", "SELECT COUNT(CASE WHEN age > 3 THEN 1 END) AS n FROM people"),
    (
        "SELECT COUNT(*) FILTER (WHERE flag) AS n, AVG(age) FILTER (WHERE age < 9) AS a FROM people",
        "SELECT COUNT(CASE WHEN flag THEN 1 END) AS n, AVG(CASE WHEN age < 9 THEN age END) AS a FROM people",
    ),
    (
        "SELECT MEDIAN(age) FILTER (WHERE flag) AS m FROM people",
        "SELECT MEDIAN(CASE WHEN flag THEN age END) AS m FROM people",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders o RIGHT OUTER JOIN people p ON p.user_id = o.uid",
        "SELECT COUNT(*) AS n FROM people p LEFT JOIN orders o ON p.user_id = o.uid",
    ),
    (
        "SELECT COUNT(*) AS n FROM zones z RIGHT JOIN people p USING (region) JOIN orders o ON o.uid = p.user_id",
        "SELECT COUNT(*) AS n FROM people p LEFT JOIN zones z USING (region) JOIN orders o ON o.uid = p.user_id",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT * FROM zones) AS z JOIN people p ON z.region = p.region",
        "SELECT COUNT(*) AS n FROM (SELECT region, zone, weight FROM zones) AS z JOIN people p ON z.region = p.region",
    ),
]


@pytest.mark.parametrize(("short", "long"), SAME)
def test_short_forms_have_the_plan_of_the_long_ones(short: str, long: str, planned: Callable[..., QueryPlan]) -> None:
    plan, other = planned(short), planned(long)
    assert plan.sql(ranking_key=bytes(16)) == other.sql(ranking_key=bytes(16))
    assert plan.columns == other.columns
    assert plan.statistics == other.statistics


def test_a_column_keeps_its_own_text_as_its_name(planned: Callable[..., QueryPlan]) -> None:
    plan = planned("SELECT COUNT_IF(flag), SUM(age) FILTER (WHERE flag) FROM people")
    assert plan.columns == ("COUNT_IF(flag)", "SUM(age) FILTER(WHERE flag)")


def test_quantiles_and_timestamps_of_other_dialects() -> None:
    select = parse_one("SELECT QUANTILE_CONT(x, 0.5), other(x, 0.5) FROM t WHERE m < TIMESTAMP '2024-01-01'", "spark")
    assert isinstance(select, exp.Select)
    expand(select, "spark")
    assert isinstance(select.expressions[0], exp.PercentileCont)
    assert isinstance(select.expressions[1], exp.Anonymous)
    assert [node.this for node in select.find_all(exp.DataType)] == [exp.DType.TIMESTAMP]


def test_a_later_right_join_stays() -> None:
    select = parse_one("SELECT 1 FROM a JOIN b ON a.x = b.x RIGHT JOIN c ON c.x = a.x")
    assert isinstance(select, exp.Select)
    before = select.sql()
    expand(select, "duckdb")
    assert select.sql() == before


def test_aggregates_that_take_no_filter_are_refused() -> None:
    text = "SELECT SUM(DISTINCT x) FILTER (WHERE c)"
    with pytest.raises(QueryRefused, match="FILTER is supported after COUNT, SUM"):
        plain_aggregate(Refuser(text), parse_one(text).expressions[0])
    count = parse_one("COUNT(x)")
    assert plain_aggregate(Refuser(""), count) is count
