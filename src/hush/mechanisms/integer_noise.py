"""Noise on integers, which needs no grid: the discrete Laplace and the discrete Gaussian mechanism."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hush.accounting import PldAccountant, RdpAccountant, calibrate_noise, events
from hush.errors import InvalidArgument, check_count, check_positive
from hush.guarantee import Guarantee
from hush.mechanisms.additive_noise import AdditiveNoise, noise_event, norm_assumption
from hush.mechanisms.mechanism import SensitivityType
from hush.numerics import as_integers, round_up
from hush.randomness import MAX_SCALE, RandomSource, discrete_gaussian, discrete_laplace


@dataclass(frozen=True, kw_only=True)
class IntegerNoise(AdditiveNoise):
    """Base of the mechanisms that add integer noise to integers."""

    noise_scale: float = field(init=False, repr=False, compare=False)

    def _noisy(self, value: Any, source: RandomSource) -> Any:
        is_scalar = isinstance(value, int)
        exact = as_integers("value", value)
        self._check_shape(exact.shape)
        # Values are at most 2^61 and noise far below 2^60, so the sum fits into 64 bits.
        noisy = exact + self._draw(source).reshape(exact.shape)
        return int(noisy) if is_scalar or exact.ndim == 0 else noisy

    @abstractmethod
    def _draw(self, source: RandomSource) -> NDArray[np.int64]:
        """Return noise for every coordinate."""


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(IntegerNoise):
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
        # P(k) / P(k + s) <= e^(s / scale), which is e^epsilon at the scale sensitivity / epsilon.
        scale = round_up(check_count("sensitivity", self.sensitivity) / check_positive("epsilon", self.epsilon))
        check_count("size", self.size)
        check_integer_scale(scale)
        events.LaplaceEvent(1 / self.epsilon)
        self._set(noise_scale=scale)

    def _promise(self) -> Guarantee:
        return self._claim(self.epsilon, 0.0, "discrete Laplace mechanism", *norm_assumption("L1", self.sensitivity))

    def _describe(self) -> events.Event:
        return noise_event(events.DiscreteLaplaceEvent(self.noise_scale, self.sensitivity), self.relation)

    def _draw(self, source: RandomSource) -> NDArray[np.int64]:
        return discrete_laplace(source, self.noise_scale, self.size)

    def _tail(self, probability: float) -> float:
        # P(|k| >= m) = 2 e^(-m / t) / (1 + e^(-1 / t)), and |k| >= m means that |k| exceeds m - 1.
        share = probability * (1 + math.exp(-1 / self.noise_scale)) / 2
        return max(math.ceil(-self.noise_scale * math.log(share)) - 1, 0)


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(IntegerNoise):
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
        # The multiplier is sigma over sensitivity. A single integer has a profile of its own, which needs slightly less
        # noise.
        multiplier = _discrete_multiplier(float(self.epsilon), float(self.delta), step, size == 1)
        scale = round_up(multiplier * step)
        check_integer_scale(scale)
        self._set(noise_scale=scale, _multiplier=multiplier)

    def _promise(self) -> Guarantee:
        return self._claim(
            self.epsilon, self.delta, "discrete Gaussian mechanism", *norm_assumption("L2", self.sensitivity)
        )

    def _describe(self) -> events.Event:
        if self.size == 1:
            return noise_event(events.DiscreteGaussianEvent(self.noise_scale, self.sensitivity), self.relation)
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
        # rho = (sensitivity / sigma)^2 / 2, in any dimension.
        return events.ZeroConcentratedDPEvent(0.5 * multiplier**-2)

    accountant = PldAccountant if single else RdpAccountant
    return calibrate_noise(epsilon=epsilon, delta=delta, template=template, accountant=accountant)


def check_integer_scale(scale: float) -> None:
    """Refuse noise that would not fit into 64-bit integers."""
    if not scale <= MAX_SCALE:
        raise InvalidArgument(
            "noise_scale", float(scale), "at most 2^50", "Use Laplace or Gaussian, whose grid adapts to the scale"
        )
