"""Bounds that are learned on a share of the budget, where a statistic or an estimator needs bounds that nobody knows.

    `LearnBounds`       what you pass instead of bounds
    `bins_plan`         the noise for one column's histogram of magnitudes
    `learned_bounds`    the bounds of all columns of a matrix, from noisy counts
    `resolve_bounds`    the bounds of a statistic's column, whose units may have several rows

The bins and the rule are those of `hush.statistics.approximate_bounds`. What follows is clamped to the learned bounds,
and is charged together with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hush.errors import InvalidArgument, check_positive
from hush.numerics import check_bounds, round_down
from hush.randomness import RandomSource
from hush.statistics.columns import MISSING, Floats
from hush.statistics.limits import ContributionLimits
from hush.statistics.log_histogram import LogHistogram, OccupiedBins
from hush.statistics.noise.release import CalibratedPlan, LaplaceNoise, NoisePlan, plan_noise
from hush.statistics.request import LearnedBounds, StatisticRequest

BINS = LogHistogram()  # of each sign, they end at 2^-20, 2^-19, ..., 2^41


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnBounds:
    """Learn bounds, or a clip norm, from the data with a share of the privacy budget.

    Pass it instead of a public number if you do not know one. As ``bounds`` of a statistic (`sum`, `mean`, `variance`,
    `std`, `describe`) or of a scaler, it learns bounds from noisy counts on a logarithmic grid: ends of bins, which are
    powers of two. As ``data_norm`` of a linear model, it sets the clip norm to about 2^(1/4) times the median norm of
    the rows. The exponential mechanism selects the median among the powers of 2^(1/4) from 1e-6 to 1e12, and longer
    rows are scaled down, as with a public norm. You need about 20 / (share * epsilon) rows.

    Attributes:
        share: Fraction of epsilon to spend on learning, in (0, 1).

    Guarantee:
        Learning is (share * epsilon)-differentially private when one unit is added or removed, with delta = 0. The
        guarantee of the statistic, or of the estimator, includes this cost.

    Assumes:
        Nothing about the data.

    References:
        Wilson et al. 2020 (bounds from noisy counts); Smith 2011 (a quantile by the exponential mechanism).

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> from hush.statistics import mean
    >>> ages = np.arange(20_000) % 60 + 20
    >>> result = mean(ages, units=range(20_000), bounds=LearnBounds(), epsilon=1.0, source=TestSource(1))
    >>> result.bounds, round(result.value), result.guarantee.epsilon
    ((16.0, 128.0), 50, 1.0)
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        """Check that the share is a fraction."""
        if not check_positive("share", self.share) < 1:
            raise InvalidArgument(
                "share", self.share, "a number in (0, 1)", "The rest of epsilon pays for the result itself"
            )


def bins_plan(epsilon: float, rows_per_unit: int = 1) -> CalibratedPlan:
    """Return the noise for the bins of one column, if a unit has at most ``rows_per_unit`` rows, each in one bin."""
    return plan_noise((BINS.block(rows_per_unit),), groups_per_unit=1, epsilon=epsilon, noise=LaplaceNoise())


def learned_bounds(rows: Floats, plan: NoisePlan, source: RandomSource) -> Floats:
    """Return lower and upper bounds, one row per column of the data; NaN where no bin rises above the noise.

    Args:
        rows: The data, with one column per feature. NaN is in no bin.
        plan: The noise for one column, from `bins_plan`.
        source: The source of the noise.

    Guarantee:
        The plan's, for each column.

    Assumes:
        A privacy unit has no more rows than the plan says (the caller's duty). A row is in one bin of each column
        (checked here).

    References:
        Wilson et al. 2020; `hush.statistics.approximate_bounds`.
    """
    return OccupiedBins.for_noise(BINS, plan).learn(plan.release(BINS.counts(rows), source))


def resolve_bounds(
    request: StatisticRequest, numbers: Floats, bounds: tuple[float, float] | LearnBounds
) -> tuple[StatisticRequest, tuple[float, float]]:
    """Return the request to release with, and the bounds to clamp to: public ones, or those learned for all groups.

    Args:
        request: The request for the statistic, with all of epsilon.
        numbers: The column. NaN is left out, and so are rows without a group.
        bounds: As the caller passed them.
    """
    if not isinstance(bounds, LearnBounds):
        return request, check_bounds(bounds)
    learning_epsilon = round_down(request.epsilon * bounds.share)
    # Over all groups together, a unit has as many rows here as it may have in one group.
    limits = ContributionLimits(rows_per_unit=request.limits.rows_per_unit)
    groups = np.where(request.groups >= 0, 0, MISSING)
    plan = bins_plan(learning_epsilon, limits.rows_per_unit)
    alone = replace(request, groups=groups, keys=None, private_keys=False, limits=limits)
    rows = alone.bound(~np.isnan(numbers)).rows
    lower, upper = learned_bounds(numbers[rows], plan, request.source)[0].tolist()
    learned = LearnedBounds(bounds=(lower, upper), event=plan.event, epsilon=request.epsilon)
    rest = replace(request, epsilon=round_down(request.epsilon - learning_epsilon), learned=learned)
    # Lost bounds give no values. The release happens all the same, so that its cost does not depend on the data.
    return rest, (lower, upper) if lower < upper else (-1.0, 1.0)
