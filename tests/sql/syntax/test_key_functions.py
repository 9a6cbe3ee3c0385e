"""Functions of keys, which follow the release, have the values that the engine computes for rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups
from hush.sql.syntax.key_functions import KEY_FUNCTIONS
from hush.sql.write.plan import QueryPlan

KEYS = "s, d, m, b, i"
OF_KEYS = [
    *("UPPER(s)", "LOWER(s)", "TRIM(s)", "LTRIM(s)", "RTRIM(s)", "LENGTH(s)", "SUBSTRING(s, 2, 3)", "RIGHT(s, 2)"),
    *("SPLIT_PART(s, ' ', 2)", "SPLIT_PART(s, ' ', 9)", "REPLACE(s, 'a', '')", "STRPOS(s, 'a')", "CONCAT(i, s, d, b)"),
    *("s || d", "CONCAT_WS('-', s, i)", "s LIKE '%a_'", "s ILIKE '%A%'", "STARTS_WITH(s, 'n')", "CAST(i AS VARCHAR)"),
    *("YEAR(d)", "QUARTER(d)", "MONTH(m)", "WEEK(d)", "DAY(m)", "EXTRACT(DOY FROM d)", "ISODOW(d)", "HOUR(m)"),
    *("CAST(m AS DATE)", "DATE_TRUNC('week', m)", "DATE_TRUNC('hour', m)", "DATE_TRUNC('day', m)", "LAST_DAY(d)"),
    *(
        "CAST(DATE_TRUNC('quarter', d) AS TIMESTAMP)",
        "CAST(DATE_TRUNC('year', d) AS TIMESTAMP)",
        "SIGN(i)",
        "CONCAT(i // 4, '-', i + 9)",
    ),
    *("d + INTERVAL 1 MONTH", "m - INTERVAL 90 MINUTE", "d - CAST(m AS DATE)", "DATE_DIFF('month', d, m)", "i // 4"),
    *("CASE WHEN s LIKE 'n%' THEN UPPER(s) ELSE s END", "COALESCE(s, 'none')", "i % 3", "CAST(b AS INT)", "LEFT(s, 1)"),
]
ROWS = [
    (1, "na na", "2024-01-31", "2024-02-29 13:59:01", True, 7),
    (2, " Äpfel a", "2023-12-31", "2021-01-03 00:00:00", False, -3),
    (3, "naÏve", "2020-02-29", "2000-06-30 23:30:00", True, 0),
    (4, "", "1999-07-04", "2024-12-30 01:00:00", False, 12),
    (5, None, None, None, None, None),
]


def test_functions_of_keys(
    connection: Any, described: Callable[..., Any], engine: DuckDBEngine, ranking_key: bytes
) -> None:
    from hush.data.tables.catalog import Catalog, PrivateTable
    from hush.sql.read.query import plan_query

    connection.execute("CREATE TABLE f(who BIGINT, s VARCHAR, d DATE, m TIMESTAMP, b BOOLEAN, i BIGINT)")
    connection.executemany("INSERT INTO f VALUES (?, ?, ?, ?, ?, ?)", ROWS)
    tables = Catalog({"f": PrivateTable(columns=engine.columns("f"), unit="who")})
    named = ", ".join(f"{text} AS c{index}" for index, text in enumerate(OF_KEYS))
    text = f"SELECT i, {named}, COUNT(*) AS n FROM f GROUP BY {KEYS} ORDER BY i NULLS LAST"
    plan: QueryPlan = plan_query(text, tables=tables)
    groups = exact_groups(plan, engine, ranking_key=ranking_key)
    actual = plan.answer((group.keys, group.sums) for group in groups)
    expected = connection.execute(text).fetchall()
    for row, other in zip(actual, expected, strict=True):
        for name, value, same in zip(["i", *OF_KEYS, "n"], row, other, strict=True):
            assert value == same, name
    used = {operation for output in plan.outputs for operation in _operations(output.expression)}
    assert set(KEY_FUNCTIONS) <= used


def _operations(expression: Any) -> set[str]:
    return {expression.op}.union(*map(_operations, expression.args))
