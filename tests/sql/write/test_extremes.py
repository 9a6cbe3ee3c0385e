"""Units by the bins of their extreme values: a unit is in one bin of each histogram, on every engine's SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

from hush.data.tables.catalog import Catalog, PrivateTable
from hush.sql.answer.choices.bounds import BINS
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import BoundedViews
from hush.sql.read.query import plan_query
from hush.sql.syntax.expression import Expr
from hush.sql.write import plan as plan_module
from hush.sql.write.dialects import Dialect
from hush.sql.write.extremes import extremes_query
from hush.sql.write.plan import QueryPlan
from sql.hosts import OnDuckDB, fill
from sql.transpiled import EXECUTED, OnWarehouse
from sql.write.test_bounded import INTRUDERS

EDGES = BINS.edges.tolist()
UNBOUNDED = [
    "SELECT SUM(big), AVG(income), MEDIAN(CAST(score AS DOUBLE)), SUM(num * price) FROM people",
    "SELECT region, AVG(income) FILTER (WHERE flag) FROM people WHERE age > 3 GROUP BY region",
    "WITH t AS (SELECT user_id, MAX(big) AS top, COUNT(*) AS n FROM people GROUP BY user_id) "
    "SELECT AVG(t.top - t.n), SUM(o.amount) FROM t JOIN orders o ON t.user_id = o.uid",
    "SELECT SUM(z.weight * p.age), VARIANCE(GREATEST(p.num, z.weight)) FROM people p JOIN zones z USING (region)",
]
Histograms = list[Any]


def undeclared(described: Callable[..., Any], engine: DuckDBEngine) -> list[QueryPlan]:
    tables = described(engine, bounds={})
    return [plan_query(text, tables=tables) for text in UNBOUNDED]


def counts(plans: Sequence[QueryPlan], engine: DuckDBEngine) -> Histograms:
    views = BoundedViews(engine)
    return [views.extremes(plan, column, EDGES) for plan in plans for column in plan.undeclared]


def intruded(name: str, new_world: Callable[[], Any], described: Callable[..., Any]) -> Histograms:
    """Return by how much one more unit changes the counts of each column."""
    connection = new_world()
    engine = DuckDBEngine(connection=connection)
    plans = undeclared(described, engine)
    before = counts(plans, engine)
    for statement in INTRUDERS[name]:
        connection.execute(statement)
    return [new - old for old, new in zip(before, counts(plans, engine), strict=True)]


@pytest.mark.parametrize("name", INTRUDERS)
@pytest.mark.quick_cases("many rows in many groups", "extreme numbers", "one sum that cancels")
def test_a_unit_is_in_one_bin_of_each_histogram(
    name: str, new_world: Callable[[], Any], described: Callable[..., Any]
) -> None:
    for change in intruded(name, new_world, described):
        for histogram in change:
            assert sorted(histogram[histogram != 0]) in ([], [1])


def rows_counted_as_units(plan: QueryPlan, column: Expr, dialect: Dialect, edges: Sequence[float]) -> str:
    text = extremes_query(plan, column, dialect, edges)
    return (
        text.replace("MIN(v) AS e0, MAX(v) AS e1", "v AS e0, v AS e1")
        .replace("GROUP BY u0),", "),")
        .replace("GROUP BY u0)", ")")
    )


def test_counting_rows_is_caught(new_world: Callable[[], Any], described: Callable[..., Any]) -> None:
    """The twin without the aggregate per unit: a unit with 400 rows changes the counts by 400."""
    with mock.patch.object(plan_module, "extremes_query", rows_counted_as_units):
        changes = intruded("many rows in many groups", new_world, described)
    assert max(abs(change).max() for change in changes) > 1


def test_bins_are_those_of_the_learner(new_world: Callable[[], Any], described: Callable[..., Any]) -> None:
    """Least and greatest values of each unit, at the edges of bins, beyond them, and around 0."""
    connection = new_world()
    ends = [0.0, -0.0, 1.0, -1.0, 2.0**-20, -(2.0**-20), 2.0**41, -(2.0**41), 1e90, -1e90, 1e-30, -1e-30, 3.7, -1000.5]
    values = np.array([np.nextafter(end, end + step) for end in ends for step in (0, 1, -1)])
    connection.execute("DELETE FROM people")
    for unit, pair in enumerate([*values.reshape(-1, 2), *values.reshape(2, -1).T]):
        for value in pair:
            connection.execute("INSERT INTO people(user_id, income) VALUES (?, ?)", [unit, float(value)])
    engine = DuckDBEngine(connection=connection)
    plan = plan_query("SELECT AVG(income) FROM people", tables=described(engine, bounds={}))
    pairs = np.vstack([values.reshape(-1, 2), values.reshape(2, -1).T])
    expected = np.stack([BINS.counts(pairs.min(axis=1))[0], BINS.counts(pairs.max(axis=1))[0]])
    assert (BoundedViews(engine).extremes(plan, plan.undeclared[0], EDGES) == expected).all()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT SUM(big) FROM people", ["big"]),
        ("SELECT COUNT(big), COUNT(*) FROM people", []),  # counts need no bounds
        ("SELECT AVG(big), SUM(big), COUNT(big) FROM people", ["big"]),
        ("SELECT SUM(big * age) FROM people", ["big"]),
        ("SELECT SUM(CASE WHEN big > 3 THEN num ELSE 0 END) FROM people", []),  # a condition only decides
        ("SELECT SUM(CASE WHEN num > 3 THEN big ELSE 0 END) FROM people", ["big"]),
        ("SELECT SUM(LEAST(GREATEST(big, 0), 1)) FROM people", []),
        ("SELECT SUM(age) FILTER (WHERE big > 3) FROM people", []),
        ("SELECT AVG(CAST(note AS DOUBLE)) FROM people", ["note"]),
        ("SELECT AVG(CAST(CONCAT('1', note) AS DOUBLE)) FROM people", ["note"]),
        ("SELECT AVG(CAST(CONCAT('1', '2') AS DOUBLE)) FROM people", ["a constant text"]),
        ("SELECT COUNT(DISTINCT big), APPROX_COUNT_DISTINCT(num) FROM people", []),
        ("SELECT CORR(age, big), COVAR_POP(big, num) FROM people", ["big"]),
        ("SELECT flag, COUNT(*) FROM people GROUP BY flag HAVING AVG(big) > 3 ORDER BY SUM(big)", ["big"]),
    ],
)
def test_only_what_is_added_up_needs_bounds(text: str, names: list[str], catalog: Any) -> None:
    plan = plan_query(text, tables=catalog)
    assert [plan.column_name(column) for column in plan.undeclared] == names


def test_a_count_is_shared_with_the_average_of_its_column(catalog: Any) -> None:
    plan = plan_query("SELECT COUNT(big), AVG(big) FROM people", tables=catalog)
    assert len(plan.releases) == 2


@pytest.mark.parametrize("dialect", EXECUTED)
def test_extremes_are_the_same_as_on_duckdb(dialect: str) -> None:
    """The text that learns bounds, on every dialect: the same units in the same bins."""
    text = "SELECT SUM(income * num), AVG(CAST(score AS DOUBLE)), MEDIAN(price + big) FROM people WHERE age > 1"
    counts = []
    hosts: list[Any] = [OnDuckDB(), OnWarehouse(dialect)]
    for host in hosts:
        fill(host)
        tables = Catalog({"people": PrivateTable(columns=host.engine.columns("people"), unit="user_id")})
        plan = plan_query(text, tables=tables, dialect=host.engine.dialect)
        counts.append([BoundedViews(host.engine).extremes(plan, column, EDGES) for column in plan.undeclared])
    assert len(counts[0]) == 5
    assert np.array_equal(*counts)
    assert np.sum(counts[0]) > 0
