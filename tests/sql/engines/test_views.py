"""Views of bounded sums: reused by further queries, built in parts, and dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hush.data.tables.catalog import Catalog, PrivateTable
from hush.errors import HushError, InvalidArgument
from hush.sql.engines import duckdb as duckdb_module
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import BoundedViews, exact_distinct, exact_groups, exact_leaves
from hush.sql.read.query import plan_query
from hush.sql.write import bounded
from hush.sql.write.plan import QueryPlan
from hush.statistics import ContributionLimits, TotalLimits


class Counting(DuckDBEngine):
    """Counts the tables that are materialised."""

    made = 0

    def materialise(self, name: str, sql: str) -> None:
        self.made += 1
        super().materialise(name, sql)


def test_views_answer_further_queries(connection: Any, planned: Callable[..., QueryPlan], ranking_key: bytes) -> None:
    engine = Counting(connection=connection)
    views = BoundedViews(engine, ranking_key)
    first = planned("SELECT region, COUNT(*), AVG(income), SUM(age) FROM people GROUP BY region", groups_per_unit=2)
    others = [
        planned("SELECT region, AVG(income) FROM people GROUP BY region HAVING AVG(income) > 5", groups_per_unit=2),
        planned("SELECT SUM(age) AS s, region FROM people GROUP BY region ORDER BY s LIMIT 1", groups_per_unit=2),
    ]
    for plan in [first, *others]:
        assert views.groups(plan) == exact_groups(plan, engine, ranking_key=ranking_key)
    assert engine.made == 1
    different = [
        planned("SELECT region, COUNT(*) FROM people GROUP BY region", groups_per_unit=1),
        planned("SELECT region, COUNT(*) FROM people WHERE age > 3 GROUP BY region", groups_per_unit=2),
        planned("SELECT note, COUNT(*) FROM people GROUP BY note", groups_per_unit=2),
        planned("SELECT region, SUM(age) FROM people GROUP BY region", groups_per_unit=2, rows_per_unit=2),
        planned("SELECT COUNT(*) FROM people"),
    ]
    for plan in different:
        assert sorted(map(repr, views.groups(plan))) == sorted(
            map(repr, exact_groups(plan, engine, ranking_key=ranking_key))
        )
    assert engine.made == 1 + len(different)
    wider = planned("SELECT region, SUM(price) FROM people GROUP BY region", groups_per_unit=2)
    assert views.groups(wider) == exact_groups(wider, engine, ranking_key=ranking_key)
    assert engine.made == 2 + len(different)  # the view lacked a release


def test_a_view_has_a_row_for_each_group_and_part_and_none_for_a_unit(path: Path, in_parts: None) -> None:
    engine = DuckDBEngine({"rows": path})
    views, plan = BoundedViews(engine), planned_rows(engine, QUERIES[0], keys={"g": [0, 2]})
    (num_rows,) = engine.run(f"SELECT COUNT(*) FROM {views.bounded_view(plan).table}")[0]
    assert 2 <= num_rows <= 2 * engine.parts("rows") < sum(group.units for group in views.groups(plan))


def test_a_view_does_not_change_until_it_is_forgotten(
    connection: Any, engine: DuckDBEngine, planned: Callable[..., QueryPlan]
) -> None:
    views = BoundedViews(engine)
    plan = planned("SELECT COUNT(*) FROM people")
    before = views.groups(plan)
    connection.execute("DELETE FROM people")
    assert views.groups(plan) == before
    views.forget()
    assert views.groups(plan)[0].units == 0
    assert views.ranking_key not in repr(views).encode()


# Views that are built in parts hold the same sums as views that are built at once.

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
    file = tmp_path / "rows.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({ROWS}) TO '{file}'")
    return file


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_module, "_PART_ROWS", 100)


def planned_rows(
    engine: DuckDBEngine,
    text: str,
    *,
    keys: Any = None,
    unit: Any = ("who", None, None),
    limits: Any = ContributionLimits(groups_per_unit=2, rows_per_unit=3),  # noqa: B008
) -> QueryPlan:
    bounds = {"x": (0, 50), "big": (-900_000, 900_000)}
    who, time, window = unit
    table = PrivateTable(
        columns=engine.columns("rows"), unit=who, time=time, window=window, bounds=bounds, keys=keys or {}
    )
    return plan_query(text, tables=Catalog({"rows": table}), limits=limits)


QUERIES = [
    "SELECT g, COUNT(*) AS n, COUNT(x), SUM(x), AVG(big) FROM rows GROUP BY g",
    "SELECT COUNT(DISTINCT who) AS n, STDDEV(x) FROM rows WHERE x > 3",
    "SELECT g, SUM(big * 100000) AS s FROM rows GROUP BY g",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("keys", [None, {"g": [0, 2, 4, 99]}])
@pytest.mark.parametrize("unit", [("who", None, None), ("who", "day", "month")])
@pytest.mark.usefixtures("in_parts")
@pytest.mark.quick_cases(5)
def test_all_parts_together_are_the_view(path: Path, query: str, keys: Any, unit: Any) -> None:
    if unit[1] is not None and "DISTINCT" in query:
        query = query.replace("COUNT(DISTINCT who)", "COUNT(*)")
    engine = DuckDBEngine({"rows": path})
    assert engine.parts("rows") == 8
    plan = planned_rows(engine, query, keys=keys, unit=unit)
    in_parts, at_once = BoundedViews(engine, KEY).groups(plan), exact_groups(plan, engine, ranking_key=KEY)
    assert sorted(in_parts, key=repr) == sorted(at_once, key=repr)
    assert any(group.units for group in in_parts)


@pytest.mark.usefixtures("in_parts")
def test_a_user_in_several_parts_would_be_caught(path: Path) -> None:
    """A twin that divides rows instead of users keeps too many groups per user."""
    engine = DuckDBEngine({"rows": path})
    plan = planned_rows(engine, QUERIES[0], keys={"g": list(range(7))})
    parts = [kept_rows(plan, (index, 8)) for index in range(8)]
    num_rows = sum(len(engine.run(part)) for part in parts)
    twin_rows = sum(len(engine.run(part.replace("HASH(r.u0)", "HASH(l0.i)"))) for part in parts)
    assert num_rows == 2 * USERS
    assert twin_rows > 2 * USERS


def kept_rows(plan: QueryPlan, part: tuple[int, int]) -> str:
    """Return the query for the bounded contributions, one row per unit and group, before they are added up."""
    query, _, _ = plan.sql(ranking_key=KEY, part=part).rpartition(" SELECT ")
    sums = [release.name for release in plan.sums]
    keys = ["g"] if plan.public_keys else [f"k{index}" for index in range(len(plan.keys))]
    return f"{query} SELECT {', '.join([*keys, *sums])} FROM hush_kept"


# In parts, rows of groups that cannot be kept are left out before they are added up. That changes no contribution.

MANY_GROUPS = """
    SELECT i * i % 61 AS who, CASE WHEN i % 11 = 0 THEN NULL ELSE (i * 7 + i // 61) % 37 END AS g, 'g' || i % 5 AS h,
           1.5 * (i % 40) AS x
    FROM range(3000) AS t(i)
"""
LIMITS = [
    ContributionLimits(groups_per_unit=1),
    ContributionLimits(groups_per_unit=3, rows_per_unit=2),
    ContributionLimits(groups_per_unit=8),
    TotalLimits(rows_in_total=5, groups_per_unit=6),
    TotalLimits(rows_in_total=20, groups_per_unit=4),
]


def contributions(limits: Any, keys: Any, text: str = "SELECT g, COUNT(*), SUM(x) FROM rows GROUP BY g") -> Any:
    """Return the bounded contributions from a plan at once, and in eight parts, with the text of a part."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE rows AS {MANY_GROUPS}")
    engine = DuckDBEngine(connection=connection)
    table = PrivateTable(columns=engine.columns("rows"), unit="who", bounds={"x": (0, 50)}, keys=keys)
    plan = plan_query(text, tables=Catalog({"rows": table}), limits=limits)
    parts = [kept_rows(plan, (index, 8)) for index in range(8)]
    rows = [row for part in parts for row in engine.run(part)]
    return sorted(engine.run(kept_rows(plan, (0, 1))), key=repr), sorted(rows, key=repr), parts[0]


@pytest.mark.parametrize("keys", [{}, {"g": [*range(50), None]}], ids=["private keys", "public keys"])
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.quick_cases(4)
def test_leaving_out_rows_early_changes_no_contribution(limits: Any, keys: Any) -> None:
    at_once, in_parts, text = contributions(limits, keys)
    assert in_parts == at_once
    assert "hush_first" in text
    two_keys = "SELECT g, h, COUNT(*), AVG(x) FROM rows GROUP BY g, h"
    at_once, in_parts, text = contributions(limits, {}, two_keys)
    assert in_parts == at_once
    assert "hush_first" in text


def test_a_long_search_or_one_for_little_is_left_out() -> None:
    assert "hush_first" not in contributions(ContributionLimits(groups_per_unit=9), {})[2]
    assert "hush_first" not in contributions(ContributionLimits(groups_per_unit=2), {"g": [1, 2, 3]})[2]


def test_leaving_out_too_many_rows_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin that keeps the lowest bucket that is not empty, and no others."""
    monkeypatch.setattr(bounded, "_first_layer", one_bucket)
    at_once, in_parts, _ = contributions(LIMITS[1], {})
    assert len(in_parts) < len(at_once)


first_layer = bounded._first_layer


def one_bucket(plan: QueryPlan, *rest: Any) -> str:
    """Find the lowest bucket that is not empty, and no others: a twin of `_first_layer`."""
    return first_layer(replace(plan, groups_per_unit=1), *rest)


@pytest.mark.parametrize("groups_per_unit", [1, 2])
def test_each_grouping_set_keeps_groups_of_its_own(groups_per_unit: int) -> None:
    """Were the lowest ranks of all sets looked for together, a unit could lose the only group of a set."""
    limits = ContributionLimits(groups_per_unit=groups_per_unit)
    text = "SELECT g, h, COUNT(*), AVG(x) FROM rows GROUP BY ROLLUP (g, h)"
    at_once, in_parts, text = contributions(limits, {"g": list(range(37)), "h": [f"g{i}" for i in range(5)]}, text)
    assert in_parts == at_once
    assert "hush_first" not in text


# Views of Parquet files read the rows of many units from a table that is stored before.


@pytest.fixture
def many_groups(tmp_path: Path) -> Path:
    file = tmp_path / "many.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({MANY_GROUPS}) TO '{file}'")
    return file


def groups_of(engine: DuckDBEngine, limits: Any, keys: Any = None) -> tuple[Any, Any]:
    """Return the groups of a view, and those of the whole table at once."""
    table = PrivateTable(columns=engine.columns("rows"), unit="who", bounds={"x": (0, 50)}, keys=keys or {})
    text = "SELECT g, COUNT(*), SUM(x) FROM rows GROUP BY g"
    plan = plan_query(text, tables=Catalog({"rows": table}), limits=limits)
    in_parts, at_once = BoundedViews(engine, KEY).groups(plan), exact_groups(plan, engine, ranking_key=KEY)
    return sorted(in_parts, key=repr), sorted(at_once, key=repr)


class Watched(DuckDBEngine):
    """Notes how many rows the tables of rows have."""

    def __init__(self, data: Any) -> None:
        self.stored: list[int] = []
        super().__init__(data)

    def materialise(self, name: str, sql: str) -> None:
        super().materialise(name, sql)
        if name.endswith("_rows"):
            self.stored += self.run(f"SELECT COUNT(*) FROM {name}")[0]


@pytest.mark.parametrize("part_rows", [1, 100, 400])
@pytest.mark.parametrize("keys", [{}, {"g": [*range(50), None]}], ids=["private keys", "public keys"])
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_views_from_stored_rows_are_the_whole(
    many_groups: Path, monkeypatch: pytest.MonkeyPatch, limits: Any, keys: Any, part_rows: int
) -> None:
    monkeypatch.setattr(duckdb_module, "_PART_ROWS", part_rows)
    engine = Watched({"rows": many_groups})
    in_parts, at_once = groups_of(engine, limits, keys)
    assert in_parts == at_once
    assert engine.stored
    assert engine.run("SELECT COUNT(*) FROM duckdb_tables()") == [(1,)]  # the view
    is_searched = engine.parts("rows") >= 8
    assert (sum(engine.stored) < 3000) is is_searched


@pytest.mark.parametrize(("most_groups", "tables"), [(1, 4), (8, 8)])
def test_rows_are_stored_for_more_units_at_a_time_if_few_are_left(
    many_groups: Path, monkeypatch: pytest.MonkeyPatch, most_groups: int, tables: int
) -> None:
    """A unit has 34 groups or more. With a limit of 8, its eighth bucket is beyond half of 64 for few of the units."""
    monkeypatch.setattr(duckdb_module, "_PART_ROWS", 100)
    if tables == 8:
        monkeypatch.setattr(bounded, "is_selective", lambda first: f"SELECT COUNT(*) < 0 FROM {first}")
    engine = Watched({"rows": many_groups})
    in_parts, at_once = groups_of(engine, ContributionLimits(groups_per_unit=most_groups))
    assert in_parts == at_once
    assert len(engine.stored) == tables


def test_storing_too_few_rows_would_be_caught(many_groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_module, "_PART_ROWS", 100)
    monkeypatch.setattr(bounded, "_first_layer", one_bucket)
    in_parts, at_once = groups_of(DuckDBEngine({"rows": many_groups}), LIMITS[1])
    assert sum(group.units for group in in_parts) < sum(group.units for group in at_once)


def test_a_statement_can_set_no_option_but_the_limit_of_memory(path: Path) -> None:
    engine = DuckDBEngine({"rows": path})
    limit = "SELECT current_setting('memory_limit')"
    limits = set()
    for _ in range(5):
        engine.materialise("t", "SELECT 1 AS one")
        limits.update(engine.run(limit))
    assert len(limits) == 1
    for statement in ("SET threads = 1", "SET enable_external_access = true", "SET allowed_configs = ['threads']"):
        with pytest.raises(HushError):
            engine.run(statement)


class AtOnce(DuckDBEngine):
    """Bounds all units at once: the simple version, which parts are compared with."""

    def parts(self, table: str) -> int:
        return 1


@pytest.mark.parametrize("keys", [None, {"g": [0, 2, 4, 99]}])
@pytest.mark.parametrize(
    "limits", [ContributionLimits(groups_per_unit=2, rows_per_unit=3), TotalLimits(rows_in_total=3, groups_per_unit=2)]
)
@pytest.mark.usefixtures("in_parts")
@pytest.mark.quick_cases(2)
def test_leaves_and_distinct_values_of_all_parts_are_those_of_the_whole(path: Path, keys: Any, limits: Any) -> None:
    engines = DuckDBEngine({"rows": path}), AtOnce({"rows": path})
    assert [engine.parts("rows") for engine in engines] == [8, 1]
    text = "SELECT g, MEDIAN(x) AS m, COUNT(DISTINCT x) AS d FROM rows GROUP BY g"
    leaves, values = [], []
    for engine in engines:
        plan = planned_rows(engine, text, keys=keys, limits=limits)
        (release,) = plan.distinct_counts
        leaves.append(exact_leaves(plan, 0, engine, ranking_key=KEY))
        values.append(exact_distinct(plan, release, engine, ranking_key=KEY))
    assert leaves[0] == leaves[1]
    assert values[0] == values[1]
    # Parts share leaves and values. Neither a count of one part nor a sum of numbers of values would be right.
    whole = AtOnce({"rows": path})
    plan = planned_rows(whole, text, keys=keys, limits=limits)
    (release,) = plan.distinct_counts
    rows = [whole.run(plan.values_sql(release, ranking_key=KEY, part=(index, 8))) for index in range(8)]
    assert sum(map(len, rows)) > sum(values[1].values())


@pytest.mark.usefixtures("in_parts")
def test_values_of_parts_are_dropped_once_they_are_counted(path: Path) -> None:
    engine = DuckDBEngine({"rows": path})
    plan = planned_rows(engine, "SELECT COUNT(DISTINCT x) AS d FROM rows")
    exact_distinct(plan, plan.distinct_counts[0], engine, ranking_key=KEY)
    assert engine.run("SELECT COUNT(*) FROM duckdb_tables()") == [(0,)]


@pytest.mark.parametrize("part", [(0, 3), (2, 2), (-1, 4), (0, 0)])
def test_parts_that_would_not_be_the_whole_are_refused(path: Path, part: tuple[int, int]) -> None:
    plan = planned_rows(DuckDBEngine({"rows": path}), QUERIES[0])
    with pytest.raises(InvalidArgument, match="power of two"):
        plan.sql(ranking_key=KEY, part=part)


def test_large_parquet_files_are_bounded_in_parts(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tmp_path / "lines.csv"
    lines.write_text("who,g\n" + "1,2\n" * 1000)
    engine = DuckDBEngine({"rows": path, "lines": lines})
    assert engine.parts("rows") == 1
    monkeypatch.setattr(duckdb_module, "_PART_ROWS", 1)
    assert engine.parts("rows") == duckdb_module._MAX_PARTS
    assert engine.parts("lines") == 1


@pytest.mark.usefixtures("in_parts")
def test_half_a_view_is_dropped(path: Path) -> None:
    class Failing(DuckDBEngine):
        dropped: tuple[str, ...] = ()

        def append(self, name: str, sql: str) -> None:
            super().append(name, sql.replace("FROM hush_kept", "FROM hush_nowhere"))

        def drop(self, name: str) -> None:
            self.dropped += (name,)
            super().drop(name)

    engine = Failing({"rows": path})
    plan = planned_rows(engine, QUERIES[0])
    with pytest.raises(HushError, match="could not run"):
        BoundedViews(engine, KEY).groups(plan)
    assert engine.dropped
    assert engine.run("SELECT COUNT(*) FROM duckdb_tables()") == [(0,)]
