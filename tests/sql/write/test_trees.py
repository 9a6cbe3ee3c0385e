"""Quantile trees: leaves that match their groups, nodes that match those of arrays, and one charge per column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pytest

from hush.data.tables.catalog import Catalog, PrivateTable
from hush.randomness import TestSource
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups, exact_leaves
from hush.sql.read.query import plan_query
from hush.sql.write.plan import QueryPlan
from hush.sql.write.trees import GroupCells, tree_blocks
from hush.statistics import plan_noise
from hush.statistics.noise import tree_block
from hush.statistics.noise.tree import CELLS, LEVEL_UNITS, cell_counts, cells_of
from sql.towns import towns_table

NO_LIMIT = {"groups_per_unit": 1000, "rows_per_unit": 250}


@pytest.mark.parametrize("keys", [{}, {"region": ["north", "south", "west", "east"]}])
def test_quantiles_are_near_the_truth(towns: Any, keys: Any) -> None:
    text = (
        "SELECT region, MEDIAN(age) AS m, QUANTILE_CONT(age, 0.9) AS q, COUNT(*) AS n FROM people GROUP BY region "
        "HAVING COUNT(*) > 500 ORDER BY region DESC"
    )
    answer = towns_table(towns, keys=keys).sql(text, epsilon=8.0, delta=1e-6, source=TestSource(3))
    assert [row[0] for row in answer.rows] == ["west", "south", "north"]
    for row, ends in zip(answer.rows, answer.intervals, strict=True):
        assert abs(row[1] - 49.5) < 6
        assert abs(row[2] - 89.5) < 6
        assert set(ends) == {"m", "q", "n"}
        assert all(ends[name][0] <= row[index] <= ends[name][1] for index, name in enumerate("mqn", start=1))
    assert answer.guarantee.epsilon == 8.0


def test_further_quantiles_are_free_and_other_aggregates_share_the_budget(towns: Any) -> None:
    people = towns_table(towns)
    median = people.price("SELECT MEDIAN(age) FROM people", epsilon=1.0)
    three = people.price(
        "SELECT MEDIAN(age), QUANTILE_CONT(age, 0.1), QUANTILE_CONT(age, 0.9) FROM people", epsilon=1.0
    )
    with_count = people.price("SELECT MEDIAN(age), COUNT(*) FROM people", epsilon=1.0)
    assert median.scales == {"rows in a node of a tree for MEDIAN(age)": pytest.approx(51 / 13)}
    assert list(three.scales.values()) == list(median.scales.values())
    assert sorted(with_count.scales.values()) == pytest.approx([51 / 13 * 9 / 8, 9.0])  # the tree has 8 of 9 shares
    assert median.guarantee.epsilon == with_count.guarantee.epsilon == 1.0


def test_a_table_without_values_has_a_median(towns: Any) -> None:
    answer = towns_table(towns).sql("SELECT MEDIAN(age) AS m FROM people WHERE age > 1000", epsilon=1.0)
    assert 0 <= answer.rows[0][0] <= 128


@pytest.mark.parametrize("key", ["price * 2", "price", "day", "moment", "flag", "big", "note", "region"])
def test_trees_find_their_groups(key: str, engine: DuckDBEngine, planned: Any, ranking_key: bytes) -> None:
    """Keys of groups and of leaves come from two queries, and must be equal in Python: NULL, 0 and decimals as well."""
    plan = planned(
        f"SELECT {key} AS k, COUNT(income), MEDIAN(income) FROM people GROUP BY k", groups_per_unit=3, rows_per_unit=2
    )
    leaves = exact_leaves(plan, 0, engine, ranking_key=ranking_key)
    groups = {group.keys: group for group in exact_groups(plan, engine, ranking_key=ranking_key)}
    assert leaves.keys() <= groups.keys()
    for keys, group in groups.items():  # both queries count at most two values of a unit
        assert sum(leaves.get(keys, {}).values()) == group.sums["a0"]


def test_leaves_are_the_cells_of_the_tree_over_arrays(engine: DuckDBEngine, planned: Any, ranking_key: bytes) -> None:
    plan = planned("SELECT MEDIAN(income) FROM people", rows_per_unit=1000)
    leaves = exact_leaves(plan, 0, engine, ranking_key=ranking_key)[()]
    counts = np.zeros(plan.trees[0].leaves, dtype=np.int64)
    counts[list(leaves)] = list(leaves.values())
    rows = engine.run("SELECT income FROM people WHERE income IS NOT NULL AND user_id IS NOT NULL")
    cells = cells_of(np.array([row[0] for row in rows]), plan.trees[0].bounds)
    assert np.array_equal(counts, cell_counts(cells))


def test_leaves_are_read_once_until_they_are_forgotten(towns: Any) -> None:
    """A second query about a column, for any quantile, runs no more than a count would."""
    people = towns_table(towns)
    runs: list[str] = []
    run = people._engine.run
    people._views.engine = type("Spied", (), {"__getattr__": lambda _, name: getattr(people._engine, name)})()
    people._views.engine.run = lambda sql: (runs.append(sql), run(sql))[1]
    first = people.sql("SELECT MEDIAN(age) AS m, COUNT(*) FROM people", epsilon=50.0, source=TestSource(1))
    assert sum("leaf" in sql for sql in runs) == 1
    again = people.sql("SELECT MEDIAN(age) AS m, COUNT(*) FROM people", epsilon=50.0, source=TestSource(1))
    people.sql("SELECT QUANTILE_CONT(age, 0.9) FROM people", epsilon=1.0)
    assert again.rows == first.rows
    assert sum("leaf" in sql for sql in runs) == 1
    for other in (
        "SELECT MEDIAN(age) FROM people WHERE age < 50",
        "SELECT MEDIAN(age + 1) FROM people",
        "SELECT region, MEDIAN(age) FROM people GROUP BY region",
    ):
        before = len(runs)
        people.sql(other, epsilon=1.0)
        assert sum("leaf" in sql for sql in runs[before:]) == 1, other
    people.sql("SELECT MEDIAN(age) FROM people", epsilon=1.0, rows_per_unit=2)  # more rows count
    assert sum("leaf" in sql for sql in runs) == 5
    towns.execute("UPDATE people SET age = 128")
    assert people.sql("SELECT MEDIAN(age) FROM people", epsilon=50.0).rows[0][0] < 60  # as old as the first query
    people.forget()
    assert people.sql("SELECT MEDIAN(age) FROM people", epsilon=50.0).rows[0][0] > 120


def test_leaves_contain_the_quantile(
    engine: DuckDBEngine, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    plan = planned("SELECT MEDIAN(income) AS m, QUANTILE_CONT(income, 0.25) AS q FROM people", **NO_LIMIT)
    assert len(plan.trees) == 1
    assert [statistic.probability for statistic in plan.statistics] == [0.5, 0.25]
    (leaves,) = exact_leaves(plan, 0, engine, ranking_key=ranking_key).values()
    below, total, low = 0, sum(leaves.values()), 0.0
    for leaf in sorted(leaves):
        below += leaves[leaf]
        if below >= total / 2:
            low = leaf / 65_536 * 200_000
            break
    ((median,),) = engine.run("SELECT quantile_disc(income, 0.5) FROM people WHERE user_id >= 0")
    assert abs(low - median) <= 200_000 / 65_536
    names = [statistic.name for statistic in plan.statistics]
    assert plan.answer([((), dict(zip(names, (5.0, 2.0), strict=True)))]) == [(5.0, 2.0)]


def test_every_group_gets_its_cells_or_a_tree_of_noise() -> None:
    cells = GroupCells({("b",): {5: 2, 3: 1}, ("a",): {CELLS - 1: 7}})
    noise = plan_noise((tree_block(1),), groups_per_unit=1, epsilon=1e3)
    trees = cells.released([("a",), ("new",), ("b",)], noise, TestSource(1))
    assert trees.roots().round().tolist() == [7, 0, 3]
    first = np.zeros(3, dtype=np.int64)
    assert trees.counts(3, np.arange(3), first).round()[:, [3, 5]].tolist() == [[0, 0], [0, 0], [1, 2]]
    assert GroupCells({}).released([("a",)], noise, TestSource(1)).roots().round().tolist() == [0]


def test_a_limit_on_rows_samples_rows_and_not_values(ranking_key: bytes) -> None:
    """400 units have the value 10 nine times and 90 once. One row of each counts, so 90 counts for a tenth of them.

    The number N of units that count with 90 is Binomial(400, 0.1). By Chernoff, P(N >= 100) <= exp(-400 KL(0.25, 0.1))
    < 1e-15 and P(N <= 5) <= exp(-400 KL(0.0125, 0.1)) < 1e-11. Sampling values would make it Binomial(400, 0.5).
    """
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i % 400 AS who, IF(i < 400, 90, 10) AS x FROM range(4000) AS r(i)")
    engine = DuckDBEngine(connection=connection)
    tables = Catalog({"t": PrivateTable(columns=engine.columns("t"), unit="who", bounds={"x": (0, 100)})})
    plan = plan_query("SELECT MEDIAN(x) AS m FROM t", tables=tables)
    (leaves,) = exact_leaves(plan, 0, engine, ranking_key=ranking_key).values()
    assert sum(leaves.values()) == 400
    assert 5 < leaves[max(leaves)] < 100


def test_a_tree_counts_rows_on_every_level(planned: Callable[..., QueryPlan]) -> None:
    (block,) = tree_blocks(planned("SELECT MEDIAN(income) FROM people", rows_per_unit=3))
    assert block.l1 == 3 * sum(LEVEL_UNITS)  # one node on each of five levels, for each of three rows
    assert block.share > 1
