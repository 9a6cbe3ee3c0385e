"""Bounds of undeclared columns, learned privately with the share of epsilon that pays for limits.

A sum needs to know where its values lie. Units are counted by the order of magnitude of their least value and of their
greatest one, with noise, and bounds are read off such that few units lie beyond (`hush.statistics.ExtremeBins`). A unit
counts once in each of the two histograms, whatever its rows are. The bounds are then public, like chosen limits.

If too few units have values, nothing rises above the noise. The bounds are then `STAND_IN`, which depends on no data.
A result computed within them says nothing about the values and would look exact, so it is missing from the answer, and
the answer says so. Nothing here raises, because private data must not decide whether there is an answer.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from hush.accounting import Event
from hush.data.tables.catalog import ColumnKind
from hush.randomness import RandomSource
from hush.sql.answer.choices.stored_form import checked_fields
from hush.sql.syntax.expression import Expr
from hush.statistics import Block, CalibratedPlan, ExtremeBins, LaplaceNoise, LogHistogram, plan_noise
from hush.statistics.noise import weighted_sum
from hush.strict_json import parse

BINS = LogHistogram()  # its last bins end at 2^41: `hush.sql.read.aggregates.WIDEST_BOUNDS`
STAND_IN = (-1.0, 1.0)
_NEAR = 2  # the bins beyond a bound, a factor of 4, that the estimate of what lies beyond covers


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedBounds:
    """Bounds of a column that were learned privately.

    Attributes:
        low: The lower bound.
        high: The upper bound.
        learned: Whether they were learned; if not, they are `STAND_IN`.
        beyond: An estimate of how many units have values beyond; one that is beyond both counts twice.
        beyond_error: With 95 % confidence, the true number is within this much of the estimate.
        excess: An estimate of the distance from the bounds to those units' furthest values, in total. It leaves out
            values beyond four times a bound.
        excess_error: With 95 % confidence, what noise adds to that estimate is at most this much.
    """

    low: float
    high: float
    learned: bool
    beyond: float
    beyond_error: float
    excess: float
    excess_error: float


@dataclass(frozen=True, slots=True)
class BoundsPlan:
    """The noise on the two histograms of one column, fixed before they are read.

    Attributes:
        column: The column.
        name: Its name.
        noise: The noise on all counts.
    """

    column: Expr
    name: str
    noise: CalibratedPlan

    @property
    def event(self) -> Event:
        """The cost of learning the bounds."""
        return self.noise.event

    def learn(self, counts: NDArray[np.int64], source: RandomSource) -> LearnedBounds:
        """Return the bounds, from exact counts of units by the bins of their least and of their greatest values."""
        noisy = self.noise.release(counts.reshape(1, -1), source).reshape(counts.shape)
        scale = self.noise.block_scales[0]
        low, high = ExtremeBins(BINS, scale).learn(noisy[None])[0].tolist()
        learned = not math.isnan(low)
        low, high = (low, high) if learned else STAND_IN
        if self.column.kind is ColumnKind.INT:
            low, high = float(math.floor(low)), float(math.ceil(high))
        below, above = _beyond(noisy[0][::-1], -low, -BINS.edges[::-1]), _beyond(noisy[1], high, BINS.edges)
        numbers, weights = np.concatenate([below[0], above[0]]), np.concatenate([below[1], above[1]])
        beyond, beyond_error = weighted_sum(numbers, scale, np.ones(len(numbers)))
        excess, excess_error = weighted_sum(numbers, scale, weights)
        return LearnedBounds(
            low=low,
            high=high,
            learned=learned,
            beyond=beyond,
            beyond_error=beyond_error,
            excess=excess,
            excess_error=excess_error,
        )


def _beyond(
    noisy: NDArray[np.int64], bound: float, edges: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the counts of the bins beyond an upper bound, and the distance of their middles, 0 for bins far beyond."""
    first = int(np.searchsorted(edges[:-1], bound))
    middles = (edges[first:-1] + edges[first + 1 :]) / 2 - bound
    middles[_NEAR:] = 0.0
    return noisy[first:], middles


def plan_bounds(column: Expr, name: str, epsilon: float) -> BoundsPlan:
    """Return how the bounds of a column are learned at an epsilon. A unit is in one bin of each histogram."""
    blocks = tuple(Block.disjoint(1, columns=BINS.size, whole=True) for _ in ("least", "greatest"))
    return BoundsPlan(column, name, plan_noise(blocks, groups_per_unit=1, epsilon=epsilon, noise=LaplaceNoise()))


def bounds_to_json(bounds: LearnedBounds) -> str:
    """Return learned bounds as JSON, for a budget to store."""
    return json.dumps(asdict(bounds))


def bounds_from_json(text: str) -> LearnedBounds:
    """Return the bounds that `bounds_to_json` wrote; raise `ValueError` for anything else."""
    learned = LearnedBounds(**checked_fields(LearnedBounds, parse(text)))
    widest = float(BINS.edges[-1])
    if not -widest <= learned.low <= learned.high <= widest:
        raise ValueError("bounds that are never learned")
    return learned
