"""Aggregates of the outer query: what they request, and what the answer then says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hush
from hush.data.tables.catalog import Catalog
from hush.randomness import TestSource
from hush.sql.answer.answer import answer_from_json, answer_to_json
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups
from hush.sql.read.query import plan_query
from hush.sql.write.plan import QueryPlan
from hush.statistics import ContributionLimits, TotalLimits
from sql.towns import towns_table

HUGE = {"epsilon": 400.0, "rows_per_unit": 1, "groups_per_unit": 1}  # noise far below what the tests allow


def test_a_unit_is_one_distinct_value_of_itself(planned: Callable[..., QueryPlan]) -> None:
    plan = planned(
        "SELECT COUNT(DISTINCT user_id), COUNT(DISTINCT IF(age > 3, user_id, NULL)), COUNT(DISTINCT note), "
        "COUNT(DISTINCT IF(age > 3, user_id, num)), APPROX_COUNT_DISTINCT(note) FROM people",
        rows_per_unit=5,
    )
    assert [release.sensitivity for release in plan.releases] == [1, 1, 5, 5]


def test_the_noise_of_distinct_values_covers_all_groups_of_a_unit(towns: Any) -> None:
    """In total, a unit has at most as many values as rows, and one of itself in each of its groups."""
    by_region = "SELECT region, COUNT(DISTINCT {}) AS n FROM people GROUP BY region"
    table = towns_table(towns)
    scales = {}
    for column in ("name", "CASE WHEN age > 3 THEN user_id END"):
        query = table._planner().priced_query(
            by_region.format(column),
            TotalLimits(groups_per_unit=2, rows_in_total=7),
            {},
            hush.sql.answer.price.PriceRequest(1.0, 0.0, None, None, None, None, 0.95),
        )
        (scales[column],) = query.scales().values()
    assert list(scales.values()) == pytest.approx([7.0, 2.0])


def test_distinct_values_have_an_interval(towns: Any) -> None:
    text = "SELECT region, COUNT(DISTINCT age) AS ages, COUNT(DISTINCT name) AS names FROM people GROUP BY region"
    answer = towns_table(towns).sql(text, source=TestSource(1), **HUGE)
    assert [[round(cell) for cell in row[1:]] for row in answer.rows] == [[100, 1000]] * 3
    assert all(low <= 100 <= high and high - low < 1 for low, high in (ends["ages"] for ends in answer.intervals))


def test_a_list_of_quantiles_is_one_column_from_one_tree(towns: Any) -> None:
    table = towns_table(towns)
    texts = (
        "SELECT QUANTILE_CONT(age, [0.25, 0.5, 0.75]) AS q, MEDIAN(age) AS m FROM people",
        "SELECT PERCENTILE_CONT([0.75, 0.5, 0.25]) WITHIN GROUP (ORDER BY age DESC) AS q, "
        "APPROX_QUANTILE(age, 0.5) AS m FROM people",
    )
    for text in texts:
        answer = table.sql(text, source=TestSource(1), **HUGE)
        ((quantiles, median),) = answer.rows
        assert quantiles == pytest.approx([25, 50, 75], abs=2)
        assert quantiles[1] == median
        assert len(answer.scales) == 1
        assert answer_from_json(answer_to_json(answer)).rows == answer.rows
        assert f"{quantiles[0]:.6g}, " in str(answer)


def test_a_correlation_without_spread_has_no_value(towns: Any) -> None:
    text = "SELECT CORR(age, age) AS c, COVAR_POP(age, age) AS v, REGR_SLOPE(age, age) AS s FROM people WHERE {}"
    table = towns_table(towns)
    ((correlation, covariance, slope),) = table.sql(text.format("TRUE"), source=TestSource(1), **HUGE).rows
    assert (correlation, covariance, slope) == pytest.approx((1, 833.25, 1), rel=1e-2)
    ((correlation, covariance, _),) = table.sql(text.format("age < 0"), source=TestSource(1), **HUGE).rows
    assert correlation is None or -1 <= correlation <= 1
    assert abs(covariance) <= 64**2


def test_users_within_a_month_are_one_user_each(
    engine: DuckDBEngine, described: Callable[..., Catalog], connection: Any, ranking_key: bytes
) -> None:
    """A user within a month is one value of the user, and the user's other months have the same value."""
    tables = described(engine, time="day", window="month")
    limits = ContributionLimits(groups_per_unit=1, rows_per_unit=7)
    plan = plan_query("SELECT COUNT(DISTINCT user_id) AS n, COUNT(*) FROM people", tables=tables, limits=limits)
    assert [release.sensitivity for release in plan.releases] == [1, 7]
    (group,) = exact_groups(plan, engine, ranking_key=ranking_key)
    text = "SELECT COUNT(DISTINCT user_id) FROM people WHERE day IS NOT NULL"
    assert group.sums["a0"] == connection.execute(text).fetchall()[0][0] < group.units
