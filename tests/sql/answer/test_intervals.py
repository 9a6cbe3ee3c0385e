"""Intervals of answers in SQL cover as often as they say; with more noise than stated they would not.

Public groups are independent repetitions: one question gives hundreds of intervals. A comparison with a true hypothesis
fails once in 10^8 runs, and no test has more than 12. Controls, such as intervals of a quarter of the length, cover
56 % of 250 at most: one passes with P(Binomial(250, 0.58) >= 196) = 9e-12.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from hush.randomness import RandomSource, TestSource
from hush.sql import Catalog, DuckDBEngine, PrivateTable, Table
from hush.statistics import GaussianNoise, LaplaceNoise, NoisePlan

duckdb = pytest.importorskip("duckdb")

GROUPS, EACH, CONFIDENCE = 250, 80, 0.9
VALUES = np.clip(np.random.default_rng(7).gamma(2.0, 12.0, (GROUPS, EACH)), 0, 100)
NOISES = [LaplaceNoise(), GaussianNoise()]


def quantile(share: float) -> NDArray[np.float64]:
    """Return the least number that so many of a group's rows do not exceed."""
    return np.sort(VALUES, axis=1)[:, max(math.ceil(share * EACH), 1) - 1]


TRUTH: Mapping[str, NDArray[Any]] = {
    "COUNT(*)": np.full(GROUPS, EACH),
    "COUNT(DISTINCT who)": np.full(GROUPS, EACH),
    "COUNT(x)": np.full(GROUPS, EACH),
    "SUM(x)": VALUES.sum(axis=1),
    "AVG(x)": VALUES.mean(axis=1),
    "MEDIAN(x)": quantile(0.5),
    "QUANTILE_CONT(x, 0.1)": quantile(0.1),
    "QUANTILE_CONT(x, 0.95)": quantile(0.95),
}
VARIANCE = VALUES.var(axis=1)
SPREADS: Mapping[str, NDArray[Any]] = {
    "VAR_POP(x)": VARIANCE,
    "VARIANCE(x)": VARIANCE * EACH / (EACH - 1),
    "STDDEV_POP(x)": np.sqrt(VARIANCE),
    "STDDEV(x)": np.sqrt(VARIANCE * EACH / (EACH - 1)),
}
CARRIED: Mapping[str, NDArray[Any]] = {
    "2 * COUNT(*) - 1": np.full(GROUPS, 2 * EACH - 1),
    "SUM(x) / -2": -VALUES.sum(axis=1) / 2,
    "ROUND(AVG(x))": np.floor(VALUES.mean(axis=1) + 0.5),
    "LEAST(AVG(x), 20)": np.minimum(VALUES.mean(axis=1), 20),
}
TOTALS = ["COUNT(*)", "COUNT(DISTINCT who)", "COUNT(x)", "SUM(x)"]
MEANS = ["COUNT(*)", "SUM(x)", "AVG(x)"]  # the sum here is made of the mean's releases
QUANTILES = [name for name in TRUTH if "(x" in name and name not in (*TOTALS, *MEANS)]


@pytest.fixture(scope="module")
def people() -> Callable[..., Table]:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people(who BIGINT, g BIGINT, x DOUBLE)")
    columns = (np.arange(VALUES.size), np.repeat(np.arange(GROUPS), EACH), VALUES.ravel())
    lists = [part.tolist() for part in columns]
    connection.execute("INSERT INTO people SELECT unnest(?), unnest(?), unnest(?)", lists)
    engine = DuckDBEngine(connection=connection)

    def listed(*, listed: bool) -> Table:
        keys = {"g": list(range(GROUPS))} if listed else {}
        about = PrivateTable(columns=engine.columns("people"), unit="who", bounds={"x": (0, 100)}, keys=keys)
        return Table(engine, Catalog({"people": about}), "people")

    return listed


def asked(own: Table, names: list[str], noise: Any, **settings: Any) -> Any:
    text = f"SELECT g, {', '.join(f'{name} AS c{at}' for at, name in enumerate(names))} FROM people GROUP BY g"
    usual = {"epsilon": 0.8, "delta": 1e-5, "noise": noise, "confidence": CONFIDENCE}
    return own.sql(text, source=TestSource(f"{names} {noise}"), **usual | settings)


def covered(answer: Any, names: list[str], *, shrunk: float = 1.0, truth: Any = TRUTH) -> dict[str, bool]:
    """Return, for each column, whether enough of its intervals hold the truth; ``shrunk`` makes them shorter first."""
    found = {}
    for at, name in enumerate(names):
        ends = np.array([each[f"c{at}"] for each in answer.intervals])
        middle, half = ends.mean(axis=1), np.diff(ends, axis=1)[:, 0] / 2
        exact = truth[name][[row[0] for row in answer.rows]]
        hits = int((np.abs(exact - middle) <= half * shrunk + 1e-9).sum())
        assert len(exact) > GROUPS / 2
        assert all(low <= row[at + 1] <= high for row, (low, high) in zip(answer.rows, ends, strict=True))
        found[name] = hits >= binom.ppf(1e-8, len(exact), CONFIDENCE)
    return found


@pytest.mark.parametrize("names", [TOTALS, MEANS], ids=["totals", "means"])
@pytest.mark.parametrize("noise", NOISES)
def test_totals_and_means(people: Callable[..., Table], names: list[str], noise: Any) -> None:
    answer = asked(people(listed=True), names, noise)
    assert all(covered(answer, names).values())
    # They are as long as they must be, or nearly: at a quarter of the length, none covers.
    assert not any(covered(answer, names, shrunk=0.25).values())


@pytest.mark.parametrize("noise", NOISES)
def test_quantiles(people: Callable[..., Table], noise: Any) -> None:
    assert all(covered(asked(people(listed=True), QUANTILES, noise, epsilon=3.0), QUANTILES).values())


@pytest.mark.parametrize("noise", NOISES)
def test_groups_that_are_chosen(people: Callable[..., Table], noise: Any) -> None:
    """Choosing groups has noise of its own: it says nothing about the noise of what is told."""
    assert all(covered(asked(people(listed=False), MEANS, noise, epsilon=1.2), MEANS).values())


def test_more_noise_than_stated_is_seen(people: Callable[..., Table]) -> None:
    draw = NoisePlan._draw

    def more(plan: NoisePlan, block: Any, scale: float, size: int, source: RandomSource) -> Any:
        return draw(plan, block, 4 * scale, size, source)

    with mock.patch.object(NoisePlan, "_draw", more):
        assert not any(covered(asked(people(listed=True), MEANS, LaplaceNoise()), MEANS).values())


@pytest.mark.parametrize("noise", NOISES)
def test_an_interval_of_a_median_is_for_nothing_else(people: Callable[..., Table], noise: Any) -> None:
    answer = asked(people(listed=True), ["MEDIAN(x)"], noise, epsilon=30.0)
    assert covered(answer, ["MEDIAN(x)"])["MEDIAN(x)"]
    for share in (0.3, 0.7):
        assert not covered(answer, ["MEDIAN(x)"], truth={"MEDIAN(x)": quantile(share)})["MEDIAN(x)"]


@pytest.mark.parametrize("noise", NOISES)
def test_variances(people: Callable[..., Table], noise: Any) -> None:
    answer = asked(people(listed=True), list(SPREADS), noise, epsilon=12.0)
    assert all(covered(answer, list(SPREADS), truth=SPREADS).values())
    # Several points may be the mean's: the interval is longer than it must be, but not by an order of magnitude.
    assert not any(covered(answer, list(SPREADS), shrunk=0.08, truth=SPREADS).values())


@pytest.mark.parametrize("noise", NOISES)
def test_variances_of_few_rows_have_the_whole_range(people: Callable[..., Table], noise: Any) -> None:
    names = ["VAR_POP(x)"]
    assert all(covered(asked(people(listed=True), names, noise, epsilon=0.1), names, truth=SPREADS).values())


@pytest.mark.parametrize("noise", NOISES)
def test_expressions_of_one_aggregate(people: Callable[..., Table], noise: Any) -> None:
    assert all(covered(asked(people(listed=True), list(CARRIED), noise), list(CARRIED), truth=CARRIED).values())


def test_what_is_no_function_of_one_aggregate_has_no_interval(people: Callable[..., Table]) -> None:
    names = ["COUNT(*) + SUM(x)", "ABS(COUNT(*) - 80)", "COUNT(*) > 3", "COUNT(*) * COUNT(*)"]
    text = f"SELECT g, {', '.join(names)} FROM people GROUP BY g"
    assert not any(people(listed=True).sql(text, epsilon=1.0).intervals)
