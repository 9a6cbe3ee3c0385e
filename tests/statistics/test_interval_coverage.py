"""Confidence intervals cover as often as they say, and not because they are endless.

Groups of a public list are independent repetitions: one call gives hundreds of intervals. A comparison with a true
hypothesis fails once in 10^8 runs, and no test has more than 20 of them. An interval of half the width covers 71 % at
most; of 600 it passes for a whole one with P(Binomial(600, 0.71) >= 494) < 1e-9.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import hush.statistics as hs
from cases import first_quick
from hush.randomness import TestSource

GROUPS, ROWS = 600, 40
RNG = np.random.default_rng(20_26)
VALUES = np.clip(RNG.gamma(2.0, 12.0, GROUPS * ROWS), 0, 100)
LABELS = np.repeat(np.arange(GROUPS), ROWS)
USERS = np.arange(GROUPS * ROWS)
BOUNDS = (0.0, 100.0)
SETTINGS = {"units": USERS, "groups": LABELS, "keys": range(GROUPS), "confidence": 0.9}
NOISES = {"laplace": {"epsilon": 0.8}, "gaussian": {"epsilon": 0.8, "delta": 1e-5, "noise": hs.GaussianNoise()}}
BOTH_NOISES = pytest.mark.parametrize("noise", NOISES)


def by_group(function: Any) -> NDArray[np.float64]:
    return np.array([function(VALUES[group == LABELS]) for group in range(GROUPS)])


TRUTH = {
    "count": np.full(GROUPS, ROWS),
    "sum": by_group(np.sum),
    "mean": by_group(np.mean),
    "variance": by_group(np.var),
    "std": by_group(np.std),
}


def covered(estimate: Any, truth: Any) -> int:
    return int(np.count_nonzero((estimate.low <= truth) & (truth <= estimate.high)))


def enough(hits: int, total: int, confidence: float = 0.9) -> bool:
    return hits >= int(binom.ppf(1e-8, total, confidence))


@BOTH_NOISES
def test_totals_and_means(noise: str) -> None:
    for name, bounds in (("count", {}), ("sum", {"bounds": BOUNDS}), ("mean", {"bounds": BOUNDS})):
        result = getattr(hs, name)(VALUES, **SETTINGS, **NOISES[noise], **bounds, source=TestSource(f"{noise} {name}"))
        hits = covered(result, TRUTH[name])
        assert enough(hits, GROUPS), name
        # As wide as they must be: at 90 %, an interval of half the width misses too often.
        half = (result.high - result.low) / 4
        middle = (result.high + result.low) / 2
        assert not enough(int((np.abs(middle - TRUTH[name]) <= half).sum()), GROUPS), name


@BOTH_NOISES
def test_everything_from_one_release(noise: str) -> None:
    results = hs.describe(VALUES, bounds=BOUNDS, **SETTINGS, **NOISES[noise], source=TestSource(f"describe {noise}"))
    for name, truth in TRUTH.items():
        assert enough(covered(results[name], truth), GROUPS), name
        assert ((results[name].low <= results[name].value) & (results[name].value <= results[name].high)).all()


def about_tables(noise: str, name: str) -> dict[str, tuple[Any, Any]]:
    """Return counts of other kinds, each with the truth: 600 cells, of users with one row."""
    settings = {"units": USERS, "confidence": 0.9, **NOISES[noise], "source": TestSource(f"{noise} {name}")}
    edges = np.linspace(0, 100, GROUPS + 1)
    first, second = LABELS // 20, LABELS % 20
    return {
        "distinct": (
            hs.distinct_count(np.floor(VALUES), groups=LABELS, keys=range(GROUPS), **settings),
            by_group(_kinds),
        ),
        "histogram": (hs.histogram(VALUES, edges, **settings), np.histogram(VALUES, edges)[0]),
        "contingency": (
            hs.contingency_table([first, second], [range(30), range(20)], **settings),
            np.full((30, 20), ROWS),
        ),
    }


def _kinds(values: NDArray[np.float64]) -> int:
    return len(np.unique(np.floor(values)))


@BOTH_NOISES
@pytest.mark.parametrize("name", ["distinct", "histogram", "contingency"])
def test_other_counts(noise: str, name: str) -> None:
    result, truth = about_tables(noise, name)[name]
    assert enough(covered(result, truth), GROUPS)
    half = (result.high - result.low) / 4
    assert not enough(int((np.abs((result.high + result.low) / 2 - truth) <= half).sum()), GROUPS)


@BOTH_NOISES
def test_groups_that_are_chosen_and_users_in_several(noise: str) -> None:
    """Choosing groups has noise of its own, and noise is for as many rows and groups of a user as are allowed."""
    units = USERS // 6  # six rows, in up to two groups
    settings = {"units": units, "groups": LABELS, "confidence": 0.9, "groups_per_unit": 2, "rows_per_unit": 6}
    budget = {**NOISES[noise], "epsilon": 6.0, "delta": 1e-3}
    result = hs.sum(VALUES, bounds=BOUNDS, **settings, **budget, source=TestSource(f"chosen {noise}"))
    revealed = np.array(result.keys)
    assert len(revealed) > GROUPS / 5
    assert enough(covered(result, TRUTH["sum"][revealed]), len(revealed))


@BOTH_NOISES
@pytest.mark.parametrize("level", first_quick([0.5, 0.0, 0.25, 0.95], 1))
def test_quantiles(noise: str, level: float) -> None:
    runs = 60
    values = np.sort(RNG.gamma(2.0, 12.0, 400))
    rank = max(int(np.ceil(level * len(values))), 1) - 1
    hits = 0
    for run in range(runs):
        settings = {"units": range(400), "bounds": BOUNDS, "confidence": 0.9, **NOISES[noise]}
        result = hs.quantiles(values, [level], **settings, source=TestSource(f"{noise} {level} {run}"))
        hits += int(result.low[0] <= np.clip(values[rank], *BOUNDS) <= result.high[0])
        assert result.low[0] <= result.value[0] <= result.high[0]
    assert enough(hits, runs)


def test_an_interval_of_a_median_is_no_wider_than_it_needs_to_be() -> None:
    values = np.linspace(0, 100, 20_001)
    result = hs.median(values, units=np.arange(20_001), bounds=BOUNDS, epsilon=1.0, source=TestSource(1))
    assert result.high - result.low < 2.0
    assert abs(result.value - 50) < 1.0
