"""The outer query: everything without a bounded plan is refused, with its position, before data are read."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hush.data.tables.catalog import Catalog
from hush.errors import HushError, InvalidArgument
from hush.sql import QueryRefused
from hush.sql.read.query import plan_query
from hush.sql.write.plan import QueryPlan
from sql.refusing import check_refusal

# The query, the line and column that the refusal points to (None for any), and words of the reason.
REFUSED = [
    # rows instead of aggregates
    ("SELECT * FROM people", (1, 8), "would return rows"),
    ("SELECT region FROM people", (1, 8), "neither a key"),
    ("SELECT region, COUNT(*) FROM people", (1, 8), "neither a key"),
    ("SELECT region,\n  income, COUNT(*) FROM people GROUP BY region", (2, 3), "neither a key"),
    ("SELECT region FROM people GROUP BY region", None, "without an aggregate"),
    ("SELECT DISTINCT region FROM people", None, "DISTINCT without an aggregate would return rows"),
    ("SELECT DISTINCT COUNT(*) FROM people GROUP BY region", None, "Select every key of GROUP BY"),
    ("SELECT DISTINCT ON (region) region, COUNT(*) FROM people GROUP BY region", None, "ON is not supported"),
    ("SELECT user_id, COUNT(*) FROM people GROUP BY user_id", (1, 47), "show single units"),
    ('SELECT p."USER_ID" AS u, COUNT(*) FROM people p GROUP BY u', None, "show single units"),
    ("SELECT user_id, COUNT(*) FROM people GROUP BY ALL", (1, 8), "show single units"),
    ("SELECT region, user_id, COUNT(*) FROM people GROUP BY ALL", None, "show single units"),
    ("SELECT COUNT(*) FROM people GROUP BY ROLLUP (user_id)", None, "show single units"),
    ("SELECT COUNT(*) FROM people GROUP BY GROUPING SETS ((region, user_id), (region))", None, "show single units"),
    ("SELECT COUNT(*) FROM people GROUP BY CUBE (region, note, flag, age, day, price)", None, "CUBE takes at most 5"),
    ("SELECT COUNT(*) FROM people GROUP BY CUBE (region, note, flag), CUBE (age, day, price)", None, "at most 32"),
    ("SELECT COUNT(*), GROUPING(flag) FROM people GROUP BY ROLLUP (region)", None, "GROUPING takes one key"),
    ("SELECT COUNT(*) FROM (SELECT user_id FROM people GROUP BY ROLLUP (user_id)) AS t", None, "outer query only"),
    ("SELECT 1", None, "without FROM"),
    ("SELECT 1 FROM people", None, "without an aggregate"),
    # statements
    ("PRAGMA database_list", None, "only SELECT statements"),
    ("ATTACH 'x.db'", None, "only SELECT statements"),
    ("COPY people TO 'x.csv'", None, "only SELECT statements"),
    ("INSERT INTO people SELECT * FROM people", None, "only SELECT statements"),
    ("DROP TABLE people", None, "only SELECT statements"),
    ("CREATE TABLE x AS SELECT COUNT(*) FROM people", None, "only SELECT statements"),
    ("SET threads = 1", None, "only SELECT statements"),
    ("EXPLAIN SELECT COUNT(*) FROM people", None, ""),
    ("SELECT COUNT(*) FROM people; SELECT COUNT(*) FROM people", None, "exactly one statement"),
    ("SELECT COUNT(*) FROM people; -- x\nDROP TABLE people", None, "exactly one statement"),
    ("-- nothing", None, "exactly one statement"),
    ("SELECT COUNT(*) FROM people WHERE (", None, "not valid SQL"),
    ("SELECT 'abc", None, "not valid SQL"),
    ("", None, "1 to 50000 characters"),
    ("SELECT COUNT(*) FROM people\x00", None, "none of them NUL"),
    # aggregates
    ("SELECT SUM(income / big) FROM people", (1, 12), "no bounds"),
    ("SELECT SUM(POW(big, 4)) FROM people", (1, 12), "too wide"),
    ("SELECT AVG(income / age) FROM people", (1, 12), "no bounds"),
    ("SELECT SUM(income) / income FROM people", (1, 22), "neither a key"),
    ("SELECT MAX(income) FROM people", (1, 12), "one unit's value"),
    ("SELECT MIN(income) FROM people", (1, 12), "one unit's value"),
    ("SELECT SUM(AVG(income)) FROM people", None, "an aggregate inside an aggregate"),
    ("SELECT COUNT(SUM(age)) FROM people", None, "an aggregate inside an aggregate"),
    ("SELECT COUNT(DISTINCT region, note) FROM people", None, "takes one expression. Join texts with CONCAT_WS"),
    ("SELECT COUNT(DISTINCT NULL) FROM people", None, "NULL has no values"),
    ("SELECT COUNT(DISTINCT SUM(age)) FROM people", None, "an aggregate inside an aggregate"),
    ("SELECT SUM(DISTINCT age) FROM people", None, "COUNT(DISTINCT x) only"),
    ("SELECT STRING_AGG(note, ',') FROM people", None, "is not supported. Use COUNT, SUM"),
    ("SELECT CORR(age, age / big) FROM people", (1, 18), "no bounds"),
    ("SELECT COVAR_POP(note, income) FROM people", (1, 18), "expected a number"),
    ("SELECT BOOL_OR(flag) FROM people", None, "one unit's value. Use COUNT_IF"),
    ("SELECT COUNT_IF(age) FROM people", (1, 17), "expected a condition here"),
    ("SELECT COUNT_IF(COUNT(*) > 3) FROM people", None, "an aggregate inside an aggregate"),
    ("SELECT COUNT(*) FROM people WHERE COUNT_IF(flag) > 3", (1, 35), "not allowed here"),
    ("SELECT MODE(region) FROM people", (1, 8), "MODE is not supported. Group by the value"),
    ("SELECT APPROX_COUNT_DISTINCT(age, 0.1) FROM people", None, "ACCURACY is not supported"),
    ("SELECT SUM(age / big) FILTER (WHERE flag) FROM people", (1, 12), "no bounds"),
    ("SELECT MAX(age) FILTER (WHERE flag) FROM people", (1, 12), "one unit's value"),
    ("SELECT SUM(age) FILTER (WHERE SUM(age) > 3) FROM people", None, "an aggregate inside an aggregate"),
    ("SELECT SUM(DISTINCT age) FILTER (WHERE flag) FROM people", None, "FILTER is supported after"),
    ("SELECT MODE(region) FILTER (WHERE flag) FROM people", None, "FILTER is supported after"),
    ("SELECT SUM(age) FILTER (WHERE age) FROM people", None, "expected a condition here"),
    ("SELECT QUANTILE_CONT(age, [0.1, 1.9]) FROM people", (1, 22), "between 0 and 1"),
    ("SELECT QUANTILE_CONT(age, []) FROM people", None, "1 to 100 levels"),
    ("SELECT QUANTILE_CONT(age, [0.1, 0.9]) + 1 FROM people", None, "expected a number"),
    ("SELECT QUANTILE_CONT(age, [0.1, 0.9]) IS NULL FROM people", None, "a column of its own"),
    ("SELECT COUNT(*) FROM people HAVING QUANTILE_CONT(age, [0.1]) = QUANTILE_CONT(age, [0.2])", None, "of its own"),
    ("SELECT QUANTILE_CONT(age, [0.1]) AS q FROM people ORDER BY q", None, "a column of its own"),
    ("SELECT MIN(QUANTILE_CONT(age, [0.1])) OVER () AS q FROM people", None, "a column of its own"),
    ("SELECT RANK() OVER (PARTITION BY QUANTILE_CONT(age, [0.1])) AS q FROM people", None, "a column of its own"),
    ("SELECT DISTINCT region, COUNT(*) FROM people GROUP BY ROLLUP (region)", None, "where it changes nothing"),
    ("SELECT MEDIAN(day) FROM people", None, "not a date. Extract a part of it"),
    ("SELECT AVG(note) FROM people", (1, 12), 'bounds={"note": (LOW, HIGH)}, --bounds note=LOW:HIGH'),
    ("SELECT SUM(big * note) AS s FROM people", None, 'bounds={"note": (LOW, HIGH)}, --bounds note=LOW:HIGH'),
    ("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age, income) FROM people", None, "one expression"),
    ("SELECT MODE() WITHIN GROUP (ORDER BY age) FROM people", None, "WITHIN GROUP is supported with"),
    ("SELECT people.* FROM people", (1, 8), "would return rows"),
    ("SELECT LIST(note) FROM people", None, ""),
    ("SELECT FIRST(note) FROM people", None, ""),
    ("SELECT SUM(income ORDER BY age) FROM people", None, ""),
    ("SELECT COUNT(*) FROM people WHERE COUNT(*) > 3", (1, 35), "not allowed here"),
    ("SELECT region, COUNT(*) FROM people GROUP BY region, COUNT(*)", None, "a key cannot contain"),
    ("SELECT COUNT(*) FROM people GROUP BY 2", None, "no column at this position"),
    ("SELECT CAST(region AS DOUBLE), COUNT(*) FROM people GROUP BY region", None, "cannot be computed from released"),
    # the rest of the clauses
    ("SELECT COUNT(*) FROM people OFFSET -1", None, "OFFSET must not be negative"),
    ("SELECT COUNT(*) FROM people LIMIT 1 OFFSET age", None, ""),
    ("SELECT COUNT(*) FROM people LIMIT -1", None, "LIMIT"),
    ("SELECT COUNT(*) FROM people LIMIT 10 PERCENT", None, ""),
    ("SELECT COUNT(*) FROM people ORDER BY income", None, "neither a key"),
    ("SELECT COUNT(*) FROM people FOR UPDATE", None, "not supported"),
]


@pytest.mark.parametrize(("text", "position", "words"), REFUSED, ids=[text[:70] for text, _, _ in REFUSED])
def test_refused(text: str, position: tuple[int, int] | None, words: str, catalog: Catalog) -> None:
    check_refusal(text, position, words, catalog)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM people WHERE " + "(" * 3000 + "TRUE" + ")" * 3000,
        "SELECT COUNT(*) FROM people WHERE " + " AND ".join(["age > 1"] * 4000),
        "SELECT COUNT(*) FROM people WHERE " + "SQRT(" * 40 + "age" + ")" * 40 + " > 1",
        "SELECT " + ", ".join(f"a{n} + a{n} AS a{n + 1}" for n in range(60)) + ", COUNT(*) AS a0 FROM people",
    ],
)
def test_long_queries_are_refused_quickly(text: str, catalog: Catalog) -> None:
    with pytest.raises(HushError):
        plan_query(text, tables=catalog)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) /* ; DROP TABLE people */ FROM people -- and more",
        'SELECT COUNT(*) FROM "PEOPLE" WHERE "Age" > 3',
        "SELECT COUNT(*) FROM people WHERE note = '''; DROP TABLE people; --'",
        "SELECT COUNT(*) FROM people WHERE note IN ('a', NULL)",
        "SELECT COUNT(*) FROM people;",
        'SELECT COUNT(*) AS "a; DROP TABLE people" FROM people',
    ],
)
def test_the_text_of_a_query_is_not_run(text: str, planned: Callable[..., QueryPlan], ranking_key: bytes) -> None:
    """Comments and names do not reach the engine. Constants are quoted again."""
    sql = planned(text).sql(ranking_key=ranking_key)
    assert "DROP TABLE" not in re.sub(r"'(?:[^']|'')*'", "", sql)
    assert "--" not in re.sub(r"'(?:[^']|'')*'", "", sql)


WORDS = [
    *(
        "SELECT",
        "FROM",
        "people",
        "orders p",
        "WHERE",
        "GROUP BY",
        "HAVING",
        "ORDER BY",
        "LIMIT",
        "JOIN",
        "ON",
        "USING",
        "AS",
        "a",
        "b",
    ),
    *(
        "COUNT(*)",
        "COUNT(",
        "SUM(",
        "AVG(",
        "MEDIAN(",
        "DISTINCT",
        "(",
        ")",
        ",",
        "*",
        "+",
        "/",
        "=",
        "<",
        "AND",
        "OR",
        "NOT",
        "IS NULL",
    ),
    *(
        "age",
        "income",
        "region",
        "day",
        "flag",
        "user_id",
        "uid",
        "1",
        "2.5",
        "'x'",
        "NULL",
        "TRUE",
        "CASE WHEN",
        "THEN",
        "ELSE",
        "END",
    ),
    *(
        "WITH t AS (",
        "UNION",
        "OVER ()",
        "CAST(",
        "AS INT)",
        "IN (",
        "LIKE",
        "EXTRACT(",
        "DATE_TRUNC(",
        "INTERVAL",
        "::",
        ";",
        ".",
        "[",
        "]",
    ),
    *(
        "EXISTS (",
        "LATERAL",
        "FILTER (",
        "BETWEEN",
        "->",
        "{",
        "}",
        "?",
        "$1",
        "@",
        "--",
        "/*",
        "\\",
        '"',
        "ROUND(",
        "COALESCE(",
        "POW(",
    ),
]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.sampled_from(WORDS), max_size=14), fitting=st.booleans())
def test_any_text_is_planned_or_refused(words: list[str], fitting: bool, catalog: Catalog) -> None:
    body = " ".join(words)
    text = f"SELECT COUNT(*), {body} FROM people WHERE {body}" if fitting else body
    for dialect in ("duckdb", "postgres", "spark"):
        with contextlib.suppress(QueryRefused):
            plan_query(text, tables=catalog, dialect=dialect).sql(ranking_key=bytes(16))


def test_quantiles_in_every_dialect(catalog: Catalog) -> None:
    with pytest.raises(QueryRefused, match="Write PERCENTILE_CONT"):
        plan_query("SELECT QUANTILE_DISC(age, 0.5) FROM people", tables=catalog, dialect="postgres")
    text = "SELECT PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY age{}) AS q FROM people"
    for dialect in ("duckdb", "postgres"):
        (up,) = plan_query(text.format(""), tables=catalog, dialect=dialect).statistics
        (down,) = plan_query(text.format(" DESC"), tables=catalog, dialect=dialect).statistics
        assert (up.probability, down.probability) == (0.1, 0.9)
    for dialect in ("duckdb", "postgres", "spark"):
        (same,) = plan_query("SELECT QUANTILE_CONT(age, 0.1) FROM people", tables=catalog, dialect=dialect).statistics
        assert same == up


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_constants_need_a_time_zone_in_every_dialect(dialect: str, catalog: Catalog) -> None:
    with_zone = {"duckdb": "TIMESTAMPTZ", "postgres": "TIMESTAMP WITH TIME ZONE", "spark": "TIMESTAMP_LTZ"}[dialect]
    text = "SELECT COUNT(*) FROM people WHERE moment < CAST('2024-01-01' AS {})"
    with pytest.raises(QueryRefused, match="CAST is not supported|time zone of this timestamp is not known"):
        plan_query(text.format(with_zone), tables=catalog, dialect=dialect)
    plan_query(text.format("TIMESTAMP"), tables=catalog, dialect=dialect)


def chained(number: int) -> str:
    """Return a query with a chain of common table expressions."""
    links = [f"c{i} AS (SELECT user_id, age + {i} AS age FROM c{i - 1} WHERE age < 99)" for i in range(1, number)]
    return f"WITH {', '.join(['c0 AS (SELECT user_id, age FROM people)', *links])} SELECT COUNT(*) FROM c{number - 1}"


def diamonds(number: int) -> str:
    """Return a query with common table expressions, each of which names the one before twice."""
    links = [
        f"c{i} AS (SELECT a.user_id, b.age FROM c{i - 1} a JOIN c{i - 1} b ON a.user_id = b.user_id)"
        for i in range(1, number)
    ]
    return f"WITH {', '.join(['c0 AS (SELECT user_id, age FROM people)', *links])} SELECT COUNT(*) FROM c{number - 1}"


@pytest.mark.parametrize("query", [chained, diamonds])
def test_planning_is_linear_in_common_table_expressions(query: Callable[[int], str], catalog: Catalog) -> None:
    """Counted in calls of functions, which do not depend on the machine."""

    def num_calls(number: int) -> int:
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        text = query(number)
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            plan = plan_query(text, tables=catalog)
            plan.sql(ranking_key=bytes(16))
            plan.fingerprint()
        finally:
            sys.setprofile(before)
        return calls

    num_calls(2)  # fills caches
    few, more, many = num_calls(12), num_calls(24), num_calls(48)
    assert many - more == pytest.approx(2 * (more - few), rel=0.1)
    assert num_calls(200) == pytest.approx(many + 152 * (many - more) / 24, rel=0.1)


def test_arguments_that_are_refused(catalog: Catalog) -> None:
    text = "SELECT COUNT(*) FROM people"
    with pytest.raises(InvalidArgument, match="^dialect='sqlite': expected one of duckdb"):
        plan_query(text, tables=catalog, dialect="sqlite")
    with pytest.raises(InvalidArgument, match="^tables="):
        plan_query(text, tables={})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="^limits="):
        plan_query(text, tables=catalog, limits=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="^text="):
        plan_query(b"SELECT 1", tables=catalog)  # type: ignore[arg-type]
