"""hush: cold, with a new table each time, or warm, over the view that an earlier question left."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb  # noqa: F401  (hush imports it on first use; imports are not timed)
from worker import Answer, Question, serve

import hush.sql

QUERY = "SELECT g, COUNT(value) AS n, SUM(value) AS s, AVG(value) AS m FROM data GROUP BY g"
CHARGED = {"charged": "one budget: the three are made of two noisy numbers"}


def prepare(question: Question) -> tuple[Any, dict[str, Any]]:
    if question.variant == "planning":
        table = opened(question)
        return lambda: priced(table, question), {}
    if question.variant == "warm":
        table = asked_before(question)
        return lambda: asked(table, question), CHARGED
    return lambda: asked(opened(question), question), CHARGED


def opened(question: Question) -> hush.sql.Table:
    bounds, keys = {"value": (question.low, question.high)}, {"g": question.keys}
    return hush.table(question.path, name="data", unit="user_id", bounds=bounds, keys=keys)


@cache
def asked_before(question: Question) -> hush.sql.Table:
    table = opened(question)
    asked(table, question)
    return table


def asked(table: hush.sql.Table, question: Question) -> Answer:
    answer = table.sql(QUERY, **spent(question))
    return {row[0]: (row[1], row[2], row[3]) for row in answer.rows}


def priced(table: hush.sql.Table, question: Question) -> Answer:
    """Plan the question and its noise; no data are looked at."""
    table.price(QUERY, **spent(question))
    return {}


def spent(question: Question) -> dict[str, Any]:
    limits = {"groups_per_unit": question.groups_per_unit, "rows_per_unit": question.rows_per_unit}
    return {"epsilon": question.epsilon, "delta": question.delta, **limits}


if __name__ == "__main__":
    serve(["hush", "duckdb", "sqlglot"], prepare)
