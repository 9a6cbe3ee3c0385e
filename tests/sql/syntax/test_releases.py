"""Releases: aggregates share them, and their ranges follow from the bounds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hush.data.tables.catalog import Catalog, ColumnKind
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups
from hush.sql.read.query import plan_query
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.releases import Allocation, Quantity, Request
from hush.sql.write.plan import QueryPlan
from hush.statistics import ContributionLimits

NO_LIMIT = {"groups_per_unit": 1000, "rows_per_unit": 250}
X = Expr("column", ColumnKind.FLOAT, low=-1.0, high=3.0)


def test_aggregates_of_one_column_share_releases(planned: Callable[..., QueryPlan]) -> None:
    def quantities(text: str) -> list[Quantity]:
        return [release.quantity for release in planned(text).releases]

    assert quantities("SELECT AVG(age) FROM people") == [Quantity.VALUES, Quantity.CENTRED]
    assert quantities("SELECT COUNT(age), SUM(age), AVG(age) FROM people") == [Quantity.VALUES, Quantity.CENTRED]
    assert quantities("SELECT STDDEV(age), VARIANCE(age), AVG(age), SUM(age) FROM people") == [
        Quantity.VALUES,
        Quantity.CENTRED,
        Quantity.SQUARES,
    ]
    assert quantities("SELECT SUM(age) FROM people") == [Quantity.SUM]
    assert quantities(
        "SELECT AVG(age) AS a, AVG(age) * 2 AS b FROM people HAVING AVG(age) > 3 ORDER BY AVG(age)"
    ) == quantities("SELECT AVG(age) FROM people")


def test_a_required_column_shares_the_count_of_rows(
    engine: DuckDBEngine, described: Callable[..., Catalog], ranking_key: bytes
) -> None:
    tables = described(engine, required={"income"})
    plan = plan_query(
        "SELECT COUNT(*), AVG(income), COUNT(income) FROM people", tables=tables, limits=ContributionLimits(**NO_LIMIT)
    )
    assert [release.quantity for release in plan.releases] == [Quantity.ROWS, Quantity.CENTRED]
    ((rows, mean, values),) = plan.answer(
        (group.keys, group.sums) for group in exact_groups(plan, engine, ranking_key=ranking_key)
    )
    exact = engine.run("SELECT COUNT(*), AVG(COALESCE(income, 100000)), COUNT(*) FROM people WHERE user_id >= 0")
    assert (rows, mean, values) == pytest.approx(exact[0], rel=1e-6)


def test_sensitivities_follow_from_the_bounds(planned: Callable[..., QueryPlan]) -> None:
    plan = planned("SELECT COUNT(*), SUM(income), SUM(price) FROM people", rows_per_unit=3)
    rows, income, price = plan.releases
    assert (rows.lower, rows.upper, rows.sensitivity) == (0, 3, 3)
    assert income.lower == 0
    assert income.upper * income.grid == 600_000
    assert price.lower * price.grid == -30
    assert price.upper * price.grid == 31.5
    assert all(release.sensitivity <= 2**30 for release in plan.releases)
    centred = planned("SELECT AVG(income) FROM people").releases[1]
    assert centred.sensitivity * centred.grid == pytest.approx(
        100_000, rel=1e-6
    )  # half the width, not the largest value


def test_aggregates_follow_from_exact_totals() -> None:
    """With the totals of the values 0, 1 and 3, in steps of their grids."""
    values = (0.0, 1.0, 3.0)
    kinds = ("count", "sum", "mean", "variance", "stddev")
    allocation = Allocation([Request(kind, X, sample=False) for kind in kinds], rows=1)
    count, centred, squares = allocation.releases
    totals = {
        count.name: 3.0,
        centred.name: sum(value - centred.offset for value in values) / centred.grid,
        squares.name: sum(value**2 - squares.offset for value in values) / squares.grid,
    }
    results = [statistic.value(totals) for statistic in allocation.statistics]
    variance = 10 / 3 - (4 / 3) ** 2
    assert results == pytest.approx([3, 4, 4 / 3, variance, variance**0.5])


@pytest.mark.parametrize("kind", ["mean", "variance", "stddev"])
@pytest.mark.parametrize("count", [-50.0, 0.0, 1e12])
@pytest.mark.parametrize("total", [-1e15, 0.0, 1e15])
def test_noise_cannot_move_an_aggregate_out_of_its_range(kind: str, count: float, total: float) -> None:
    allocation = Allocation([Request(kind, X, sample=True)], rows=1)
    released = {release.name: total for release in allocation.releases} | {allocation.releases[0].name: count}
    value = allocation.statistics[0].value(released)
    assert value is not None
    low, high = {"mean": (-1.0, 3.0), "variance": (0.0, 8.0), "stddev": (0.0, 8.0**0.5)}[kind]
    assert low <= value <= high


def test_quantiles_of_one_column_share_a_tree() -> None:
    requests = [Request("quantile", X, 0.1), Request("quantile", X, 0.9)]
    allocation = Allocation(requests, rows=2)
    assert len(allocation.trees) == 1
    assert [statistic.value({"quantile0": 5.0}) for statistic in allocation.statistics] == [5.0, None]
