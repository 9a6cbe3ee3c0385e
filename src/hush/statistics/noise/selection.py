r"""Group selection (partition selection): which of the groups in the data may be revealed.

If the list of groups is not public, the list itself reveals information about the data. So each group is revealed at
random, or not, depending on n, its number of units after contributions were bounded. A group without units is never
revealed. Adding a unit creates at most L0 = ``groups_per_unit`` groups with n = 1, each revealed with probability at
most delta' = 1 - (1 - delta)^(1 / L0), and adds one to the n of groups that other units are in.

- `TruncatedGeometric` reveals a group with the largest probability that (epsilon / L0, delta') allows for each n.
- `LaplaceThreshold` and `GaussianThreshold` compare a noisy n with a threshold that n = 1 passes with probability
  delta'. `plan_threshold` is the latter for a given noise multiplier, in place of an epsilon.

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
from hush.statistics.noise.release import Block, GaussianNoise, LaplaceNoise, NoisePlan, plan_gaussian, plan_noise

_SAFE = 1e-9  # relative margin for rounding errors
# Accountants bound the remaining delta to about one part in a million. So the event states slightly less than the full
# delta, and each group's probability is lowered by twice that margin. Twice is enough for delta <= 1/2: there,
# lowering x by a relative amount lowers 1 - (1 - x)^n by at least 0.69 of it.
_ACCOUNTANT_MARGIN = 1e-5
_ROUNDING = 1e-15  # bounds the absolute error of a computed probability
_SMALLEST_DELTA = 1e-12


class Selection(ABC):
    """A method of group selection: `truncated_geometric`, `laplace_threshold` or `gaussian_threshold`.

    >>> from hush.randomness import TestSource
    >>> from hush.statistics import Selection, count
    >>> towns = ["Bonn"] * 500 + ["Ulm"]
    >>> settings = {"groups": towns, "selection": Selection.laplace_threshold(), "epsilon": 1.0, "delta": 1e-9}
    >>> count(towns, units=range(501), **settings, source=TestSource(1)).keys
    ('Bonn',)
    """

    @staticmethod
    def truncated_geometric() -> Selection:
        """Return the default: no other method reveals a group with a larger probability at the same epsilon, delta."""
        return TruncatedGeometric()

    @staticmethod
    def laplace_threshold() -> Selection:
        """Return the classic method: reveal groups whose noisy count of units reaches a threshold."""
        return LaplaceThreshold()

    @staticmethod
    def gaussian_threshold() -> Selection:
        """Return the threshold method with Gaussian noise, for units in many groups. Half of delta is for the noise."""
        return GaussianThreshold()

    def plan(self, *, groups_per_unit: int, epsilon: float, delta: float) -> SelectionPlan:
        """Return the selection with its numbers, calibrated to (epsilon, delta).

        Args:
            groups_per_unit: In how many groups one unit can be (L0).
            epsilon: The epsilon of the selection.
            delta: The delta of the selection.
        """
        check_positive("epsilon", epsilon)
        check_count("groups_per_unit", groups_per_unit)
        delta_per_group = _delta_per_group(
            check_probability("delta", delta) * self._share_for_new_groups(), groups_per_unit
        )
        if not (delta <= 0.5 and delta_per_group >= _SMALLEST_DELTA):
            raise InvalidArgument(
                "delta",
                delta,
                f"between groups_per_unit times {_SMALLEST_DELTA:.3g} and 0.5",
                "Revealing groups spends it",
            )
        return self._plan(
            groups_per_unit,
            epsilon,
            delta * (1 - _ACCOUNTANT_MARGIN),
            delta_per_group * (1 - 2 * _ACCOUNTANT_MARGIN),
        )

    def most_groups(self, delta: float) -> int:
        """Return the most groups of a unit that `plan` takes at this delta, but at least 1."""
        share = check_probability("delta", delta) * self._share_for_new_groups()
        return max(1, math.floor(math.log1p(-share) / math.log1p(-_SMALLEST_DELTA) * (1 - _SAFE)))

    def _share_for_new_groups(self) -> float:
        """Return the share of delta that covers groups which only one unit is in."""
        return 1.0

    @abstractmethod
    def _plan(self, groups_per_unit: int, epsilon: float, delta: float, delta_per_group: float) -> SelectionPlan: ...


class SelectionPlan(ABC):
    """A selection with its numbers.

    Attributes:
        event: The cost of the selection.
    """

    event: Event

    @abstractmethod
    def choose(self, num_units: NDArray[np.int64], source: RandomSource) -> NDArray[np.bool_]:
        """Return which groups to reveal.

        Args:
            num_units: The number of units of each group, after contributions were bounded.
            source: The source of the randomness.
        """


@dataclass(frozen=True, slots=True)
class TruncatedGeometric(Selection):
    """Optimal selection: no other method reveals a group with a larger probability at the same epsilon and delta.

    >>> plan = TruncatedGeometric().plan(groups_per_unit=1, epsilon=1.0, delta=1e-6)
    >>> plan.event
    ApproximateDPEvent(epsilon=1.0, delta=9.9999e-07)
    """

    def _plan(self, groups_per_unit: int, epsilon: float, delta: float, delta_per_group: float) -> SelectionPlan:
        epsilon_per_group = epsilon / groups_per_unit * (1 - _SAFE)
        return _Probabilities(epsilon_per_group, delta_per_group - _ROUNDING, ApproximateDPEvent(epsilon, delta))


@dataclass(frozen=True, slots=True)
class LaplaceThreshold(Selection):
    """Reveal groups whose count of units, with discrete Laplace noise, reaches a threshold.

    >>> from hush.randomness import TestSource
    >>> plan = LaplaceThreshold().plan(groups_per_unit=1, epsilon=1.0, delta=1e-6)
    >>> plan.choose(np.array([0, 1, 1000]), TestSource(1)).tolist()
    [False, False, True]
    """

    def _plan(self, groups_per_unit: int, epsilon: float, delta: float, delta_per_group: float) -> SelectionPlan:
        count = Block.disjoint(1, whole=True)
        noise = plan_noise((count,), groups_per_unit=groups_per_unit, epsilon=epsilon, noise=LaplaceNoise())
        scale = noise.block_scales[0]
        # P(1 + k >= t) = e^(-(t - 1) / b) / (1 + e^(-1 / b)) for t >= 2 and discrete Laplace k of scale b.
        gap = math.ceil(-scale * math.log(delta_per_group * (1 + math.exp(-1 / scale))) * (1 + _SAFE))
        return _Threshold(noise, 1 + max(gap, 1), ComposedEvent((noise.event, ApproximateDPEvent(0.0, delta))))


@dataclass(frozen=True, slots=True)
class GaussianThreshold(Selection):
    """Reveal groups whose count of units, with Gaussian noise, reaches a threshold.

    Half of delta is for the noise, and half for the threshold.

    >>> from hush.randomness import TestSource
    >>> plan = GaussianThreshold().plan(groups_per_unit=16, epsilon=1.0, delta=1e-6)
    >>> plan.choose(np.array([0, 1, 1000]), TestSource(1)).tolist()
    [False, False, True]
    """

    def _share_for_new_groups(self) -> float:
        return 0.5

    def _plan(self, groups_per_unit: int, epsilon: float, delta: float, delta_per_group: float) -> SelectionPlan:
        noise = plan_noise(
            (Block.disjoint(1),),
            groups_per_unit=groups_per_unit,
            epsilon=epsilon,
            delta=delta / 2,
            noise=GaussianNoise(),
        )
        threshold = gaussian_threshold(noise, delta_per_group)
        return _Threshold(noise, threshold, ComposedEvent((noise.event, ApproximateDPEvent(0.0, delta / 2))))


def plan_threshold(*, noise_multiplier: float, groups_per_unit: int, delta: float, steps: int = 1) -> SelectionPlan:
    """Return a selection by a threshold on counts with Gaussian noise of a given multiplier.

    >>> plan_threshold(noise_multiplier=4.0, groups_per_unit=1, delta=1e-6).event.events[0]
    GaussianEvent(noise_multiplier=4.0)

    Args:
        noise_multiplier: The noise, relative to everything that one unit contributes.
        groups_per_unit: In how many groups one unit can be (L0).
        delta: The probability with which groups that only one unit is in may be revealed, all of them together.
        steps: The steps of one count that noise is rounded to. With more, a threshold fits small noise more closely.

    Guarantee:
        The selection costs `GaussianEvent(noise_multiplier)` and ``(0, delta)``.

    Assumes:
        A unit is in at most ``groups_per_unit`` groups, and adds at most one to the count of each (the caller's duty).

    References:
        Korolova, Kenthapadi, Mishra & Ntoulas 2009.
    """
    noise = plan_gaussian((Block.disjoint(steps),), groups_per_unit=groups_per_unit, noise_multiplier=noise_multiplier)
    # Noise is independent between groups. So the output is a function of two independent parts: a Gaussian mechanism
    # on the groups that exist without the unit, and one that is "none" without the unit, and something else with
    # probability at most delta with it. The second part is (0, delta)-private.
    threshold = gaussian_threshold(noise, _delta_per_group(delta, groups_per_unit))
    return _Threshold(noise, threshold, ComposedEvent((noise.event, ApproximateDPEvent(0.0, delta))))


def gaussian_threshold(noise: NoisePlan, delta_per_group: float) -> int:
    """Return a threshold that the noisy count of a single unit reaches with probability at most ``delta_per_group``.

    Args:
        noise: Gaussian noise on one column, to which a unit adds at most ``noise.blocks[0].l1``.
        delta_per_group: The probability.
    """
    gap = math.ceil(-noise.block_scales[0] * float(ndtri(delta_per_group)) * (1 + _SAFE))
    # Noise is rounded to the nearest integer, so it may pass with half a step less: the threshold is one higher.
    return noise.blocks[0].l1 + max(gap, 1) + 1


def _delta_per_group(delta: float, groups_per_unit: int) -> float:
    """Return delta' with 1 - (1 - delta')^groups_per_unit = delta: groups are revealed independently."""
    return -math.expm1(math.log1p(-delta) / groups_per_unit)


@dataclass(frozen=True, slots=True)
class _Threshold(SelectionPlan):
    """Reveals groups whose noisy number of units is at least ``threshold``, in the steps of the noise."""

    noise: NoisePlan
    threshold: int
    event: Event

    def choose(self, num_units: NDArray[np.int64], source: RandomSource) -> NDArray[np.bool_]:
        counts = num_units[:, None] * self.noise.blocks[0].l1
        passes: NDArray[np.bool_] = self.noise.release(counts, source)[:, 0] >= self.threshold
        return passes & (num_units > 0)


@dataclass(frozen=True, slots=True)
class _Probabilities(SelectionPlan):
    """Reveals a group of n units with probability pi(n); ``epsilon`` and ``delta`` are per group."""

    epsilon: float
    delta: float
    event: Event

    def choose(self, num_units: NDArray[np.int64], source: RandomSource) -> NDArray[np.bool_]:
        probabilities = self.probability(num_units)
        return flip(source, probabilities, lambda index, digits: (Fraction(float(probabilities[index])),) * 2)

    def probability(self, num_units: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return pi(n) of Theorem 1.

        It grows by pi(n + 1) = e^epsilon pi(n) + delta up to n1 (``turn``), and from there on 1 - pi(n) falls by the
        factor e^-epsilon, less delta.
        """
        epsilon, delta = self.epsilon, self.delta
        turn = 1 + math.floor(math.log1p(math.tanh(epsilon / 2) * (1 / delta - 1)) / epsilon)
        rate = delta / math.expm1(epsilon)
        at_turn = min(math.expm1(turn * epsilon) * rate, 1.0)
        growing = np.expm1(np.minimum(num_units, turn) * epsilon) * rate
        remainder = (1 - at_turn + rate) * np.exp(-np.maximum(num_units - turn, 0) * epsilon) - rate
        result = np.where(num_units <= turn, growing, 1 - np.maximum(remainder, 0.0))
        return np.clip(np.where(num_units > 0, result, 0.0), 0.0, 1.0)
