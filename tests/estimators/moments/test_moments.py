"""Moments of bounded features within classes: exact totals, their sensitivity, and what noisy ones stand for."""

from __future__ import annotations

import numpy as np
import pytest

from estimators.neighbours import EXTREMES
from hush.accounting import PldAccountant
from hush.estimators.moments import moments
from hush.estimators.moments.gram import STEPS
from hush.estimators.moments.moments import FixedPoint, class_totals, moments_blocks, moments_plan, noisy_moments
from hush.randomness import TestSource

LOWER, UPPER = np.array([-2.0, 0.0]), np.array([2.0, 10.0])


def totals(rows: np.ndarray, class_indices: np.ndarray | None = None, num_classes: int = 1) -> np.ndarray:
    return class_totals(rows, class_indices, num_classes, FixedPoint(LOWER, UPPER, len(rows)))


def test_fixed_point_clamps_to_the_bounds_and_rounds_towards_zero() -> None:
    rows = np.array([[-2.0, 10.0], [-9.0, 1e300], [1e-6, 5.0 + 1e-6], [np.nan, np.inf]])
    steps = FixedPoint(LOWER, UPPER, 4)(rows)
    assert steps[0].tolist() == [-STEPS, STEPS]
    assert steps[1].tolist() == [-STEPS, STEPS]
    assert steps[2].tolist() == [0, 0]
    assert np.isnan(steps[3, 0])
    assert steps[3, 1] == STEPS


def test_totals_are_those_of_a_loop_over_rows() -> None:
    rng = np.random.default_rng(0)
    rows, class_indices = rng.uniform([-3, -1], [3, 11], size=(500, 2)), rng.integers(-1, 3, 500)
    rows[::50, 0] = np.nan
    expected = np.zeros((3, 5), dtype=object)
    for row, index in zip(rows, class_indices, strict=True):
        if index >= 0 and not np.isnan(row).any():
            scaled = np.clip((row - (LOWER + UPPER) / 2) / ((UPPER - LOWER) / 2), -1, 1)
            steps = [int(value) for value in np.trunc(scaled * STEPS)]
            expected[index] += [STEPS, *steps, *(value * value - STEPS * STEPS // 2 for value in steps)]
    expected[:, 3:] //= STEPS
    assert totals(rows, class_indices, 3).tolist() == expected.tolist()


def test_totals_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(1).uniform(-3, 11, size=(1000, 2))
    together = totals(rows)
    monkeypatch.setattr(moments, "block_rows", lambda width: 7)
    assert (totals(rows) == together).all()
    assert (totals(rows[::-1]) == together).all()


@pytest.mark.parametrize("squares", [True, False])
def test_one_row_changes_each_block_by_its_sensitivity_at_most(squares: bool) -> None:
    blocks = moments_blocks(2, squares=squares)
    rows = np.random.default_rng(2).normal(size=(6, 2))
    largest = np.zeros(len(blocks))
    for first in EXTREMES:
        for second in EXTREMES:
            change = (totals(np.vstack([rows, [first, second]])) - totals(rows)).ravel()
            start = 0
            for number, block in enumerate(blocks):
                part = change[start : start + block.columns].astype(np.float64)
                assert np.abs(part).sum() <= block.l1
                assert np.linalg.norm(part) <= block.l2
                largest[number] = max(largest[number], np.abs(part).sum() / block.l1)
                start += block.columns
    assert (largest > 0.999).all(), "no noise to spare: a twin with half of it is below the sensitivity"


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_plan_is_within_epsilon(delta: float) -> None:
    spent = PldAccountant().compose(moments_plan(5, 1.0, delta).event).epsilon(delta)
    assert 0.99 < spent <= 1.0 + 1e-9


def test_noisy_moments_are_close_where_rows_are_many_and_modest_where_they_are_few() -> None:
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.uniform(-1, 1, 20_000), rng.uniform(4, 6, 20_000)])
    estimates = noisy_moments(totals(rows), moments_plan(2, 5.0, 0.0), TestSource(1))
    # In units of the bounds, a uniform variable on [-1/2, 1/2] and one on [-1/5, 1/5]; noise is below 1e-3 of a mean.
    assert estimates.counts[0] == pytest.approx(20_000, rel=0.01)
    assert estimates.means[0] == pytest.approx(rows.mean(axis=0) / [2, 5] - [0, 1], abs=0.01)
    assert estimates.variances[0] == pytest.approx([1 / 12, 0.4**2 / 12], abs=0.01)
    for seed in range(20):
        empty = noisy_moments(totals(rows[:0]), moments_plan(2, 0.1, 0.0), TestSource(seed))
        assert (empty.counts >= 0).all()
        assert (np.abs(empty.means) <= 1).all()
        assert (empty.variances > 0).all()
