"""Bounds that nobody declared: what is learned, from how much, and what an answer does without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hush
from hush.accounting import PldAccountant
from hush.data.tables.catalog import ColumnKind
from hush.guarantee import Unit
from hush.randomness import TestSource
from hush.sql.answer.choices.bounds import BINS, STAND_IN, bounds_from_json, bounds_to_json, plan_bounds
from hush.sql.syntax.expression import Expr
from hush.statistics import ContributionLimits

duckdb = pytest.importorskip("duckdb")

NUMBER, INTEGER = (Expr("column", kind, value=("r1", "c0")) for kind in (ColumnKind.FLOAT, ColumnKind.INT))


def histograms(least: Any, greatest: Any) -> Any:
    return np.stack([BINS.counts(np.asarray(least, dtype=float))[0], BINS.counts(np.asarray(greatest, dtype=float))[0]])


@pytest.mark.parametrize(
    ("least", "greatest", "bounds"),
    [
        (np.full(5000, 3.0), np.full(5000, 90.0), (0.0, 128.0)),
        (np.full(5000, 300.0), np.full(5000, 900.0), (256.0, 1024.0)),
        (np.full(5000, -3.0), np.full(5000, 90.0), (-4.0, 128.0)),
        (np.full(5000, -900.0), np.full(5000, -300.0), (-1024.0, -256.0)),
        (np.r_[np.full(5000, 3.0), np.full(600, -70.0)], np.full(5600, 90.0), (-128.0, 128.0)),
        (np.zeros(5000), np.zeros(5000), (0.0, 2.0**-20)),
        (np.full(5000, -1e60), np.full(5000, 1e60), (-(2.0**41), 2.0**41)),
        (np.r_[np.full(5000, 3.0), [1e9]], np.r_[np.full(5000, 90.0), [1e9]], (0.0, 128.0)),  # one unit shows nothing
    ],
)
def test_few_units_are_beyond(least: Any, greatest: Any, bounds: tuple[float, float]) -> None:
    """In most of 40 draws the bounds are these, and never more than 16 times as wide (fixed key)."""
    plan = plan_bounds(NUMBER, "x", 0.1)
    drawn = [plan.learn(histograms(least, greatest), TestSource(f"{bounds} {index}")) for index in range(40)]
    assert np.mean([(one.low, one.high) == bounds for one in drawn]) > 0.6
    assert max(one.high - one.low for one in drawn) <= 16 * max(abs(bounds[0]), abs(bounds[1]))
    assert all(one.learned for one in drawn)


def test_estimates_of_what_is_beyond_are_within_their_errors() -> None:
    """20 units have a value of 192, the middle of its bin, which is 64 beyond 128 (fixed key)."""
    plan = plan_bounds(NUMBER, "x", 0.1)
    greatest = np.r_[np.full(5000, 90.0), np.full(20, 192.0)]
    counts = histograms(np.full(5020, 3.0), greatest)
    drawn = [plan.learn(counts, TestSource(f"beyond {index}")) for index in range(200)]
    drawn = [one for one in drawn if one.high == 128.0]
    assert len(drawn) > 50
    assert np.mean([abs(one.beyond - 20) <= one.beyond_error for one in drawn]) > 0.9
    assert np.mean([abs(one.excess - 20 * 64) <= one.excess_error for one in drawn]) > 0.9


@pytest.mark.parametrize("num_units", [0, 1, 5])
def test_too_few_units_give_bounds_that_depend_on_none(num_units: int) -> None:
    """Five units raise a bin above the threshold of 11 scales with probability below e^-10.5, 3e-5 (fixed key)."""
    counts = histograms(np.full(num_units, 77.0), np.full(num_units, 77.0))
    learned = plan_bounds(NUMBER, "x", 0.1).learn(counts, TestSource(num_units))
    assert not learned.learned
    assert (learned.low, learned.high) == STAND_IN


def test_bounds_of_integers_are_integers() -> None:
    learned = plan_bounds(INTEGER, "x", 0.1).learn(histograms(np.zeros(5000), np.zeros(5000)), TestSource(1))
    assert (learned.low, learned.high) == (0.0, 1.0)
    assert bounds_from_json(bounds_to_json(learned)) == learned


def test_the_noise_is_what_the_event_says() -> None:
    plan = plan_bounds(NUMBER, "x", 0.1)
    assert plan.noise.block_scales == pytest.approx((20.0, 20.0))
    assert PldAccountant(unit=Unit.user()).compose(plan.event).epsilon(0.0) == pytest.approx(0.1, rel=1e-4)


@pytest.fixture(scope="module")
def people() -> Any:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT i // 2 AS who, i % 100 + 0.0 AS x, i % 7 - 3 AS y, (i % 10)::VARCHAR AS t, "
        "i % 2 AS sex FROM range(12000) AS t(i)"
    )
    return hush.table(connection, name="people", unit="who", keys={"sex": [0, 1]}, rows_per_unit=2, groups_per_unit=2)


@pytest.mark.parametrize(
    ("text", "true", "error"),
    [
        ("SELECT SUM(x) AS a FROM people", 594_000, 20_000),
        ("SELECT AVG(x) AS a FROM people", 49.5, 2),
        ("SELECT VARIANCE(x) AS a FROM people", 833.3, 80),
        ("SELECT MEDIAN(x) AS a FROM people", 49.5, 3),
        ("SELECT AVG(CAST(t AS DOUBLE)) AS a FROM people", 4.5, 0.2),
        ("SELECT AVG(x * y) AS a FROM people", 0.0, 10),
        ("SELECT AVG(GREATEST(y, 0)) AS a FROM people", 6 / 7, 0.1),
        ("SELECT AVG(LEAST(x, 0)) AS a FROM people", 0.0, 20),
        ("SELECT AVG(t.top) AS a FROM (SELECT who, MAX(x) AS top FROM people GROUP BY who) AS t", 50.0, 3),
    ],
)
def test_answers_without_declared_bounds(text: str, true: float, error: float, people: Any) -> None:
    """At epsilon 8, with errors several times those of declared bounds (fixed key)."""
    answer = people.sql(text, epsilon=8.0, source=TestSource(text))
    low, high = answer.intervals[0]["a"]
    assert abs(answer.rows[0][0] - true) < error
    assert low - error < true < high + error
    assert any("learned privately" in line or "earlier answer" in line for line in answer.limits)


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize(
    "aggregate",
    ["AVG(x)", "AVG(LEAST(x, 0))", "AVG(GREATEST(x, 100))", "SUM(x * x)", "MEDIAN(x + 1e12)", "STDDEV(x * 3)"],
)
@pytest.mark.quick_cases(5)
def test_what_is_learned_never_decides_whether_there_is_an_answer(rows: int, aggregate: str) -> None:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t AS SELECT i AS who, 7.0 AS x FROM range({rows}) AS r(i)")
    answer = hush.table(connection, name="t", unit="who", rows_per_unit=1).sql(
        f"SELECT {aggregate} AS a FROM t", epsilon=1.0, source=TestSource(aggregate)
    )
    assert "Too few units have values of x" in answer.limits[1]
    assert answer.rows == [(None,)]
    assert answer.intervals == answer.noise_intervals == [{}]
    assert answer.guarantee.epsilon == pytest.approx(0.9 + 2 / 3 * 0.1)


def test_only_what_needs_unknown_bounds_is_missing() -> None:
    """Within bounds that say nothing about the values, an average would look exact: 1.00, from 0.99 to 1.01."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i AS who, i % 2 AS sex, 7.0 AS x, 2.0 AS y FROM range(90) AS r(i)")
    people = hush.table(connection, name="t", unit="who", bounds={"y": (0, 4)}, keys={"sex": [0, 1]}, rows_per_unit=1)
    columns = "COUNT(x) AS n, AVG(x) AS a, AVG(y) AS b, SUM(x) / SUM(y) AS c, MEDIAN(x + y) AS d"
    answer = people.sql(f"SELECT sex, {columns} FROM t GROUP BY sex", epsilon=2.0, source=TestSource(5))
    for row, ends in zip(answer.rows, answer.intervals, strict=True):
        assert [value is None for value in row] == [False, False, True, False, True, True]
        assert sorted(ends) == ["b", "n"]
    assert "nan" not in str(answer).lower()
    assert answer.to_pandas(intervals=True)["a"].isna().all()


@pytest.mark.parametrize("spread", ["uniform", "lognormal", "symmetric"])
def test_values_that_are_spread_over_many_bins_are_found(spread: str) -> None:
    """No bin stands out by itself, several together do: 1,200 units, at a fifteenth of epsilon 1 (fixed key)."""
    rng = np.random.default_rng(3)
    values = {
        "uniform": rng.uniform(0, 100, 1200),
        "lognormal": np.exp(rng.normal(4, 1.5, 1200)),
        "symmetric": rng.normal(0, 10, 1200),
    }[spread]
    plan = plan_bounds(NUMBER, "x", 1 / 15)
    drawn = [plan.learn(histograms(values, values), TestSource(f"{spread} {index}")) for index in range(40)]
    assert np.mean([one.learned for one in drawn]) > 0.9
    beyond = [np.mean((values < one.low) | (values > one.high)) for one in drawn]
    assert np.median(beyond) < 0.1


@pytest.mark.parametrize("low", [-(2.0**41), -4.0, -(2.0**-20), 0.0, 2.0**-20, 1.0, 2.0**40])
@pytest.mark.parametrize("width", [2.0**-20, 1.0, 2.0**20])
@pytest.mark.quick_cases(7)
def test_a_plan_within_any_bounds_is_not_refused(low: float, width: float, people: Any) -> None:
    """Bounds that were learned are known after the charge: nothing may raise then."""
    for argument in ("x", "x * x * x", "LEAST(x, 0)", "GREATEST(x, 5) - 5", "POW(x, 3)", "ROUND(x, 1)", "x / 3", "-x"):
        for function in ("SUM", "AVG", "VARIANCE", "MEDIAN"):
            text = f"SELECT {function}({argument}) AS a FROM people"
            plan = people._planner().plan(text, ContributionLimits())
            people._planner().plan(text, ContributionLimits(), dict.fromkeys(plan.undeclared, (low, low + width)))
