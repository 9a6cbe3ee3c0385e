"""ROLLUP, CUBE and GROUPING SETS: which sets there are, how much a unit may add to them, and what that costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlglot import exp, parse_one

from hush.data.tables.catalog import Catalog, PrivateTable
from hush.randomness import TestSource
from hush.sql.answer.choices.limits import RequestedLimits
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.read.grouping_sets import grouping_sets
from hush.sql.read.query import plan_query
from hush.sql.syntax.refusal import Refuser
from hush.sql.write.plan import QueryPlan
from hush.statistics import ContributionLimits
from sql.hosts import contents, largest_change
from sql.towns import towns_table


def sets_of(group_by: str, dialect: str = "duckdb") -> list[str] | None:
    select = parse_one(f"SELECT 1 FROM t GROUP BY {group_by}", read=dialect)
    assert isinstance(select, exp.Select)
    sets = grouping_sets(Refuser(""), select)
    return None if sets is None else [" ".join(key.sql() for key in keys) for keys in sets]


@pytest.mark.parametrize(
    ("group_by", "sets"),
    [
        ("a, b", None),
        ("ROLLUP (a, b)", ["a b", "a", ""]),
        ("ROLLUP ((a, b), c)", ["a b c", "a b", ""]),
        ("CUBE (a, b)", ["a b", "a", "b", ""]),
        ("x, CUBE (a)", ["x a", "x"]),
        ("GROUPING SETS ((a, b), a, ())", ["a b", "a", ""]),
        ("GROUPING SETS (ROLLUP (a), b)", ["a", "", "b"]),
        ("ROLLUP (a), ROLLUP (b)", ["a b", "a", "b", ""]),
    ],
)
def test_sets(group_by: str, sets: list[str] | None) -> None:
    assert sets_of(group_by) == sets
    assert sets_of("a, b WITH ROLLUP", "spark") == ["a b", "a", ""]
    assert sets_of("a, b WITH CUBE", "spark") == ["a b", "a", "b", ""]


def test_a_unit_may_be_in_as_many_groups_of_each_set(planned: Callable[..., QueryPlan]) -> None:
    def groups(group_by: str) -> int:
        return planned(f"SELECT COUNT(*) FROM people GROUP BY {group_by}", groups_per_unit=3).groups_per_unit

    assert groups("note, region") == 3
    assert groups("ROLLUP (note, region)") == 9  # the notes are not public, and so nothing is known about their number
    assert groups("ROLLUP (region, flag)") == 3 + 3 + 1  # of ten groups, of five, and of one
    assert groups("GROUPING SETS ((flag), ())") == 2 + 1


def test_a_twin_that_pays_for_one_grouping_is_caught(new_world: Callable[[], Any], ranking_key: bytes) -> None:
    connection = new_world()
    engine = DuckDBEngine(connection=connection)
    tables = Catalog({"people": PrivateTable(columns=engine.columns("people"), unit="user_id")})
    text = "SELECT note, region, COUNT(*) FROM people GROUP BY ROLLUP (note, region)"
    plan = plan_query(text, tables=tables, limits=ContributionLimits(groups_per_unit=2))
    twin = replace(plan, groups_per_unit=2)
    before = contents(plan, engine, ranking_key)
    connection.execute(
        "INSERT INTO people(user_id, note, region) SELECT 99, 'n' || i, 'r' || i FROM range(50) AS t(i), range(2)"
    )
    changed, broken = largest_change(plan, before, contents(plan, engine, ranking_key))
    assert not broken
    assert twin.groups_per_unit < changed == 2 + 2 + 1 <= plan.groups_per_unit


def test_missing_keys_are_not_mistaken_for_totals(towns: Any) -> None:
    """A row without a region is in no listed group, but it is in the total. NULL is a total, unless it is listed."""
    towns.execute("INSERT INTO people SELECT 5000 + i, NULL, 1, 'x' FROM range(500) AS t(i)")
    text = "SELECT region, COUNT(*) AS n, GROUPING(region) AS g FROM people GROUP BY ROLLUP (region)"
    settings = {"epsilon": 100.0, "rows_per_unit": 1, "groups_per_unit": 1, "source": TestSource(1)}

    def rounded(listed: list[str | None]) -> list[Any]:
        answer = towns_table(towns, keys={"region": listed}).sql(text, **settings)
        assert all(set(ends) == {"n"} for ends in answer.intervals)
        assert "at most 1 row per group in at most 1 group of each grouping" in answer.limits[0]
        return [(region, round(n, -1), g) for region, n, g in answer.rows]

    regions = [("north", 1000, 0), ("south", 1000, 0), ("west", 1000, 0)]
    assert rounded(["north", "south", "west"]) == [*regions, (None, 3500, 1)]
    assert rounded(["north", "south", "west", None]) == [*regions, (None, 500, 0), (None, 3500, 1)]


def test_the_groupings_share_one_budget(towns: Any) -> None:
    table = towns_table(towns)
    settings = {"epsilon": 1.0, "rows_per_unit": 1, "groups_per_unit": 1}
    (one,) = table.price("SELECT region, COUNT(*) AS n FROM people GROUP BY region", **settings).scales.values()
    (both,) = table.price(
        "SELECT region, COUNT(*) AS n FROM people GROUP BY ROLLUP (region)", **settings
    ).scales.values()
    assert (one, both) == pytest.approx((1, 2))


def test_limits_that_are_chosen_cover_all_groupings(towns: Any) -> None:
    """Each row counts once in each grouping, and so the chosen limit on rows does as well."""
    text = "SELECT region, COUNT(*) AS n FROM people GROUP BY CUBE (region)"
    table = towns_table(towns)
    table._limits = RequestedLimits()
    answer = table.sql(text, epsilon=50.0, source=TestSource(1))
    assert "at most 2 rows in at most 4 groups of all groupings together" in answer.limits[0]
    assert [(region, round(n, -1)) for region, n in answer.rows] == [
        *((region, 1000) for region in ("north", "south", "west")),
        (None, 3000),
    ]
