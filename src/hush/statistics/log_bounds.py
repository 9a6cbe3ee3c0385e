r"""Approximate bounds: the range that most numbers are in, from a noisy histogram of their magnitudes.

Bins of each sign are [0, scale], (scale, scale * base], (scale * base, scale * base^2], ... A bin counts as occupied if
its noisy count exceeds t = -b ln(2 - 2 c^(1 / (2 B - 1))), with b the scale of the noise and B bins of each sign: all
2 B - 1 bins that are empty stay below it with probability c. If no bin passes, c is lowered: the same noisy counts are
looked at again, which costs nothing.

References: Wilson et al. 2020 (its threshold is for independent bins; ours is for all but one of them being empty).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hush.accounting import Event
from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count, check_positive, check_probability
from hush.guarantee import Guarantee
from hush.randomness import RandomSource
from hush.statistics.columns import as_floats
from hush.statistics.noise.charged import released
from hush.statistics.noise.release import Block, LaplaceNoise, NoiseKind
from hush.statistics.question import question

_SUCCESS = (1 - 1e-9, 1 - 1e-8, 1 - 1e-7, 1 - 1e-6)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproximateBounds:
    """Bounds of a column.

    Attributes:
        bounds: (lower, upper), ends of bins; None if no bin stands out of the noise: there are too few units.
        noise_scale: Of the noise on each bin.
        guarantee: What they give away.
        event: The same for accountants.
    """

    bounds: tuple[float, float] | None
    noise_scale: float
    guarantee: Guarantee
    event: Event


def bounds_threshold(noise_scale: float, num_bins: int, success: float, *, noise: NoiseKind | None = None) -> float:
    """Return what, with probability ``success``, the noise of all but one of 2 ``num_bins`` bins stays below.

    >>> round(bounds_threshold(1.0, 4, 0.9), 2)
    3.51
    """
    each = check_probability("success", success) ** (1 / (2 * check_count("num_bins", num_bins) - 1))
    above = -math.expm1(math.log(success) / (2 * num_bins - 1)) if success < 1 else 0.0
    if not 0 < each < 1:
        raise InvalidArgument("success", success, "a number in (0, 1)")
    if noise is None or isinstance(noise, LaplaceNoise):
        return -noise_scale * math.log(2 * above)
    return -noise_scale * float(ndtri(above))


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
    """Return bounds that most numbers are within, to clamp to when nothing better is known.

    Args:
        values: Numbers; NaN is left out, infinity is in the last bin.
        units: As for `count`.
        rows_per_unit: How many rows of a user count.
        scale: The smallest magnitude that is told apart from 0. Public, as the bins.
        base: The quotient of neighbouring bins' ends.
        num_bins: How many bins there are of each sign.
        success: With which probability no empty bin passes; None for 1 - 1e-9, then less, down to 1 - 1e-6.
        epsilon: What they cost.
        delta: For Gaussian noise.
        noise: As for `count`.
        source: As for `count`.
        budget: As for `count`.

    Guarantee:
        (epsilon, delta)-differential privacy for all that one user has.

    Assumes:
        Every person has one id (the caller's duty). Bins are public (the caller's duty).

    References:
        Wilson et al. 2020.
    """
    check_positive("scale", scale)
    if not (check_positive("base", base) > 1 and check_count("num_bins", num_bins) <= 5000):
        raise InvalidArgument("base", base, "more than 1, and at most 5000 bins")
    tries = _SUCCESS if success is None else (check_probability("success", success),)
    asked = question(
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
    numbers, ends = as_floats("values", values), _ends(scale, base, num_bins)
    kept = asked.bound(~np.isnan(numbers))
    places = np.searchsorted(ends[:-1], np.abs(numbers[kept.rows]))  # bin i ends at, and includes, its upper end
    places = np.where(numbers[kept.rows] < 0, num_bins - 1 - places, num_bins + places)
    most = asked.limits.rows_per_unit
    totals = np.bincount(places, minlength=2 * num_bins).astype(np.int64)[None, :]
    answer = asked.answer(totals, kept.num_users(), (Block(columns=2 * num_bins, l1=most, l2=most, whole=True),))
    found = None
    for chance in tries:
        limit = bounds_threshold(answer.plan.block_scales[0], num_bins, chance, noise=answer.plan.noise)
        # Rounding noise to integers adds half a step at most.
        found = found or _between(answer.totals[0] > limit + 0.5, ends)
    return ApproximateBounds(
        bounds=found, noise_scale=answer.plan.block_scales[0], guarantee=answer.guarantee, event=answer.event
    )


def _ends(scale: float, base: float, num_bins: int) -> NDArray[np.float64]:
    """Return the upper ends of the bins of one sign."""
    with np.errstate(over="ignore"):
        ends = scale * base ** np.arange(num_bins, dtype=np.float64)
    if not bool(np.isfinite(ends).all()):
        raise InvalidArgument("num_bins", num_bins, "ends within the range of floats", "Take fewer bins")
    return ends


def _between(occupied: NDArray[np.bool_], ends: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the lower end of the first occupied bin, and the upper end of the last one."""
    places = np.flatnonzero(occupied)
    if not places.size:
        return None
    edges = np.concatenate([-ends[::-1], [0.0], ends])
    return float(edges[places[0]]), float(edges[places[-1] + 1])
