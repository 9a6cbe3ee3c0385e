"""Which subqueries are released, in which order, and what the stages read; neighbours of each stage by itself."""

from __future__ import annotations

from typing import Any

import pytest

from hush.data.tables.catalog import Catalog, PrivateTable, PublicTable
from hush.sql import QueryRefused
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.read.query import plan_query
from hush.sql.read.stages import read_stages
from hush.sql.syntax.relation import scanned_tables
from hush.statistics import ContributionLimits
from sql.hosts import contents, largest_change

duckdb = pytest.importorskip("duckdb")

AVERAGE = "SELECT AVG(amount) FROM visits"
BY_PLACE = "SELECT place, COUNT(*) AS n FROM visits GROUP BY place"
BUSY = f"{BY_PLACE} HAVING COUNT(*) > 2"
TABLES = Catalog(
    {
        "visits": PrivateTable(
            columns={"who": "BIGINT", "place": "VARCHAR", "amount": "DOUBLE"}, unit="who", bounds={"amount": (-1, 2)}
        ),
        "places": PublicTable(columns={"name": "VARCHAR", "size": "DOUBLE"}),
    }
)
# The query, and how many subqueries of it are released.
RELEASED = {
    "SELECT COUNT(*) FROM visits": 0,
    f"SELECT COUNT(*) FROM visits WHERE amount > ({AVERAGE})": 1,
    f"SELECT COUNT(*) FROM visits WHERE amount > ({AVERAGE} WHERE amount > ({AVERAGE}))": 2,
    "SELECT COUNT(*) FROM visits v WHERE amount > (SELECT AVG(w.amount) FROM visits w WHERE w.place = v.place)": 1,
    "SELECT COUNT(*) FROM visits v WHERE amount > (SELECT AVG(w.amount) FROM visits w WHERE w.who = v.who)": 0,
    f"SELECT COUNT(*) / (SELECT COUNT(*) FROM visits) FROM visits HAVING COUNT(*) > ({AVERAGE})": 2,
    f"SELECT v.place, COUNT(*) FROM visits v JOIN ({BY_PLACE} ORDER BY n DESC LIMIT 2) AS t ON t.place = v.place "
    "GROUP BY v.place": 1,
    f"SELECT COUNT(*) FROM visits WHERE place IN (SELECT place FROM ({BUSY}) AS t)": 1,
    f"SELECT COUNT(*) FROM visits WHERE EXISTS ({BUSY})": 1,
    f"WITH t AS ({BY_PLACE}), s AS (SELECT MAX(n) AS most FROM t) SELECT COUNT(*) FROM visits, t, s "
    "WHERE t.place = visits.place AND t.n = s.most": 1,
    "SELECT COUNT(*) FROM visits WHERE amount > (SELECT MIN(size) FROM places)": 0,
    "SELECT COUNT(*) FROM (SELECT who, AVG(amount) AS a FROM visits GROUP BY who) AS t WHERE a > 1": 0,
}
PUBLIC = {
    f"SELECT name, n FROM places JOIN ({BY_PLACE}) AS t ON t.place = places.name ORDER BY n": True,
    "SELECT name FROM places WHERE size > (SELECT COUNT(*) FROM visits WHERE place = name)": True,
    f"SELECT COUNT(*) FROM visits WHERE amount > ({AVERAGE})": False,
}


@pytest.mark.parametrize("text", RELEASED)
def test_subqueries_over_units_are_released_once(text: str) -> None:
    stages = read_stages(text, tables=TABLES)
    assert len(stages.released) == RELEASED[text]
    for query in stages.private:
        plan = plan_query(query, tables=TABLES)
        assert not any(name.startswith("hush_") for name in scanned_tables(plan.origin, plan.where))


@pytest.mark.parametrize("text", PUBLIC)
def test_the_last_stage_may_be_public(text: str) -> None:
    assert read_stages(text, tables=TABLES).is_public is PUBLIC[text]


@pytest.mark.parametrize("text", RELEASED)
def test_reading_the_stages_again_gives_the_same(text: str) -> None:
    first, second = (read_stages(text, tables=TABLES) for _ in range(2))
    assert [stage.text for stage in first.released] == [stage.text for stage in second.released]
    assert first.last.select == second.last.select


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT COUNT(*) FROM visits WHERE amount > (SELECT MAX(amount) FROM visits)", "one unit's value"),
        ("SELECT COUNT(*) FROM visits WHERE amount > (SELECT amount FROM visits)", "must have one row"),
        ("SELECT COUNT(*) FROM visits WHERE place IN (SELECT place FROM visits)", "rows of other units"),
        ("SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM visits v WHERE v.amount > 1)", "other units"),
        (
            "SELECT COUNT(*) FROM visits v WHERE amount > (SELECT AVG(w.amount) FROM visits w WHERE w.who < v.amount)",
            "no table of this name",
        ),
        ("SELECT COUNT(*) - (SELECT COUNT(*) FROM visits GROUP BY place) FROM visits", "must have one row"),
        (f"SELECT COUNT(*) FROM (SELECT who, place FROM ({BY_PLACE}) AS t) AS u", "no column of this name"),
        (
            "SELECT COUNT(*) FROM visits WHERE amount IN (SELECT QUANTILE_CONT(amount, [0.1, 0.9]) FROM visits)",
            "no single value",
        ),
        ("SELECT place FROM visits ORDER BY place LIMIT 1", "would show rows"),
        ("SELECT COUNT(*) FROM (SELECT who FROM visits ORDER BY who LIMIT 5) AS t", "LIMIT in a subquery|ORDER BY in"),
        (
            "SELECT COUNT(*) FROM (SELECT who, COUNT(*) AS n FROM visits GROUP BY who ORDER BY n LIMIT 5) AS t",
            "ORDER BY in a subquery",
        ),
        (f"SELECT COUNT(*) FROM visits, ({BY_PLACE}) AS t WHERE t.who = 1", "no column of this name"),
        ("SELECT name FROM places", "all tables are public"),
    ],
)
def test_what_cannot_be_released_is_refused(text: str, why: str) -> None:
    with pytest.raises(QueryRefused, match=why):
        plan_query(read_stages(text, tables=TABLES).last, tables=TABLES)


def test_a_query_has_only_so_many_stages() -> None:
    text = "SELECT COUNT(*) FROM visits WHERE " + " AND ".join(
        f"amount > (SELECT AVG(amount) FROM visits WHERE amount > {number} / 10)" for number in range(21)
    )
    with pytest.raises(QueryRefused, match="at most 20 released subqueries"):
        read_stages(text, tables=TABLES)


# Neighbours: each stage is private for whatever was released before it, so that a stage that read exact values, or
# whose bound depended on released ones, would show.

ROWS = [(user, "abcd"[user % 4], user % 3 - 0.5) for user in range(12)]
INTRUDER = [(99, place, 2.0) for place in "aabbcd"] + [(99, None, -1.0), (99, "new", 1e300)]
VALUES: list[Any] = [-1.0, 0.5, 1.4, 2.0, 1e99, None]


@pytest.fixture(scope="module")
def engines() -> Any:
    opened = []
    for rows in (ROWS, ROWS + INTRUDER * 20):
        connection = duckdb.connect()
        connection.execute("CREATE TABLE visits(who BIGINT, place VARCHAR, amount DOUBLE)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", rows)
        connection.execute("CREATE TABLE places AS SELECT * FROM (VALUES ('a', 1.0), ('b', 2.0)) AS v(name, size)")
        opened.append(DuckDBEngine(connection=connection))
    yield opened
    for engine in opened:
        engine._connection.close()


@pytest.mark.parametrize("text", [text for text, number in RELEASED.items() if number])
def test_a_stage_changes_within_its_bounds_whatever_was_released(text: str, engines: Any, ranking_key: bytes) -> None:
    stages, limits = read_stages(text, tables=TABLES), ContributionLimits(groups_per_unit=2, rows_per_unit=2)
    scales = set()
    for value in VALUES:
        rows: dict[str, Any] = {}
        for query, stage in zip(stages.private, [*stages.released, None], strict=True):
            plan = plan_query(query.with_rows(rows), tables=TABLES, limits=limits)
            before, after = (contents(plan, engine, ranking_key) for engine in engines)
            changed, broken = largest_change(plan, before, after)
            assert changed <= plan.groups_per_unit
            assert broken == []
            if stage is not None:
                fields = query.released[stage.name].fields if stage.name in query.released else plan.outputs
                cells = [("a" if "place" in entry.name or "key" in entry.name else value) for entry in fields]
                rows[stage.name] = [cells]
        scales.add(tuple((release.sensitivity, release.grid) for release in plan.releases))
    assert len(scales) == 1  # the noise does not depend on what was released


def test_exact_values_in_the_place_of_released_ones_would_show(engines: Any, ranking_key: bytes) -> None:
    """The broken twin: a constant that is the average of each database."""
    (text,) = [text for text, number in RELEASED.items() if number == 1 and text.endswith(f"amount > ({AVERAGE})")]
    stages, limits, numbers = read_stages(text, tables=TABLES), ContributionLimits(rows_per_unit=2), []
    for engine in engines:
        ((exact,),) = engine._connection.execute("SELECT AVG(LEAST(amount, 2)) FROM visits").fetchall()
        query = stages.last.with_rows({stages.released[0].name: [(exact,)]})
        plan = plan_query(query, tables=TABLES, limits=limits)
        numbers.append(contents(plan, engine, ranking_key))
    assert largest_change(plan, *numbers)[1] != []
