"""Additive noise: Laplace and Gaussian on a grid, their discrete versions on the integers, and the staircase.

    value     numbers, whatever they are: NaN counts as 0, infinity as the largest number
    grid      rounded to multiples of a power of two, which adds at most one step to the sensitivity
    noise     an exact integer sampler, whose scale covers the sensitivity and that step
    release   value plus noise, in integers, times the grid's spacing

The integer mechanisms skip the grid.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hush.accounting import PldAccountant, RdpAccountant, calibrate_noise, events
from hush.errors import InvalidArgument, check_confidence, check_count, check_positive, check_probability
from hush.guarantee import Guarantee, Relation
from hush.mechanisms.mechanism import Mechanism, Release, SensitivityType
from hush.numerics import as_floats, as_integers, quiet_numpy, round_down, round_up
from hush.randomness import (
    MAX_SCALE,
    Grid,
    RandomSource,
    discrete_gaussian,
    discrete_laplace,
    exp_interval,
    flip,
    floored_gaussian,
    floored_laplace,
    geometric,
    source_or_default,
    uniform_below,
)


def check_monotone(monotone: Any, relation: Relation) -> None:
    """Refuse anything but True and False, and True under replacement, where scores move in both directions."""
    if not isinstance(monotone, bool):
        raise InvalidArgument("monotone", monotone, "True or False")
    if monotone and relation is Relation.REPLACE:
        raise InvalidArgument("monotone", monotone, "False", "A replacement moves some scores up and others down")


@dataclass(frozen=True, kw_only=True)
class _Additive(Mechanism):
    """Base of the mechanisms that add noise to ``size`` numbers."""

    size: int = 1

    @abstractmethod
    def _noisy(self, value: Any, source: RandomSource) -> Any:
        """Return the value with noise."""

    @abstractmethod
    def _tail(self, probability: float) -> float:
        """Return a bound that one coordinate's error exceeds with at most this probability."""

    @quiet_numpy
    def release(self, value: Any, source: RandomSource | None = None) -> Release[Any]:
        """Return the value with noise.

        Args:
            value: A number, or an array of ``size`` numbers. NaN counts as 0, infinity as the largest number: no value
                raises an exception.
            source: The random bits; by default the process's own source.

        Returns:
            A release whose value is a number for a number, and an array for an array.
        """
        random_source = source_or_default(source)
        return self._released(self._noisy(value, random_source), random_source)

    def accuracy(self, confidence: float = 0.95) -> float:
        """Return a bound that, with this confidence, no coordinate's error exceeds."""
        return self._tail((1 - check_confidence("confidence", confidence)) / self.size)

    def interval(self, release: Release[Any], confidence: float = 0.95) -> tuple[Any, Any]:
        """Return the confidence interval around a released value, for all coordinates together."""
        margin = self.accuracy(confidence)
        return release.value - margin, release.value + margin

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if math.prod(shape) != self.size:
            raise InvalidArgument("value.shape", shape, f"{self.size} numbers, as configured", "Pass size= to change")


@dataclass(frozen=True, kw_only=True)
class _OnGrid(_Additive):
    """Base of the mechanisms that add floored continuous noise, on multiples of a power of two near scale / 2^40."""

    noise_scale: float = field(init=False, repr=False, compare=False)
    _grid: Grid = field(init=False, repr=False, compare=False)

    def _noisy(self, value: Any, source: RandomSource) -> Any:
        if type(value) is float and self.size == 1:  # the common case, without NumPy's overhead
            return (self._grid.integer(value) + int(self._draw(source)[0])) * self._grid.spacing
        is_scalar = isinstance(value, (float, int))
        exact = as_floats("value", value)
        self._check_shape(exact.shape)
        noise = self._draw(source).reshape(exact.shape)
        released = self._grid.real(self._grid.integers(exact) + noise)
        return float(released) if is_scalar or exact.ndim == 0 else released

    @abstractmethod
    def _draw(self, source: RandomSource) -> NDArray[np.int64]:
        """Return noise for every coordinate, in multiples of the grid's spacing."""


@dataclass(frozen=True, kw_only=True)
class Laplace(_OnGrid):
    """Laplace noise of scale ``sensitivity / epsilon`` on ``size`` real numbers.

    The value is rounded to a grid of multiples of a power of two, about 2^-40 of the scale. The floor of a real Laplace
    variable, sampled exactly, is added. The result is the floor of the continuous mechanism's output, so its lowest
    bits reveal nothing. The scale includes what rounding adds to the sensitivity.

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
        return self._claim(self.epsilon, 0.0, "Laplace mechanism", *_assumed("L1", self.sensitivity))

    def _describe(self) -> events.Event:
        return events.LaplaceEvent(round_down(self.noise_scale / self._effective) * _doubled(self.relation))

    def _draw(self, source: RandomSource) -> NDArray[np.int64]:
        return floored_laplace(source, self.noise_scale / self._grid.spacing, self.size)

    def _tail(self, probability: float) -> float:
        # P(|X| > t) = e^(-t / scale); rounding the value and flooring the noise add at most two steps.
        return -self.noise_scale * math.log(probability) + 2 * self._grid.spacing


@dataclass(frozen=True, kw_only=True)
class Gaussian(_OnGrid):
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
        size, smallest = check_count("size", self.size), _gaussian_multiplier(float(self.epsilon), float(self.delta))
        multiplier = self.noise_multiplier
        multiplier = smallest if multiplier is None else check_positive("noise_multiplier", multiplier)
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
        return self._claim(self.epsilon, self.delta, method, *_assumed("L2", self.sensitivity))

    def _describe(self) -> events.Event:
        # The noise covers the sensitivity and the rounding, so the multiplier is exact.
        return events.GaussianEvent(self._multiplier * _doubled(self.relation))

    def _draw(self, source: RandomSource) -> NDArray[np.int64]:
        return floored_gaussian(source, self.noise_scale / self._grid.spacing, self.size)

    def _tail(self, probability: float) -> float:
        return -self.noise_scale * float(ndtri(probability / 2)) + 2 * self._grid.spacing


@lru_cache(maxsize=256)
def _gaussian_multiplier(epsilon: float, delta: float) -> float:
    return calibrate_noise(epsilon=epsilon, delta=delta)


def _doubled(relation: Relation) -> int:
    """Return 2 under replacement, else 1.

    An event states the noise relative to one record's contribution. A replacement moves the value by up to two
    contributions, which is what the mechanism's sensitivity says already.
    """
    return 2 if relation is Relation.REPLACE else 1


def _assumed(norm: str, sensitivity: float) -> tuple[str, ...]:
    return (f"between neighbours the value moves by at most {sensitivity:.6g} in {norm} norm",)


@dataclass(frozen=True, kw_only=True)
class _OnIntegers(_Additive):
    """Base of the mechanisms that add integer noise to integers."""

    noise_scale: float = field(init=False, repr=False, compare=False)

    def _noisy(self, value: Any, source: RandomSource) -> Any:
        is_scalar = isinstance(value, int)
        exact = as_integers("value", value)
        self._check_shape(exact.shape)
        noisy = exact + self._draw(source).reshape(exact.shape)
        return int(noisy) if is_scalar or exact.ndim == 0 else noisy

    @abstractmethod
    def _draw(self, source: RandomSource) -> NDArray[np.int64]:
        """Return noise for every coordinate."""


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(_OnIntegers):
    """Two-sided geometric noise on ``size`` integers: P(k) proportional to e^(-|k| epsilon / sensitivity), exactly.

    >>> from hush.randomness import TestSource
    >>> type(DiscreteLaplace(epsilon=0.5).release(42, TestSource(1)).value)
    <class 'int'>

    Guarantee:
        epsilon-differential privacy, delta = 0.

    Assumes:
        The value moves by at most the integer ``sensitivity`` in L1 norm between neighbours (the caller's duty).

    References:
        Ghosh, Roughgarden & Sundararajan 2009 (the geometric mechanism); Canonne, Kamath & Steinke 2020, Section 5.
    """

    sensitivity_type = SensitivityType.L1

    epsilon: float
    sensitivity: int = 1

    def _prepare(self) -> None:
        scale = round_up(check_count("sensitivity", self.sensitivity) / check_positive("epsilon", self.epsilon))
        check_count("size", self.size)
        check_integer_scale(scale)
        events.LaplaceEvent(1 / self.epsilon)
        self._set(noise_scale=scale)

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, 0.0, "discrete Laplace mechanism", *_assumed("L1", self.sensitivity))

    def _describe(self) -> events.Event:
        if self.relation is Relation.REPLACE:  # the event would need half of an integer sensitivity
            return events.ApproximateDPEvent(self.epsilon)
        return events.DiscreteLaplaceEvent(self.noise_scale, self.sensitivity)

    def _draw(self, source: RandomSource) -> NDArray[np.int64]:
        return discrete_laplace(source, self.noise_scale, self.size)

    def _tail(self, probability: float) -> float:
        # P(|k| >= m) = 2 e^(-m / t) / (1 + e^(-1 / t)), and |k| >= m means that |k| exceeds m - 1.
        share = probability * (1 + math.exp(-1 / self.noise_scale)) / 2
        return max(math.ceil(-self.noise_scale * math.log(share)) - 1, 0)


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(_OnIntegers):
    """Gaussian noise on ``size`` integers: P(k) proportional to e^(-k^2 / (2 sigma^2)), exactly.

    >>> mechanism = DiscreteGaussian(epsilon=1.0, delta=1e-5)
    >>> round(mechanism.noise_scale, 2)  # sigma
    3.74

    Guarantee:
        (epsilon, delta)-differential privacy. For one integer, by the discrete Gaussian's own privacy profile. For
        several, by concentrated differential privacy, which has the continuous Gaussian's constants in any dimension.

    Assumes:
        The value moves by at most ``sensitivity``, an integer, in L2 norm between neighbours (the caller's duty).

    References:
        Canonne, Kamath & Steinke 2020, Theorems 4 (concentrated), 7 (approximate).
    """

    sensitivity_type = SensitivityType.L2

    epsilon: float
    delta: float
    sensitivity: int = 1
    _multiplier: float = field(init=False, repr=False, compare=False)

    def _prepare(self) -> None:
        check_positive("epsilon", self.epsilon)
        size, step = check_count("size", self.size), check_count("sensitivity", self.sensitivity)
        check_integer_scale(step)
        multiplier = _discrete_multiplier(float(self.epsilon), float(self.delta), step, size == 1)
        scale = round_up(multiplier * step)
        check_integer_scale(scale)
        self._set(noise_scale=scale, _multiplier=multiplier)

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, self.delta, "discrete Gaussian mechanism", *_assumed("L2", self.sensitivity))

    def _describe(self) -> events.Event:
        if self.size == 1 and self.relation is not Relation.REPLACE:
            return events.DiscreteGaussianEvent(self.noise_scale, self.sensitivity)
        # Canonne, Kamath & Steinke 2020, Theorem 4: rho = sensitivity^2 / (2 sigma^2), in any dimension.
        return events.ZeroConcentratedDPEvent(round_up(0.5 * self._multiplier**-2))

    def _draw(self, source: RandomSource) -> NDArray[np.int64]:
        return discrete_gaussian(source, self.noise_scale, self.size)

    def _tail(self, probability: float) -> float:
        # The discrete tail is below the continuous one: P(k >= m) <= P(X >= m - 1)
        # (Canonne, Kamath & Steinke 2020, Proposition 25).
        return math.floor(-self.noise_scale * float(ndtri(probability / 2))) + 1


@lru_cache(maxsize=256)
def _discrete_multiplier(epsilon: float, delta: float, step: int, single: bool) -> float:
    """Return the smallest sigma over sensitivity, for one integer or for a vector of integers."""

    def template(multiplier: float) -> events.Event:
        if single:
            return events.DiscreteGaussianEvent(multiplier * step, step)
        return events.ZeroConcentratedDPEvent(0.5 * multiplier**-2)

    accountant = PldAccountant if single else RdpAccountant
    return calibrate_noise(epsilon=epsilon, delta=delta, template=template, accountant=accountant)


def check_integer_scale(scale: float) -> None:
    """Refuse noise that would not fit into 64-bit integers."""
    if not scale <= MAX_SCALE:
        raise InvalidArgument(
            "noise_scale", float(scale), "at most 2^50", "Use Laplace or Gaussian, whose grid adapts to the scale"
        )


@dataclass(frozen=True, kw_only=True)
class Staircase(_OnGrid):
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
            raise InvalidArgument("size", self.size, "1", "For several numbers use Laplace, or a staircase for each")
        events.LaplaceEvent(1 / epsilon)
        # The grid follows the noise, so that the noise stays far below 2^53 steps and is never rounded.
        grid = Grid.for_scale(sensitivity * max(1.0, 1 / epsilon))
        period = math.ceil(sensitivity / grid.spacing) + 1
        # gamma = 1 / (1 + e^(epsilon / 2)) minimises the expected absolute error; any step would be private.
        step = min(max(round(period / (1 + math.exp(epsilon / 2))), 1), period - 1)
        self._set(_grid=grid, noise_scale=round_up(1 / epsilon), _period=period, _step=step)

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, 0.0, "staircase mechanism", *_assumed("L1", self.sensitivity))

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
