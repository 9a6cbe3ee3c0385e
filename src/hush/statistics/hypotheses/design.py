"""Power before spending: how likely a test is to find an effect, from public numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument, check_count, check_fraction, check_positive, check_probability
from hush.statistics.hypotheses.group_means import GroupModel, group_statistics, models, null_draws
from hush.statistics.hypotheses.simulation import NoiseModel
from hush.statistics.noise.release import Block, NoiseKind, plan_noise

Floats = NDArray[np.float64]

_DRAWS = 8_000
_TOLERANCE = 0.01  # of a power that is searched for: simulated powers are off by less than that
_STEPS = 1 << 20


@dataclass(frozen=True, slots=True)
class Design:
    """An experiment that is planned: group sizes, and the effect that it should find. It reads no data.

    It covers `compare_proportions` and `compare_means`, for two groups or more. For `independence`, `goodness_of_fit`
    and `correlation`, test simulated data with the effect you look for, some hundred times: they cost nothing.

    Power is the probability with which p is at most the level. It is simulated, with the critical value at the expected
    totals in place of one for each experiment, so that it takes milliseconds and is off by a few points at most. The
    simulation has a seed of its own, and gives the same answer each time.

    >>> trial = Design.proportions((0.10, 0.20), sizes=(500, 500))
    >>> trial.power(epsilon=1.0) > 0.9, trial.power(epsilon=0.02) < 0.5
    (True, True)

    Attributes:
        sizes: The number of units in each group.
        means: The mean of each group, on [0, 1].
        variances: The variance of each group, on [0, 1]; None for proportions.
    """

    sizes: tuple[int, ...]
    means: tuple[float, ...]
    variances: tuple[float, ...] | None = None

    @classmethod
    def proportions(cls, rates: Sequence[float], *, sizes: Sequence[int]) -> Design:
        """Return the design of `compare_proportions`.

        Args:
            rates: The share of the outcome in each group that the test should tell apart.
            sizes: The number of units in each group.
        """
        return cls(_checked_sizes(sizes, len(rates)), tuple(check_fraction("rates", rate) for rate in rates))

    @classmethod
    def means_of(
        cls,
        means: Sequence[float],
        *,
        stds: Sequence[float],
        sizes: Sequence[int],
        bounds: tuple[float, float],
    ) -> Design:
        """Return the design of `compare_means`.

        >>> Design.means_of((5.0, 6.0), stds=(2.0, 2.0), sizes=(100, 100), bounds=(0, 10)).means
        (0.5, 0.6)

        Args:
            means: The mean of each group that the test should tell apart.
            stds: The standard deviation of each group.
            sizes: The number of units in each group.
            bounds: The bounds of the test.
        """
        low, high = bounds
        if not (math.isfinite(high - low) and low < high):
            raise InvalidArgument("bounds", bounds, "two finite numbers, the lower one first")
        if not all(low < mean < high for mean in means):
            raise InvalidArgument("means", tuple(means), "numbers between the bounds")
        if len(stds) != len(means):
            raise InvalidArgument("stds", tuple(stds), "one standard deviation for each mean")
        shares = tuple((mean - low) / (high - low) for mean in means)
        variances = tuple((check_positive("stds", std) / (high - low)) ** 2 for std in stds)
        if not all(variance <= share * (1 - share) for variance, share in zip(variances, shares, strict=True)):
            raise InvalidArgument("stds", tuple(stds), "standard deviations that are possible between the bounds")
        return cls(_checked_sizes(sizes, len(means)), shares, variances)

    def power(
        self,
        *,
        epsilon: float,
        delta: float = 0.0,
        noise: NoiseKind | None = None,
        level: float = 0.05,
        seed: int = 0,
    ) -> float:
        """Return the probability that the test finds the effect.

        Args:
            epsilon: The epsilon of the test.
            delta: The delta of the test.
            noise: The kind of noise of the test.
            level: The significance level: the hypothesis is rejected if p is at most this.
            seed: The seed of the simulation.
        """
        draws = max(_DRAWS, math.ceil(100 / check_probability("level", level)))
        rng = np.random.default_rng(seed)
        model = self._model(epsilon, delta, noise)
        expected = model.expected()
        critical = max(
            float(np.quantile(null_draws(null)(draws, rng), 1 - level))
            for null in models(expected, model.noise, pooled=True)
        )
        statistics = group_statistics(model.draw(_DRAWS, rng), model.noise.variance, pooled=True).heterogeneity()
        return float(np.mean((statistics > critical) & (statistics > 0)))

    def epsilon_for(
        self,
        power: float = 0.8,
        *,
        delta: float = 0.0,
        noise: NoiseKind | None = None,
        level: float = 0.05,
        largest: float = 20.0,
    ) -> float:
        """Return the epsilon that finds the effect with this power, to within a tenth (and the power to a point).

        It is refused if even the largest epsilon does not reach the power: then the groups are too small.

        >>> 0.05 < Design.proportions((0.10, 0.20), sizes=(500, 500)).epsilon_for(0.8) < 1
        True

        Args:
            power: The power to reach.
            delta: The delta of the test.
            noise: The kind of noise of the test.
            level: The significance level: the hypothesis is rejected if p is at most this.
            largest: The largest epsilon to try.
        """
        check_fraction("power", power)

        def reached(exponent: float) -> bool:
            return (
                self.power(epsilon=largest * 2**exponent, delta=delta, noise=noise, level=level) >= power - _TOLERANCE
            )

        if not reached(0.0):
            advice = "Larger groups need less: see factor_for"
            raise InvalidArgument("power", power, f"a power that epsilon={largest:g} reaches", advice)
        return float(largest * 2 ** _smallest(reached, -14.0, 0.0, precision=0.14))

    def factor_for(
        self,
        power: float = 0.8,
        *,
        epsilon: float,
        delta: float = 0.0,
        noise: NoiseKind | None = None,
        level: float = 0.05,
        largest: float = 1000.0,
    ) -> float:
        """Return the factor by which all groups must grow (or may shrink) for this power, to within a tenth.

        >>> 0.2 < Design.proportions((0.10, 0.20), sizes=(500, 500)).factor_for(0.8, epsilon=1.0) < 1
        True

        Args:
            power: The power to reach.
            epsilon: The epsilon of the test.
            delta: The delta of the test.
            noise: The kind of noise of the test.
            level: The significance level: the hypothesis is rejected if p is at most this.
            largest: The largest factor to try.
        """
        check_fraction("power", power)

        def reached(exponent: float) -> bool:
            sizes = tuple(max(round(size * 2**exponent), 2) for size in self.sizes)
            return (
                replace(self, sizes=sizes).power(epsilon=epsilon, delta=delta, noise=noise, level=level)
                >= power - _TOLERANCE
            )

        top = math.log2(check_positive("largest", largest))
        if not reached(top):
            raise InvalidArgument("power", power, f"a power that groups {largest:g} times as large reach")
        return float(2 ** _smallest(reached, top - 20.0, top, precision=0.14))

    def _model(self, epsilon: float, delta: float, noise: NoiseKind | None) -> GroupModel:
        steps = 1 if self.variances is None else _STEPS
        block = Block.disjoint(steps, columns=2 if self.variances is None else 3, whole=steps == 1)
        plan = plan_noise((block,), groups_per_unit=1, epsilon=epsilon, delta=delta, noise=noise)
        variances = None if self.variances is None else np.array(self.variances)
        return GroupModel(
            np.array(self.sizes, dtype=np.float64), np.array(self.means), variances, NoiseModel(plan, 1 / steps)
        )


def _smallest(reached: Callable[[float], bool], low: float, high: float, *, precision: float) -> float:
    """Return the smallest number, up to the precision, for which a rising condition holds; it holds at ``high``."""
    while high - low > precision:
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _checked_sizes(sizes: Sequence[int], number: int) -> tuple[int, ...]:
    checked = tuple(check_count("sizes", size, minimum=2) for size in sizes)
    if number < 2 or len(checked) != number:
        raise InvalidArgument("sizes", checked, "the sizes of two groups or more, one for each group")
    return checked
