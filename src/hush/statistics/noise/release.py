r"""The noise layer: turns exact, bounded integer totals into noisy totals, with their noise scales and event.

This is the last step before anything is released. Any code that has totals of groups, and a bound on what one privacy
unit adds to them, can release them here, wherever the totals were computed: on arrays (`hush.statistics`), by a
database engine (`hush.sql`), or by an estimator.

Totals are columns of integers, with one row per group. A `Block` is a set of columns with a joint bound on what one
unit adds to them in one group; a unit is in at most ``groups_per_unit`` groups. Within one release,

- *Laplace* noise on a block has the scale ``groups_per_unit * l1 / (epsilon * share)``. The epsilons of the blocks add
  up to epsilon.
- *Gaussian* noise on a block has the standard deviation ``noise_multiplier * sqrt(groups_per_unit) * l2 /
  sqrt(share)``. Measured in units of their noise, the squared norms of the blocks add up to 1 / noise_multiplier^2, so
  that all blocks together are one Gaussian mechanism.

Counts get discrete Laplace noise. All other noise is the floor of a real random variable, sampled exactly, on a grid
that is refined where the noise is small. A total plus rounded noise is a function of the total plus the real variable,
so the mechanism's theorem applies unchanged. Data are rounded before they are clamped, so the sensitivity is an exact
integer, and rounding adds nothing to it.

References: Dwork, McSherry, Nissim & Smith 2006; Balle & Wang 2018; Ghosh, Roughgarden & Sundararajan 2009; Casacuberta
et al. 2022 (why totals are integers).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.accounting import ComposedEvent, Event, events, gaussian_multiplier
from hush.errors import InvalidArgument, check_count, check_delta, check_instance, check_positive
from hush.randomness import MAX_SCALE, RandomSource, discrete_laplace, floored_gaussian, floored_laplace
from hush.statistics.noise.tails import Tail, gaussian_tail, laplace_tail

_FINE_SCALE = 2.0**30  # from this scale on, rounding noise to integers changes nothing that matters
_GRID_BITS = 41  # below it, noise is drawn at a scale of 2^40 to 2^41 steps
_ROUND_UP = 1 + 2.0**-50  # covers the relative error of a few floating-point operations


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """Laplace noise, for pure epsilon. It is the better choice if a unit is in few groups.

    >>> from hush.randomness import TestSource
    >>> from hush.statistics import count
    >>> ages = [41, 37, 52]
    >>> count(ages, units=[1, 2, 3], epsilon=1.0, noise=LaplaceNoise(), source=TestSource(1)).guarantee.delta
    0.0
    """


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Gaussian noise, which needs a delta. It is the better choice if a unit is in many groups or columns.

    >>> from hush.randomness import TestSource
    >>> from hush.statistics import count
    >>> settings = {"epsilon": 1.0, "delta": 1e-6, "noise": GaussianNoise()}
    >>> count([41, 37, 52], units=[1, 2, 3], **settings, source=TestSource(1)).guarantee.delta
    1e-06
    """


NoiseKind = LaplaceNoise | GaussianNoise


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Columns of totals, with a joint bound on what one unit adds to them in one group.

    >>> Block(columns=2, l1=3, l2=3)  # a unit has at most 3 rows, and each row counts in one of two columns
    Block(columns=2, l1=3, l2=3, share=1.0, whole=False)

    Attributes:
        columns: The number of integer columns.
        l1: The L1 sensitivity for one group: an upper bound on the L1 norm, over the columns, of what one unit adds.
        l2: The L2 sensitivity for one group; at most l1.
        share: The block's part of the budget, relative to the other blocks.
        whole: Whether the columns are counts. They get discrete noise with the scale of a count.
    """

    columns: int
    l1: int
    l2: float
    share: float = 1.0
    whole: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_count("columns", self.columns)
        check_count("l1", self.l1)
        if not 0 < check_positive("l2", self.l2) <= self.l1:
            raise InvalidArgument("l2", self.l2, f"at most l1={self.l1}", "No L2 norm is above the L1 norm")
        check_positive("share", self.share)

    @classmethod
    def disjoint(cls, largest: int, *, columns: int = 1, whole: bool = False) -> Block:
        """Return a block to which one unit adds at most ``largest`` per group, over all columns together.

        That holds for a single column, and for several if the absolute values of a unit's contributions add up to at
        most ``largest``: bins of a histogram, or weights that sum to one per row. The L1 norm is then ``largest``, and
        so is the L2 norm in the worst case, where everything lands in one column.

        >>> Block.disjoint(2, whole=True)
        Block(columns=1, l1=2, l2=2, share=1.0, whole=True)
        """
        return cls(columns=columns, l1=largest, l2=largest, whole=whole)


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """The noise on totals, fixed before anyone looks at them.

    `plan_noise` makes one for a budget, and `plan_gaussian` one for a noise multiplier.

    >>> from hush.randomness import TestSource
    >>> plan = plan_noise((Block.disjoint(1, whole=True),), groups_per_unit=1, epsilon=2.0)
    >>> plan.kind, plan.event
    ('Laplace', DiscreteLaplaceEvent(scale=0.500..., sensitivity=1))
    >>> plan.release(np.array([[10], [20]]), TestSource(1)).shape
    (2, 1)

    Attributes:
        noise: The kind of noise.
        blocks: The blocks of columns, in the order of the columns.
        block_scales: For each block, the Laplace scale or the standard deviation, in units of the totals.
        event: The cost of releasing the totals.
    """

    noise: NoiseKind
    blocks: tuple[Block, ...]
    block_scales: tuple[float, ...]
    event: Event

    @property
    def kind(self) -> str:
        """The kind of noise, as a word for people: Laplace or Gaussian."""
        return "Laplace" if isinstance(self.noise, LaplaceNoise) else "Gaussian"

    @property
    def scales(self) -> NDArray[np.float64]:
        """The noise scale of each column."""
        return np.repeat(np.array(self.block_scales), [block.columns for block in self.blocks])

    @property
    def tail(self) -> Tail:
        """The tail of the noise at scale 1, for confidence intervals. Rounding to integers adds at most 0.5."""
        return laplace_tail if isinstance(self.noise, LaplaceNoise) else gaussian_tail

    def release(self, totals: NDArray[np.int64], source: RandomSource) -> NDArray[np.int64]:
        """Return the totals with noise.

        Args:
            totals: Integers of shape (groups, columns of all blocks).
            source: The source of the noise.
        """
        num_columns = sum(block.columns for block in self.blocks)
        if totals.dtype != np.int64 or totals.ndim != 2 or totals.shape[1] != num_columns:
            # The number of groups may be private, so the message leaves it out.
            raise InvalidArgument("totals.shape", ("any", *totals.shape[1:]), f"int64 rows of {num_columns} columns")
        noisy = totals.copy()
        start = 0
        for block, scale in zip(self.blocks, self.block_scales, strict=True):
            columns = noisy[:, start : start + block.columns]  # a view: adding to it changes ``noisy``
            columns += self._draw(block, scale, columns.size, source).reshape(columns.shape)
            start += block.columns
        return noisy

    def _draw(self, block: Block, scale: float, size: int, source: RandomSource) -> NDArray[np.int64]:
        is_laplace = isinstance(self.noise, LaplaceNoise)
        if is_laplace and block.whole:
            return discrete_laplace(source, scale, size)
        sampler = floored_laplace if is_laplace else floored_gaussian
        shift = 0 if scale >= _FINE_SCALE else _GRID_BITS - math.frexp(scale)[1]
        noise = sampler(source, math.ldexp(scale, shift), size)
        # To the nearest integer: floor((total * 2^shift + noise + half) / 2^shift), a function of total + real noise.
        return (noise + (1 << shift - 1)) >> shift if shift else noise


@dataclass(frozen=True, slots=True)
class CalibratedPlan(NoisePlan):
    """The noise on totals for a given budget; `plan_noise` makes one.

    Attributes:
        epsilon: The epsilon that the plan was made for.
        delta: The delta that the plan was made for; 0 for Laplace noise.
    """

    epsilon: float
    delta: float


def plan_noise(
    blocks: tuple[Block, ...],
    *,
    groups_per_unit: int,
    epsilon: float,
    delta: float = 0.0,
    noise: NoiseKind | None = None,
) -> CalibratedPlan:
    """Return the noise for blocks of totals, calibrated to epsilon and delta.

    >>> plan = plan_noise((Block(columns=1, l1=1, l2=1, whole=True),), groups_per_unit=1, epsilon=0.5)
    >>> plan.noise, plan.block_scales[0] >= 2
    (LaplaceNoise(), True)

    Args:
        blocks: The columns that will be released together.
        groups_per_unit: In how many groups one unit can be.
        epsilon: The budget of all blocks together.
        delta: The delta for Gaussian noise.
        noise: The kind of noise; None for the kind with the smaller mean squared error.

    Guarantee:
        Totals released by the plan are (epsilon, delta)-differentially private, with delta = 0 for Laplace noise.

    Assumes:
        One unit adds no more to the totals than the blocks say, in at most ``groups_per_unit`` groups (the caller's
        duty; `hush.statistics` and `hush.sql` bound contributions themselves).

    References:
        Dwork, McSherry, Nissim & Smith 2006 (Laplace); Balle & Wang 2018 (calibration of Gaussian noise).
    """
    check_positive("epsilon", epsilon)
    check_delta("delta", delta)
    check_count("groups_per_unit", groups_per_unit)
    candidates = []
    if noise is None or isinstance(noise, LaplaceNoise):
        candidates.append(_laplace_plan(blocks, groups_per_unit, epsilon))
    if isinstance(noise, GaussianNoise) or (noise is None and delta > 0):
        candidates.append(_gaussian_plan(blocks, groups_per_unit, epsilon, delta))
    if not candidates:
        check_instance("noise", noise, (LaplaceNoise, GaussianNoise), "Or None for the kind with the smaller error")
    return min(candidates, key=_log_error)


def plan_gaussian(blocks: tuple[Block, ...], *, groups_per_unit: int, noise_multiplier: float) -> NoisePlan:
    """Return the Gaussian noise for blocks of totals, with a given noise multiplier.

    >>> plan = plan_gaussian((Block.disjoint(1),), groups_per_unit=4, noise_multiplier=3.0)
    >>> round(plan.block_scales[0], 6), plan.event
    (6.0, GaussianEvent(noise_multiplier=3.0))

    Args:
        blocks: The columns that will be released together.
        groups_per_unit: In how many groups one unit can be.
        noise_multiplier: The noise, relative to everything that one unit contributes.

    Guarantee:
        Totals released by the plan cost `GaussianEvent(noise_multiplier)`.

    Assumes:
        As `plan_noise`.

    References:
        Dong, Roth & Su 2022 (the Gaussian mechanism), Corollary 2 (blocks compose).
    """
    check_count("groups_per_unit", groups_per_unit)
    event = events.GaussianEvent(noise_multiplier)  # refuses a multiplier that is not positive
    # A unit's L2 norm over all groups is at most sqrt(groups_per_unit) times that over one group. In units of their
    # noise, the squared norms of the blocks add up to sum_i share_i / noise_multiplier^2 <= 1 / noise_multiplier^2.
    scales = tuple(
        _checked_scale(noise_multiplier * math.sqrt(groups_per_unit / share) * block.l2 * _ROUND_UP)
        for block, share in zip(blocks, _shares(blocks), strict=True)
    )
    return NoisePlan(GaussianNoise(), blocks, scales, event)


def _log_error(plan: NoisePlan) -> float:
    """Return the logarithm of the product of the blocks' mean squared errors; their units differ, so no sum would do.

    A block counts by its share, not by its columns. The 69,905 nodes of a quantile tree would outvote any count.
    """
    factor = 2.0 if isinstance(plan.noise, LaplaceNoise) else 1.0  # a Laplace variable has the variance 2 scale^2
    return sum(
        block.share * math.log(factor * scale**2) for block, scale in zip(plan.blocks, plan.block_scales, strict=True)
    )


def _shares(blocks: tuple[Block, ...]) -> list[float]:
    """Return each block's fraction of the budget. They add up to a little less than one, to be safe from rounding."""
    total = sum(block.share for block in blocks)
    return [block.share / total / _ROUND_UP for block in blocks]


def _laplace_plan(blocks: tuple[Block, ...], groups_per_unit: int, epsilon: float) -> CalibratedPlan:
    scales, block_events = [], []
    for block, share in zip(blocks, _shares(blocks), strict=True):
        # Over all of its groups, a unit's L1 norm is at most groups_per_unit times that over one group. Each block has
        # its share of epsilon, and the shares add up to one (Dwork, McSherry, Nissim & Smith 2006, Proposition 1).
        sensitivity = groups_per_unit * block.l1
        scale = _checked_scale(sensitivity / (epsilon * share) * _ROUND_UP)  # never too small by a rounding error
        scales.append(scale)
        block_events.append(
            # Discrete noise has an event of its own; the floor of real noise costs what real noise costs.
            events.DiscreteLaplaceEvent(scale, sensitivity)
            if block.whole
            else events.LaplaceEvent(scale / sensitivity / _ROUND_UP)
        )
    event: Event = block_events[0] if len(block_events) == 1 else ComposedEvent(tuple(block_events))
    return CalibratedPlan(LaplaceNoise(), blocks, tuple(scales), event, float(epsilon), 0.0)


def _gaussian_plan(blocks: tuple[Block, ...], groups_per_unit: int, epsilon: float, delta: float) -> CalibratedPlan:
    if not delta > 0:
        raise InvalidArgument(
            "delta", delta, "a number in (0, 1)", "Gaussian noise needs one", "Pass delta=, or use LaplaceNoise()"
        )
    multiplier = gaussian_multiplier(float(epsilon), float(delta))
    plan = plan_gaussian(blocks, groups_per_unit=groups_per_unit, noise_multiplier=multiplier)
    return CalibratedPlan(plan.noise, blocks, plan.block_scales, plan.event, float(epsilon), float(delta))


def _checked_scale(scale: float) -> float:
    if not scale <= MAX_SCALE:
        raise InvalidArgument(
            "noise_scale",
            scale,
            "at most 2^50 units of the total",
            "Take a larger epsilon, or lower rows_per_unit and groups_per_unit",
        )
    return scale
