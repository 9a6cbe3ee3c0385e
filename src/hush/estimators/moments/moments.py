r"""Count, sums and squares of bounded features, within public classes: one release.

Features are in [-1, 1], in steps of 2^-16, rounded towards zero. Squares are taken less one half, which halves what one
row does to them; the count brings them back. A row is in one class, so classes share the noise (parallel composition,
add-or-remove).
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
from hush.statistics import Block, NoisePlan, plan_noise


@dataclass(frozen=True, slots=True)
class ClassMoments:
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
    return plan_noise(moments_blocks(num_features), groups_per_unit=1, epsilon=epsilon, delta=delta)


class Steps:
    """Rows in steps of their bounds, block by block, in one buffer that is used again."""

    def __init__(self, lower: Floats, upper: Floats, most_rows: int) -> None:
        size = max(min(block_rows(len(lower)), most_rows), 1)
        middle, half = lower + (upper - lower) / 2, (upper - lower) / 2
        # Repeated for each row of a block: NumPy is slow where the short side of two arrays differs.
        self._middle, self._factor = np.tile(middle, (size, 1)), np.tile(STEPS / half, (size, 1))
        self._buffer = np.empty((size, len(lower)))

    def blocks(self, count: int) -> Iterator[slice]:
        """Return the parts that so many rows are worked on in."""
        check_rows(count)
        size = len(self._buffer)
        return (slice(start, min(start + size, count)) for start in range(0, count, size))

    def __call__(self, rows: Floats) -> Floats:
        """Return rows clamped to the bounds, which become -STEPS and STEPS; what is missing stays NaN."""
        out, size = self._buffer[: len(rows)], len(rows)
        with np.errstate(all="ignore"):
            np.subtract(rows, self._middle[:size], out=out)
            np.multiply(out, self._factor[:size], out=out)
        np.clip(out, -STEPS, STEPS, out=out)
        return np.trunc(out, out=out)


def class_totals(rows: Floats, places: NDArray[np.int64] | None, num_classes: int, steps: Steps) -> NDArray[np.int64]:
    """Return exact totals of each class: count, sums and squares, in steps.

    Rows of place -1, and those with something missing, are left out; all others are in class 0 without places.
    """
    d = rows.shape[1]
    sums, squares = (np.zeros((num_classes, d), dtype=np.int64) for _ in range(2))
    counts = np.zeros(num_classes, dtype=np.int64)
    for part in steps.blocks(len(rows)):
        some = steps(rows[part])
        members = _members(None if places is None else places[part], len(some), num_classes)
        added = members @ some
        if np.isnan(added).any():
            members, some = _complete(members, some)
            added = members @ some
        # Whole numbers of at most 2^16, and squares of at most 2^32: sums over 2^20 rows are exact, in any order.
        sums += added.astype(np.int64)
        np.multiply(some, some, out=some)
        squares += (members @ some).astype(np.int64)
        counts += members.sum(axis=1).astype(np.int64)
    # One row moves its square less one half by STEPS / 2 steps at most: a whole number, which a floor does not exceed.
    centred = (squares - (UNIT // 2) * counts[:, None]) // STEPS
    return np.concatenate([counts[:, None] * STEPS, sums, centred], axis=1)


def _members(places: NDArray[np.int64] | None, count: int, num_classes: int) -> Floats:
    """Return a row of 0 and 1 for each class."""
    if places is None:
        return np.ones((1, count))
    members: Floats = np.equal(places, np.arange(num_classes)[:, None]).astype(np.float64)
    return members


def _complete(members: Floats, some: Floats) -> tuple[Floats, Floats]:
    """Leave out rows with something missing: they are 0, and in no class."""
    missing = np.asarray(np.isnan(some).any(axis=1))
    return members * ~missing, np.where(missing[:, None], 0.0, some)


def noisy_moments(totals: NDArray[np.int64], plan: NoisePlan, source: RandomSource) -> ClassMoments:
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
    return ClassMoments(counts, means, np.maximum(seconds - means**2, np.maximum(floor, 1e-9)))
