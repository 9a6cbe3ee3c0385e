"""Quantiles of noisy trees: near the truth, with intervals that cover it and are not much wider than the errors."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import hush.statistics as hs
from hush.randomness import TestSource
from hush.statistics.noise import EvenTree, NoisyTrees, quantiles, rank_reach, tree_block, tree_quantiles
from hush.statistics.noise.tree import CELLS, cells_of, trees_of

BOUNDS = (0.0, 10_000.0)
DRAWS = 200
GAUSSIAN = {"noise": hs.GaussianNoise(), "delta": 1e-6}


def shaped(shape: str, rows: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(rows)
    draws = {
        "narrow": lambda: rng.normal(3210, 40, rows),
        "wide": lambda: rng.normal(4700, 1500, rows),
        "even": lambda: rng.uniform(*BOUNDS, rows),
        "skewed": lambda: rng.lognormal(6, 1, rows),
        "constant": lambda: np.full(rows, 1234.5),
        "two values": lambda: np.repeat([1000.0, 9000.0], [rows - rows // 3, rows // 3]),
        "whole": lambda: np.floor(rng.gamma(2.0, 12.0, rows)) * 100,
    }
    return np.clip(draws[shape](), *BOUNDS)


def released(values: NDArray[np.float64], epsilon: float, seed: object, draws: int = DRAWS, **kind: Any) -> NoisyTrees:
    """Return so many independent releases of one group."""
    plan = hs.plan_noise((tree_block(1),), groups_per_unit=1, epsilon=epsilon, **kind)
    return trees_of([cells_of(values, BOUNDS)] * draws, plan, TestSource(seed))


def exact_quantile(values: NDArray[np.float64], level: float) -> float:
    return float(np.sort(values)[max(math.ceil(level * len(values)), 1) - 1])


def covered(trees: NoisyTrees, values: NDArray[np.float64], level: float, confidence: float) -> int:
    value, low, high = tree_quantiles(trees, level, confidence, BOUNDS)
    assert ((low <= value) & (value <= high)).all()
    truth = exact_quantile(values, level)
    return int(((low <= truth) & (truth <= high)).sum())


CASES = [
    (20, 5.0, "narrow"),
    (20, 0.5, "even"),
    (100, 1.0, "whole"),
    (100, 5.0, "two values"),
    (500, 0.5, "skewed"),
    (500, 5.0, "constant"),
    (5_000, 1.0, "wide"),
]


@pytest.mark.parametrize("kind", [{}, GAUSSIAN], ids=["laplace", "gaussian"])
@pytest.mark.parametrize(("rows", "epsilon", "shape"), CASES)
@pytest.mark.quick_cases(4)
def test_intervals_cover(rows: int, epsilon: float, shape: str, kind: Any) -> None:
    """A comparison with a true hypothesis fails with 1e-8, and there are 56 of them."""
    values = shaped(shape, rows)
    for level in (0.1, 0.5):
        for confidence in (0.6, 0.95):
            trees = released(values, epsilon, f"{rows} {shape} {level} {confidence}", **kind)
            assert covered(trees, values, level, confidence) >= binom.ppf(1e-8, DRAWS, confidence)


@pytest.mark.parametrize("level", [0.0, 0.02, 0.98, 1.0])
def test_intervals_cover_extreme_quantiles(level: float) -> None:
    """Four comparisons, each of which fails with 1e-8."""
    values = shaped("skewed", 300)
    assert covered(released(values, 2.0, f"extreme {level}"), values, level, 0.9) >= binom.ppf(1e-8, DRAWS, 0.9)


def test_intervals_cover_each_quantile_of_one_tree() -> None:
    """All levels read the same noise. Nine comparisons, each of which fails with 1e-8."""
    values = shaped("wide", 400)
    trees = released(values, 1.0, "levels")
    for level in np.linspace(0.1, 0.9, 9):
        assert covered(trees, values, float(level), 0.8) >= binom.ppf(1e-8, DRAWS, 0.8)


def no_noise_in_sums(patch: Any) -> Any:
    return patch.object(quantiles, "_sum_tail", lambda plan, scales, numbers, size: np.zeros(len(size)))


def nodes_without_a_reach(patch: Any) -> Any:
    return patch.object(quantiles, "_quantile", lambda trees, scales, fewest, wrong: np.zeros(len(fewest)))


@pytest.mark.parametrize("twin", [no_noise_in_sums, nodes_without_a_reach])
def test_twins_with_a_test_that_rejects_too_much_are_caught(twin: Any) -> None:
    # fixed key
    values = shaped("two values", 90) if twin is nodes_without_a_reach else shaped("even", 400)
    level = 0.6 if twin is nodes_without_a_reach else 0.5
    with twin(mock.patch):
        assert covered(released(values, 0.5, "twin"), values, level, 0.95) < binom.ppf(1e-8, DRAWS, 0.95)
    assert covered(released(values, 0.5, "twin"), values, level, 0.95) >= binom.ppf(1e-8, DRAWS, 0.95)


@pytest.mark.parametrize(
    ("rows", "epsilon", "shape"),
    [
        (20, 0.5, "wide"),
        (20, 5.0, "wide"),
        (100, 0.5, "even"),
        (100, 5.0, "narrow"),
        (500, 0.5, "narrow"),
        (500, 1.0, "skewed"),
        (500, 5.0, "whole"),
        (20_000, 1.0, "wide"),
    ],
)
@pytest.mark.quick_cases(2)
def test_an_interval_is_at_most_four_times_as_wide_as_the_range_of_errors(
    rows: int, epsilon: float, shape: str
) -> None:
    # fixed key
    values = shaped(shape, rows)
    value, low, high = tree_quantiles(released(values, epsilon, "width"), 0.5, 0.95, BOUNDS)
    errors = np.percentile(value - exact_quantile(values, 0.5), [2.5, 97.5])
    assert np.median(high - low) <= 4 * (errors[1] - errors[0])


def test_a_constant_is_found_to_its_cell() -> None:
    # fixed key
    value, low, high = tree_quantiles(released(shaped("constant", 100), 5.0, "cell"), 0.5, 0.95, BOUNDS)
    assert np.median(high - low) == pytest.approx(10_000 / CELLS)
    assert np.abs(value - 1234.5).max() < 10_000 / CELLS


@pytest.mark.parametrize("level", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_quantiles_without_much_noise(level: float) -> None:
    # At epsilon 1,000 no sum of noise moves a rank by one.
    values = np.random.default_rng(1).uniform(1000, 6000, 5_000)
    (value,), (low,), (high,) = tree_quantiles(released(values, 1e3, f"level {level}", draws=1), level, 0.95, BOUNDS)
    truth = exact_quantile(values, level)
    assert low <= truth <= high
    assert low <= value <= high
    if 0 < level < 1:
        assert abs(value - truth) < 10
        assert high - low < 10


def test_an_empty_tree_is_a_guess_with_an_interval_of_almost_everything() -> None:
    # fixed key
    value, low, high = tree_quantiles(released(np.array([]), 1.0, "empty"), 0.5, 0.95, BOUNDS)
    assert ((low <= value) & (value <= high)).all()
    assert np.median(high - low) > 5_000


def test_no_trees() -> None:
    ends = tree_quantiles(released(np.array([1.0]), 1.0, "none", draws=0), 0.5, 0.95, BOUNDS)
    assert [len(end) for end in ends] == [0, 0, 0]


def test_more_confidence_is_never_a_narrower_interval() -> None:
    trees = released(shaped("wide", 200), 1.0, "nested", draws=50)
    intervals = [tree_quantiles(trees, 0.5, confidence, BOUNDS)[1:] for confidence in (0.5, 0.9, 0.99, 0.999_999)]
    for (low, high), (wider_low, wider_high) in pairwise(intervals):
        assert (wider_low <= low).all()
        assert (high <= wider_high).all()


def test_few_nodes_are_looked_at() -> None:
    trees = released(shaped("wide", 200), 1.0, "lazy", draws=10)
    with mock.patch.object(hs.NoisePlan, "release", autospec=True, side_effect=hs.NoisePlan.release) as release:
        for level in (0.25, 0.5, 0.75):
            tree_quantiles(trees, level, 0.95, BOUNDS)
    drawn = sum(call.args[1].size for call in release.call_args_list)
    assert drawn <= 10 * (1 + 3 * 3 * 4 * 16)


@pytest.mark.parametrize("kind", [{}, GAUSSIAN], ids=["laplace", "gaussian"])
def test_the_reach_of_a_rank_grows_with_the_noise(kind: Any) -> None:
    plans = [hs.plan_noise((tree_block(1),), groups_per_unit=1, epsilon=epsilon, **kind) for epsilon in (0.5, 1.0, 2.0)]
    reaches = [rank_reach(plan, 0.5, 0.05) for plan in plans]
    assert reaches[0] > reaches[1] > reaches[2] > 0
    assert rank_reach(plans[0], 0.5, 0.01) > reaches[0]
    # About the interval of a group that is spread evenly: it is no wider than a few times the reach.
    tree = EvenTree(10_000.0, plans[1])
    _, (low,), (high,) = tree_quantiles(tree, 0.5, 0.95, (0.0, 10_000.0))
    assert 0.5 * reaches[1] < (high - low) / 2 < 4 * reaches[1]
