"""Counts, sums and squares of bounded features within public classes: one release.

    rows         as the caller passed them
    fixed point  clamped to their bounds and mapped to [-1, 1], in multiples of 2^-16, rounded towards zero
    totals       for each class: count, sums, sums of (x^2 - 1/2)
    moments      noisy counts, means and variances, in units of the bounds

Subtracting one half from the squares halves the effect of one row on their sum; the count restores them afterwards. A
row belongs to one class only, so the classes compose in parallel (under add-or-remove).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.estimators.base.estimator import Floats
from hush.estimators.moments.gram import STEPS, UNIT, block_rows, check_rows
from hush.randomness import RandomSource
from hush.statistics import Block, CalibratedPlan, NoisePlan, plan_noise


@dataclass(frozen=True, slots=True)
class ClassMoments:
    """Noisy moments of each class, with features in units of their bounds.

    Attributes:
        counts: Number of rows of each class, at least 0.
        means: Means by [class, feature], within [-1, 1].
        variances: Variances by [class, feature], never below the level of their noise.
    """

    counts: Floats
    means: Floats
    variances: Floats


def moments_blocks(num_features: int, *, squares: bool = True) -> tuple[Block, ...]:
    """Return the sensitivity of a class's count, sums and (with ``squares``) squares, in steps, as noise blocks."""
    d = num_features
    # In the worst case, every feature is at a bound: d changes of size 1 have the L2 norm sqrt(d) and the L1 norm d.
    l2 = STEPS * math.sqrt(d)
    # x in [-1, 1] moves a sum by 1, and x^2 - 1/2 in [-1/2, 1/2] moves its sum by 1/2.
    blocks = [
        Block(columns=1, l1=STEPS, l2=STEPS, share=0.5),
        Block(columns=d, l1=d * STEPS, l2=l2, share=1.0),
    ]
    if squares:
        # The L1 norm d / 2, rounded up to a whole step.
        blocks.append(Block(columns=d, l1=-(-d * STEPS // 2), l2=l2 / 2, share=1.0))
    return tuple(blocks)


def moments_plan(num_features: int, epsilon: float, delta: float) -> CalibratedPlan:
    """Return the noise plan for a class's count, sums and squares."""
    return plan_noise(moments_blocks(num_features), groups_per_unit=1, epsilon=epsilon, delta=delta)


class FixedPoint:
    """A converter of rows to fixed point within their bounds, block by block, in one reused buffer.

    Args:
        lower: Lower bound of each feature.
        upper: Upper bound of each feature.
        max_rows: Number of rows in all; a block is never larger.
    """

    def __init__(self, lower: Floats, upper: Floats, max_rows: int) -> None:
        size = max(min(block_rows(len(lower)), max_rows), 1)
        middle, half = lower + (upper - lower) / 2, (upper - lower) / 2
        # Repeated for each row of a block: NumPy broadcasts slowly along short rows.
        self._middle, self._factor = np.tile(middle, (size, 1)), np.tile(STEPS / half, (size, 1))
        self._buffer = np.empty((size, len(lower)))

    def blocks(self, count: int) -> Iterator[slice]:
        """Return the slices in which ``count`` rows are processed."""
        check_rows(count)
        size = len(self._buffer)
        return (slice(start, min(start + size, count)) for start in range(0, count, size))

    def __call__(self, rows: Floats) -> Floats:
        """Return rows clamped to the bounds, which map to -STEPS and STEPS. Missing values stay NaN."""
        out, size = self._buffer[: len(rows)], len(rows)
        with np.errstate(all="ignore"):
            np.subtract(rows, self._middle[:size], out=out)
            np.multiply(out, self._factor[:size], out=out)
        np.clip(out, -STEPS, STEPS, out=out)
        return np.trunc(out, out=out)


def class_totals(
    rows: Floats, class_indices: NDArray[np.int64] | None, num_classes: int, fixed_point: FixedPoint
) -> NDArray[np.int64]:
    """Return the exact totals of each class: count, sums and centred squares, in steps.

    Args:
        rows: The private rows. A row with a missing value is dropped.
        class_indices: Class of each row; -1 drops the row. None puts every row into class 0.
        num_classes: Number of classes.
        fixed_point: Converts the rows.
    """
    d = rows.shape[1]
    sums, squares = (np.zeros((num_classes, d), dtype=np.int64) for _ in range(2))
    counts = np.zeros(num_classes, dtype=np.int64)
    for part in fixed_point.blocks(len(rows)):
        block = fixed_point(rows[part])
        members = _members(None if class_indices is None else class_indices[part], len(block), num_classes)
        block_sums = members @ block
        if np.isnan(block_sums).any():
            members, block = _without_missing(members, block)
            block_sums = members @ block
        # Integers up to 2^16, and squares up to 2^32: floating-point sums over 2^20 rows are exact, in any order.
        sums += block_sums.astype(np.int64)
        np.multiply(block, block, out=block)
        squares += (members @ block).astype(np.int64)
        counts += members.sum(axis=1).astype(np.int64)
    # One row changes a sum of (x^2 - 1/2) by at most STEPS / 2 steps. That is an integer, so the floor respects it.
    centred = (squares - (UNIT // 2) * counts[:, None]) // STEPS
    return np.concatenate([counts[:, None] * STEPS, sums, centred], axis=1)


def _members(class_indices: NDArray[np.int64] | None, count: int, num_classes: int) -> Floats:
    """Return a 0/1 indicator of the rows of each class."""
    if class_indices is None:
        return np.ones((1, count))
    members: Floats = np.equal(class_indices, np.arange(num_classes)[:, None]).astype(np.float64)
    return members


def _without_missing(members: Floats, block: Floats) -> tuple[Floats, Floats]:
    """Set rows with a missing value to 0 and take them out of every class."""
    missing = np.asarray(np.isnan(block).any(axis=1))
    return members * ~missing, np.where(missing[:, None], 0.0, block)


def noisy_moments(totals: NDArray[np.int64], plan: NoisePlan, source: RandomSource) -> ClassMoments:
    """Release the totals and derive counts, means and variances from them."""
    released = plan.release(totals, source) / STEPS
    scales = plan.scales / STEPS
    d = (released.shape[1] - 1) // 2
    counts = np.maximum(released[:, 0], 0.0)
    # Dividing by no less than the noise of a sum shrinks the mean of a tiny class towards the middle of the bounds.
    sizes = np.maximum(counts, max(float(scales[1]), 1.0))[:, None]
    means = np.clip(released[:, 1 : 1 + d] / sizes, -1.0, 1.0)
    # The count restores the half that was subtracted: E x^2 = E (x^2 - 1/2) + 1/2.
    second_moments = np.clip(released[:, 1 + d :] / sizes + 0.5, 0.0, 1.0)
    # A variance below its own noise cannot be distinguished from 0.
    floor = np.minimum(scales[-1] / sizes, 1 / 3)
    return ClassMoments(counts, means, np.maximum(second_moments - means**2, np.maximum(floor, 1e-9)))
