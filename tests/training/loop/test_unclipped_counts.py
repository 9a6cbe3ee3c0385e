"""Noisy counts of unclipped parts: how far one contribution moves them, and how much noise that takes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from hush.training import Adaptive, PerLayer
from hush.training.loop.unclipped_counts import (
    count_unclipped,
    group_shares,
    moved_thresholds,
    noisy_counts,
    restored_clipping,
)
from hush.training.per_example.clipped_sum import ClippedSum

KEY = bytes(32)


def sums(norms: list[list[float]]) -> ClippedSum:
    group_norms = torch.tensor(norms)
    return ClippedSum({}, torch.linalg.vector_norm(group_norms, dim=0), group_norms)


def test_counts() -> None:
    clipped = sums([[0.5, 2.0, math.nan, 0.5], [3.0, 3.0, math.nan, 1.0]])
    weights = torch.tensor([True, True, True, False])
    assert count_unclipped(clipped, weights, [1.0, 3.0]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("num_groups", [1, 2, 7])
@pytest.mark.quick_cases(2)
def test_one_contribution_moves_the_counts_by_the_length_that_the_noise_is_for(num_groups: int) -> None:
    generator = torch.Generator().manual_seed(num_groups)
    norms = torch.rand(num_groups, 30, generator=generator).tolist()
    thresholds = [0.5] * num_groups
    without = count_unclipped(sums([row[:-1] for row in norms]), torch.ones(29), thresholds)
    moved = float((count_unclipped(sums(norms), torch.ones(30), thresholds) - without).norm())
    assert moved == pytest.approx(math.sqrt(num_groups) / 2)
    # Fixed key: 3,000 draws of noise, whose scale is known to 1.3 %.
    draws = torch.tensor([noisy_counts(KEY, step, 0.0, 4.0, num_groups) for step in range(3000 // num_groups)])
    stddev = float(draws.std())
    assert stddev / moved == pytest.approx(2 * 4.0, rel=0.06)  # the noise multiplier that the plan counts on
    broken = stddev / math.sqrt(num_groups)  # a twin whose counts get the noise of a single one
    assert num_groups == 1 or broken / moved < 0.75 * 2 * 4.0


def test_halves_are_on_the_grid() -> None:
    exact: Tensor = torch.tensor([12.5, -3.0, 0.5])
    with_noise, noise = (noisy_counts(KEY, 4, counts, 4.0, 3) for counts in (exact, 0.0))
    assert [a - b for a, b in zip(with_noise, noise, strict=True)] == exact.tolist()


def test_thresholds_are_kept_and_restored() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    clipping = Adaptive(2.0, PerLayer())
    shares = group_shares(model, clipping)
    assert [round(share, 6) for share in shares] == [round(math.sqrt(0.5), 6)] * 2
    moved = clipping.moved([1.0, 0.0], shares)
    assert moved_thresholds(clipping) is None
    assert restored_clipping(clipping, moved.clip_norm, moved_thresholds(moved)) == moved
    assert restored_clipping(Adaptive(2.0), 3.0, None) == Adaptive(3.0)
