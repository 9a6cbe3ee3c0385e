"""Adding one unit, whatever its rows, changes at most groups_per_unit groups, each by at most the sensitivity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cases import first_quick
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_leaves
from hush.sql.read.query import plan_query
from hush.sql.write import bounded, dialects
from hush.sql.write.plan import QueryPlan
from hush.statistics import ContributionLimits
from sql.hosts import QUERIES, contents, keeps_two_units, largest_change

# Rows of one person that could raise, multiply, sort first, or form new groups.
INTRUDERS = {
    "one plain row": [
        "INSERT INTO people VALUES (99, 'north', 5, 5, '5', 'n5', '2024-05-05', '2024-05-05', TRUE, 5, 5, 5)"
    ],
    "many rows in many groups": [
        "INSERT INTO people SELECT 99, ['north','south','east','west','new' || i][1 + i % 5], 1e5, 50, '99', 'n' || i, "
        "DATE '2024-01-01' + CAST(i AS INT), TIMESTAMP '2024-01-01' + INTERVAL (i) DAY, i % 2 = 0, i / 7, i, i "
        "FROM range(400) AS t(i)",
        "INSERT INTO orders SELECT 99, 10, 'item' || i, '2024-01-01' FROM range(60) AS t(i)",
    ],
    "extreme numbers": [
        "INSERT INTO people SELECT 99, 'north', v, 2147483647, CAST(v AS VARCHAR), 'x', '2024-01-01', NULL, FALSE, "
        "9999999999999999.99, 170141183460469231731687303715884105727, 9223372036854775807 "
        "FROM (VALUES (1e308), (-1e308), (5e-324), ('inf'::DOUBLE), ('-inf'::DOUBLE), ('nan'::DOUBLE), (-0.0), "
        "(NULL)) AS t(v), range(20)",
        "INSERT INTO people VALUES (99, 'south', -1e308, -2147483648, '-1e999', '', '2024-01-01', NULL, NULL, "
        "-9999999999999999.99, -170141183460469231731687303715884105728, -9223372036854775808)",
        "INSERT INTO orders SELECT 99, v, NULL, NULL FROM (VALUES (1e308), ('nan'::DOUBLE), (NULL)) AS t(v)",
    ],
    "nothing but NULL": ["INSERT INTO people(user_id) SELECT 99 FROM range(50)", "INSERT INTO orders(uid) VALUES (99)"],
    "text that is no number": [
        "INSERT INTO people(user_id, region, score, note, age) SELECT 99, r, s, s, 0 FROM (VALUES ('north'), ('')) "
        "AS a(r), "
        "(VALUES ('abc'), (''), ('nan'), ('1e500'), ('0x12'), ('\\'), ('%'), ('''; DROP TABLE people; --'), ('1' "
        "|| repeat('0', 400))) AS b(s)",
    ],
    "dates beyond": [
        "INSERT INTO people(user_id, region, day, moment, age) SELECT 99, 'east', d, t, 1 FROM (VALUES "
        "('infinity'::DATE, 'infinity'::TIMESTAMP), ('-infinity'::DATE, '-infinity'::TIMESTAMP), "
        "('5877642-06-25 (BC)'::DATE, '290309-12-22 (BC) 00:00:00'::TIMESTAMP), ('5881580-07-10'::DATE, "
        "'294247-01-10 04:00:54'::TIMESTAMP), "
        "('0001-01-01'::DATE, '9999-12-31 23:59:59'::TIMESTAMP), ('9999-12-31'::DATE, '0001-01-01'::TIMESTAMP)) AS "
        "v(d, t)",
        "INSERT INTO orders SELECT 99, 1, 'item', 'infinity'::DATE FROM range(5)",
    ],
    "one sum that cancels": [
        "INSERT INTO people(user_id, region, income, age) SELECT 99, 'west', 200000, 0 FROM range(5000)",
        "INSERT INTO people(user_id, region, price, age) SELECT 99, 'west', -10, 0 FROM range(5000)",
    ],
}


@pytest.fixture(scope="module")
def without_intruders(
    new_world: Callable[[], Any], described: Callable[..., Any], ranking_key: bytes
) -> list[tuple[QueryPlan, Any]]:
    """Return each plan and what it reads before anyone is added."""
    engine = DuckDBEngine(connection=new_world())
    tables = described(engine)
    all_limits = [
        ContributionLimits(groups_per_unit=2, rows_per_unit=1),
        ContributionLimits(groups_per_unit=1, rows_per_unit=3),
    ]
    plans = [plan_query(query, tables=tables, limits=limits) for query in QUERIES for limits in all_limits]
    return [(plan, contents(plan, engine, ranking_key)) for plan in plans]


@pytest.mark.parametrize("name", INTRUDERS)
@pytest.mark.quick_cases("many rows in many groups", "extreme numbers", "one sum that cancels")
def test_one_unit_changes_no_more_than_its_bounds(
    name: str, new_world: Callable[[], Any], without_intruders: list[tuple[QueryPlan, Any]], ranking_key: bytes
) -> None:
    connection = new_world()
    engine = DuckDBEngine(connection=connection)
    for statement in INTRUDERS[name]:
        connection.execute(statement)
    for plan, old in without_intruders:
        changed, broken = largest_change(plan, old, contents(plan, engine, ranking_key))
        assert changed <= plan.groups_per_unit, plan.columns
        assert not broken, plan.columns


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(user=st.integers(0, 39), query=st.sampled_from(QUERIES), groups=st.integers(1, 4), rows=st.integers(1, 4))
def test_any_unit_can_be_removed(
    user: int,
    query: str,
    groups: int,
    rows: int,
    new_world: Callable[[], Any],
    described: Callable[..., Any],
    ranking_key: bytes,
) -> None:
    connection = new_world()
    engine = DuckDBEngine(connection=connection)
    plan = plan_query(
        query, tables=described(engine), limits=ContributionLimits(groups_per_unit=groups, rows_per_unit=rows)
    )
    with_user = contents(plan, engine, ranking_key)
    connection.execute(f"DELETE FROM people WHERE user_id = {user}")
    connection.execute(f"DELETE FROM orders WHERE uid = {user}")
    changed, broken = largest_change(plan, contents(plan, engine, ranking_key), with_user)
    assert changed <= plan.groups_per_unit
    assert not broken


DATES = st.dates() | st.none()
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["north", "south", "mars", "", "new", None]),
        st.floats() | st.none(),
        st.integers(-(2**31), 2**31 - 1) | st.none(),
        st.one_of(st.none(), st.floats().map(str), st.text(max_size=3).filter(lambda text: "\0" not in text)),
        st.sampled_from(["n0", "n1", "1", "x", None]),
        DATES,
        st.datetimes() | st.none(),
        st.booleans() | st.none(),
        st.decimals(-(10**15), 10**15, places=2) | st.none(),
        st.integers(-(2**100), 2**100) | st.none(),
        st.integers(-(2**63), 2**63 - 1) | st.none(),
    ),
    max_size=12,
)


ANY = given(rows=ROWS, amounts=st.lists(st.floats() | st.none(), max_size=6), groups=st.integers(1, 3))
FIXED = [HealthCheck.function_scoped_fixture]


@settings(max_examples=2, deadline=None, suppress_health_check=FIXED)
@ANY
def test_any_rows(
    rows: list[Any], amounts: list[Any], groups: int, new_world: Callable[[], Any], catalog: Any, ranking_key: bytes
) -> None:
    check_any_rows(rows, amounts, groups, new_world, catalog, ranking_key)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=FIXED)
@ANY
def test_any_rows_at_length(
    rows: list[Any], amounts: list[Any], groups: int, new_world: Callable[[], Any], catalog: Any, ranking_key: bytes
) -> None:
    check_any_rows(rows, amounts, groups, new_world, catalog, ranking_key)


def check_any_rows(
    rows: list[Any], amounts: list[Any], groups: int, new_world: Callable[[], Any], catalog: Any, ranking_key: bytes
) -> None:
    connection = new_world()
    engine = DuckDBEngine(connection=connection)
    plans = [
        plan_query(query, tables=catalog, limits=ContributionLimits(groups_per_unit=groups, rows_per_unit=2))
        for query in QUERIES
    ]
    before = [contents(plan, engine, ranking_key) for plan in plans]
    for row in rows:
        connection.execute(f"INSERT INTO people VALUES (99{', ?' * 11})", list(row))
    for amount in amounts:
        connection.execute("INSERT INTO orders VALUES (99, ?, 'item9', NULL)", [amount])
    for plan, old in zip(plans, before, strict=True):
        changed, broken = largest_change(plan, old, contents(plan, engine, ranking_key))
        assert changed <= plan.groups_per_unit, plan.columns
        assert not broken, plan.columns


def change_by_many_rows(plan: QueryPlan, connection: Any, ranking_key: bytes) -> tuple[int, list[str]]:
    engine = DuckDBEngine(connection=connection)
    before = contents(plan, engine, ranking_key)
    for statement in INTRUDERS["many rows in many groups"]:
        connection.execute(statement)
    return largest_change(plan, before, contents(plan, engine, ranking_key))


def test_a_twin_without_the_limit_on_groups_is_caught(
    monkeypatch: pytest.MonkeyPatch, connection: Any, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    plan = planned("SELECT note, COUNT(*) FROM people GROUP BY note", groups_per_unit=2)
    monkeypatch.setattr(bounded, "_kept_layer", lambda *_: "SELECT * FROM hush_pairs")
    changed, _ = change_by_many_rows(plan, connection, ranking_key)
    assert changed > plan.groups_per_unit


def test_a_twin_that_clamps_rows_only_is_caught(
    monkeypatch: pytest.MonkeyPatch, connection: Any, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    plan = planned("SELECT region, COUNT(*), SUM(income), AVG(age) FROM people GROUP BY region", groups_per_unit=2)
    monkeypatch.setattr(bounded, "_contribution", bounded._total)
    _, broken = change_by_many_rows(plan, connection, ranking_key)
    assert {"a0", "a1", "a2", "a3"} <= set(broken)


def test_a_twin_that_ranks_over_all_units_is_caught(
    monkeypatch: pytest.MonkeyPatch, connection: Any, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    """Which groups of a unit are kept must not depend on other units."""
    plan = planned("SELECT note, COUNT(*) FROM people GROUP BY note", groups_per_unit=1)
    popular = (
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY u0 ORDER BY c DESC, k0) AS n FROM "
        "(SELECT *, COUNT(*) OVER (PARTITION BY k0) AS c FROM hush_pairs) AS p) AS q WHERE n <= 1"
    )
    monkeypatch.setattr(bounded, "_kept_layer", lambda *_: popular)
    engine = DuckDBEngine(connection=connection)
    before = contents(plan, engine, ranking_key)
    connection.execute("INSERT INTO people(user_id, note) VALUES (99, 'n2')")  # n2 was tied with n0
    changed, _ = largest_change(plan, before, contents(plan, engine, ranking_key))
    assert changed > plan.groups_per_unit


@pytest.mark.parametrize("exact", [True, False])
def test_units_that_a_collation_equates_are_two(
    exact: bool, monkeypatch: pytest.MonkeyPatch, connection: Any, ranking_key: bytes
) -> None:
    if not exact:
        templates = dialects.DIALECTS["duckdb"].templates
        loose = {name: template.replace(" COLLATE C", "") for name, template in templates.items()}
        twin = replace(dialects.DIALECTS["duckdb"], templates=loose)
        monkeypatch.setattr(dialects, "DIALECTS", {"duckdb": twin})
    connection.execute("CREATE TABLE visits(who VARCHAR COLLATE NOCASE, place VARCHAR)")
    connection.execute("INSERT INTO visits VALUES ('ann', 'a'), ('ANN', 'b')")
    engine = DuckDBEngine(connection=connection)
    assert keeps_two_units(engine, ranking_key) == exact


@pytest.mark.parametrize("name", first_quick(INTRUDERS, 2))
def test_leaves_of_quantile_trees_are_bounded(
    name: str, connection: Any, engine: DuckDBEngine, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    texts = (
        "SELECT MEDIAN(income) FROM people",
        "SELECT note, QUANTILE_CONT(score, 0.9) FROM people GROUP BY note",
        "SELECT region, MEDIAN(age) FROM people GROUP BY region",
    )
    plans = [planned(text, groups_per_unit=2, rows_per_unit=3) for text in texts]
    before = [exact_leaves(plan, 0, engine, ranking_key=ranking_key) for plan in plans]
    for statement in INTRUDERS[name]:
        connection.execute(statement)
    for plan, old in zip(plans, before, strict=True):
        new = exact_leaves(plan, 0, engine, ranking_key=ranking_key)
        moved = {keys for keys in old.keys() | new.keys() if old.get(keys) != new.get(keys)}
        assert len(moved) <= plan.groups_per_unit
        for keys in moved:
            left, right = old.get(keys, {}), new.get(keys, {})
            assert sum(abs(right.get(leaf, 0) - left.get(leaf, 0)) for leaf in left.keys() | right.keys()) <= 3
            assert all(0 <= leaf < plan.trees[0].leaves for leaf in right)


def test_a_user_within_a_month(new_world: Callable[[], Any], described: Callable[..., Any], ranking_key: bytes) -> None:
    """The unit is a user within a month. All rows that are added here belong to one unit."""
    connection = new_world()
    engine = DuckDBEngine(connection=connection)
    tables = described(engine, time="day", window="month")
    plan = plan_query(
        "SELECT note, COUNT(*), SUM(age) FROM people GROUP BY note",
        tables=tables,
        limits=ContributionLimits(groups_per_unit=2),
    )
    assert plan.units == 2
    before = contents(plan, engine, ranking_key)
    connection.execute(
        "INSERT INTO people(user_id, note, age, day) SELECT 3, 'n' || (i % 9), 100, DATE '2025-06-01' + CAST(i % "
        "30 AS INT) FROM range(90) AS t(i)"
    )
    changed, broken = largest_change(plan, before, contents(plan, engine, ranking_key))
    assert 0 < changed <= 2
    assert not broken
    # A second month is a second unit.
    connection.execute(
        "INSERT INTO people(user_id, note, age, day) SELECT 3, 'z' || i, 1, '2026-01-01' FROM range(2) AS t(i)"
    )
    assert largest_change(plan, before, contents(plan, engine, ranking_key))[0] > 2


@pytest.mark.parametrize("twin", ["no limit on values", "rows of groups that are not kept"])
def test_twins_that_count_too_many_distinct_values_are_caught(
    twin: str, monkeypatch: pytest.MonkeyPatch, connection: Any, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    text = "SELECT region, COUNT(DISTINCT day) FROM people GROUP BY region"
    plan = planned(text, groups_per_unit=1, rows_per_unit=2)
    if twin == "no limit on values":
        right = bounded.distinct_query
        monkeypatch.setattr(bounded, "distinct_query", lambda *a: right(*a[:3], replace(a[3], upper=10**6)))
    else:
        rows = "SELECT t.u0, t.g, t.v FROM (SELECT *, {0} FROM hush_cleaned) AS t"
        monkeypatch.setattr(bounded, "_in_kept_groups", lambda plan, dialect, value, item: rows.format(value))
    changed, broken = change_by_many_rows(plan, connection, ranking_key)
    assert broken if twin == "no limit on values" else changed > plan.groups_per_unit
