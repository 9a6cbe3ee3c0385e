"""Approximate bounds of columns, from noisy histograms of their magnitudes (`hush.statistics.log_histogram`).

    `approximate_bounds`  the bounds of one column, as a release of their own
    `LearnBounds`         what you pass instead of bounds: a statistic or an estimator learns them on a share of epsilon
    `bins_plan`           the noise for one column's histogram
    `WidenedBins`         the rule from noisy counts to bounds that statistics and scalers use
    `learned_bounds`      the bounds of all columns of a matrix
    `resolve_bounds`      the bounds of a statistic's column, whose units may have several rows

What follows learned bounds is clamped to them, and is charged together with them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import Event
from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_positive, check_probability
from hush.guarantee import Guarantee
from hush.numerics import check_bounds, round_down
from hush.randomness import RandomSource
from hush.statistics.columns import MISSING, Floats, as_floats
from hush.statistics.limits import ContributionLimits
from hush.statistics.log_histogram import (
    SUCCESSES,
    BoundsRule,
    LogHistogram,
    OccupiedBins,
    occupied_range,
    zero_if_near,
)
from hush.statistics.noise.charge import released
from hush.statistics.noise.release import CalibratedPlan, LaplaceNoise, NoiseKind, NoisePlan, plan_noise
from hush.statistics.request import ColumnBounds, StatisticRequest, checked_request

BINS = LogHistogram()  # of each sign, they end at 2^-20, 2^-19, ..., 2^41
_AROUND = 8  # magnitudes above and below the largest bin that stands out, in which others are looked for
_WIDER = (
    0.005  # the chance that noise alone makes bounds twice as wide, for each sign; 4 times as wide: a quarter of it
)
_INNER = 0.002  # the chance that noise alone adds a bin that makes bounds at most twice as wide


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproximateBounds:
    """Bounds of a column; the result of `approximate_bounds`.

    >>> from hush.randomness import TestSource
    >>> result = approximate_bounds([20.0] * 500, units=range(500), epsilon=1.0, source=TestSource(1))
    >>> result.bounds
    (16.0, 32.0)

    Attributes:
        bounds: (lower, upper), which are ends of bins. None if no bin rises above the noise because there are too few
            units.
        noise_scale: The scale of the noise on each bin.
        guarantee: The guarantee of the release.
        event: The same for accountants.
    """

    bounds: tuple[float, float] | None
    noise_scale: float
    guarantee: Guarantee
    event: Event


@released
def approximate_bounds(
    values: Any,
    *,
    units: Any,
    rows_per_unit: int = 1,
    scale: float = 2.0**-20,
    base: float = 2.0,
    num_bins: int = 62,
    success: float | None = None,
    epsilon: float,
    delta: float = 0.0,
    noise: NoiseKind | None = None,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> ApproximateBounds:
    """Return bounds that contain most values. Clamp to them if you have no public bounds.

    A bin counts as occupied if its noisy count exceeds a threshold that all empty bins stay below with probability
    ``success``. The bounds are the lower end of the first occupied bin and the upper end of the last one. Approximate
    bounds leave out values in bins that are too empty to be seen through the noise.

    Args:
        values: The numbers. NaN is left out, and infinity is in the last bin.
        units: As for `count`.
        rows_per_unit: How many rows of a unit count.
        scale: The smallest magnitude that is distinguished from 0. It is public, and so are the bins.
        base: The ratio of the ends of neighbouring bins.
        num_bins: The number of bins of each sign.
        success: The probability with which no empty bin passes. With None, 1 - 1e-9 is tried first, and smaller values,
            down to 1 - 1e-6, if no bin passes.
        epsilon: The budget of the release.
        delta: The delta for Gaussian noise.
        noise: As for `count`.
        source: As for `count`.
        budget: As for `count`.

    Guarantee:
        (epsilon, delta)-differential privacy for all rows of one unit.

    Assumes:
        Each person has exactly one id (the caller's duty). Bins are public (the caller's duty).

    References:
        Wilson et al. 2020.
    """
    histogram = LogHistogram(scale=scale, base=base, num_bins=num_bins)
    successes = SUCCESSES if success is None else (check_probability("success", success),)
    request = checked_request(
        values,
        units=units,
        groups=None,
        keys=None,
        rows_per_unit=rows_per_unit,
        groups_per_unit=1,
        epsilon=epsilon,
        delta=delta,
        noise=noise,
        selection=None,
        confidence=0.95,
        source=source,
    )
    numbers = as_floats("values", values)
    contributions = request.bound(~np.isnan(numbers))
    totals = histogram.counts(numbers[contributions.rows])
    block = histogram.block(request.limits.rows_per_unit)
    answer = request.answer(totals, contributions.units_per_group(), (block,))
    (bounds,) = OccupiedBins.for_noise(histogram, answer.plan, successes).learn(answer.totals).tolist()
    return ApproximateBounds(
        bounds=None if np.isnan(bounds[0]) else (bounds[0], bounds[1]),
        noise_scale=answer.plan.block_scales[0],
        guarantee=answer.guarantee,
        event=answer.event,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnBounds:
    """Learn bounds, or a clip norm, from the data with a share of the privacy budget.

    Pass it instead of a public number if you do not know one. As ``bounds`` of a statistic (`sum`, `mean`, `variance`,
    `std`, `describe`) or of a scaler, it learns bounds from noisy counts on a logarithmic grid: ends of bins, which are
    powers of two, or 0. Bounds come out if one bin has about 25 / (share * epsilon) rows: at epsilon 1 and a share of a
    tenth, 250 rows between two neighbouring powers of two. The bins around it are included from about 5 / (share *
    epsilon) rows on (50), or more where they would make bounds many times as wide. Values in emptier bins are clamped,
    and the interval of the result is that of clamped values.

    As ``data_norm`` of a linear model, it sets the clip norm to about 2^(1/4) times the median norm of the rows. The
    exponential mechanism selects the median among the powers of 2^(1/4) from 1e-6 to 1e12, and longer rows are scaled
    down, as with a public norm. That takes about 20 / (share * epsilon) rows.

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
    ((16.0, 128.0), 49, 1.0)
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        """Check that the share is a fraction."""
        if not check_positive("share", self.share) < 1:
            raise InvalidArgument(
                "share", self.share, "a number in (0, 1)", "The rest of epsilon pays for the result itself"
            )


@dataclass(frozen=True, slots=True)
class WidenedBins(BoundsRule):
    """Bounds from a bin that stands out from the noise to the outermost bins around it that are likely to hold data.

    What noise must not do alone is make bounds of nothing: the first bin has to pass a threshold for all bins. Bins
    near it need less. One that is left out by mistake, with c rows, moves a sum by about c / 2 times its width. One
    that is included by mistake makes noise twice as large, which is the width over epsilon: at most a few rows' worth.

    >>> from hush.randomness import TestSource
    >>> counts = BINS.counts(np.linspace(20, 80, 1000)[:, None])
    >>> plan = bins_plan(0.1)
    >>> rules = OccupiedBins.for_noise(BINS, plan), WidenedBins.for_noise(BINS, plan)
    >>> [rule.learn(plan.release(counts, TestSource(2))).tolist() for rule in rules]
    [[[32.0, 128.0]], [[16.0, 128.0]]]

    Attributes:
        occupied: The rule that finds bins that stand out.
        noise_scale: The scale of the Laplace noise on each count.
    """

    occupied: OccupiedBins
    noise_scale: float

    @classmethod
    def for_noise(cls, histogram: LogHistogram, plan: NoisePlan) -> WidenedBins:
        """Return the rule for counts with this noise, of a histogram without a bin of zero."""
        return cls(OccupiedBins.for_noise(histogram, plan), plan.block_scales[0])

    def _levels(self) -> Sequence[float]:
        return self.occupied.thresholds

    def _bounds(self, noisy: NDArray[Any], level: float) -> Floats:
        return np.array([self._ends(counts, level) for counts in noisy])

    def _ends(self, counts: NDArray[Any], level: float) -> tuple[float, float]:
        certain = occupied_range(counts, level)
        if certain is None:
            return math.nan, math.nan
        likely = np.flatnonzero(counts > self._thresholds(certain))
        first, last = min(certain[0], *likely.tolist(), len(counts)), max(certain[1], *likely.tolist(), -1)
        edges = self.occupied.histogram.edges
        return zero_if_near(float(edges[first]), float(edges[last + 1]))

    def _thresholds(self, certain: tuple[int, int]) -> Floats:
        """Return the noisy count that each bin must exceed, given a range of bins that hold data."""
        num_bins = self.occupied.histogram.num_bins
        magnitudes = np.concatenate([np.arange(num_bins)[::-1], np.arange(num_bins)])
        further = magnitudes - magnitudes[list(certain)].max()  # each is a factor of two in the width
        chances = np.where(further > 0, _WIDER * 4.0 ** (1 - further), _INNER)
        # P(integer Laplace noise > k) <= e^(-k / b) / 2
        thresholds = np.ceil(-self.noise_scale * np.log(2 * chances))
        return np.where(np.abs(further) <= _AROUND, thresholds, np.inf)


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
    return WidenedBins.for_noise(BINS, plan).learn(plan.release(BINS.counts(rows), source))


def resolve_bounds(
    request: StatisticRequest, numbers: Floats, bounds: tuple[float, float] | LearnBounds | None
) -> tuple[StatisticRequest, tuple[float, float]]:
    """Return the request to release with, and the bounds to clamp to: public ones, or those learned for all groups.

    Args:
        request: The request for the statistic, with all of epsilon.
        numbers: The column. NaN is left out, and so are rows without a group.
        bounds: As the caller passed them.
    """
    if bounds is None:
        advice = "To learn the range on a share of epsilon, pass LearnBounds()"
        raise InvalidArgument("bounds", bounds, "a public range (lower, upper)", advice)
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
    learned = ColumnBounds(bounds=(lower, upper), event=plan.event, epsilon=request.epsilon)
    rest = replace(request, epsilon=round_down(request.epsilon - learning_epsilon), learned=learned)
    # Lost bounds give no values. The release happens all the same, so that its cost does not depend on the data.
    return rest, (lower, upper) if lower < upper else (-1.0, 1.0)
