"""The size of a forest from public numbers and a noisy count, its budget, and pooled histograms."""

from __future__ import annotations

import numpy as np
import pytest

from hush.accounting import PldAccountant
from hush.estimators.partitions.tree_growth import BINS, ForestShape, cumulative_shares, histograms


def test_given_the_count_the_rest_is_within_its_share():
    for delta in (0.0, 1e-6):
        for rows in (-50.0, 30.0, 1e5):
            shape = ForestShape.choose(rows, 7, epsilon=0.95, delta=delta, trees=None, depth=None)
            plan = shape.plan(7, 3, epsilon=0.95, delta=delta)
            assert PldAccountant().compose(plan.event).epsilon(delta) <= 0.95 * (1 + 1e-9)


def test_the_size_follows_from_the_noisy_count_and_public_numbers():
    shapes = [
        ForestShape.choose(n, 10, epsilon=1.0, delta=0.0, trees=None, depth=None) for n in (-9.0, 100.0, 1e3, 1e6)
    ]
    assert [shape.trees for shape in shapes] == [1, 2, 20, 32]
    assert (shapes[0].depth, shapes[-1].depth) == (3, 8)
    assert shapes[0].marginals == 0 < shapes[-1].marginals
    fixed = ForestShape.choose(1e6, 10, epsilon=1.0, delta=0.0, trees=5, depth=2)
    assert (fixed.trees, fixed.depth) == (5, 2)


def test_one_histogram_of_all_features_where_one_for_each_is_too_much():
    shapes = [ForestShape.choose(n, 30, epsilon=1.0, delta=0.0, trees=None, depth=None) for n in (50.0, 400.0, 1e5)]
    assert [shape.pooled for shape in shapes] == [False, True, False]
    assert [shape.marginals > 0 for shape in shapes] == [False, True, True]
    plan = shapes[1].plan(30, 2, epsilon=1.0, delta=0.0)
    assert PldAccountant().compose(plan.event).epsilon(0.0) <= 1.0 + 1e-9
    rows = np.random.default_rng(0).uniform(-1, 1, (40, 30))
    change = histograms(rows, pooled=True) - histograms(rows[1:], pooled=True)
    assert change.shape == (1, plan.blocks[1].columns)
    assert np.abs(change).sum() == plan.blocks[1].l1
    worst = histograms(np.full((1, 30), 1.0), pooled=True)
    assert np.linalg.norm(worst) == plan.blocks[1].l2
    for edges in (
        cumulative_shares(np.array([900, 1, 1, 1]), plan, 30),
        cumulative_shares(np.array([1, 1, 1, 1]), plan, 30),
    ):
        assert edges.shape == (30, BINS + 1)
    assert (edges[:, 8] == pytest.approx(0.5)) is True
