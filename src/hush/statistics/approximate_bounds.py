"""Approximate bounds of one column, from a noisy histogram of its magnitudes (`hush.statistics.log_histogram`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.accounting import Event
from hush.accounting.budget import Budget
from hush.errors import check_probability
from hush.guarantee import Guarantee
from hush.randomness import RandomSource
from hush.statistics.columns import as_floats
from hush.statistics.log_histogram import SUCCESSES, LogHistogram, OccupiedBins
from hush.statistics.noise.charge import released
from hush.statistics.noise.release import NoiseKind
from hush.statistics.request import checked_request


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
    ``success``. The bounds are the lower end of the first occupied bin and the upper end of the last one.

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
