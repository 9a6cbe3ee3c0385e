"""Noise on real numbers, on a grid: Laplace, Gaussian and staircase. `GridNoise` explains how it is added."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hush.accounting import events, gaussian_multiplier
from hush.errors import InvalidArgument, check_count, check_positive, check_probability
from hush.guarantee import Guarantee
from hush.mechanisms.additive_noise import GridNoise, noise_event, norm_assumption
from hush.mechanisms.mechanism import SensitivityType
from hush.numerics import round_down, round_up
from hush.randomness import (
    Grid,
    RandomSource,
    exp_interval,
    flip,
    floored_gaussian,
    floored_laplace,
    geometric,
    uniform_below,
)


@dataclass(frozen=True, kw_only=True)
class Laplace(GridNoise):
    """Laplace noise of scale ``sensitivity / epsilon`` on ``size`` real numbers.

    The value is rounded to a grid of multiples of a power of two, about 2^-40 of the scale. The floor of a real Laplace
    variable, sampled exactly, is added. The result is the floor of the continuous mechanism's output, so its lowest
    bits reveal nothing. The scale includes what rounding adds to the sensitivity. Known as the Laplace mechanism.

    >>> from hush.randomness import TestSource
    >>> release = Laplace(epsilon=1.0, sensitivity=1.0).release(100.0, TestSource(1))
    >>> abs(release.value - 100) < release.mechanism.accuracy(0.9999)
    True

    Guarantee:
        epsilon-differential privacy, delta = 0.

    Assumes:
        The value moves by at most ``sensitivity`` in L1 norm between neighbours (the caller's duty). The number of
        coordinates is public (checked here).

    References:
        Dwork, McSherry, Nissim & Smith 2006, Proposition 1; Mironov 2012 (why a grid).
    """

    sensitivity_type = SensitivityType.L1

    epsilon: float
    sensitivity: float
    _effective: float = field(init=False, repr=False, compare=False)

    def _prepare(self) -> None:
        epsilon, sensitivity = check_positive("epsilon", self.epsilon), check_positive("sensitivity", self.sensitivity)
        size = check_count("size", self.size)
        events.LaplaceEvent(1 / epsilon)  # refuses an epsilon outside the accountants' range
        grid = Grid.for_scale(sensitivity / epsilon)
        effective = round_up(sensitivity + size * grid.spacing)  # each coordinate is rounded by at most one step
        scale = round_up(effective / epsilon)
        self._set(_grid=grid, noise_scale=scale, _effective=effective)

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, 0.0, "Laplace mechanism", *norm_assumption("L1", self.sensitivity))

    def _describe(self) -> events.Event:
        # An event with less noise than was added is an upper bound on the cost, so the ratio is rounded down.
        return noise_event(events.LaplaceEvent(round_down(self.noise_scale / self._effective)), self.relation)

    def _draw(self, source: RandomSource) -> NDArray[np.int64]:
        return floored_laplace(source, self.noise_scale / self._grid.spacing, self.size)

    def _tail(self, probability: float) -> float:
        # P(|X| > t) = e^(-t / scale); rounding the value and flooring the noise add at most two steps.
        return -self.noise_scale * math.log(probability) + 2 * self._grid.spacing


@dataclass(frozen=True, kw_only=True)
class Gaussian(GridNoise):
    """Gaussian noise on ``size`` real numbers, with the smallest standard deviation that (epsilon, delta) allows.

    Rounding and sampling are those of `Laplace`. `classic` uses the textbook formula for the standard deviation.

    >>> mechanism = Gaussian(epsilon=1.0, delta=1e-5, sensitivity=2.0)
    >>> round(mechanism.noise_scale, 2)  # the standard deviation
    7.46

    Guarantee:
        (epsilon, delta)-differential privacy.

    Assumes:
        The value moves by at most ``sensitivity`` in L2 norm between neighbours (the caller's duty). If you pass a
        ``noise_multiplier``, it is large enough for (epsilon, delta) (checked here).

    References:
        Balle & Wang 2018, Theorem 8 (the analytic Gaussian mechanism: the exact condition).
    """

    sensitivity_type = SensitivityType.L2

    epsilon: float
    delta: float
    sensitivity: float
    noise_multiplier: float | None = None
    _multiplier: float = field(init=False, repr=False, compare=False)

    @classmethod
    def classic(cls, *, epsilon: float, delta: float, sensitivity: float, **settings: Any) -> Gaussian:
        """Return the mechanism with noise multiplier sqrt(2 ln(1.25 / delta)) / epsilon, proven for epsilon < 1.

        References: Dwork & Roth 2014, Theorem A.1.
        """
        if not check_positive("epsilon", epsilon) < 1:
            raise InvalidArgument(
                "epsilon",
                epsilon,
                "a number in (0, 1)",
                "The classic formula is proven for these only",
                "Use Gaussian(...)",
            )
        multiplier = round_up(math.sqrt(2 * math.log(1.25 / check_probability("delta", delta))) / epsilon)
        return cls(epsilon=epsilon, delta=delta, sensitivity=sensitivity, noise_multiplier=multiplier, **settings)

    def _prepare(self) -> None:
        check_positive("epsilon", self.epsilon)
        check_positive("sensitivity", self.sensitivity)
        if not check_probability("delta", self.delta) < 1:
            raise InvalidArgument("delta", self.delta, "a number in (0, 1)", "A delta of 1 protects nothing")
        size, smallest = check_count("size", self.size), gaussian_multiplier(float(self.epsilon), float(self.delta))
        multiplier = self.noise_multiplier
        multiplier = smallest if multiplier is None else check_positive("noise_multiplier", multiplier)
        # Balle & Wang 2018, Theorem 8, is an equivalence: there is no other proof for less noise.
        if not multiplier >= smallest:
            raise InvalidArgument(
                "noise_multiplier",
                self.noise_multiplier,
                f"at least {smallest:.6g}",
                "Less noise would not guarantee this epsilon and delta",
            )
        grid = Grid.for_scale(multiplier * self.sensitivity)
        # Each coordinate is rounded by at most one step: sqrt(size) steps in L2 norm.
        effective = round_up(self.sensitivity + round_up(math.sqrt(size)) * grid.spacing)
        self._set(_grid=grid, noise_scale=round_up(multiplier * effective), _multiplier=multiplier)

    def _promise(self) -> Guarantee:
        method = "Gaussian mechanism" if self.noise_multiplier is None else "Gaussian mechanism, noise given"
        return self._claim(self.epsilon, self.delta, method, *norm_assumption("L2", self.sensitivity))

    def _describe(self) -> events.Event:
        # The noise covers the sensitivity and the rounding, so the multiplier is exact.
        return noise_event(events.GaussianEvent(self._multiplier), self.relation)

    def _draw(self, source: RandomSource) -> NDArray[np.int64]:
        return floored_gaussian(source, self.noise_scale / self._grid.spacing, self.size)

    def _tail(self, probability: float) -> float:
        # The two-sided normal tail, and two steps for rounding the value and flooring the noise.
        return -self.noise_scale * float(ndtri(probability / 2)) + 2 * self._grid.spacing


@dataclass(frozen=True, kw_only=True)
class Staircase(GridNoise):
    """Staircase noise on one real number: the smallest expected error of all epsilon-private noise.

    It beats `Laplace` by a factor that grows with epsilon, about e^(epsilon / 2) / epsilon in expectation. The density
    is constant on steps. It falls by e^-epsilon once per sensitivity, at the fraction 1 / (1 + e^(epsilon / 2)) of it.

    >>> from hush.randomness import TestSource
    >>> mechanism = Staircase(epsilon=4.0, sensitivity=1.0)
    >>> abs(mechanism.release(10.0, TestSource(1)).value - 10.0) <= mechanism.accuracy(0.9999)
    True

    Guarantee:
        epsilon-differential privacy, delta = 0.

    Assumes:
        The value moves by at most ``sensitivity`` between neighbours (the caller's duty).

    References:
        Geng & Viswanath 2014, Theorem 4 and Algorithm 1, with the step that minimises the expected absolute error.
    """

    sensitivity_type = SensitivityType.L1

    epsilon: float
    sensitivity: float
    _period: int = field(init=False, repr=False, compare=False)
    _step: int = field(init=False, repr=False, compare=False)

    def _prepare(self) -> None:
        epsilon, sensitivity = check_positive("epsilon", self.epsilon), check_positive("sensitivity", self.sensitivity)
        if check_count("size", self.size) != 1:
            raise InvalidArgument("size", self.size, "1", "For several numbers, use Laplace, or a staircase for each")
        events.LaplaceEvent(1 / epsilon)
        # The grid follows the noise, so that the noise stays far below 2^53 steps and is never rounded.
        grid = Grid.for_scale(sensitivity * max(1.0, 1 / epsilon))
        period = math.ceil(sensitivity / grid.spacing) + 1
        # gamma = 1 / (1 + e^(epsilon / 2)) minimises the expected absolute error; any step would be private.
        step = min(max(round(period / (1 + math.exp(epsilon / 2))), 1), period - 1)
        self._set(_grid=grid, noise_scale=round_up(1 / epsilon), _period=period, _step=step)

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, 0.0, "staircase mechanism", *norm_assumption("L1", self.sensitivity))

    def _describe(self) -> events.Event:
        return events.ApproximateDPEvent(self.epsilon)

    def _draw(self, source: RandomSource) -> NDArray[np.int64]:
        period, step = self._period, self._step
        exponent = 1 / Fraction(self.noise_scale)  # at most epsilon
        # Algorithm 1: a geometric block, one of its two parts, a uniform point in it, and a sign.
        block = int(geometric(source, self.noise_scale, 1)[0])
        outer = period - step  # the part of a block where the density is lower by e^-epsilon

        def enclosure(index: int, digits: int) -> tuple[Fraction, Fraction]:
            low, high = exp_interval((-exponent, -exponent), digits)
            return step / (step + outer * high), step / (step + outer * low)

        inner_probability = step / (step + outer * math.exp(-float(exponent)))
        is_inner = flip(source, np.array([inner_probability]), enclosure)[0]
        offset = int(uniform_below(source, step if is_inner else outer, 1)[0]) + (0 if is_inner else step)
        magnitude = block * period + offset
        return np.array([~magnitude if source.word() & 1 else magnitude])

    def _tail(self, probability: float) -> float:
        # P(block >= b) = e^(-b epsilon), and noise in block b is below (b + 1) periods.
        blocks = math.ceil(-math.log(probability) * self.noise_scale)
        return max(blocks, 1) * self._period * self._grid.spacing
