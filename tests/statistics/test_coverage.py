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
from hush.randomness import TestSource
from hush.statistics.noise.tails import gaussian_tail, laplace_tail, quotients, reach

GROUPS, EACH = 600, 40
RNG = np.random.default_rng(20_26)
VALUES = np.clip(RNG.gamma(2.0, 12.0, GROUPS * EACH), 0, 100)
LABELS = np.repeat(np.arange(GROUPS), EACH)
USERS = np.arange(GROUPS * EACH)
BOUNDS = (0.0, 100.0)
ASKED = {"units": USERS, "groups": LABELS, "keys": range(GROUPS), "confidence": 0.9}
NOISES = {"laplace": {"epsilon": 0.8}, "gaussian": {"epsilon": 0.8, "delta": 1e-5, "noise": hs.GaussianNoise()}}
EACH_NOISE = pytest.mark.parametrize("noise", NOISES)


def by_group(function: Any) -> NDArray[np.float64]:
    return np.array([function(VALUES[group == LABELS]) for group in range(GROUPS)])


TRUTH = {
    "count": np.full(GROUPS, EACH),
    "sum": by_group(np.sum),
    "mean": by_group(np.mean),
    "variance": by_group(np.var),
    "std": by_group(np.std),
}


def covered(estimate: Any, truth: Any) -> int:
    return int(np.count_nonzero((estimate.low <= truth) & (truth <= estimate.high)))


def enough(hits: int, total: int, confidence: float = 0.9) -> bool:
    return hits >= int(binom.ppf(1e-8, total, confidence))


@EACH_NOISE
def test_totals_and_means(noise: str) -> None:
    for name, settings in (("count", {}), ("sum", {"bounds": BOUNDS}), ("mean", {"bounds": BOUNDS})):
        result = getattr(hs, name)(VALUES, **ASKED, **NOISES[noise], **settings, source=TestSource(f"{noise} {name}"))
        hits = covered(result, TRUTH[name])
        assert enough(hits, GROUPS), name
        # As wide as they must be: at 90 %, an interval of half the width misses too often.
        half = (result.high - result.low) / 4
        middle = (result.high + result.low) / 2
        assert not enough(int((np.abs(middle - TRUTH[name]) <= half).sum()), GROUPS), name


@EACH_NOISE
def test_everything_from_one_release(noise: str) -> None:
    found = hs.describe(VALUES, bounds=BOUNDS, **ASKED, **NOISES[noise], source=TestSource(f"describe {noise}"))
    for name, truth in TRUTH.items():
        assert enough(covered(found[name], truth), GROUPS), name
        assert ((found[name].low <= found[name].value) & (found[name].value <= found[name].high)).all()


def about_tables(noise: str, name: str) -> dict[str, tuple[Any, Any]]:
    """Return counts of other kinds, each with the truth: 600 cells, of users with one row."""
    asked = {"units": USERS, "confidence": 0.9, **NOISES[noise], "source": TestSource(f"{noise} {name}")}
    edges = np.linspace(0, 100, GROUPS + 1)
    first, second = LABELS // 20, LABELS % 20
    return {
        "distinct": (hs.distinct_count(np.floor(VALUES), groups=LABELS, keys=range(GROUPS), **asked), by_group(_kinds)),
        "histogram": (hs.histogram(VALUES, edges, **asked), np.histogram(VALUES, edges)[0]),
        "contingency": (
            hs.contingency_table([first, second], [range(30), range(20)], **asked),
            np.full((30, 20), EACH),
        ),
    }


def _kinds(values: NDArray[np.float64]) -> int:
    return len(np.unique(np.floor(values)))


@EACH_NOISE
@pytest.mark.parametrize("name", ["distinct", "histogram", "contingency"])
def test_other_counts(noise: str, name: str) -> None:
    result, truth = about_tables(noise, name)[name]
    assert enough(covered(result, truth), GROUPS)
    half = (result.high - result.low) / 4
    assert not enough(int((np.abs((result.high + result.low) / 2 - truth) <= half).sum()), GROUPS)


@EACH_NOISE
def test_groups_that_are_chosen_and_users_in_several(noise: str) -> None:
    """Choosing groups has noise of its own, and noise is for as many rows and groups of a user as are allowed."""
    units = USERS // 6  # six rows, in up to two groups
    asked = {"units": units, "groups": LABELS, "confidence": 0.9, "groups_per_unit": 2, "rows_per_unit": 6}
    budget = {**NOISES[noise], "epsilon": 6.0, "delta": 1e-3}
    result = hs.sum(VALUES, bounds=BOUNDS, **asked, **budget, source=TestSource(f"chosen {noise}"))
    told = np.array(result.keys)
    assert len(told) > GROUPS / 5
    assert enough(covered(result, TRUTH["sum"][told]), len(told))


def test_the_accuracy_of_the_most_frequent_key() -> None:
    keys = list(range(12))
    rows = np.repeat(keys, 40 + np.arange(12))
    runs, good = 300, 0
    for run in range(runs):
        asked = {"units": range(len(rows)), "keys": keys, "epsilon": 0.5, "confidence": 0.9}
        found = hs.top_k(rows, 1, **asked, source=TestSource(f"most {run}"))
        good += 40 + found.keys[0] >= 51 - found.accuracy
    assert enough(good, runs)


@EACH_NOISE
@pytest.mark.parametrize("level", [0.0, 0.25, 0.5, 0.95])
def test_quantiles(noise: str, level: float) -> None:
    runs = 60
    values = np.sort(RNG.gamma(2.0, 12.0, 400))
    rank = max(int(np.ceil(level * len(values))), 1) - 1
    hits = 0
    for run in range(runs):
        asked = {"units": range(400), "bounds": BOUNDS, "confidence": 0.9, **NOISES[noise]}
        result = hs.quantiles(values, [level], **asked, source=TestSource(f"{noise} {level} {run}"))
        hits += int(result.low[0] <= np.clip(values[rank], *BOUNDS) <= result.high[0])
        assert result.low[0] <= result.value[0] <= result.high[0]
    assert enough(hits, runs)


def test_an_interval_of_a_median_is_no_wider_than_it_needs_to_be() -> None:
    values = np.linspace(0, 100, 20_001)
    result = hs.median(values, units=np.arange(20_001), bounds=BOUNDS, epsilon=1.0, source=TestSource(1))
    assert result.high - result.low < 2.0
    assert abs(result.value - 50) < 1.0


@pytest.mark.parametrize("settings", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}], ids=["laplace", "gaussian"])
def test_vectors(settings: dict[str, float]) -> None:
    vectors = RNG.uniform(-0.25, 0.3, (3_000, 2))  # within both norms
    asked = {"units": range(3_000), "dimension": 2, "clip_norm": 1.0, "confidence": 0.9, **settings}
    hits = [0, 0]
    for run in range(80):
        matrix = hs.covariance(vectors, **asked, source=TestSource(f"{run} {settings}"))
        mean = hs.vector_mean(vectors, **asked, source=TestSource(f"mean {run} {settings}"))
        hits[0] += covered(mean, vectors.mean(axis=0))
        truth = np.cov(vectors.T, bias=True)
        hits[1] += int(((matrix.low <= truth) & (truth <= matrix.high))[np.triu_indices(2)].sum())
        assert np.linalg.eigvalsh(matrix.value).min() >= -1e-12
    # Intervals of one answer are not independent: each of its numbers is covered in enough of 80 runs, or one is not.
    assert hits[0] >= 2 * int(binom.ppf(1e-8, 80, 0.9))
    assert hits[1] >= 3 * int(binom.ppf(1e-8, 80, 0.9))
    assert np.abs(matrix.value - truth).max() < 0.1


def test_tails_are_those_of_sums() -> None:
    draws = RNG.laplace(size=(400_000, 3))
    for weights in ([1.0, 1.0, 1.0], [1.0, 0.5, 0.0], [2.0, 1.999, 0.1], [1.0, 0.0, 0.0]):
        size = np.abs(draws @ weights)
        for wrong in (0.3, 0.05, 0.01):
            share = float((size > reach(laplace_tail, weights, wrong)).mean())
            # False alarms: beyond six standard errors, 2e-9 each of 12 times.
            assert abs(share - wrong) <= 0.03 * wrong + 6 * np.sqrt(wrong / len(draws))
    assert abs(float(gaussian_tail(np.array([3.0, 4.0]), np.array(9.8))) - 0.05) < 1e-3


@pytest.mark.parametrize("tail", [laplace_tail, gaussian_tail])
def test_intervals_of_quotients_agree_with_a_search_of_all_ratios(tail: Any) -> None:
    scales = np.array([1.0, 1.0])
    for noisy in ([[3.0, 9.0]], [[0.5, 30.0]], [[20.0, 0.1]], [[2.0, 1.0]]):
        rows = np.array(noisy)
        low, high = quotients(tail, rows, scales, [0.0, 1.0], [1.0, 1.0], 0.1)
        ratios = np.linspace(0, 1, 20_001)
        size = np.abs(rows[0, 1] - ratios * rows.sum())
        accepted = ratios[tail((np.array([0.0, 1.0]) - ratios[:, None]) * scales, size) >= 0.1]
        assert low[0] <= accepted.min() + 1e-4
        assert high[0] >= accepted.max() - 1e-4
