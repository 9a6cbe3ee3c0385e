r"""Count, sums and squares of bounded features, within public classes: one release.

Features are in [-1, 1], in steps of 2^-16, rounded towards zero. Squares are taken less one half, which halves what one
row does to them; the count brings them back. A row is in one class, so classes share the noise (parallel composition,
add-or-remove).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.estimators._gram import STEPS
from hush.estimators._private import Floats
from hush.randomness import Source
from hush.statistics import Block, NoisePlan, plan_noise


@dataclass(frozen=True, slots=True)
class Moments:
    """Noisy moments of each class; features in units of their bounds.

    Attributes:
        counts: Of rows of each class; at least 0.
        means: [class, feature], within [-1, 1].
        variances: The same; not below what noise alone would suggest.
    """

    counts: Floats
    means: Floats
    variances: Floats


def moments_blocks(num_features: int, *, squares: bool = True) -> tuple[Block, ...]:
    """Return what one row does to a class's count, sums and squares."""
    d = num_features
    root = STEPS * math.sqrt(d)
    blocks = [
        Block(columns=1, l1=STEPS, l2=STEPS, share=0.5),
        Block(columns=d, l1=d * STEPS, l2=root, share=1.0),
    ]
    if squares:
        blocks.append(Block(columns=d, l1=-(-d * STEPS // 2), l2=root / 2, share=1.0))
    return tuple(blocks)


def moments_plan(num_features: int, epsilon: float, delta: float) -> NoisePlan:
    """Return the noise for a class's count, sums and squares."""
    return plan_noise(moments_blocks(num_features), max_groups=1, epsilon=epsilon, delta=delta)


def class_totals(
    units: Floats, places: NDArray[np.int64], num_classes: int, *, squares: bool = True
) -> NDArray[np.int64]:
    """Return exact totals of each class, in steps; rows of place -1 are left out."""
    steps = np.trunc(units * STEPS)
    d = steps.shape[1]
    totals = np.zeros((num_classes, 1 + d + d * squares), dtype=np.int64)
    for place in range(num_classes):
        mine = steps[places == place]
        totals[place, 0] = len(mine) * STEPS
        # Whole numbers below 2^16, so sums of up to 2^37 of them are exact.
        totals[place, 1 : 1 + d] = mine.sum(axis=0).astype(np.int64)
        if squares:
            centred = np.trunc(mine * mine / STEPS - STEPS / 2)
            totals[place, 1 + d :] = centred.sum(axis=0).astype(np.int64)
    return totals


def noisy_moments(totals: NDArray[np.int64], plan: NoisePlan, source: Source) -> Moments:
    """Release totals and return what they say of counts, means and variances."""
    noisy = plan.release(totals, source) / STEPS
    scales = plan.scales / STEPS
    d = (noisy.shape[1] - 1) // 2
    counts = np.maximum(noisy[:, 0], 0.0)
    # With fewer rows than the noise of a sum, its mean would be noise: it is drawn to the middle of the bounds.
    over = np.maximum(counts, max(float(scales[1]), 1.0))[:, None]
    means = np.clip(noisy[:, 1 : 1 + d] / over, -1.0, 1.0)
    seconds = np.clip(noisy[:, 1 + d :] / over + 0.5, 0.0, 1.0)
    # A variance below its own noise cannot be told from 0.
    floor = np.minimum(scales[-1] / over, 1 / 3)
    return Moments(counts, means, np.maximum(seconds - means**2, np.maximum(floor, 1e-9)))
