"""Bounds of all columns at once, from noisy counts of their magnitudes; as `hush.statistics.approximate_bounds`."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from hush.estimators.base.estimator import Floats
from hush.estimators.moments.gram import block_rows
from hush.randomness import RandomSource
from hush.statistics import Block, LaplaceNoise, NoisePlan, bounds_threshold, plan_noise

_LOWEST, _EACH = -20, 62  # bins of each sign end at 2^-20, 2^-19, .., 2^41; they are public
_EDGES = np.concatenate([-(2.0 ** np.arange(_LOWEST, _LOWEST + _EACH))[::-1], [0.0], 2.0 ** np.arange(_LOWEST, 42)])
_SUCCESS = (1 - 1e-9, 1 - 1e-8, 1 - 1e-7, 1 - 1e-6)
_MANTISSA, _BIAS = 52, 1023  # of a double


def bins_plan(epsilon: float) -> NoisePlan:
    """Return the noise for the bins of one column: each row is in one of them."""
    block = Block(columns=2 * _EACH, l1=1, l2=1.0, whole=True)
    return plan_noise((block,), groups_per_unit=1, epsilon=epsilon, noise=LaplaceNoise())


def learned_bounds(rows: Floats, plan: NoisePlan, source: RandomSource) -> tuple[Floats, Floats]:
    """Return the ends of the first and the last bin of each column that stand out; -1 and 1 where none does.

    Guarantee:
        The plan's, for each column.

    Assumes:
        One row is in one bin of each column (checked here); what is missing is in none.

    References:
        Wilson et al. 2020; `hush.statistics.approximate_bounds`, of which these are the bins, the noise and the limits.
    """
    noisy = plan.release(bin_counts(rows), source)
    lower, upper = np.full(len(noisy), -1.0), np.full(len(noisy), 1.0)
    left = np.ones(len(noisy), dtype=np.bool_)
    for chance in _SUCCESS:  # the same counts, looked at again: that costs nothing
        # Rounding noise to integers adds half a step at most.
        above = noisy > bounds_threshold(plan.block_scales[0], _EACH, chance) + 0.5
        found = left & above.any(axis=1)
        lower[found] = _EDGES[above.argmax(axis=1)][found]
        upper[found] = _EDGES[2 * _EACH - above[:, ::-1].argmax(axis=1)][found]
        left &= ~found
    if left.any():  # noisy counts say so: whoever sees the bounds sees it
        warnings.warn(
            f"the bounds of {left.sum()} of {len(left)} features are lost in noise, and taken to be -1 and 1: "
            "state them, or take a larger epsilon or share",
            stacklevel=4,
        )
    return lower, upper


def bin_counts(rows: Floats) -> NDArray[np.int64]:
    """Return how many values of each column are in each bin, negative ones first."""
    width = rows.shape[1]
    counts = np.zeros(width * 2 * _EACH, dtype=np.int64)
    first = np.arange(width) * 2 * _EACH
    for start in range(0, len(rows), block_rows(width)):
        some = rows[start : start + block_rows(width)]
        # A double's leading bits are its exponent: one less than a power of two has that of the bin below.
        places = (np.abs(some).view(np.int64) - 1) >> _MANTISSA
        np.clip(places - (_BIAS + _LOWEST - 1), 0, _EACH - 1, out=places)
        np.copyto(places, -1 - places, where=some < 0)
        places += first + _EACH
        counts += np.bincount(places[~np.isnan(some)], minlength=counts.size)
    return counts.reshape(width, 2 * _EACH)
