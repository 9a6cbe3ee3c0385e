"""Bounds of all columns at once, learned from noisy counts of their magnitudes.

The bins, the counting and the rule are those of `hush.statistics.approximate_bounds`, for a matrix whose rows are the
privacy units.
"""

from __future__ import annotations

import warnings

import numpy as np

from hush.estimators.base.estimator import Floats
from hush.randomness import RandomSource
from hush.statistics import CalibratedPlan, LaplaceNoise, LogHistogram, NoisePlan, OccupiedBins, plan_noise

BINS = LogHistogram()  # of each sign, they end at 2^-20, 2^-19, ..., 2^41


def bins_plan(epsilon: float) -> CalibratedPlan:
    """Return the noise for the bins of one column. A row is in one bin, so the sensitivity is 1."""
    return plan_noise((BINS.block(),), groups_per_unit=1, epsilon=epsilon, noise=LaplaceNoise())


def learned_bounds(rows: Floats, plan: NoisePlan, source: RandomSource) -> tuple[Floats, Floats]:
    """Return lower and upper bounds of each column; -1 and 1 where no bin rises above the noise, with a warning.

    Args:
        rows: The data, with one column per feature. NaN is in no bin.
        plan: The noise for one column, from `bins_plan`.
        source: The source of the noise.

    Guarantee:
        The plan's, for each column.

    Assumes:
        A privacy unit has one row (the caller's duty). A row is in one bin of each column (checked here).

    References:
        Wilson et al. 2020; `hush.statistics.approximate_bounds`.
    """
    noisy = plan.release(BINS.counts(rows), source)
    bounds = OccupiedBins.for_noise(BINS, plan).learn(noisy)
    unknown = np.isnan(bounds[:, 0])
    if unknown.any():  # a function of the noisy counts, so the warning reveals no more than the bounds do
        warnings.warn(
            f"the bounds of {unknown.sum()} of {len(unknown)} features are lost in noise, and set to -1 and 1: "
            "declare them, or use a larger epsilon or share",
            stacklevel=4,
        )
    return np.where(unknown, -1.0, bounds[:, 0]), np.where(unknown, 1.0, bounds[:, 1])
