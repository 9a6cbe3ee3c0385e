"""Intervals cover as often as they claim. With more noise than stated they would not (see `sql.coverage`)."""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from hush.randomness import RandomSource, TestSource
from hush.sql import Table
from hush.statistics import GaussianNoise, LaplaceNoise, NoisePlan
from sql.coverage import EACH, GROUPS, NOISES, VALUES, answer_for, covered, people
from sql.towns import towns_table


def quantile(share: float) -> NDArray[np.float64]:
    """Return the smallest value that a share of each group's rows does not exceed."""
    return np.sort(VALUES, axis=1)[:, max(math.ceil(share * EACH), 1) - 1]


TRUTH: dict[str, NDArray[Any]] = {
    "COUNT(*)": np.full(GROUPS, EACH),
    "COUNT(DISTINCT who)": np.full(GROUPS, EACH),
    "COUNT(x)": np.full(GROUPS, EACH),
    "SUM(x)": VALUES.sum(axis=1),
    "AVG(x)": VALUES.mean(axis=1),
    "MEDIAN(x)": quantile(0.5),
    "QUANTILE_CONT(x, 0.1)": quantile(0.1),
    "QUANTILE_CONT(x, 0.95)": quantile(0.95),
}


EXPRESSIONS: dict[str, NDArray[Any]] = {
    "2 * COUNT(*) - 1": np.full(GROUPS, 2 * EACH - 1),
    "SUM(x) / -2": -VALUES.sum(axis=1) / 2,
    "ROUND(AVG(x))": np.floor(VALUES.mean(axis=1) + 0.5),
    "LEAST(AVG(x), 20)": np.minimum(VALUES.mean(axis=1), 20),
}


TOTALS = ["COUNT(*)", "COUNT(DISTINCT who)", "COUNT(x)", "SUM(x)"]


MEANS = ["COUNT(*)", "SUM(x)", "AVG(x)"]  # the sum here is made of the mean's releases


QUANTILES = [name for name in TRUTH if "(x" in name and name not in (*TOTALS, *MEANS)]


@pytest.mark.parametrize("names", [TOTALS, MEANS], ids=["totals", "means"])
@pytest.mark.parametrize("noise", NOISES)
def test_totals_and_means(names: list[str], noise: Any) -> None:
    answer = answer_for(people(listed=True), names, noise)
    assert all(covered(answer, names, TRUTH).values())
    # They are hardly longer than necessary: at a quarter of the length, none covers.
    assert not any(covered(answer, names, TRUTH, shrunk=0.25).values())


@pytest.mark.parametrize("noise", NOISES)
def test_quantiles(noise: Any) -> None:
    assert all(covered(answer_for(people(listed=True), QUANTILES, noise, epsilon=3.0), QUANTILES, TRUTH).values())


@pytest.mark.parametrize("noise", NOISES)
def test_groups_that_are_selected(noise: Any) -> None:
    """Selection has its own randomness, which is independent of the noise on the selected groups."""
    assert all(covered(answer_for(people(listed=False), MEANS, noise, epsilon=1.2), MEANS, TRUTH).values())


def test_more_noise_than_stated_is_caught() -> None:
    draw = NoisePlan._draw

    def more(plan: NoisePlan, block: Any, scale: float, size: int, source: RandomSource) -> Any:
        return draw(plan, block, 4 * scale, size, source)

    with mock.patch.object(NoisePlan, "_draw", more):
        assert not any(covered(answer_for(people(listed=True), MEANS, LaplaceNoise()), MEANS, TRUTH).values())


@pytest.mark.parametrize("noise", NOISES)
def test_an_interval_of_a_median_covers_no_other_quantile(noise: Any) -> None:
    answer = answer_for(people(listed=True), ["MEDIAN(x)"], noise, epsilon=30.0)
    assert covered(answer, ["MEDIAN(x)"], TRUTH)["MEDIAN(x)"]
    for share in (0.3, 0.7):
        assert not covered(answer, ["MEDIAN(x)"], {"MEDIAN(x)": quantile(share)})["MEDIAN(x)"]


@pytest.mark.parametrize("noise", NOISES)
def test_expressions_of_one_aggregate(noise: Any) -> None:
    assert all(
        covered(answer_for(people(listed=True), list(EXPRESSIONS), noise), list(EXPRESSIONS), EXPRESSIONS).values()
    )


def test_functions_of_several_aggregates_have_no_interval() -> None:
    names = ["COUNT(*) + SUM(x)", "ABS(COUNT(*) - 80)", "COUNT(*) > 3", "COUNT(*) * COUNT(*)"]
    text = f"SELECT g, {', '.join(names)} FROM people GROUP BY g"
    assert not any(people(listed=True).sql(text, epsilon=1.0).intervals)


# Repeated answers about one table.

AGGREGATES = (
    "SELECT region, COUNT(*) AS n, SUM(age) AS s, AVG(age) AS a, COUNT(*) + SUM(age) AS o FROM people GROUP BY region"
)
SUM_ALONE = "SELECT region, SUM(age) AS s FROM people GROUP BY region"


def hits_by_column(table: Table, text: str, truth: dict[str, Any], runs: int, **settings: Any) -> dict[str, int]:
    source = TestSource(11)
    hits: dict[str, list[bool]] = {}
    for _ in range(runs):
        answer = table.sql(text, source=source, **settings)
        for row, ends in zip(answer.rows, answer.intervals, strict=True):
            for name, (low, high) in ends.items():
                hits.setdefault(name, []).append(low <= truth[row[0]][name] <= high)
    return {name: sum(column) for name, column in hits.items()}


@pytest.mark.parametrize("noise", [LaplaceNoise(), GaussianNoise()])
def test_intervals_cover(towns: Any, noise: Any) -> None:
    """90 intervals of each column, at 0.95 and, as a control, at 0.5. False alarms: 1e-8 for each of 8 comparisons."""
    rows = towns.execute("SELECT region, COUNT(*), SUM(age), AVG(age) FROM people GROUP BY region").fetchall()
    truth = {row[0]: dict(zip("nsa", row[1:], strict=True)) for row in rows}
    people_table, settings = towns_table(towns), {"epsilon": 0.05, "delta": 1e-6, "noise": noise}
    hits_by_name = hits_by_column(people_table, AGGREGATES, truth, 30, **settings)
    assert set(hits_by_name) == {"n", "s", "a"}  # an expression of two aggregates has none
    assert all(hits >= binom.ppf(1e-8, 90, 0.95) for hits in hits_by_name.values())
    half = hits_by_column(people_table, AGGREGATES, truth, 30, confidence=0.5, **settings)
    alone = hits_by_column(people_table, SUM_ALONE, truth, 30, confidence=0.5, **settings)
    for hits in (half["n"], half["s"], alone["s"]):
        assert binom.ppf(1e-8, 90, 0.5) <= hits <= binom.isf(1e-8, 90, 0.5)


def test_an_interval_belongs_to_its_row(towns: Any) -> None:
    text = "SELECT COUNT(*) AS n, region FROM people GROUP BY region ORDER BY n DESC LIMIT 2"
    answer = towns_table(towns).sql(text, epsilon=0.1, source=TestSource(4))
    assert len(answer.rows) == len(answer.intervals) == 2
    assert [sum(ends["n"]) / 2 for ends in answer.intervals] == pytest.approx([row[0] for row in answer.rows])


def test_ratios_of_aggregates_have_no_interval(towns: Any) -> None:
    """A divisor near 0 has no bounded error. The ratio is computed from released values, which costs nothing."""
    people = towns_table(towns)
    nothing_left = "1 / (COUNT(*) - COUNT(*))"
    text = f"SELECT SUM(age) / COUNT(*) AS mean, COUNT(*) AS n, SUM(age) AS s, {nothing_left} AS nothing FROM people"
    answer = people.sql(text, epsilon=50.0, source=TestSource(1))
    ((mean, count, total, nothing),) = answer.rows
    assert mean == total / count
    assert mean == pytest.approx(49.5, abs=1)
    assert nothing is None
    assert answer.intervals[0].keys() == {"n", "s"}
    alone = people.price("SELECT COUNT(*) AS n, SUM(age) AS s FROM people", epsilon=50.0)
    assert sorted(alone.scales.values()) == pytest.approx(sorted(answer.scales.values()))
