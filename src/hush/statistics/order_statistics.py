"""Quantiles and medians.

Three methods. `TreeQuantile` releases a tree of noisy counts (`hush.statistics.noise.tree`): any number of quantiles,
with intervals and by group, for one charge. `ExponentialQuantile` and `SmoothQuantile` release a median alone, with
mechanisms of `hush.mechanisms`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import events
from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, Unsupported, check_fraction, check_instance
from hush.guarantee import Relation
from hush.mechanisms import ExponentialMechanism, SmoothCauchy, SmoothLaplace
from hush.numerics import check_bounds
from hush.randomness import RandomSource
from hush.statistics.bounding import Bounded
from hush.statistics.columns import Codes, Floats, as_floats
from hush.statistics.noise.charge import released
from hush.statistics.noise.estimate import Estimate
from hush.statistics.noise.quantiles import tree_quantiles
from hush.statistics.noise.release import NoiseKind
from hush.statistics.noise.selection import Selection
from hush.statistics.noise.tree import CELLS, cell_counts, cells_of, level_scales, tree_block, trees_of
from hush.statistics.request import Answer, StatisticRequest, check_ungrouped, checked_request


class MedianMethod:
    """A method of `median`: `tree`, `exponential` or `smooth`.

    >>> from hush.randomness import TestSource
    >>> settings = {"units": range(1000), "bounds": (0, 1024), "epsilon": 1.0, "source": TestSource(1)}
    >>> 450 < median(range(1000), **settings, method=MedianMethod.exponential()).value < 550
    True
    """

    @staticmethod
    def tree() -> MedianMethod:
        """Use a tree of noisy counts, with an interval, by group, and other quantiles at no extra charge."""
        return TreeQuantile()

    @staticmethod
    def exponential() -> MedianMethod:
        """Use the exponential mechanism on the tree's cells: the smallest error if epsilon is small.

        It gives no interval: ``low`` and ``high`` of the estimate are the bounds. Like `tree`, its guarantee is for
        units that are added or removed.
        """
        return ExponentialQuantile()

    @staticmethod
    def smooth() -> MedianMethod:
        """Add noise in proportion to the smooth sensitivity. It needs many units, whose number is public.

        Its guarantee is for units that are replaced (`Relation.REPLACE`), not added or removed, so it does not compose
        with guarantees of the other kind. It gives no interval: ``low`` and ``high`` of the estimate are the bounds.
        """
        return SmoothQuantile()


@dataclass(frozen=True, slots=True)
class TreeQuantile(MedianMethod):
    """The median from a tree of noisy counts: with an interval, by group, and other quantiles at no extra charge.

    >>> from hush.randomness import TestSource
    >>> result = median(range(1000), units=range(1000), bounds=(0, 1024), method=TreeQuantile(), epsilon=1.0,
    ...                 source=TestSource(1))
    >>> 0 < result.low < 500 < result.high < 1024
    True
    """


@dataclass(frozen=True, slots=True)
class ExponentialQuantile(MedianMethod):
    """The median by the exponential mechanism on the tree's cells: the smallest error if epsilon is small.

    It gives no interval: ``low`` and ``high`` of the estimate are the bounds. Like `TreeQuantile`, its guarantee is for
    units that are added or removed.

    >>> from hush.randomness import TestSource
    >>> result = median(range(1000), units=range(1000), bounds=(0, 1024), method=ExponentialQuantile(), epsilon=1.0,
    ...                 source=TestSource(1))
    >>> 450 < result.value < 550, result.low, result.high
    (True, 0.0, 1024.0)
    """


@dataclass(frozen=True, slots=True)
class SmoothQuantile(MedianMethod):
    """The median with noise in proportion to its smooth sensitivity. It needs many units, whose number is public.

    Its guarantee is for units that are replaced (`Relation.REPLACE`), not added or removed, so it does not compose with
    guarantees of the other kind. It gives no interval: ``low`` and ``high`` of the estimate are the bounds.

    >>> from hush.randomness import TestSource
    >>> result = median(range(1000), units=range(1000), bounds=(0, 1024), method=SmoothQuantile(), epsilon=1.0,
    ...                 source=TestSource(1))
    >>> 400 < result.value < 600, result.guarantee.relation.value
    (True, 'replace')
    """


@released
def quantiles(
    values: Any,
    levels: Sequence[float],
    *,
    units: Any,
    bounds: tuple[float, float],
    rows_per_unit: int = 1,
    epsilon: float,
    delta: float = 0.0,
    groups: Any = None,
    keys: Any = None,
    groups_per_unit: int = 1,
    noise: NoiseKind | None = None,
    selection: Selection | None = None,
    confidence: float = 0.95,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> Estimate:
    """Return any number of quantiles for one charge.

    The value has an entry for each level; with groups, it has a row of them for each group. The resolution is the width
    of the bounds divided by 65,536. Rows are bounded as for `mean`.

    >>> from hush.randomness import TestSource
    >>> result = quantiles(range(1000), [0.25, 0.75], units=range(1000), bounds=(0, 1024), epsilon=2.0,
    ...                    source=TestSource(1))
    >>> bool(np.abs(result.value - [250, 750]).max() < 50)
    True

    Args:
        values: The numbers; NaN is left out.
        levels: Numbers in [0, 1]: 0.5 for the median.
        units: As for `count`, and so are all arguments below, except for ``bounds``.
        bounds: The range that each value is clamped to.
        rows_per_unit: How many rows of a unit count in a group.
        epsilon: The budget of the release.
        delta: The delta for Gaussian noise, and for revealing which groups exist.
        groups: A key for each row.
        keys: The public list of groups.
        groups_per_unit: In how many groups a unit counts.
        noise: The kind of noise.
        selection: How groups are selected if they are not public.
        confidence: The confidence of each interval.
        source: The source of randomness.
        budget: The budget to charge.

    Guarantee:
        (epsilon, delta)-differential privacy for all rows of one unit; delta = 0 for Laplace noise on public groups.

    Assumes:
        Each person has exactly one id (the caller's duty). Contributions are bounded (checked here).

    References:
        Hay et al. 2010; Wilson et al. 2020.
    """
    request = checked_request(
        values,
        units=units,
        groups=groups,
        keys=keys,
        rows_per_unit=rows_per_unit,
        groups_per_unit=groups_per_unit,
        epsilon=epsilon,
        delta=delta,
        noise=noise,
        selection=selection,
        confidence=confidence,
        source=source,
    )
    checked_levels = [check_fraction("levels", level) for level in levels]
    if not checked_levels:
        raise InvalidArgument("levels", levels, "at least one level")
    return _tree_quantiles(request, as_floats("values", values), check_bounds(bounds), checked_levels)


@released
def median(
    values: Any,
    *,
    units: Any,
    bounds: tuple[float, float],
    method: MedianMethod = TreeQuantile(),  # noqa: B008
    rows_per_unit: int = 1,
    epsilon: float,
    delta: float = 0.0,
    groups: Any = None,
    keys: Any = None,
    groups_per_unit: int = 1,
    noise: NoiseKind | None = None,
    selection: Selection | None = None,
    confidence: float = 0.95,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> Estimate:
    """Return the median, by one of three methods. All other arguments are those of `mean`.

    >>> from hush.randomness import TestSource
    >>> result = median(range(1000), units=range(1000), bounds=(0, 1024), epsilon=1.0, source=TestSource(1))
    >>> 450 < result.value < 550
    True

    Guarantee:
        (epsilon, delta)-differential privacy for all rows of one unit; for `MedianMethod.smooth`, under replacement.

    Assumes:
        Each person has exactly one id (the caller's duty). For `MedianMethod.smooth`, the number of units is public
        (the caller's duty).

    References:
        McSherry & Talwar 2007 (exponential mechanism); Nissim, Raskhodnikova & Smith 2007, Proposition 3.4 (smooth
        sensitivity); `quantiles`.
    """
    check_instance("method", method, MedianMethod, "Such as MedianMethod.tree()")
    request = checked_request(
        values,
        units=units,
        groups=groups,
        keys=keys,
        rows_per_unit=rows_per_unit,
        groups_per_unit=groups_per_unit,
        epsilon=epsilon,
        delta=delta,
        noise=noise,
        selection=selection,
        confidence=confidence,
        source=source,
    )
    limits, numbers = check_bounds(bounds), as_floats("values", values)
    if isinstance(method, TreeQuantile):
        result = _tree_quantiles(request, numbers, limits, [0.5])
        value, low, high = (part[..., 0] for part in (result.value, result.low, result.high))
        if result.keys is None:
            value, low, high = float(value), float(low), float(high)
        return replace(result, value=value, low=low, high=high)
    name = "MedianMethod.exponential" if isinstance(method, ExponentialQuantile) else "MedianMethod.smooth"
    check_ungrouped(request, name)
    if noise is not None:
        raise Unsupported(f"noise= with {name}, which has its own noise", "Leave noise= out")
    release = _exponential_median if isinstance(method, ExponentialQuantile) else _smooth_median
    return release(request, numbers, limits)


def _tree_quantiles(
    request: StatisticRequest, numbers: Floats, bounds: tuple[float, float], levels: list[float]
) -> Estimate:
    """Release a tree for each group, and read all quantiles from it."""
    contributions = request.bound(~np.isnan(numbers))
    plan = request.plan((tree_block(request.limits.rows_per_unit),))
    chosen, keys = request.select(plan, contributions.units_per_group())
    trees = trees_of(_cells_by_group(contributions, numbers, bounds, chosen), plan.noise, request.source)
    results = [tree_quantiles(trees, level, request.confidence, bounds) for level in levels]
    value, low, high = (np.column_stack(columns) for columns in zip(*results, strict=True))
    # Quantiles are read from the released trees, so any number of them costs what the trees cost.
    guarantee, event = plan.claim(request.source, unit=request.unit, method="a tree of counts")
    no_totals = np.empty((0, 0), dtype=np.int64)
    answer = Answer(no_totals, plan.noise, keys, request.confidence, guarantee, event)
    estimate = answer.estimate(value, low, high, level_scales(plan.noise)[1])
    if keys is None:  # without groups there is one tree, and the entries are the levels
        return replace(estimate, value=value[0], low=low[0], high=high[0])
    return estimate


def _cells_by_group(
    contributions: Bounded, numbers: Floats, bounds: tuple[float, float], groups: Codes
) -> list[NDArray[np.int64]]:
    """Return the cells of the kept rows of each of these groups."""
    cells = cells_of(numbers[contributions.rows], bounds)
    row_groups = contributions.row_groups
    order = np.argsort(row_groups, kind="stable")
    edges = np.searchsorted(row_groups[order], np.arange(contributions.num_groups + 1))
    return [cells[order[edges[group] : edges[group + 1]]] for group in groups.tolist()]


def _exponential_median(request: StatisticRequest, numbers: Floats, bounds: tuple[float, float]) -> Estimate:
    """Choose a cell by its distance in rank from the median. One more row changes that by at most one half."""
    contributions = request.bound(~np.isnan(numbers))
    counts = cell_counts(cells_of(numbers[contributions.rows], bounds)).astype(np.float64)
    ranks = np.cumsum(counts)
    half = ranks[-1] / 2
    # How many rows are on the wrong side of a cell, beyond half of them; 0 for the cell with the median.
    rank_errors = np.maximum(np.maximum(ranks - counts - half, half - ranks), 0.0)
    # One more row raises a rank by 0 or 1 and half the total by 1/2, so their difference moves by 1/2. A unit has up to
    # rows_per_unit rows.
    mechanism = ExponentialMechanism(epsilon=request.epsilon, sensitivity=request.limits.rows_per_unit / 2)
    cell = mechanism.release(-rank_errors, request.source).value
    lower, upper = bounds
    event = events.ExponentialMechanismEvent(request.epsilon)
    guarantee, qualified = request.claim(event, request.epsilon, 0.0, "exponential mechanism on bounded contributions")
    return Estimate(
        # The middle of the cell.
        value=lower + (cell + 0.5) / CELLS * (upper - lower),
        low=lower,
        high=upper,
        confidence=request.confidence,
        noise_scale=request.limits.rows_per_unit / request.epsilon,
        guarantee=guarantee,
        event=qualified,
    )


def _smooth_median(request: StatisticRequest, numbers: Floats, bounds: tuple[float, float]) -> Estimate:
    """Take one row of each unit. A missing value counts as the lower bound: the number of units stays as it is."""
    if request.limits.rows_per_unit != 1:
        raise InvalidArgument(
            "rows_per_unit", request.limits.rows_per_unit, "1", "SmoothQuantile uses one row per unit"
        )
    contributions = request.bound()
    settings: dict[str, Any] = {
        "epsilon": request.epsilon,
        "bounds": bounds,
        "relation": Relation.REPLACE,
        "unit": request.unit,
    }
    # Cauchy noise needs no delta; Laplace noise has lighter tails.
    mechanism: SmoothCauchy | SmoothLaplace = SmoothCauchy(**settings)
    if request.delta > 0:
        mechanism = SmoothLaplace(delta=request.delta, **settings)
    result = mechanism.median(numbers[contributions.rows], request.source)
    guarantee, _ = request.claim(mechanism.event, request.epsilon, request.delta, result.guarantee.method)
    assumptions = ("the number of units is public", *guarantee.assumptions)
    return Estimate(
        value=result.value,
        low=bounds[0],
        high=bounds[1],
        confidence=request.confidence,
        noise_scale=mechanism.factor,
        guarantee=replace(guarantee, relation=Relation.REPLACE, assumptions=assumptions),
        event=mechanism.qualified(assumptions),
    )
