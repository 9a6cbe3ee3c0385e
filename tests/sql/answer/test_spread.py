"""Intervals of variances cover as often as they claim (see `sql.coverage`)."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hush.randomness import TestSource
from hush.sql import table
from hush.sql.answer.spread import paired_interval, variance_intervals
from hush.sql.syntax.releases import Quantity, QueryStatistic, SumRelease
from hush.statistics.noise.tails import laplace_tail
from sql.coverage import EACH, NOISES, VALUES, answer_for, covered, people

VARIANCE = VALUES.var(axis=1)


SPREADS: dict[str, NDArray[Any]] = {
    "VAR_POP(x)": VARIANCE,
    "VARIANCE(x)": VARIANCE * EACH / (EACH - 1),
    "STDDEV_POP(x)": np.sqrt(VARIANCE),
    "STDDEV(x)": np.sqrt(VARIANCE * EACH / (EACH - 1)),
}


@pytest.mark.parametrize("noise", NOISES)
def test_variances(noise: Any) -> None:
    answer = answer_for(people(listed=True), list(SPREADS), noise, epsilon=12.0)
    assert all(covered(answer, list(SPREADS), SPREADS).values())
    # The interval covers several possible means. It is longer than necessary, but not by an order of magnitude.
    assert not any(covered(answer, list(SPREADS), SPREADS, shrunk=0.08).values())


@pytest.mark.parametrize("noise", NOISES)
def test_variances_of_few_rows_have_the_full_range(noise: Any) -> None:
    names = ["VAR_POP(x)"]
    assert all(covered(answer_for(people(listed=True), names, noise, epsilon=0.1), names, SPREADS).values())


def exact_totals(values: NDArray[np.float64], statistic: QueryStatistic) -> NDArray[np.float64]:
    """Return the count, the centred sum and the centred sum of squares, in steps of their grids."""
    _, centred, squares = statistic.parts
    sums = (values - centred.offset).sum() / centred.grid, (values**2 - squares.offset).sum() / squares.grid
    return np.array([[len(values), *np.round(sums)]])


def variance_of(low: float, high: float, *, sample: bool) -> QueryStatistic:
    """Return a variance over bounds [low, high], with the offsets and grids that a plan would choose."""
    middle, square = (low + high) / 2, max(low**2, high**2) / 2
    parts = (
        SumRelease(name="a0", quantity=Quantity.VALUES, lower=0, upper=1),
        SumRelease(name="a1", quantity=Quantity.CENTRED, lower=-1, upper=1, grid=2.0**-20, offset=middle),
        SumRelease(name="a2", quantity=Quantity.SQUARES, lower=-1, upper=1, grid=2.0**-20, offset=square),
    )
    return QueryStatistic(kind="variance", parts=parts, bounds=(low, high), sample=sample)


@pytest.mark.parametrize("sample", [False, True])
def test_without_noise_an_interval_is_the_variance(sample: bool) -> None:
    values, statistic = np.linspace(-1.0, 3.0, 50_000), variance_of(-2.0, 4.0, sample=sample)
    scales, means = np.full(3, 1e-6), np.full((1, 2), values.mean())
    low, high = variance_intervals(laplace_tail, exact_totals(values, statistic), scales, statistic, means, 0.05)
    exact = values.var(ddof=sample)
    assert low[0] <= exact <= high[0]
    # Half a row of rounding, half a step of the grid of centres, and the second term: (6 / 512)^2 each.
    assert high[0] - low[0] < 4 * (6 / 512) ** 2 + 1e-2


def test_bounds_whose_square_underflows_have_no_spread() -> None:
    statistic = variance_of(0.0, 1e-120, sample=False)
    ends = variance_intervals(laplace_tail, np.zeros((2, 3)), np.ones(3), statistic, np.zeros((2, 2)), 0.05)
    assert [end.tolist() for end in ends] == [[0.0, 0.0], [0.0, 0.0]]


PAIRS = st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=2, max_size=40)
SIGNS = st.lists(st.sampled_from([-1.0, -0.3, 0.0, 0.7, 1.0]), min_size=6, max_size=6)
FORMULAS = {
    ("covariance", False): lambda u, v: np.mean(u * v) - u.mean() * v.mean(),
    ("covariance", True): lambda u, v: (np.mean(u * v) - u.mean() * v.mean()) * len(u) / (len(u) - 1),
    ("correlation", False): lambda u, v: np.corrcoef(u, v)[0, 1],
    ("slope", False): lambda u, v: (np.mean(u * v) - u.mean() * v.mean()) / v.var(),
}


def paired(kind: str, sample: bool, pairs: NDArray[np.float64]) -> tuple[QueryStatistic, list[float]]:
    """Return a statistic of two values in [-1, 1], and its exact totals."""
    u, v = pairs.T
    squares = {"covariance": [], "correlation": [u**2, v**2], "slope": [v**2]}[kind]
    columns, parts = [u * v, u, v, *squares], [SumRelease(name="a0", quantity=Quantity.VALUES, lower=0, upper=1)]
    for index, _ in enumerate(columns, 1):
        offset = 0.5 if index > 3 else 0.0
        quantity = Quantity.SQUARES if index > 3 else Quantity.CENTRED
        parts.append(SumRelease(name=f"a{index}", quantity=quantity, lower=-1, upper=1, grid=2.0**-20, offset=offset))
    totals = [
        np.floor((column - part.offset) / part.grid + 0.5).sum()
        for column, part in zip(columns, parts[1:], strict=True)
    ]
    statistic = QueryStatistic(kind=kind, parts=tuple(parts), bounds=(-1.0, 1.0), sample=sample)
    return statistic, [float(len(u)), *map(float, totals)]


@given(PAIRS, SIGNS, st.sampled_from([0.0, 0.01, 0.2, 3.0]), st.sampled_from(list(FORMULAS)))
def test_whatever_the_noise_within_its_reach_the_truth_is_in_the_interval(
    pairs: list[tuple[float, float]], signs: list[float], reach: float, formula: tuple[str, bool]
) -> None:
    values = np.array(pairs)
    statistic, totals = paired(*formula, values)
    reaches = [reach * len(pairs) / (part.grid if part.offset or part.grid < 1 else 1.0) for part in statistic.parts]
    noisy = [total + sign * bound for total, sign, bound in zip(totals, signs, reaches, strict=False)]
    interval = paired_interval(statistic, noisy, reaches)
    u, v = values.T
    if min(u.var(), v.var()) < 1e-9 and formula[0] != "covariance":
        return  # the exact statistic does not exist, or is lost in rounding
    truth = float(FORMULAS[formula](u, v))
    if interval is None:
        assert formula[0] == "slope"
    else:
        assert interval[0] - 1e-9 <= truth <= interval[1] + 1e-9


@pytest.mark.parametrize("formula", FORMULAS)
def test_without_noise_an_interval_of_two_values_is_the_statistic(formula: tuple[str, bool]) -> None:
    values = np.array([(-0.5, -0.25), (0.25, 0.5), (0.75, 0.5), (1.0, -1.0)] * 10)
    statistic, totals = paired(*formula, values)
    interval = paired_interval(statistic, totals, [0.0] * len(totals))
    truth = float(FORMULAS[formula](*values.T))
    assert interval is not None
    assert interval[0] == pytest.approx(truth, abs=1e-4)
    assert interval[1] == pytest.approx(truth, abs=1e-4)


def test_answers_have_intervals_of_two_values() -> None:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT i AS who, i % 70 AS age, (i * 7) % 100 + i % 70 AS pay FROM range(20000) t(i)"
    )
    people = table(connection, name="people", unit="who", bounds={"age": (0, 100), "pay": (0, 200)}, rows_per_unit=1)
    text = "SELECT CORR(age, pay) AS c, COVAR_SAMP(age, pay) AS v, REGR_SLOPE(pay, age) AS s FROM people"
    answer = people.sql(text, epsilon=2.0, source=TestSource(1))
    (exact,) = connection.execute(text).fetchall()
    for name, value in zip(answer.columns, exact, strict=True):
        low, high = answer.intervals[0][name]
        assert low <= value <= high  # fixed source
        assert high - low < abs(value)
    few = people.sql(text, epsilon=0.001, source=TestSource(1)).intervals[0]
    assert few["c"] == (-1.0, 1.0)
    assert "s" not in few


def test_a_note_says_why_a_slope_has_no_interval() -> None:
    """Laplace noise at epsilon 1,000 moves a variance of 8 by less than 0.1 (fixed source)."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT i AS who, i % 10 AS age, i % 10 AS pay, 3 AS same FROM range(999) t(i)"
    )
    bounds = {"age": (0, 10), "pay": (0, 10), "same": (0, 10)}
    people = table(connection, name="people", unit="who", rows_per_unit=1, bounds=bounds)
    for column, has_interval in (("age", True), ("same", False)):
        text = f"SELECT REGR_SLOPE(pay, {column}) AS s, COUNT(*) AS n FROM people"
        answer = people.sql(text, epsilon=1e3, source=TestSource(1))
        assert ("s" in answer.intervals[0]) is has_interval
        assert any(line.startswith("s has no interval: given the noise") for line in answer.limits) is not has_interval
        assert not any(line.startswith("n has no interval") for line in answer.limits)
