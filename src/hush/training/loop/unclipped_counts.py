"""What adaptive clipping learns from a step: a noisy count, for each clipping group, of the parts within its threshold.

A contribution counts as +1/2 or -1/2 in each group. So one contribution moves K counts by a vector of length
sqrt(K) / 2, and each of them gets sqrt(K) times the noise of a single one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from hush.training.noise.integer_gaussian import integer_gaussian
from hush.training.noise.noise_grid import NoiseGrid
from hush.training.per_example.clipped_sum import ClippedSum
from hush.training.plan.clipping import Clipping, MovedGroups


def group_shares(model: nn.Module, clipping: Clipping) -> list[float]:
    """Return each clipping group's share of the clip norm."""
    sizes = {name: param.numel() for name, param in model.named_parameters() if param.requires_grad}
    return clipping.groups.of(sizes)[1]


def count_unclipped(clipped: ClippedSum, weights: Tensor, thresholds: Sequence[float]) -> Tensor:
    """Return, for each group, the number of parts up to its threshold, minus half of all of them.

    Args:
        clipped: The clipped sum of a batch, with the norms before clipping. NaN counts as 0.
        weights: Whether a contribution counts; the others are padding.
        thresholds: The largest norm of each group.
    """
    assert clipped.group_norms is not None
    norms = clipped.group_norms.double()
    limits = torch.tensor(thresholds, dtype=torch.float64, device=norms.device).unsqueeze(1)
    signs = torch.where(norms <= limits, 0.5, -0.5).masked_fill(norms.isnan(), 0.0)
    return (signs * weights).sum(1, dtype=torch.float64)


def noisy_counts(key: bytes, step: int, counts: Tensor | float, stddev: float, num_groups: int) -> list[float]:
    """Return counts of halves with noise, on a grid that has the halves: rounding to it changes nothing.

    Args:
        key: The key of the noise.
        step: The number of the step.
        counts: The exact counts; 0 without any batch.
        stddev: The standard deviation of the noise on a single count.
        num_groups: How many counts there are.
    """
    root = math.sqrt(num_groups)
    grid = NoiseGrid.of_sum(clip_norm=0.5 * root, stddev=stddev * root, size=num_groups)
    noise = integer_gaussian(key, step, num_groups, stddev=grid.stddev)
    exact = torch.as_tensor(counts, dtype=torch.float64, device="cpu").expand(num_groups)
    noisy: list[float] = grid.noisy(exact, noise, 1.0, torch.empty(num_groups, dtype=torch.float64)).tolist()
    return noisy


def moved_thresholds(clipping: Clipping) -> tuple[float, ...] | None:
    """Return the thresholds of the groups that adaptive clipping has moved; None without groups."""
    return clipping.groups.thresholds if isinstance(clipping.groups, MovedGroups) else None


def restored_clipping(clipping: Clipping, clip_norm: float, thresholds: Sequence[float] | None) -> Clipping:
    """Return a plan's clipping as it was in a later step.

    Args:
        clipping: The plan's.
        clip_norm: The clip norm of that step.
        thresholds: What `moved_thresholds` returned in that step.
    """
    groups = clipping.groups if thresholds is None else MovedGroups(clipping.groups, tuple(thresholds))
    return replace(clipping, clip_norm=clip_norm, groups=groups)
