r"""Partition selection: which of the groups that occur in the data may be told.

n is the number of users of a group, after contributions were bounded; a group that nobody has is never told. Adding a
user creates at most L0 = ``groups_per_unit`` groups with n = 1, each told with probability at most delta' = 1 - (1 -
delta)^(1 / L0), and adds one to the n of groups that others have.

- `TruncatedGeometric` keeps a group with the largest probability that (epsilon / L0, delta') allows for each n.
- `LaplaceThreshold`, `GaussianThreshold` compare a noisy n with a threshold that n = 1 passes with probability delta'.

References: Desfontaines, Voss, Gipson & Mandayam 2022, Theorem 1 (optimal selection); Korolova et al. 2009, Wilson et
al. 2020 (thresholds).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hush.accounting import ApproximateDPEvent, ComposedEvent, Event
from hush.errors import InvalidArgument, check_count, check_positive, check_probability
from hush.randomness import RandomSource, flip
from hush.statistics.noise.release import Block, GaussianNoise, LaplaceNoise, NoisePlan, plan_noise

_SAFE = 1e-9  # relative room for rounding
# Room for accountants, which bound what is left of delta to about a part in a million: they are told a hair less than
# the whole delta, and of each group twice that is left out (enough for delta <= 1/2: 1 - (1 - x)^n falls by 0.69 times
# what x does, relatively).
_HAIR = 1e-5
_ROUNDING = 1e-15  # absolute error of a computed probability, and then some
_SMALLEST_DELTA = 1e-12


class Selection(ABC):
    """A way to choose which groups are told."""

    def plan(self, *, groups_per_unit: int, epsilon: float, delta: float) -> SelectionPlan:
        """Return how to choose at this price."""
        check_positive("epsilon", epsilon)
        check_count("groups_per_unit", groups_per_unit)
        each = -math.expm1(math.log1p(-check_probability("delta", delta) * self._threshold_part()) / groups_per_unit)
        if not (delta <= 0.5 and each >= _SMALLEST_DELTA):
            raise InvalidArgument(
                "delta",
                delta,
                f"between groups_per_unit times {_SMALLEST_DELTA:.3g} and 0.5",
                "Groups are told with it",
            )
        return self._plan(groups_per_unit, epsilon, delta * (1 - _HAIR), each * (1 - 2 * _HAIR))

    def _threshold_part(self) -> float:
        return 1.0

    @abstractmethod
    def _plan(self, groups_per_unit: int, epsilon: float, delta: float, each: float) -> SelectionPlan: ...


class SelectionPlan(ABC):
    """A selection with its numbers; `event` is what it costs."""

    event: Event

    @abstractmethod
    def choose(self, num_users: NDArray[np.int64], source: RandomSource) -> NDArray[np.bool_]:
        """Tell which groups to keep, of those that have units."""


@dataclass(frozen=True, slots=True)
class TruncatedGeometric(Selection):
    """The optimal choice: nobody keeps a group more often at the same epsilon and delta."""

    def _plan(self, groups_per_unit: int, epsilon: float, delta: float, each: float) -> SelectionPlan:
        part = epsilon / groups_per_unit * (1 - _SAFE)
        return _Probabilities(part, each - _ROUNDING, ApproximateDPEvent(epsilon, delta))


@dataclass(frozen=True, slots=True)
class LaplaceThreshold(Selection):
    """Keep what passes a threshold with discrete Laplace noise."""

    def _plan(self, groups_per_unit: int, epsilon: float, delta: float, each: float) -> SelectionPlan:
        count = Block(columns=1, l1=1, l2=1, whole=True)
        noise = plan_noise((count,), groups_per_unit=groups_per_unit, epsilon=epsilon, noise=LaplaceNoise())
        scale = noise.block_scales[0]
        # P(1 + k >= t) = e^(-(t - 1) / b) / (1 + e^(-1 / b)) for t >= 2, k discrete Laplace.
        least = 1 + max(math.ceil(-scale * math.log(each * (1 + math.exp(-1 / scale))) * (1 + _SAFE)), 1)
        return _Threshold(noise, least, ComposedEvent((noise.event, ApproximateDPEvent(0.0, delta))))


@dataclass(frozen=True, slots=True)
class GaussianThreshold(Selection):
    """Keep what passes a threshold with Gaussian noise; half of delta is for the noise, half for the threshold."""

    def _threshold_part(self) -> float:
        return 0.5

    def _plan(self, groups_per_unit: int, epsilon: float, delta: float, each: float) -> SelectionPlan:
        count = Block(columns=1, l1=1, l2=1)
        noise = plan_noise(
            (count,), groups_per_unit=groups_per_unit, epsilon=epsilon, delta=delta / 2, noise=GaussianNoise()
        )
        # Noise is rounded to the nearest integer: half a step less of it may be enough to pass.
        reach = -noise.block_scales[0] * float(ndtri(each)) * (1 + _SAFE)
        return _Threshold(
            noise, 2 + max(math.ceil(reach), 1), ComposedEvent((noise.event, ApproximateDPEvent(0.0, delta / 2)))
        )


@dataclass(frozen=True, slots=True)
class _Threshold(SelectionPlan):
    noise: NoisePlan
    least: int
    event: Event

    def choose(self, num_users: NDArray[np.int64], source: RandomSource) -> NDArray[np.bool_]:
        kept: NDArray[np.bool_] = self.noise.release(num_users[:, None], source)[:, 0] >= self.least
        return kept & (num_users > 0)


@dataclass(frozen=True, slots=True)
class _Probabilities(SelectionPlan):
    epsilon: float
    delta: float
    event: Event

    def choose(self, num_users: NDArray[np.int64], source: RandomSource) -> NDArray[np.bool_]:
        probabilities = self.probability(num_users)
        return flip(source, probabilities, lambda index, digits: (Fraction(float(probabilities[index])),) * 2)

    def probability(self, num_users: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return pi(n): growing by the factor e^epsilon and delta up to n1, then closing in on 1 by e^-epsilon."""
        epsilon, delta = self.epsilon, self.delta
        first = 1 + math.floor(math.log1p(math.tanh(epsilon / 2) * (1 / delta - 1)) / epsilon)
        rate = delta / math.expm1(epsilon)
        at_first = min(math.expm1(first * epsilon) * rate, 1.0)
        growing = np.expm1(np.minimum(num_users, first) * epsilon) * rate
        left = (1 - at_first + rate) * np.exp(-np.maximum(num_users - first, 0) * epsilon) - rate
        result = np.where(num_users <= first, growing, 1 - np.maximum(left, 0.0))
        return np.clip(np.where(num_users > 0, result, 0.0), 0.0, 1.0)
