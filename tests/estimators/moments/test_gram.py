"""Exact second moments: sums that do not depend on the order of rows, and symmetric noise."""

from __future__ import annotations

import math

import numpy as np
from sklearn.base import clone

import hush.estimators as he
from estimators.neighbours import gaussian_distance, gaussian_releases
from hush.accounting import gaussian_multiplier
from hush.estimators.moments import gram
from hush.estimators.moments.gram import STEPS, add_symmetric_noise, clipped_gram
from hush.randomness import TestSource


def test_noise_is_on_both_triangles_and_everywhere():
    totals = np.zeros((3, 3), dtype=np.int64)
    draws = np.array([add_symmetric_noise(totals, 2.0, TestSource(seed)) for seed in range(400)])
    assert (draws == draws.transpose(0, 2, 1)).all()
    spread = draws.std(axis=0)
    expected = np.where(np.eye(3) > 0, 2.0, math.sqrt(2))
    # False alarms: six deviations of 400 draws, each with a standard error of 3.5 %: beyond 20 % by 1e-7.
    assert np.abs(spread / expected - 1).max() < 0.2
    twin = np.triu(draws)  # noise on one triangle alone
    assert not (twin.std(axis=0) > 0).all()


def test_many_rows_are_summed_exactly(monkeypatch):
    x = np.random.default_rng(1).normal(size=(1000, 3))
    blocks = []

    def fill(out, part):
        out[:] = 7.0
        blocks.append(part)

    together = gram.clipped_gram(x, 1.0, 1, fill)
    monkeypatch.setattr(gram, "_EXACT_ROWS", 7)
    assert (gram.clipped_gram(x, 1.0, 1, fill) == together).all()
    assert len(blocks) == 1 + 143
    steps = np.trunc(x * (gram.STEPS * (1 - 1e-9) / np.maximum(np.linalg.norm(x, axis=1), 1.0))[:, None])
    exact = np.column_stack([steps, np.full(1000, 7.0)]).astype(np.int64)
    assert (together == exact.T @ exact).all()


def test_a_row_counts_the_same_wherever_it_is():
    """Rounding must not depend on the position of a row, or its effect on the sums would exceed its contribution."""
    x = np.random.default_rng(0).normal(size=(5000, 7))

    def totals(rows):
        return clipped_gram(rows, 1.0, 1, lambda out, part: out.fill(STEPS))

    together = totals(x)
    assert (totals(x[::-1]) == together).all()
    assert (totals(np.asfortranarray(x)) == together).all()
    assert (totals(x[:1]) + totals(x[1:]) == together).all()


def test_the_smallest_norm_is_clipped_to(monkeypatch):
    rows, norm = np.array([[1e-99, 0.0]]), 2e-100
    model = he.PrivatePCA(epsilon=1.0, delta=1e-6, data_norm=norm, source=TestSource(1))
    before, after = (
        gaussian_releases(monkeypatch, lambda x=x: clone(model).fit(x)) for x in (rows, np.vstack([rows, rows]))
    )
    assert gaussian_distance(before, after) <= 1 / gaussian_multiplier(1.0, 1e-6) * (1 + 1e-9)
