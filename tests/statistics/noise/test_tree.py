"""Trees of counts: exact without noise, and honest about it with noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hush.statistics as hs
from hush.randomness import TestSource
from hush.statistics.noise import BRANCHING, HEIGHT, UNITS, rank_limits, release_tree, tree_block
from hush.statistics.noise.tree import CELLS, NODES, cell_counts, cells_of, node_counts

BOUNDS = (0.0, 100.0)


def released(values: np.ndarray, epsilon: float = 1e3, **settings: object) -> object:
    plan = hs.plan_noise((tree_block(1),), groups_per_unit=1, epsilon=epsilon, **settings)  # type: ignore[arg-type]
    return release_tree(cell_counts(cells_of(values, BOUNDS)), BOUNDS, plan, TestSource(1))


def test_every_level_counts_every_row_once() -> None:
    cells = np.array([0, 0, 1, 17, CELLS - 1])
    levels = np.split(node_counts(cells), np.cumsum([BRANCHING**level for level in range(1, HEIGHT)]))
    assert [level.sum() for level in levels] == [5] * HEIGHT
    assert levels[0].tolist() == [4] + [0] * 14 + [1]
    assert levels[-1][[0, 1, 17, CELLS - 1]].tolist() == [2, 1, 1, 1]
    assert sum(map(len, levels)) == NODES


def test_a_row_moves_the_nodes_as_far_as_the_block_says() -> None:
    before, after = node_counts(np.array([3, 4])), node_counts(np.array([3, 4, 70, 70]))
    block = tree_block(2)  # two rows of one unit
    moved = (after - before) * UNITS
    assert np.abs(moved).sum() == block.l1
    assert np.sqrt(np.square(moved).sum()) == pytest.approx(block.l2)


def test_numbers_beyond_the_bounds_are_in_the_outer_cells() -> None:
    assert cells_of(np.array([-math.inf, -1, 0, 100, 101, math.inf]), BOUNDS).tolist() == [0] * 3 + [CELLS - 1] * 3


@pytest.mark.parametrize("level", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_quantiles_without_much_noise(level: float) -> None:
    values = np.random.default_rng(1).uniform(10, 60, 5_000)
    value, low, high = released(values).quantile(level, 0.95)  # type: ignore[attr-defined]
    truth = np.quantile(values, level, method="inverted_cdf")
    # At epsilon 1000 the noise of a node is 0.004 rows: a sum of sixty of them moves no rank by one.
    assert low <= truth <= high
    assert low <= value <= high
    if 0 < level < 1:  # at the extremes, empty nodes whose noise stands out count, too
        assert abs(value - truth) < 0.1
        assert high - low < 0.1


def test_an_empty_tree_is_a_guess_with_an_interval_of_everything() -> None:
    value, low, high = released(np.array([]), epsilon=1.0).quantile(0.5, 0.95)  # type: ignore[attr-defined]
    assert low <= value <= high
    assert high - low > 50


def test_limits_hold_for_sums_of_noise() -> None:
    rng = np.random.default_rng(3)
    level, wrong = 0.3, 0.05
    for laplace, draws in ((True, rng.laplace(size=(40_000, 26))), (False, rng.normal(size=(40_000, 26)))):
        # Four first-level nodes are in the rank, twelve are not, and ten lower nodes are.
        sums = (1 - level) * draws[:, :4].sum(axis=1) - level * draws[:, 4:16].sum(axis=1) + draws[:, 16:].sum(axis=1)
        share = float((sums > rank_limits(laplace, level, wrong)[4, 10]).mean())
        # False alarms: a share is more than six standard errors above 0.05 with 1e-9. Chernoff's bound is loose.
        assert share < wrong + 6 * math.sqrt(wrong / len(draws))
        assert share > (0.0 if laplace else wrong - 6 * math.sqrt(wrong / len(draws)))
