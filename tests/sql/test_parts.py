"""Views made in parts hold what views made at once hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from hush.errors import HushError, InvalidArgument
from hush.sql import (
    BoundedViews,
    Catalog,
    ContributionLimits,
    DuckDBEngine,
    PrivateTable,
    QueryPlan,
    exact_groups,
    plan_query,
)
from hush.sql.engines import duckdb as duckdb_module

KEY = bytes(range(32))
USERS = 90
ROWS = f"""
    SELECT 'user ' || (i % {USERS}) AS who, i % 7 AS g, CASE WHEN i % 5 = 0 THEN NULL ELSE 1.5 * (i % 40) END AS x,
           i % 900000 AS big, DATE '2024-01-01' + CAST(i % 60 AS INTEGER) AS day
    FROM range(2000) AS t(i)
    UNION ALL SELECT NULL, 1, 1.0, 1, NULL
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "rows.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({ROWS}) TO '{found}'")
    return found


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_module, "_PART_ROWS", 300)


def planned(engine: DuckDBEngine, text: str, *, keys: Any = None, unit: Any = ("who", None, None)) -> QueryPlan:
    bounds = {"x": (0, 50), "big": (-900_000, 900_000)}
    who, time, window = unit
    table = PrivateTable(
        columns=engine.columns("rows"), unit=who, time=time, window=window, bounds=bounds, keys=keys or {}
    )
    return plan_query(
        text, tables=Catalog({"rows": table}), limits=ContributionLimits(groups_per_unit=2, rows_per_unit=3)
    )


QUERIES = [
    "SELECT g, COUNT(*) AS n, COUNT(x), SUM(x), AVG(big) FROM rows GROUP BY g",
    "SELECT COUNT(DISTINCT who) AS n, STDDEV(x) FROM rows WHERE x > 3",
    "SELECT g, SUM(big * 100000) AS s FROM rows GROUP BY g",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("keys", [None, {"g": [0, 2, 4, 99]}])
@pytest.mark.parametrize("unit", [("who", None, None), ("who", "day", "month")])
@pytest.mark.usefixtures("in_parts")
def test_parts_are_the_whole(path: Path, query: str, keys: Any, unit: Any) -> None:
    if unit[1] is not None and "DISTINCT" in query:
        query = query.replace("COUNT(DISTINCT who)", "COUNT(*)")
    engine = DuckDBEngine({"rows": path})
    assert engine.parts("rows") == 7
    plan = planned(engine, query, keys=keys, unit=unit)
    found, wanted = BoundedViews(engine, KEY).groups(plan), exact_groups(plan, engine, ranking_key=KEY)
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    assert any(group.units for group in found)


@pytest.mark.usefixtures("in_parts")
def test_a_user_in_several_parts_would_be_noticed(path: Path) -> None:
    """Parts of rows instead of users: the same check fails."""
    engine = DuckDBEngine({"rows": path})
    plan = planned(engine, QUERIES[0], keys={"g": list(range(7))})
    parts = [plan.bounded_sql(ranking_key=KEY, part=(place, 7)) for place in range(7)]
    kept = sum(len(engine.run(part)) for part in parts)
    broken = sum(len(engine.run(part.replace("HASH(r.u0)", "HASH(l0.i)"))) for part in parts)
    assert kept == 2 * USERS
    assert broken > 2 * USERS


def test_how_many_parts(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tmp_path / "lines.csv"
    lines.write_text("who,g\n" + "1,2\n" * 1000)
    engine = DuckDBEngine({"rows": path, "lines": lines})
    assert engine.parts("rows") == 1
    monkeypatch.setattr(duckdb_module, "_PART_ROWS", 10)
    assert engine.parts("rows") == duckdb_module._MOST_PARTS
    assert engine.parts("lines") == 1


@pytest.mark.usefixtures("in_parts")
def test_a_view_that_fails_half_way_is_gone(path: Path) -> None:
    class Failing(DuckDBEngine):
        dropped: tuple[str, ...] = ()

        def append(self, name: str, sql: str) -> None:
            super().append(name, sql.replace("FROM hush_kept", "FROM hush_nowhere"))

        def drop(self, name: str) -> None:
            self.dropped += (name,)
            super().drop(name)

    engine = Failing({"rows": path})
    plan = planned(engine, QUERIES[0])
    with pytest.raises(HushError, match="could not run"):
        BoundedViews(engine, KEY).groups(plan)
    (name,) = engine.dropped
    with pytest.raises(HushError):
        engine.run(f"SELECT * FROM {name}")


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_other_dialects_have_no_parts(path: Path, dialect: str) -> None:
    plan = planned(DuckDBEngine({"rows": path}), QUERIES[0])
    with pytest.raises(InvalidArgument, match="^part="):
        plan.bounded_sql(dialect, ranking_key=KEY, part=(0, 2))
