"""Intervals of variances cover as often as they claim (see `sql.coverage`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hush.sql.answer.spread import variance_intervals
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
