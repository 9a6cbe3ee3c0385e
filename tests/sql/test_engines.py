"""The suite that every engine passes: the same groups as DuckDB, bounded changes by one unit, and redacted errors.

DuckDB always runs; PostgreSQL and Spark where `services` finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime
from typing import Any

import numpy as np
import pytest

from cases import first_quick
from hush.data.tables.catalog import Catalog, PrivateTable, kind_of
from hush.errors import HushError
from hush.randomness import TestSource
from hush.sql import EngineFailed, Table
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import BoundedViews, exact_groups, exact_leaves
from hush.sql.read.query import plan_query
from hush.sql.read.stages import read_stages
from hush.sql.write import bounded
from hush.statistics import ContributionLimits, LogHistogram
from hush.statistics.noise import NUM_LEVELS
from sql import shop
from sql.hosts import (
    COLUMNS,
    INTRUDERS,
    PUBLIC,
    QUERIES,
    TREES,
    OnDuckDB,
    OnPostgres,
    OnSpark,
    check_constants,
    contents,
    described,
    fill,
    largest_change,
    many_rows,
    numbers_by_name,
    planned,
    total_changes,
)

ENGINES = [
    "duckdb",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("spark", marks=pytest.mark.spark),
]


# For tests that take 20 seconds on Spark.
SLOW_ON_SPARK = pytest.mark.parametrize(
    "host", [*ENGINES[:2], pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])], indirect=True
)


SERVICES = {"postgres": "postgres_url", "spark": "spark_session"}


MAKERS: dict[str, Callable[[Any], Any]] = {"duckdb": lambda _: OnDuckDB(), "postgres": OnPostgres, "spark": OnSpark}


@pytest.fixture(scope="module", params=ENGINES)
def host(request: pytest.FixtureRequest) -> Iterator[Any]:
    """An engine, with methods to create tables on it."""
    name = request.param
    host = MAKERS[name](None if name == "duckdb" else request.getfixturevalue(SERVICES[name]))
    yield host
    host.close()


@pytest.fixture
def tables(host: Any) -> Any:
    """The tables, on each engine."""
    fill(host)
    return host


@pytest.fixture(scope="module")
def reference() -> OnDuckDB:
    host = OnDuckDB()
    fill(host)
    return host


STAGED = (
    "WITH t AS (SELECT region, day, moment, flag, note, COUNT(*) AS n, AVG(income) AS a FROM people GROUP BY region, "
    "day, moment, flag, note) SELECT t.note, t.flag, t.n, COUNT(*), SUM(p.age) FROM people p JOIN t ON "
    "p.region = t.region OR p.day > t.day AND p.moment > t.moment WHERE p.income > t.a AND p.age < "
    "(SELECT MAX(n) FROM t) GROUP BY t.note, t.flag, t.n"
)
RELEASED_ROWS = [
    ("north", date(2024, 2, 29), datetime(2024, 2, 29, 13, 45, 10, 500), True, 'it\'s \\ "%s" é\U0001f600', 90, -1.5),
    (None, date(1, 1, 8), datetime(2024, 3, 1), None, None, 2**53, 1e-200),
    ("mars", None, None, False, "", -7, 0.1),
    ("x", date(2024, 1, 1), datetime(2024, 1, 1), False, None, None, None),
]


@pytest.mark.parametrize("rows", [[], RELEASED_ROWS[3:], RELEASED_ROWS], ids=["none", "missing", "all"])
def test_released_rows_are_the_same_on_every_engine(
    rows: list[Any], tables: Any, reference: OnDuckDB, ranking_key: bytes
) -> None:
    """They are constants of the plan: of every kind, with NULL, with odd texts, and none at all."""
    outcomes = []
    for host in (tables, reference):
        stages = read_stages(STAGED, tables=described(host.engine), dialect=host.engine.dialect)
        limits = ContributionLimits(groups_per_unit=10_000, rows_per_unit=10_000)
        query = stages.last.with_rows({"hush_released0": rows})
        plan = plan_query(query, tables=described(host.engine), limits=limits, dialect=host.engine.dialect)
        outcomes.append(contents(plan, host.engine, ranking_key))
    assert outcomes[0] == outcomes[1]
    assert bool(outcomes[1]) == (len(rows) > 1)


def test_columns_have_the_same_kinds_as_on_duckdb(tables: Any, reference: OnDuckDB) -> None:
    for table in COLUMNS:
        actual, expected = tables.engine.columns(table), reference.engine.columns(table)
        assert [(n, kind_of(t)) for n, t in actual.items()] == [(n, kind_of(t)) for n, t in expected.items()]


def test_groups_are_the_same_as_on_duckdb(tables: Any, reference: OnDuckDB, ranking_key: bytes) -> None:
    """With limits that drop no group or value: which of them are kept depends on each engine's own hash."""
    for text in QUERIES:
        rows = 10_000 if "DISTINCT" in text else 3
        actual, expected = [
            contents(planned(text, engine, groups_per_unit=10_000, rows_per_unit=rows), engine, ranking_key)
            for engine in (tables.engine, reference.engine)
        ]
        assert actual == expected, text
        assert any(numbers["units"] for numbers in actual.values()), text


def test_leaves_of_quantile_trees_are_the_same_as_on_duckdb(
    tables: Any, reference: OnDuckDB, ranking_key: bytes
) -> None:
    for text in TREES:
        actual, expected = [
            exact_leaves(planned(text, e, groups_per_unit=10_000, rows_per_unit=10_000), 0, e, ranking_key=ranking_key)
            for e in (tables.engine, reference.engine)
        ]
        assert actual == expected, text


@SLOW_ON_SPARK
@pytest.mark.parametrize("name", first_quick(INTRUDERS, 1))
def test_one_unit_changes_no_more_than_its_bounds(name: str, tables: Any, ranking_key: bytes) -> None:
    plans = [planned(text, tables.engine, groups_per_unit=2, rows_per_unit=2) for text in QUERIES]
    trees = [planned(text, tables.engine, groups_per_unit=2, rows_per_unit=2) for text in TREES]
    before = [contents(plan, tables.engine, ranking_key) for plan in plans]
    leaves = [exact_leaves(plan, 0, tables.engine, ranking_key=ranking_key) for plan in trees]
    for table, rows in INTRUDERS[name]().items():
        tables.add(table, rows)
    if name == "extreme rows":
        tables.add_dates_beyond()
    for plan, old in zip(plans, before, strict=True):
        changed, broken = largest_change(plan, old, contents(plan, tables.engine, ranking_key))
        assert changed <= plan.groups_per_unit, plan.columns
        assert not broken, plan.columns
    for plan, counts in zip(trees, leaves, strict=True):
        new = exact_leaves(plan, 0, tables.engine, ranking_key=ranking_key)
        moved = [keys for keys in counts.keys() | new.keys() if counts.get(keys) != new.get(keys)]
        assert len(moved) <= plan.groups_per_unit, plan.columns
        for keys in moved:
            left, right = counts.get(keys, {}), new.get(keys, {})
            assert sum(abs(right.get(leaf, 0) - left.get(leaf, 0)) for leaf in left.keys() | right.keys()) <= 2


@SLOW_ON_SPARK
@pytest.mark.parametrize("name", first_quick(INTRUDERS, 1))
def test_one_unit_changes_all_groups_together_by_no_more_than_a_limit_in_total(
    name: str, tables: Any, ranking_key: bytes
) -> None:
    texts = [text for text in [*QUERIES, *TREES] if "GROUP BY" in text]
    plans = [planned(text, tables.engine, rows_in_total=4, groups_per_unit=3) for text in texts]
    before = [numbers_by_name(plan, tables.engine, ranking_key) for plan in plans]
    views = BoundedViews(tables.engine)
    levels = [views.levels(plan, NUM_LEVELS) for plan in plans]
    for table, rows in INTRUDERS[name]().items():
        tables.add(table, rows)
    for plan, old, old_levels in zip(plans, before, levels, strict=True):
        assert not total_changes(plan, old, numbers_by_name(plan, tables.engine, ranking_key)), plan.columns
        new_levels = views.levels(plan, NUM_LEVELS)
        moves = [new_levels.get(key, 0) - old_levels.get(key, 0) for key in new_levels.keys() | old_levels.keys()]
        assert sorted(move for move in moves if move) in ([], [1]), plan.columns


@SLOW_ON_SPARK
def test_tables_that_refer_to_others_are_bounded_alike(host: Any, ranking_key: bytes) -> None:
    connection = shop.shop()
    reference = DuckDBEngine(connection=connection)
    for table, columns in shop.COLUMNS.items():
        words = columns.replace("VARCHAR", "[text]").replace("DOUBLE", "[double]")
        host.put(table, words, connection.execute(f"FROM {table}").fetchall())
    plans = [shop.shop_plan(text, host.engine, groups_per_unit=2, rows_per_unit=3) for text in shop.QUERIES]
    wide = [shop.shop_plan(text, reference, groups_per_unit=1000, rows_per_unit=3) for text in shop.QUERIES]
    before = [contents(plan, host.engine, ranking_key) for plan in plans]
    for plan in wide:
        assert contents(plan, host.engine, ranking_key) == contents(plan, reference, ranking_key), plan.columns
    for table, rows in shop.hostile_rows(connection, 3):
        host.add(table, rows)
    for text, plan, old in zip(shop.QUERIES, plans, before, strict=True):
        changed, broken = largest_change(plan, old, contents(plan, host.engine, ranking_key))
        assert changed <= 2, text
        assert not broken, text


def test_levels_and_totals_are_the_same_as_on_duckdb(tables: Any, reference: OnDuckDB, ranking_key: bytes) -> None:
    """With limits that drop nothing: which rows are dropped depends on each engine's own hash."""
    for text in [text for text in QUERIES if "GROUP BY" in text][:6]:
        plans = [
            planned(text, e, rows_in_total=10_000, groups_per_unit=10_000) for e in (tables.engine, reference.engine)
        ]
        engines = (tables.engine, reference.engine)
        here, there = [numbers_by_name(p, e, ranking_key) for p, e in zip(plans, engines, strict=True)]
        assert here == there, text
        here_levels, there_levels = [BoundedViews(e).levels(p, NUM_LEVELS) for p, e in zip(plans, engines, strict=True)]
        assert here_levels == there_levels, text


def test_extremes_are_the_same_as_on_duckdb_and_a_unit_is_in_one_bin(tables: Any, reference: OnDuckDB) -> None:
    text = "SELECT SUM(income * num), AVG(CAST(score AS DOUBLE)), MEDIAN(price + big) FROM people WHERE age > 1"
    edges = LogHistogram().edges.tolist()
    engines = [tables.engine, reference.engine]
    unbounded = [Catalog({"people": PrivateTable(columns=e.columns("people"), unit="user_id")}) for e in engines]
    plans = [plan_query(text, tables=t, dialect=e.dialect) for t, e in zip(unbounded, engines, strict=True)]
    assert len(plans[0].undeclared) == 5
    here, there = [
        np.array([BoundedViews(engine).extremes(plan, column, edges) for column in plan.undeclared])
        for plan, engine in zip(plans, engines, strict=True)
    ]
    assert (here == there).all()
    assert here.sum() > 0
    for table, rows in many_rows().items():
        tables.add(table, rows)
    views = BoundedViews(tables.engine)
    moves = np.array([views.extremes(plans[0], column, edges) for column in plans[0].undeclared]) - here
    assert ((moves == 0) | (moves == 1)).all()
    assert (moves.sum(axis=2) <= 1).all()


def test_a_twin_without_the_limit_on_groups_is_caught(
    tables: Any, monkeypatch: pytest.MonkeyPatch, ranking_key: bytes
) -> None:
    monkeypatch.setattr(bounded, "_kept_layer", lambda *_: "SELECT * FROM hush_pairs")
    plan = planned("SELECT note, COUNT(*) FROM people GROUP BY note", tables.engine, groups_per_unit=2)
    before = contents(plan, tables.engine, ranking_key)
    tables.add("people", many_rows()["people"])
    assert largest_change(plan, before, contents(plan, tables.engine, ranking_key))[0] > plan.groups_per_unit


def test_constants_are_read_as_written(tables: Any, ranking_key: bytes) -> None:
    check_constants(tables, ranking_key)


def test_names_are_read_as_written(host: Any, ranking_key: bytes) -> None:
    quote = "`" if host.engine.dialect == "spark" else '"'
    host.put("raw", f"u0 BIGINT, k0 [text], {quote}select x.*{quote} [double]", [(i, "c", 1.0) for i in range(5)])
    columns = host.engine.columns("raw")
    tables = Catalog({"raw": PrivateTable(columns=columns, unit="u0", bounds={"select x.*": (0, 2)})})
    plan = plan_query('SELECT k0, COUNT("select x.*") AS n FROM raw AS k0 WHERE u0 < 4 GROUP BY k0', tables=tables)
    groups = exact_groups(plan, host.engine, ranking_key=ranking_key)
    assert plan.answer((g.keys, g.sums) for g in groups) == [("c", 4)]


def test_views_answer_further_queries_and_do_not_change(tables: Any, ranking_key: bytes) -> None:
    views = BoundedViews(tables.engine, ranking_key)
    first = planned(
        "SELECT note, COUNT(*), AVG(income), SUM(age) FROM people GROUP BY note", tables.engine, groups_per_unit=2
    )
    second = planned("SELECT note, SUM(age) FROM people GROUP BY note", tables.engine, groups_per_unit=2)
    wider = planned("SELECT note, SUM(price) FROM people GROUP BY note", tables.engine, groups_per_unit=2)
    for plan in (first, second, wider):
        groups = {group.keys: (group.units, group.sums) for group in views.groups(plan)}
        exact = exact_groups(plan, tables.engine, ranking_key=ranking_key)
        assert groups == {group.keys: (group.units, group.sums) for group in exact}
    tables.add("people", many_rows()["people"])
    assert {group.keys: (group.units, group.sums) for group in views.groups(wider)} == groups
    table = views.bounded_view(wider).table
    views.forget()
    with pytest.raises(EngineFailed):
        tables.engine.columns(table)
    tables.engine.drop(table)  # dropping it again is no error


def test_a_materialised_name_is_replaced(host: Any) -> None:
    for number in (1, 2):
        host.engine.materialise("hush_x", f"SELECT {number} AS x")
        assert host.engine.run("SELECT x FROM hush_x") == [(number,)]
    host.engine.drop("hush_x")


def test_errors_do_not_quote_records(tables: Any) -> None:
    with pytest.raises(HushError) as caught:
        tables.engine.run("SELECT CAST(CAST(note AS DECIMAL(9, 0)) AS INT) FROM people WHERE note = 'n7'")
    assert "n7" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    with pytest.raises(EngineFailed):
        tables.engine.columns("nothing")
    assert len(tables.engine.run("SELECT 1 AS x FROM zones")) == 4  # the engine still works


def test_a_table_answers_privately(tables: Any) -> None:
    people = Table(tables.engine, described(tables.engine), "people")
    text = "SELECT region, COUNT(DISTINCT user_id) AS n FROM people GROUP BY region"
    answer = people.sql(text, epsilon=200.0, groups_per_unit=5, source=TestSource(1))
    assert [row[0] for row in answer.rows] == list(PUBLIC["region"])
    assert [round(row[1]) for row in answer.rows] == [8, 8, 8, 8, 2]
