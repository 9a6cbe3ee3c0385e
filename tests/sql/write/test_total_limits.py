"""Limits in total: adding one unit, whatever its rows, changes all groups together by at most the sensitivity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cases import first_quick
from hush.data.tables.catalog import Catalog, PrivateTable, PublicTable
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups
from hush.sql.read.query import plan_query
from hush.sql.write.plan import QueryPlan
from hush.statistics import ContributionLimits, TotalLimits
from sql.hosts import QUERIES, numbers_by_name, total_changes
from sql.write.test_bounded import INTRUDERS

pandas = pytest.importorskip("pandas")

MEDIANS = [
    "SELECT region, MEDIAN(income), COUNT(*) FROM people GROUP BY region",
    "SELECT note, MEDIAN(age) FROM people GROUP BY note",
]
GROUPED = [query for query in [*QUERIES, *MEDIANS] if "GROUP BY" in query]
LIMITS = [TotalLimits(rows_in_total=5, groups_per_unit=3), TotalLimits(rows_in_total=2, groups_per_unit=50)]


def plans(engine: DuckDBEngine, described: Callable[..., Any]) -> list[QueryPlan]:
    tables = described(engine)
    return [plan_query(query, tables=tables, limits=limits) for query in GROUPED for limits in LIMITS]


@pytest.fixture(scope="module")
def without_intruders(
    new_world: Callable[[], Any], described: Callable[..., Any], ranking_key: bytes
) -> list[tuple[QueryPlan, dict[str, dict[Any, int]]]]:
    """Return each plan and what it reads before anyone is added."""
    engine = DuckDBEngine(connection=new_world())
    return [(plan, numbers_by_name(plan, engine, ranking_key)) for plan in plans(engine, described)]


@pytest.mark.parametrize("name", first_quick(INTRUDERS, 2))
@pytest.mark.quick_cases("many rows in many groups")
def test_one_unit_changes_all_groups_together_by_no_more_than_its_limit(
    name: str,
    new_world: Callable[[], Any],
    without_intruders: list[tuple[QueryPlan, dict[str, dict[Any, int]]]],
    ranking_key: bytes,
) -> None:
    connection = new_world()
    engine = DuckDBEngine(connection=connection)
    for statement in INTRUDERS[name]:
        connection.execute(statement)
    for plan, old in without_intruders:
        assert plan.in_total
        assert not total_changes(plan, old, numbers_by_name(plan, engine, ranking_key)), plan.columns


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(user=st.integers(0, 39), query=st.sampled_from(GROUPED), rows=st.integers(1, 9), groups=st.integers(1, 9))
def test_any_unit_can_be_removed(
    user: int,
    query: str,
    rows: int,
    groups: int,
    new_world: Callable[[], Any],
    described: Callable[..., Any],
    ranking_key: bytes,
) -> None:
    connection = new_world()
    engine = DuckDBEngine(connection=connection)
    limits = TotalLimits(rows_in_total=rows, groups_per_unit=groups)
    plan = plan_query(query, tables=described(engine), limits=limits)
    before = numbers_by_name(plan, engine, ranking_key)
    connection.execute(f"DELETE FROM people WHERE user_id = {user}")
    connection.execute(f"DELETE FROM orders WHERE uid = {user}")
    assert not total_changes(plan, numbers_by_name(plan, engine, ranking_key), before)


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        ("WHERE counted > 0", "WHERE TRUE"),
        ("(so_far - n)", "0"),
        ("n <= counted", "n <= 50"),
        (" WHERE turn <= 3", ""),
    ],
)
@pytest.mark.quick_cases(1)
def test_an_omitted_step_is_caught(
    part: str,
    instead: str,
    new_world: Callable[[], Any],
    described: Callable[..., Any],
    ranking_key: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = new_world()
    engine = DuckDBEngine(connection=connection)
    run, used = engine.run, []
    monkeypatch.setattr(engine, "run", lambda sql: (used.append(part in sql), run(sql.replace(part, instead)))[1])
    all_plans = plans(engine, described)
    before = [numbers_by_name(plan, engine, ranking_key) for plan in all_plans]
    for statement in INTRUDERS["many rows in many groups"]:
        connection.execute(statement)
    broken = [
        total_changes(plan, old, numbers_by_name(plan, engine, ranking_key))
        for plan, old in zip(all_plans, before, strict=True)
    ]
    assert any(used)
    assert any(broken)


def test_all_rows_count_if_the_limit_is_high_enough(
    new_world: Callable[[], Any], described: Callable[..., Any], ranking_key: bytes
) -> None:
    connection = new_world()
    engine = DuckDBEngine(connection=connection)
    text = "SELECT region, COUNT(*), COUNT(income), COUNT(DISTINCT user_id) FROM people GROUP BY region"
    limits = TotalLimits(rows_in_total=1000, groups_per_unit=1000)
    plan = plan_query(text, tables=described(engine), limits=limits)
    exact = {group.keys: tuple(group.sums.values()) for group in exact_groups(plan, engine, ranking_key=ranking_key)}
    of_units = text.replace("FROM people", "FROM people WHERE user_id IS NOT NULL")
    truth = {row[:1]: row[1:] for row in connection.execute(of_units).fetchall()}
    shared = exact.keys() & truth.keys()  # public groups may be empty, and rows may have keys that are not listed
    assert len(shared) >= 3
    assert {keys: exact[keys] for keys in shared} == {keys: truth[keys] for keys in shared}


def test_without_groups_a_limit_in_total_is_one_for_each_group(
    new_world: Callable[[], Any], described: Callable[..., Any], ranking_key: bytes
) -> None:
    engine = DuckDBEngine(connection=new_world())
    plan = plan_query("SELECT COUNT(*) FROM people", tables=described(engine), limits=LIMITS[0])
    assert (plan.in_total, plan.rows_per_unit) == (False, 5)
    assert "hush_turns" not in plan.sql(ranking_key=ranking_key)


ROW_QUERIES = [
    "SELECT zone, COUNT(*), SUM(age), COUNT(DISTINCT age) FROM people JOIN zones USING (note) GROUP BY zone",
    "SELECT zone, MEDIAN(age) FROM people JOIN zones USING (note) GROUP BY zone",
]


def rows_without(left_out: int | None, text: str, limits: TotalLimits | ContributionLimits, key: bytes) -> Any:
    """Return the plan and the numbers of a table whose rows are the units, without one of them."""
    people = pandas.DataFrame({"note": [f"n{i % 5}" for i in range(90)], "age": [i % 7 for i in range(90)]})
    zones = pandas.DataFrame({"note": [f"n{i % 5}" for i in range(50)], "zone": [f"z{i}" for i in range(50)]})
    engine = DuckDBEngine({"people": people.drop(index=[] if left_out is None else [left_out]), "zones": zones})
    rows = PrivateTable(
        columns=engine.columns("people"), unit="row", row_id=engine.row_id("people"), bounds={"age": (0, 6)}
    )
    tables = Catalog({"people": rows, "zones": PublicTable(columns=engine.columns("zones"))})
    plan = plan_query(text, tables=tables, limits=limits)
    return plan, numbers_by_name(plan, engine, key)


@pytest.mark.parametrize("text", ROW_QUERIES)
@pytest.mark.parametrize(
    "limits",
    [TotalLimits(rows_in_total=2, groups_per_unit=3), ContributionLimits(rows_per_unit=1, groups_per_unit=2)],
)
def test_the_number_of_a_row_does_not_decide_which_of_its_groups_count(
    text: str, limits: TotalLimits | ContributionLimits, ranking_key: bytes
) -> None:
    # Without row 3, all rows after it have other numbers.
    plan, before = rows_without(None, text, limits, ranking_key)
    _, after = rows_without(3, text, limits, ranking_key)
    changed = {
        group
        for name in before.keys() | after.keys()
        for group in before[name].keys() | after[name].keys()
        if before[name].get(group) != after[name].get(group)
    }
    keys = {group[0] if isinstance(group[0], tuple) else group for group in changed}  # of a leaf, its group's
    assert 0 < len(keys) <= plan.groups_per_unit
