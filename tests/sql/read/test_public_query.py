"""The last stage, if it is public: columns, order and limits are those of plain SQL."""

from __future__ import annotations

from typing import Any

import pytest

from hush.data.tables.catalog import Catalog, PrivateTable, PublicTable
from hush.sql import QueryRefused
from hush.sql.read.public_query import plan_public
from hush.sql.read.stages import read_stages

duckdb = pytest.importorskip("duckdb")

TABLES = Catalog(
    {
        "visits": PrivateTable(columns={"who": "BIGINT", "place": "VARCHAR"}, unit="who"),
        "places": PublicTable(columns={"name": "VARCHAR", "size": "INTEGER", "opened": "TIMESTAMPTZ"}),
    }
)
WITH = "WITH t AS (SELECT place, COUNT(*) AS n FROM visits GROUP BY place) "
ROWS = [("it's", 7), ("b", 9), (None, 3)]
TEXTS = [
    "SELECT * FROM t ORDER BY n",
    "SELECT name, n FROM places JOIN t ON place = name ORDER BY n DESC, name LIMIT 2",
    "SELECT name, n FROM places LEFT JOIN t ON place = name ORDER BY size DESC, 1 OFFSET 1",
    "SELECT n * 2, place IS NULL AS is_missing FROM t ORDER BY n + 1 DESC",
    "SELECT DISTINCT n > 5 AS big FROM t ORDER BY big",
    "SELECT name FROM places WHERE size > (SELECT MAX(n) FROM t) ORDER BY name",
    "SELECT COUNT(*) AS k, MAX(n) AS most FROM t WHERE place IN (SELECT name FROM places)",
    "SELECT places.name FROM places, t WHERE t.place = places.name ORDER BY places.name NULLS FIRST",
]


@pytest.fixture(scope="module")
def connection() -> Any:
    with duckdb.connect() as opened:
        opened.execute(
            "CREATE TABLE places AS SELECT *, NULL::TIMESTAMPTZ AS opened FROM "
            "(VALUES ('it''s', 5), ('b', 50), ('c', 6)) v(name, size)"
        )
        opened.execute("CREATE TABLE released(place VARCHAR, n BIGINT)")
        opened.executemany("INSERT INTO released VALUES (?, ?)", ROWS)
        yield opened


@pytest.mark.parametrize("text", TEXTS)
def test_the_rows_are_those_of_plain_sql(text: str, connection: Any) -> None:
    stages = read_stages(WITH + text, tables=TABLES)
    assert stages.is_public
    plan = plan_public(stages.last.with_rows({"hush_released0": ROWS}), tables=TABLES)
    expected = connection.execute("WITH t AS (SELECT * FROM released) " + text).fetchall()
    assert plan.answer(connection.execute(plan.sql()).fetchall()) == expected
    assert len(plan.columns) == len(expected[0])


@pytest.mark.parametrize("text", TEXTS)
def test_without_released_rows_it_runs_as_well(text: str, connection: Any) -> None:
    plan = plan_public(read_stages(WITH + text, tables=TABLES).last, tables=TABLES)
    plan.answer(connection.execute(plan.sql()).fetchall())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n FROM t ORDER BY 2",
        "SELECT DISTINCT n FROM t ORDER BY place",
        "SELECT n FROM t LIMIT n",
        "SELECT n FROM t WHERE n > RANDOM()",
        "SELECT n, n FROM t",
        "SELECT opened FROM places, t WHERE place = name",
    ],
)
def test_what_it_cannot_do_is_refused(text: str) -> None:
    with pytest.raises(QueryRefused):
        plan_public(read_stages(WITH + text, tables=TABLES).last, tables=TABLES)
