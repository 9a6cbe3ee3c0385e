"""The same question without privacy: one GROUP BY. Connecting is not timed; each time the connection is new."""

from __future__ import annotations

from typing import Any

import duckdb
from worker import Answer, Question, serve


def prepare(question: Question) -> tuple[Any, dict[str, Any]]:
    connection = duckdb.connect()
    text = f"SELECT g, COUNT(value), SUM(value), AVG(value) FROM read_parquet('{question.path}') GROUP BY g"
    return lambda: _read(connection.execute(text).fetchall()), {"charged": "nothing: it is not private"}


def _read(rows: list[Any]) -> Answer:
    return {g: (count, total, mean) for g, count, total, mean in rows}


if __name__ == "__main__":
    serve(["duckdb"], prepare)
