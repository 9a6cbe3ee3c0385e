"""Quantiles and medians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import ComposedEvent, events
from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, Unsupported, check_fraction, check_instance
from hush.guarantee import Relation
from hush.mechanisms import ExponentialMechanism, SmoothCauchy, SmoothLaplace
from hush.mechanisms.smooth import check_bounds
from hush.randomness import RandomSource
from hush.statistics.bounding import Bounded
from hush.statistics.columns import as_floats
from hush.statistics.noise.charged import released
from hush.statistics.noise.estimate import Estimate
from hush.statistics.noise.release import LaplaceNoise, NoiseKind
from hush.statistics.noise.selection import Selection
from hush.statistics.noise.tree import CELLS, UNITS, cells_of, release_tree, tree_block
from hush.statistics.question import Answer, Question, question, ungrouped


@dataclass(frozen=True, slots=True)
class TreeQuantile:
    """The median from a tree of noisy counts: with an interval, by group, and other quantiles at no charge."""


@dataclass(frozen=True, slots=True)
class ExponentialQuantile:
    """The median by the exponential mechanism on the tree's cells: the smallest error where epsilon is small.

    It tells no interval: ``low`` and ``high`` of the estimate are the bounds. Its guarantee is for users who
    are added or removed, as that of `TreeQuantile`.
    """


@dataclass(frozen=True, slots=True)
class SmoothQuantile:
    """The median with noise in proportion to its smooth sensitivity: needs many units, whose number is public.

    Its guarantee is for users who are replaced (`Relation.REPLACE`), not added or removed: it is not to be added up
    with guarantees of the other kind. It tells no interval: ``low`` and ``high`` of the estimate are the bounds.
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
    """Return quantiles, as many as wanted for one charge.

    The value has an entry for each level; with groups, a row of them for each group. Precise to the width of the bounds
    over 65,536. Rows and arguments are those of `mean`; ``levels`` are numbers in [0, 1].

    Guarantee:
        (epsilon, delta)-differential privacy for all that one user has, delta = 0 for Laplace noise on public groups.

    Assumes:
        Every person has one id (the caller's duty). Contributions are bounded (checked here: done here).

    References:
        Hay et al. 2010; Wilson et al. 2020.
    """
    asked = question(
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
    wanted = [check_fraction("levels", level) for level in levels]
    if not wanted:
        raise InvalidArgument("levels", levels, "one level at least")
    return _from_trees(asked, as_floats("values", values), check_bounds(bounds), wanted)


@released
def median(
    values: Any,
    *,
    units: Any,
    bounds: tuple[float, float],
    method: TreeQuantile | ExponentialQuantile | SmoothQuantile = TreeQuantile(),  # noqa: B008
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
    """Return the median, by one of three methods; arguments are those of `mean`.

    >>> from hush.randomness import TestSource
    >>> found = median(range(1000), units=range(1000), bounds=(0, 1024), epsilon=1.0, source=TestSource(1))
    >>> 450 < found.value < 550
    True

    Guarantee:
        (epsilon, delta)-differential privacy for all that one user has; for `SmoothQuantile` under replacement.

    Assumes:
        Every person has one id (the caller's duty). For `SmoothQuantile` the number of units is public (the
        caller's duty).

    References:
        McSherry & Talwar 2007 (exponential mechanism); Nissim, Raskhodnikova & Smith 2007, Proposition 3.4 (smooth
        sensitivity); `quantiles`.
    """
    check_instance("method", method, (TreeQuantile, ExponentialQuantile, SmoothQuantile))
    asked = question(
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
        found = _from_trees(asked, numbers, limits, [0.5])
        value, low, high = (part[..., 0] for part in (found.value, found.low, found.high))
        if found.keys is None:
            value, low, high = float(value), float(low), float(high)
        return replace(found, value=value, low=low, high=high)
    ungrouped(asked, type(method).__name__)
    if noise is not None:
        raise Unsupported(f"noise for {type(method).__name__}: it has its own", "Leave noise out")
    chosen = _by_choice if isinstance(method, ExponentialQuantile) else _by_smooth_sensitivity
    return chosen(asked, numbers, limits)


def _from_trees(
    asked: Question, numbers: NDArray[np.float64], bounds: tuple[float, float], levels: list[float]
) -> Estimate:
    kept = asked.bound(~np.isnan(numbers))
    noise, selection = asked.plan((tree_block(asked.limits.rows_per_unit),))
    event, delta, keys = noise.event, noise.delta, asked.keys
    told = np.arange(asked.num_groups)
    if selection is not None:
        told = np.flatnonzero(selection.choose(kept.num_users(), asked.source))
        keys = tuple((keys or ())[place] for place in told)
        event, delta = ComposedEvent((event, selection.event)), asked.delta
    trees = [release_tree(cells, bounds, noise, asked.source) for cells in _cells_by_group(kept, numbers, bounds, told)]
    found = np.array([[tree.quantile(level, asked.confidence) for level in levels] for tree in trees])
    found = found.reshape(len(trees), len(levels), 3)
    name = f"{'Laplace' if isinstance(noise.noise, LaplaceNoise) else 'Gaussian'} noise on a tree of counts"
    answer = Answer(
        np.empty((0, 0), dtype=np.int64), noise, keys, asked.confidence, *asked.claim(event, asked.epsilon, delta, name)
    )
    estimate = answer.estimate(found[..., 0], found[..., 1], found[..., 2], noise.block_scales[0] / UNITS)
    if keys is None:
        return replace(estimate, value=found[0, :, 0], low=found[0, :, 1], high=found[0, :, 2])
    return estimate


def _cells_by_group(
    kept: Bounded, numbers: NDArray[np.float64], bounds: tuple[float, float], told: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    cells = cells_of(numbers[kept.rows], bounds)
    row_groups = np.repeat(kept.groups, np.diff(kept.starts, append=len(kept.rows)))
    order = np.argsort(row_groups, kind="stable")
    edges = np.searchsorted(row_groups[order], np.arange(kept.num_groups + 1))
    return [cells[order[edges[group] : edges[group + 1]]] for group in told.tolist()]


def _by_choice(asked: Question, numbers: NDArray[np.float64], bounds: tuple[float, float]) -> Estimate:
    """Choose a cell by how many rows are on the wrong side of it: a row more moves that by half at most."""
    kept = asked.bound(~np.isnan(numbers))
    counts = np.bincount(cells_of(numbers[kept.rows], bounds), minlength=CELLS).astype(np.float64)
    ranks = np.cumsum(counts)
    half = ranks[-1] / 2
    misses = np.maximum(np.maximum(ranks - counts - half, half - ranks), 0.0)
    mechanism = ExponentialMechanism(epsilon=asked.epsilon, sensitivity=asked.limits.rows_per_unit / 2)
    cell = mechanism.release(-misses, asked.source).value
    lower, upper = bounds
    event = events.ExponentialMechanismEvent(asked.epsilon)
    guarantee, qualified = asked.claim(event, asked.epsilon, 0.0, "exponential mechanism on bounded contributions")
    return Estimate(
        value=lower + (cell + 0.5) / CELLS * (upper - lower),
        low=lower,
        high=upper,
        confidence=asked.confidence,
        noise_scale=asked.limits.rows_per_unit / asked.epsilon,
        guarantee=guarantee,
        event=qualified,
    )


def _by_smooth_sensitivity(asked: Question, numbers: NDArray[np.float64], bounds: tuple[float, float]) -> Estimate:
    """Take one row of each user, a missing one as the lower bound: their number is public, and stays what it is."""
    if asked.limits.rows_per_unit != 1:
        raise InvalidArgument("rows_per_unit", asked.limits.rows_per_unit, "1", "One number of each user counts")
    kept = asked.bound()
    settings: dict[str, Any] = {
        "epsilon": asked.epsilon,
        "bounds": bounds,
        "relation": Relation.REPLACE,
        "unit": asked.unit,
    }
    mechanism: SmoothCauchy | SmoothLaplace = SmoothCauchy(**settings)
    if asked.delta > 0:
        mechanism = SmoothLaplace(delta=asked.delta, **settings)
    released = mechanism.median(numbers[kept.rows], asked.source)
    guarantee, _ = asked.claim(mechanism.event, asked.epsilon, asked.delta, released.guarantee.method)
    assumptions = ("the number of units is public", *guarantee.assumptions)
    return Estimate(
        value=released.value,
        low=bounds[0],
        high=bounds[1],
        confidence=asked.confidence,
        noise_scale=mechanism.factor,
        guarantee=replace(guarantee, relation=Relation.REPLACE, assumptions=assumptions),
        event=mechanism.qualified(assumptions),
    )
