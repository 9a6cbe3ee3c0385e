r"""The noise layer: exact, bounded integer totals in; noisy ones, their scales and their event out.

Whoever has totals of groups to which each user contributed no more than stated can release them here, wherever they
were computed. Totals are columns of integers, one row for each group. A `Block` is a set of columns with a joint bound
on what one user adds to them in one group; a user has at most ``groups_per_unit`` groups. In a release

- *Laplace* noise on a block has the scale groups_per_unit * l1 / (epsilon * share): epsilons of blocks add up to epsilon.
- *Gaussian* noise on a block has the standard deviation noise_multiplier * sqrt(groups_per_unit) * l2 / sqrt(share): in
  units of their noise, squared norms of blocks add up to 1 / noise_multiplier^2: all of it is one Gaussian release.

Counts get discrete Laplace noise. Other noise is the floor of a real variable, sampled exactly, on a grid finer than
one where it must be; a total plus rounded noise is then a function of the total plus the real variable, whose theorem
holds as it stands. Rounding of the data is before clamping, so the sensitivity is an integer and has nothing to add.

References: Dwork, McSherry, Nissim & Smith 2006; Balle & Wang 2018; Ghosh, Roughgarden & Sundararajan 2009; Casacuberta
et al. 2022 (why totals are integers).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hush.accounting import ComposedEvent, Event, calibrate_noise, events
from hush.errors import InvalidArgument, check_count, check_delta, check_instance, check_positive
from hush.randomness import MAX_SCALE, RandomSource, discrete_laplace, floored_gaussian, floored_laplace
from hush.statistics.noise.tails import Tail, gaussian_tail, laplace_tail

_FINE = 2.0**30  # noise of so many units needs no finer grid
_UP = 1 + 2.0**-50  # what a few roundings could have taken away is back


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """Laplace noise: pure epsilon, for what a user does to few groups."""


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Gaussian noise: needs a delta, for what a user does to many groups or columns."""


NoiseKind = LaplaceNoise | GaussianNoise


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Columns of totals, and how much of them one user can be in one group.

    Attributes:
        columns: How many columns of integers.
        l1: The largest L1 norm, over the columns, of what one user adds to one group: an integer.
        l2: The same for the L2 norm; at most l1.
        share: What part of the budget the block gets, relative to other blocks.
        whole: Whether columns are counts, of which l1 is small: noise is then an integer of the same kind.
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


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """Which noise totals get: fixed before anybody looks at them.

    Attributes:
        noise: The kind.
        scales: For each column: Laplace's scale or the standard deviation, in units of the totals.
        event: What releasing the totals costs.
        epsilon: What was asked for, and is met.
        delta: The same; 0 for Laplace noise.
    """

    noise: NoiseKind
    blocks: tuple[Block, ...]
    block_scales: tuple[float, ...]
    event: Event
    epsilon: float
    delta: float

    @property
    def scales(self) -> NDArray[np.float64]:
        """One scale for each column."""
        return np.repeat(np.array(self.block_scales), [block.columns for block in self.blocks])

    @property
    def tail(self) -> Tail:
        """The law of the noise, at scale 1, for intervals; rounding to integers adds half a unit at most."""
        return laplace_tail if isinstance(self.noise, LaplaceNoise) else gaussian_tail

    def release(self, totals: NDArray[np.int64], source: RandomSource) -> NDArray[np.int64]:
        """Return totals with noise; of shape (groups, columns of all blocks)."""
        wanted = sum(block.columns for block in self.blocks)
        if totals.dtype != np.int64 or totals.ndim != 2 or totals.shape[1] != wanted:
            raise InvalidArgument("totals.shape", ("any", *totals.shape[1:]), f"int64 rows of {wanted} columns")
        noisy = totals.copy()
        first = 0
        for block, scale in zip(self.blocks, self.block_scales, strict=True):
            part = noisy[:, first : first + block.columns]
            part += self._draw(block, scale, part.size, source).reshape(part.shape)
            first += block.columns
        return noisy

    def _draw(self, block: Block, scale: float, size: int, source: RandomSource) -> NDArray[np.int64]:
        laplace = isinstance(self.noise, LaplaceNoise)
        if laplace and block.whole:
            return discrete_laplace(source, scale, size)
        sampler = floored_laplace if laplace else floored_gaussian
        shift = 0 if scale >= _FINE else 41 - math.frexp(scale)[1]
        noise = sampler(source, math.ldexp(scale, shift), size)
        # To the nearest unit: floor((total * 2^shift + noise + half) / 2^shift), a function of total + real noise.
        return (noise + (1 << shift - 1)) >> shift if shift else noise


def plan_noise(
    blocks: tuple[Block, ...],
    *,
    groups_per_unit: int,
    epsilon: float,
    delta: float = 0.0,
    noise: NoiseKind | None = None,
) -> NoisePlan:
    """Return the noise for blocks of totals; of the kind with the smaller mean squared error, unless told.

    Guarantee:
        Totals released by the plan are (epsilon, delta)-differentially private, with delta = 0 for Laplace noise.

    Assumes:
        One user adds no more to the totals than the blocks say, in at most ``groups_per_unit`` groups (the caller's duty;
        `hush.statistics` bounds contributions itself).

    References:
        As above.

    >>> plan = plan_noise((Block(columns=1, l1=1, l2=1, whole=True),), groups_per_unit=1, epsilon=0.5)
    >>> plan.noise, plan.block_scales[0] >= 2
    (Laplace(), True)
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
        check_instance("noise", noise, (LaplaceNoise, GaussianNoise), "Or None for the one with the smaller error")
    return min(candidates, key=_error)


def release_sums(
    sums: NDArray[np.int64],
    blocks: tuple[Block, ...],
    *,
    groups_per_unit: int,
    epsilon: float,
    delta: float = 0.0,
    noise: NoiseKind | None = None,
    source: RandomSource,
) -> tuple[NDArray[np.int64], NoisePlan]:
    """Return exact totals with noise, and the plan that says how much and what it costs.

    Guarantee:
        (epsilon, delta)-differential privacy, as `plan_noise`.

    Assumes:
        As `plan_noise`; which groups there are is public, or was chosen privately (the caller's duty).

    References:
        As above.
    """
    plan = plan_noise(blocks, groups_per_unit=groups_per_unit, epsilon=epsilon, delta=delta, noise=noise)
    return plan.release(sums, source), plan


def _error(plan: NoisePlan) -> float:
    """Return the mean squared errors of the blocks, multiplied up: their units differ.

    A block counts by its share, not by its columns: those of a tree, 69,904, would outvote every count beside it.
    """
    factor = 2.0 if isinstance(plan.noise, LaplaceNoise) else 1.0
    return sum(
        block.share * math.log(factor * scale**2) for block, scale in zip(plan.blocks, plan.block_scales, strict=True)
    )


def _shares(blocks: tuple[Block, ...]) -> list[float]:
    """Return shares that add up to a little less than one."""
    total = sum(block.share for block in blocks)
    return [block.share / total / _UP for block in blocks]


def _laplace_plan(blocks: tuple[Block, ...], groups_per_unit: int, epsilon: float) -> NoisePlan:
    scales, parts = [], []
    for block, share in zip(blocks, _shares(blocks), strict=True):
        sensitivity = groups_per_unit * block.l1
        scale = _checked(sensitivity / (epsilon * share) * _UP)
        scales.append(scale)
        parts.append(
            events.DiscreteLaplaceEvent(scale, sensitivity)
            if block.whole
            else events.LaplaceEvent(scale / sensitivity / _UP)
        )
    event: Event = parts[0] if len(parts) == 1 else ComposedEvent(tuple(parts))
    return NoisePlan(LaplaceNoise(), blocks, tuple(scales), event, float(epsilon), 0.0)


def _gaussian_plan(blocks: tuple[Block, ...], groups_per_unit: int, epsilon: float, delta: float) -> NoisePlan:
    if not delta > 0:
        raise InvalidArgument("delta", delta, "a number in (0, 1)", "Gaussian noise needs one", "Or take Laplace()")
    multiplier = _multiplier(float(epsilon), float(delta))
    scales = tuple(
        _checked(multiplier * math.sqrt(groups_per_unit / share) * block.l2 * _UP)
        for block, share in zip(blocks, _shares(blocks), strict=True)
    )
    return NoisePlan(GaussianNoise(), blocks, scales, events.GaussianEvent(multiplier), float(epsilon), float(delta))


@lru_cache(maxsize=256)
def _multiplier(epsilon: float, delta: float) -> float:
    return calibrate_noise(epsilon=epsilon, delta=delta)


def _checked(scale: float) -> float:
    if not scale <= MAX_SCALE:
        raise InvalidArgument(
            "noise_scale", scale, "at most 2^50 units", "Take a larger epsilon, or fewer groups and rows of a user"
        )
    return scale
