"""The allow-list: functions without a rule are refused, and so are values of the wrong kind."""

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
from hush.sql.read.translator import PARTS, RULES
from hush.sql.write.plan import QueryPlan
from sql.refusing import check_refusal

# The query, the line and column that the refusal points to (None for any), and words of the reason.
REFUSED = [
    # functions that change, are unknown, or read elsewhere
    ("SELECT COUNT(*) FROM people WHERE random() < 0.5", (1, 35), "changes from run to run"),
    ("SELECT COUNT(*) FROM people WHERE day < now()", (1, 41), "changes from run to run"),
    ("SELECT COUNT(*) FROM people WHERE day < CURRENT_DATE", None, "changes from run to run"),
    ("SELECT COUNT(*) FROM people WHERE day < today()", (1, 41), ""),
    ("SELECT COUNT(*) FROM people WHERE note = uuid()", (1, 42), "changes from run to run"),
    ("SELECT COUNT(*) FROM people WHERE my_function(note) = 1", (1, 35), "not on the list of supported functions"),
    ("SELECT COUNT(*) FROM people WHERE getenv('HOME') = 'x'", (1, 35), "not on the list of supported functions"),
    ("SELECT COUNT(*) FROM people WHERE error('x') = 1", (1, 35), "not on the list of supported functions"),
    ("SELECT COUNT(*) FROM people WHERE md5(note) = 'x'", (1, 35), "not on the list of supported functions"),
    (
        "SELECT COUNT(*) FROM people WHERE regexp_matches(note, '(a+)+$')",
        None,
        "this regular expression is refused",
    ),
    (
        "SELECT COUNT(*) FROM people WHERE repeat(note, 1000000000) = 'x'",
        (1, 35),
        "not on the list of supported functions",
    ),
    ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", (1, 22), "not on the list of supported functions"),
    ("SELECT COUNT(*) FROM '/etc/passwd'", (1, 22), "no table of this name"),
    ('SELECT COUNT(*) FROM "people.parquet"', (1, 22), "no table of this name"),
    ("SELECT COUNT(*) FROM glob('*')", (1, 22), "not on the list of supported functions"),
    ("SELECT COUNT(*) FROM range(10)", None, ""),
    ("SELECT COUNT(*) FROM people, UNNEST([1, 2, 3])", None, "functions that return rows"),
    ("SELECT COUNT(*) FROM people WHERE note = ?", None, "query parameters are not supported"),
    ("SELECT COUNT(*) FROM people WHERE note = $1", None, "query parameters are not supported"),
    ("SELECT COUNT(*) FROM information_schema.tables", None, "not supported"),
    ("SELECT COUNT(*) FROM main.people", None, "not supported"),
    ("SELECT COUNT(*) FROM duckdb_tables()", None, "not on the list of supported functions"),
    # kinds that would be cast by the engine, and could raise
    ("SELECT COUNT(*) FROM people WHERE note > 5", None, "different kinds"),
    ("SELECT COUNT(*) FROM people WHERE note + 1 > 5", None, "expected a number here, not text"),
    ("SELECT COUNT(*) FROM people WHERE age", None, "expected a condition here, not an integer"),
    ("SELECT COUNT(*) FROM people WHERE day > 'tomorrow'", None, "is not a date"),
    ("SELECT COUNT(*) FROM people WHERE CASE WHEN flag THEN 1 ELSE 'a' END = 1", None, "different kinds"),
    ("SELECT COUNT(*) FROM people WHERE SUBSTRING(note, age) = 'a'", None, "expected a constant"),
    ("SELECT COUNT(*) FROM people WHERE note LIKE note", None, "expected a constant"),
    ("SELECT COUNT(*) FROM people WHERE note LIKE 'a\\'", None, "backslash"),
    ("SELECT COUNT(*) FROM people WHERE POW(age, 100) > 1", None, "POW takes a constant exponent"),
    ("SELECT COUNT(*) FROM people WHERE income // 2 = 1", None, "FLOOR"),
    ("SELECT COUNT(*) FROM people WHERE LOG(age, 2) = 1", None, "expected a constant"),
    ("SELECT COUNT(*) FROM people WHERE LOG(1, age) = 1", None, "base of more than 1"),
    ("SELECT COUNT(*) FROM people WHERE age & 1 = 1", None, "not supported"),
    ("SELECT COUNT(*) FROM people WHERE CAST(note AS BLOB) = 'a'", None, "CAST"),
    ("SELECT COUNT(*) FROM people WHERE age IN (age, 1)", None, "expected a constant"),
    ("SELECT COUNT(*) FROM people WHERE age = ANY([1, 2])", None, "ANY and ALL are not supported. Write x IN"),
    ("SELECT COUNT(*) FROM people WHERE note.a = 1", (1, 35), "note is a column"),
    ("SELECT COUNT(*) FROM people WHERE q.a = 1", None, "FROM has no table of this name. It has people."),
    ("SELECT COUNT(*) FROM people WHERE ages = 1", None, "The columns are user_id, region, income, age"),
    ("SELECT COUNT(*) FROM persons", None, "The tables are people, orders, zones."),
]


@pytest.mark.parametrize(("text", "position", "words"), REFUSED, ids=[text[:70] for text, _, _ in REFUSED])
def test_refused(text: str, position: tuple[int, int] | None, words: str, catalog: Catalog) -> None:
    check_refusal(text, position, words, catalog)


def test_every_rule_with_parts_is_on_the_allow_list() -> None:
    assert PARTS.keys() <= RULES.keys()


@pytest.mark.parametrize(
    ("expression", "low", "high"),
    [
        ("age", 0, 120),
        ("-age", -120, 0),
        ("age + 10", 10, 130),
        ("age - income", -200_000, 120),
        ("age * -2", -240, 0),
        ("age / 4", 0, 30),
        ("ABS(age - 60)", 0, 60),
        ("POW(age - 60, 2)", 0, 3600),
        ("ROUND(age / 7, 1)", 0, 18),
        ("LEAST(GREATEST(big, -5), 5)", -5, 5),
        ("GREATEST(age + 20, 0)", 0, 140),  # 0 where age is missing
        ("LEAST(age, income)", 0, 200_000),
        ("CASE WHEN flag THEN age ELSE -1 END", -1, 120),
        ("COALESCE(age, 300)", 0, 300),
        ("NULLIF(age, 3)", 0, 120),
    ],
)
def test_bounds_follow_from_the_declared_ones(
    expression: str, low: float, high: float, planned: Callable[..., QueryPlan]
) -> None:
    (value,) = planned(f"SELECT SUM({expression}) AS s FROM people").values
    assert (value.low, value.high) == (low, high)


@pytest.mark.parametrize(
    "expression", ["age / big", "CAST(note AS DOUBLE) / big", "age / (age - 5)", "LN(age)", "LENGTH(note)"]
)
def test_an_expression_without_bounds_cannot_be_summed(expression: str, planned: Callable[..., QueryPlan]) -> None:
    with pytest.raises(QueryRefused, match="no bounds"):
        planned(f"SELECT SUM({expression}) AS s FROM people")


@pytest.mark.parametrize(
    ("argument", "total"),
    [
        ("x", 10 + 0 + 4),
        ("x * x", 100 + 0 + 16),  # 1000, -1000 and 4, in a column between 0 and 10
        ("POW(x, 3)", 1000 + 0 + 64),
        ("10 - x", 0 + 10 + 6),
        ("CASE WHEN x > 100 THEN x + 1 ELSE 0 END", 11),
        ("COALESCE(x, 5) * 2", 20 + 0 + 8 + 10),
        ("NULLIF(x, 4) + 0", 10),
    ],
)
def test_columns_are_clamped_before_a_sum_computes_with_them(argument: str, total: int, ranking_key: bytes) -> None:
    """So that the sum is the one over the clamped table. Conditions compare values as they are."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS FROM (VALUES (1, 1000.0), (2, -1000.0), (3, 4.0), (4, NULL)) AS v(who, x)")
    engine = DuckDBEngine(connection=connection)
    tables = Catalog({"t": PrivateTable(columns=engine.columns("t"), unit="who", bounds={"x": (0, 10)})})
    inner = f"SELECT who, SUM({argument}) AS s FROM t GROUP BY who"
    for text in (
        f"SELECT SUM({argument}) AS s FROM t",
        f"SELECT SUM(LEAST(GREATEST(s, -10000), 10000)) AS s FROM ({inner}) AS q WHERE s IS NOT NULL",
    ):
        plan = plan_query(text, tables=tables)
        groups = exact_groups(plan, engine, ranking_key=ranking_key)
        assert plan.answer((group.keys, group.sums) for group in groups) == [(pytest.approx(total, abs=1e-3),)]


@pytest.mark.parametrize(
    ("condition", "num_rows"),
    [
        ("note ILIKE 'N1%'", 3),
        ("note NOT LIKE 'n1%'", 4),
        ("x BETWEEN 2 AND 4", 3),
        ("x NOT IN (1, 2)", 5),
        ("CONCAT(note, '!') = 'n1!'", 1),
        ("note || '!' = 'n1!'", 1),
        ("LENGTH(TRIM(note)) = 2", 5),
        ("SUBSTRING(UPPER(note), 2, 1) = '1'", 3),
        ("IF(x > 3, 1, 0) = 1", 4),
        ("x IS NULL OR flag IS TRUE", 3),
        ("SQRT(x) > 2 AND LN(x) > 0 AND EXP(x) > 1", 3),
        ("x % 2 = 0", 3),
    ],
)
def test_rows_that_meet_a_condition(condition: str, num_rows: int, ranking_key: bytes) -> None:
    rows = [(i, float(i), f"n{i}" if i < 6 else f"n1{i}", i % 2 == 0) for i in range(1, 8)]
    assert count_rows(condition, rows, ranking_key) == num_rows


def count_rows(condition: str, rows: list[Any], ranking_key: bytes) -> int:
    """Return how many rows (who, x, note, flag) a plan counts."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (who BIGINT, x DOUBLE, note VARCHAR, flag BOOLEAN)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    engine = DuckDBEngine(connection=connection)
    tables = Catalog({"t": PrivateTable(columns=engine.columns("t"), unit="who")})
    plan = plan_query(f"SELECT COUNT(*) AS n FROM t WHERE {condition}", tables=tables)
    return exact_groups(plan, engine, ranking_key=ranking_key)[0].units
