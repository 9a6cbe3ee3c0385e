"""Trees of counts: exact without noise, one noise for each node, however it is looked at."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import hush.statistics as hs
from hush.randomness import TestSource
from hush.statistics.noise import EvenTree, NoisyTrees, TreeCells, level_scales, tree_block
from hush.statistics.noise.tree import BRANCHING, CELLS, HEIGHT, LEVEL_UNITS, NODES, cells_of, trees_of
from tree_nodes import all_nodes


def noise(epsilon: float = 1.0, **settings: Any) -> hs.NoisePlan:
    return hs.plan_noise((tree_block(1),), groups_per_unit=1, epsilon=epsilon, **settings)


def trees(*cells: list[int], epsilon: float = 1.0, seed: object = 1) -> NoisyTrees:
    return trees_of([np.array(rows, dtype=np.int64) for rows in cells], noise(epsilon), TestSource(seed))


def children(noisy: NoisyTrees, level: int, tree: int, node: int) -> list[float]:
    return noisy.counts(level, np.array([tree]), np.array([node]))[0].tolist()


def test_every_level_counts_every_row_once() -> None:
    (nodes,) = all_nodes(trees([0, 0, 1, 17, CELLS - 1]))
    levels = np.split(nodes, np.cumsum([BRANCHING**level for level in range(HEIGHT)]))
    assert [level.sum() for level in levels] == [5 * units for units in LEVEL_UNITS]
    assert (levels[1] // LEVEL_UNITS[1]).tolist() == [4] + [0] * 14 + [1]
    assert (levels[-1] // LEVEL_UNITS[-1])[[0, 1, 17, CELLS - 1]].tolist() == [2, 1, 1, 1]
    assert len(nodes) == NODES


def test_a_row_moves_the_nodes_as_far_as_the_block_says() -> None:
    before, after = all_nodes(trees([3, 4])), all_nodes(trees([3, 4, 70, 70]))
    block = tree_block(2)  # two rows of one unit
    assert np.abs(after - before).sum() == block.l1
    assert np.sqrt(np.square(after - before).sum()) == pytest.approx(block.l2)
    assert np.sqrt(np.square(after - before).sum()) <= block.l2


def test_numbers_beyond_the_bounds_are_in_the_outer_cells() -> None:
    numbers = np.array([-math.inf, -1, 0, 100, 101, math.inf])
    assert cells_of(numbers, (0.0, 100.0)).tolist() == [0] * 3 + [CELLS - 1] * 3


def test_a_node_has_one_noise_however_often_it_is_looked_at() -> None:
    """Otherwise the mean of many looks would be the exact count."""
    one = trees([5] * 9, [6] * 9)
    first = children(one, 2, 1, 7)
    others = one.counts(2, np.array([0, 1, 1, 0, 1]), np.array([7, 6, 7, 255, 7]))
    assert others[2].tolist() == others[4].tolist() == first
    assert others[0].tolist() != first
    assert children(one, 2, 1, 7) == first
    assert one.roots().tolist() == one.roots().tolist()


def test_nodes_without_rows_have_noise_like_any_other() -> None:
    empty = TreeCells(*(np.empty(0, dtype=np.int64),) * 3)
    absent = NoisyTrees(empty, np.full(200, -1), noise(), TestSource(1))
    counts = absent.counts(0, np.arange(200), np.zeros(200, dtype=np.int64))
    # fixed key: the mean of 3,200 absolute values of Laplace noise is its scale, give or take 2 %
    assert np.abs(counts).mean() == pytest.approx(absent.scales[1], rel=0.06)
    assert np.abs(absent.roots()).mean() == pytest.approx(absent.scales[0], rel=0.25)


def test_the_noise_of_each_level_is_that_of_the_plan() -> None:
    """A twin that noises all levels as the first, or adds up rows without units, is off by 8 % or more."""
    many = trees(*[[77]] * 400, epsilon=0.5)
    shares = np.array(LEVEL_UNITS) / sum(LEVEL_UNITS)
    assert np.allclose(many.scales, 1 / (0.5 * shares))
    for level in range(HEIGHT):
        counts = many.counts(level, np.arange(400), np.zeros(400, dtype=np.int64))
        counts[:, 77 * BRANCHING ** (level + 1) // CELLS % BRANCHING] -= 1 if level < 2 else 0
        # fixed key: the mean of 6,400 absolute values, give or take 1.3 %
        assert np.abs(counts[:, 8:]).mean() == pytest.approx(many.scales[level + 1], rel=0.06)


def test_little_noise_shows_the_exact_counts() -> None:
    many = trees([3, 3, 300, 5_000], [], epsilon=500.0)
    assert many.roots().round().tolist() == [4, 0]
    assert np.round(children(many, 0, 0, 0))[[0, 1, 2]].tolist() == [3, 1, 0]
    assert np.round(children(many, 3, 0, 0))[3] == 2
    assert not np.round(children(many, 3, 1, 0)).any()


@pytest.mark.parametrize("gaussian", [False, True])
def test_what_is_looked_at_does_not_change_what_is_seen_elsewhere(gaussian: bool) -> None:
    """Order matters for a source of random bits only: each node's noise is as wide whenever it is drawn."""
    kind = {"noise": hs.GaussianNoise(), "delta": 1e-6} if gaussian else {}
    plan = noise(1.0, **kind)
    rows = np.zeros(500, dtype=np.int64)
    late = trees_of([rows] * 300, plan, TestSource("late"))
    for level in (3, 1, 0):
        late.counts(level, np.arange(300), np.zeros(300, dtype=np.int64))
    counts = late.counts(2, np.arange(300), np.zeros(300, dtype=np.int64))
    expected = level_scales(plan)[3] * (math.sqrt(2 / math.pi) if gaussian else 1.0)
    # fixed key: the mean of 4,500 absolute values, give or take 1.5 %
    assert np.abs(counts[:, 1:]).mean() == pytest.approx(expected, rel=0.06)


def test_an_even_tree_has_equal_counts() -> None:
    tree = EvenTree(160.0, noise())
    assert tree.roots().tolist() == [160.0]
    assert tree.counts(0, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)).tolist() == [[10.0] * 16]
    assert tree.scales == level_scales(noise())
