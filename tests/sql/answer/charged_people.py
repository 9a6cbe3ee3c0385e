"""Queries about people, charged to a budget whose limits hush chooses privately."""

from __future__ import annotations

from typing import Any

import hush
from hush.sql import QueryAnswer, Table

COUNT = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
SUM = "SELECT sex, SUM(x) AS s FROM people GROUP BY sex"
DELTA = 1e-8


def connected() -> Any:
    """Return a connection to DuckDB with a table of 2,000 people, four rows each."""
    import duckdb

    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT i // 4 AS who, i % 100 + 0.0 AS x, i % 2 AS sex, i % 3 AS k "
        "FROM range(8000) AS t(i)"
    )
    return connection


def people_in(data: Any, **settings: Any) -> Table:
    return hush.table(data, name="people", unit="who", keys={"sex": [0, 1], "k": [0, 1, 2]}, **settings)


def asked(people: Table, budget: Any, text: str, epsilon: float = 0.5, **arguments: Any) -> QueryAnswer:
    return people.sql(text, epsilon=epsilon, budget=budget, **{"delta": DELTA} | arguments)
