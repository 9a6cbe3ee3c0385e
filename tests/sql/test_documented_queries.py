"""Documented examples of other libraries give the engine's own answer, or a refusal that says what to write."""

from __future__ import annotations

import math
import re
from typing import Any

import duckdb
import pytest

from hush.data.tables.catalog import Catalog, PrivateTable, PublicTable
from hush.randomness import TestSource
from hush.sql import QueryRefused, Table
from hush.sql.engines.duckdb import DuckDBEngine
from sql.documented_queries import CLAUSE, EXAMPLES, SCHEMA, Example

RUNNING = [example for example in EXAMPLES if example.refused is None]
TABLES = {
    "PUMS": "SELECT i AS pid, 18 + i * 7 % 75 AS age, i % 2 AS sex, i * 37 % 5 AS educ, i % 3 = 0 AS married, "
    "(i * 911 % 200000)::DOUBLE AS income FROM range(900) t(i)",
    "table_1": "SELECT i AS id, i % 5 AS a, (i % 11 - 3)::DOUBLE AS b FROM range(900) t(i)",
    "census": "SELECT i AS id, 17 + i * 7 % 73 AS age, i % 16 AS education_num, ['Male', 'Female'][1 + i % 2] AS sex, "
    "['Divorced', 'Married', 'Widowed'][1 + i % 3] AS marital_status, (i * 13 % 4000)::DOUBLE AS capital_loss, "
    "['Cuba', 'Peru', 'Japan', 'Italy'][1 + i % 4] AS native_country, ['Bachelors', 'Some-college', '7th-8th', "
    "'Diploma'][1 + i % 4] AS education FROM range(3000) t(i)",
    "professors": "SELECT i AS id, ['pencil', 'pen', 'scissors'][1 + i % 3] AS item, (i * 7 % 91)::DOUBLE AS quantity "
    "FROM range(900) t(i)",
    "members": "SELECT i AS id, 6 + i * 7 % 80 AS age, ['doctorate', 'masters', 'school'][1 + i % 3] AS "
    "education_level, ['female', 'male'][1 + i % 2] AS gender, (i * 11 % 50)::DOUBLE AS books_borrowed, (27500 + i % "
    "4)::VARCHAR AS zip_code, 'History;Romance' AS favorite_genres FROM range(3000) t(i)",
}
BOUNDS = {
    "PUMS": {"age": (0, 100), "income": (0, 200_000)},
    "table_1": {"a": (0, 5), "b": (-10, 10)},
    "census": {"age": (0, 120), "education_num": (0, 20), "capital_loss": (0, 5000)},
    "professors": {"quantity": (0, 100)},
    "members": {"age": (0, 120), "books_borrowed": (0, 100)},
}


@pytest.fixture(scope="module")
def connection() -> Any:
    connection = duckdb.connect()
    for name, rows in TABLES.items():
        connection.execute(f"CREATE TABLE {name} AS {rows}")
    connection.execute(
        "CREATE TABLE zips AS SELECT (27500 + i)::VARCHAR AS zip_code, 'City' || i // 2 AS City FROM range(4) t(i)"
    )
    return connection


def declared(connection: Any, name: str) -> Table:
    """Return a table of one row per unit, with public zip codes beside it."""
    engine = DuckDBEngine(connection=connection)
    unit = "pid" if name == "PUMS" else "id"
    private = PrivateTable(columns=engine.columns(name), unit=unit, bounds=BOUNDS[name])
    return Table(engine, Catalog({name: private, "zips": PublicTable(columns=engine.columns("zips"))}), name)


def table_of(example: Example) -> str:
    text = example.adapted or example.text
    return next(name for name in TABLES if f" {name}" in text)


def close(left: Any, right: Any) -> bool:
    """Return whether two cells agree, up to noise at a huge epsilon, grids and the cells of quantile trees."""
    if isinstance(right, list):
        return len(left) == len(right) and all(map(close, left, right))
    if isinstance(right, str) or right is None or left is None:
        return bool(left == right)
    return math.isclose(left, right, rel_tol=2e-2, abs_tol=0.6)


@pytest.mark.parametrize("example", RUNNING, ids=[f"{e.source}: {e.text[:70]}" for e in RUNNING])
def test_an_example_gives_the_engines_answer(example: Example, connection: Any) -> None:
    """At epsilon 500 and with one row per unit. Fixed key: the source is a TestSource."""
    text = example.adapted or example.text
    settings = {"epsilon": 500.0, "delta": 1e-6, "rows_per_unit": 1, "groups_per_unit": 1}
    answer = declared(connection, table_of(example)).sql(text, source=TestSource(1), **settings)
    rows = connection.execute(text.replace("APPROX_COUNT_DISTINCT(", "COUNT(DISTINCT ")).fetchall()
    assert len(answer.rows) == len(rows) > 0
    if text.endswith("OFFSET 1"):  # any rows
        return
    for row in rows:
        assert any(all(map(close, other, row)) for other in answer.rows), row


@pytest.mark.parametrize("example", EXAMPLES, ids=[f"{e.source}: {e.text[:70]}" for e in EXAMPLES])
def test_what_has_to_be_changed_is_refused_with_the_reason(example: Example, connection: Any) -> None:
    if example.refused is None and example.adapted is None:
        return
    words = example.refused or {"SmartNoise": SCHEMA, "BigQuery": CLAUSE}[example.source]
    with pytest.raises(QueryRefused, match=re.escape(words)):
        declared(connection, table_of(example)).price(example.text, epsilon=1.0, delta=1e-6)


def test_thirty_of_thirty_five_run() -> None:
    assert len(EXAMPLES) >= 35
    assert len(RUNNING) / len(EXAMPLES) >= 30 / 35
