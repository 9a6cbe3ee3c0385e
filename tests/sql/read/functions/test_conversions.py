"""CAST and parts of dates: NULL instead of an error, and public groups for parts with few values."""

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
from hush.sql.write.plan import QueryPlan

ROWS = [(1, "12", "2024-02-29 13:30:00"), (2, "12.5", "2023-12-31 00:00:00"), (3, "x", None), (4, None, None)]


def values_of(expression: str, ranking_key: bytes) -> set[Any]:
    """Return the values of an expression over a table (who, t, m), as keys of groups."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE rows (who BIGINT, t VARCHAR, m TIMESTAMP)")
    connection.executemany("INSERT INTO rows VALUES (?, ?, ?)", ROWS)
    engine = DuckDBEngine(connection=connection)
    tables = Catalog({"rows": PrivateTable(columns=engine.columns("rows"), unit="who")})
    plan = plan_query(f"SELECT {expression} AS k, COUNT(*) AS n FROM rows GROUP BY k", tables=tables)
    groups = exact_groups(plan, engine, ranking_key=ranking_key)
    return {group.keys[0] for group in groups if group.units}


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("CAST(t AS DOUBLE)", {12.0, 12.5, None}),
        ("CAST(t AS INTEGER)", {12.0, 13.0, None}),  # halves are rounded up, on every engine
        ("t::BIGINT", {12.0, 13.0, None}),
        ("TRY_CAST(t AS DATE)", {None}),
        ("CAST(who AS VARCHAR)", {"1", "2", "3", "4"}),
        ("CAST(who > 2 AS INT)", {0.0, 1.0}),
        ("EXTRACT(YEAR FROM m)", {2024, 2023, None}),
        ("MONTH(m)", {2, 12, None}),
        ("QUARTER(m)", {1, 4, None}),
        ("EXTRACT(HOUR FROM m)", {13, 0, None}),
        ("EXTRACT(DAYOFYEAR FROM m)", {60, 365, None}),
    ],
)
def test_conversions_give_null_if_they_fail(expression: str, values: set[Any], ranking_key: bytes) -> None:
    assert values_of(expression, ranking_key) == values


@pytest.mark.parametrize(("part", "num_groups"), [("QUARTER", 5), ("MONTH", 13), ("DAY", 32)])
def test_parts_with_few_values_are_public_groups(part: str, num_groups: int, planned: Callable[..., QueryPlan]) -> None:
    plan = planned(f"SELECT {part}(day) AS k, COUNT(*) AS n FROM people GROUP BY k")
    assert plan.public_keys
    assert plan.num_groups == num_groups  # NULL is one of them
    assert not planned("SELECT YEAR(day) AS k, COUNT(*) AS n FROM people GROUP BY k").public_keys


def test_a_date_that_the_query_writes_is_a_constant(planned: Callable[..., QueryPlan]) -> None:
    plan = planned("SELECT COUNT(*) FROM people WHERE day >= CAST('2024-02-29' AS DATE)")
    assert plan.where is not None
    assert plan.where.args[1].op == "literal"


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("CAST(note AS INTERVAL) = 1", "this CAST is not supported"),
        ("CAST(day AS DOUBLE) > 1", "CAST from date to number is not supported"),
        ("EXTRACT(MILLENNIUM FROM day) = 1", "not a supported part of a date"),
        ("EXTRACT(HOUR FROM day) = 1", "a date has no hour"),
        ("DATE_TRUNC('decade', day) = '2024-01-01'", "DATE_TRUNC does not support this unit"),
        ("CAST('2024-02-30' AS DATE) = day", "is not a date"),
    ],
)
def test_conversions_that_are_refused(condition: str, words: str, planned: Callable[..., QueryPlan]) -> None:
    with pytest.raises(QueryRefused, match=words):
        planned(f"SELECT COUNT(*) FROM people WHERE {condition}")
