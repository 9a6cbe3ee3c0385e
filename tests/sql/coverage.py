"""Coverage of intervals: how many of 250 public groups have an interval that contains the exact value.

Public groups are independent repetitions: one query gives hundreds of intervals. A comparison with a true hypothesis
fails once in 10^8 runs, and no test has more than 12. Controls, such as intervals of a quarter of the length, cover
56 % of 250 at most: one passes with P(Binomial(250, 0.58) >= 196) = 9e-12.
"""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from hush.data.tables.catalog import Catalog, PrivateTable
from hush.randomness import TestSource
from hush.sql import Table
from hush.sql.engines.duckdb import DuckDBEngine
from hush.statistics import GaussianNoise, LaplaceNoise
from sql.towns import ONE_ROW

GROUPS, EACH, CONFIDENCE = 250, 80, 0.9
VALUES = np.clip(np.random.default_rng(7).gamma(2.0, 12.0, (GROUPS, EACH)), 0, 100)
NOISES = [LaplaceNoise(), GaussianNoise()]
_ENGINES: list[DuckDBEngine] = []


def people(*, listed: bool) -> Table:
    """Return a table of 250 groups g with 80 users each, and one value x per user; ``listed`` declares the groups."""
    if not _ENGINES:
        connection = duckdb.connect()
        connection.execute("CREATE TABLE people(who BIGINT, g BIGINT, x DOUBLE)")
        columns = (np.arange(VALUES.size), np.repeat(np.arange(GROUPS), EACH), VALUES.ravel())
        lists = [column.tolist() for column in columns]
        connection.execute("INSERT INTO people SELECT unnest(?), unnest(?), unnest(?)", lists)
        _ENGINES.append(DuckDBEngine(connection=connection))
    engine = _ENGINES[0]
    keys = {"g": list(range(GROUPS))} if listed else {}
    declared = PrivateTable(columns=engine.columns("people"), unit="who", bounds={"x": (0, 100)}, keys=keys)
    return Table(engine, Catalog({"people": declared}), "people", ONE_ROW)


def answer_for(table: Table, aggregates: list[str], noise: Any, **settings: Any) -> Any:
    """Return the answer with one column c0, c1, ... for each aggregate, by group."""
    columns = ", ".join(f"{name} AS c{index}" for index, name in enumerate(aggregates))
    text = f"SELECT g, {columns} FROM people GROUP BY g"
    usual = {"epsilon": 0.8, "delta": 1e-5, "noise": noise, "confidence": CONFIDENCE}
    return table.sql(text, source=TestSource(f"{aggregates} {noise}"), **usual | settings)


def covered(
    answer: Any, aggregates: list[str], truth: dict[str, NDArray[Any]], *, shrunk: float = 1.0
) -> dict[str, bool]:
    """Return, for each column, whether enough of its intervals contain the truth; ``shrunk`` shortens them first."""
    is_covered = {}
    for index, name in enumerate(aggregates):
        ends = np.array([intervals[f"c{index}"] for intervals in answer.intervals])
        middle, half = ends.mean(axis=1), np.diff(ends, axis=1)[:, 0] / 2
        exact = truth[name][[row[0] for row in answer.rows]]
        hits = int((np.abs(exact - middle) <= half * shrunk + 1e-9).sum())
        assert len(exact) > GROUPS / 2
        assert all(low <= row[index + 1] <= high for row, (low, high) in zip(answer.rows, ends, strict=True))
        is_covered[name] = hits >= binom.ppf(1e-8, len(exact), CONFIDENCE)
    return is_covered
