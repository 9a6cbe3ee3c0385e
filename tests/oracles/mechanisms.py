"""Moment generating functions of the privacy loss, M(s) = E_P exp(s loss) at complex s, to near machine precision.

Each mechanism offers `log_mgf(s, direction, refine)` for Im s >= 0, and what the inversion must know of its loss:

- `bounds`: the smallest and largest value of the loss;
- `atoms`: the two values that carry mass (an M that does not decay), or None;
- `closed_form`: the profile of a single step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np

from . import closed_form
from .gaussian_moment import MixtureMoment, log_mean_exp

Complex = np.ndarray
_BLOCK = 2_000_000  # complex numbers in one working array: 32 MB


class Direction(Enum):
    """Which of the two neighbours is P. ADD and REMOVE differ by one record, REPLACE exchanges one."""

    REMOVE = "remove"
    ADD = "add"
    REPLACE = "replace"


class Mechanism(Protocol):
    def log_mgf(self, s: Complex, direction: Direction, refine: float) -> Complex: ...
    def bounds(self, direction: Direction) -> tuple[float, float]: ...
    def atoms(self, direction: Direction) -> tuple[float, float] | None: ...
    def closed_form(self, direction: Direction) -> closed_form.Profile: ...


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise of standard deviation sigma times the sensitivity."""

    noise_multiplier: float

    def _sigma(self, direction: Direction) -> float:
        # Replacing a record of norm at most 1 moves the sum by up to 2.
        return self.noise_multiplier / (2.0 if direction is Direction.REPLACE else 1.0)

    def log_mgf(self, s: Complex, direction: Direction, refine: float) -> Complex:
        return s * (s + 1) / (2 * self._sigma(direction) ** 2)

    def bounds(self, direction: Direction) -> tuple[float, float]:
        return -math.inf, math.inf

    def atoms(self, direction: Direction) -> tuple[float, float] | None:
        return None

    def closed_form(self, direction: Direction) -> closed_form.Profile:
        return closed_form.gaussian(self._sigma(direction))


@dataclass(frozen=True)
class SampledGaussian:
    """Poisson-sampled Gaussian, q < 1. REPLACE: (1 - q) N(0) + q N(1) against (1 - q) N(0) + q N(-1)."""

    noise_multiplier: float
    sampling_rate: float

    def log_mgf(self, s: Complex, direction: Direction, refine: float) -> Complex:
        moment = MixtureMoment(self.noise_multiplier, self.sampling_rate)
        if direction is Direction.REMOVE:
            return moment.log(s + 1, refine=refine)
        if direction is Direction.ADD:  # E (P/Q)^(-s): conjugate so that the exponent has Im >= 0 too
            return np.conj(moment.log(-np.conj(s), refine=refine))
        return moment.log(s + 1, s, refine=refine)

    def bounds(self, direction: Direction) -> tuple[float, float]:
        least = math.log1p(-self.sampling_rate)
        return {
            Direction.REMOVE: (least, math.inf),
            Direction.ADD: (-math.inf, -least),
            Direction.REPLACE: (-math.inf, math.inf),
        }[direction]

    def atoms(self, direction: Direction) -> tuple[float, float] | None:
        return None

    def closed_form(self, direction: Direction) -> closed_form.Profile:
        sigma, q = self.noise_multiplier, self.sampling_rate
        if direction is Direction.REPLACE:
            return closed_form.gaussian_replace(sigma, q)
        return _SAMPLED[direction](closed_form.gaussian(sigma), q)


@dataclass(frozen=True)
class SampledLaplace:
    """Poisson-sampled Laplace, sensitivity 1; q = 1 is the plain Laplace mechanism."""

    scale: float
    sampling_rate: float = 1.0

    def log_mgf(self, s: Complex, direction: Direction, refine: float) -> Complex:
        self._refuse_replace(direction)
        u = s + 1 if direction is Direction.REMOVE else -s
        low, high = math.log1p(self.sampling_rate * math.expm1(-1 / self.scale)), self._most()
        panels = math.ceil(refine * (2 + 0.2 / self.scale + 0.05 * float(np.abs(u).max()) * (high - low)))
        x, weights = _legendre(panels)
        reach = 1 / self.scale
        # under the unshifted noise: loss at x <= 0, between 0 and 1, at x >= 1
        ratio = np.concatenate([[-reach], (2 * x - 1) * reach, [reach]])
        mass = np.concatenate([[0.5], 0.5 * reach * np.exp(-reach * x) * weights, [0.5 * math.exp(-reach)]])
        loss = np.log1p(self.sampling_rate * np.expm1(ratio))
        rows = max(1, _BLOCK // len(loss))
        parts = [log_mean_exp(np.log(mass)[None, :], np.outer(u[i : i + rows], loss)) for i in range(0, len(u), rows)]
        return np.concatenate(parts)

    def _most(self) -> float:
        return math.log1p(self.sampling_rate * math.expm1(1 / self.scale))

    def bounds(self, direction: Direction) -> tuple[float, float]:
        self._refuse_replace(direction)
        least = math.log1p(self.sampling_rate * math.expm1(-1 / self.scale))
        return (least, self._most()) if direction is Direction.REMOVE else (-self._most(), -least)

    def atoms(self, direction: Direction) -> tuple[float, float] | None:
        return self.bounds(direction)

    def closed_form(self, direction: Direction) -> closed_form.Profile:
        self._refuse_replace(direction)
        return _SAMPLED[direction](closed_form.laplace(self.scale), self.sampling_rate)

    def _refuse_replace(self, direction: Direction) -> None:
        if direction is Direction.REPLACE:
            raise NotImplementedError("the oracle knows Laplace under add or remove only")


@dataclass(frozen=True)
class RandomizedResponse:
    """Binary randomised response with local epsilon; the record is replaced."""

    local_epsilon: float

    def log_mgf(self, s: Complex, direction: Direction, refine: float) -> Complex:
        e = self.local_epsilon
        return s * e + np.log1p(np.exp(-(2 * s + 1) * e)) - math.log1p(math.exp(-e))

    def bounds(self, direction: Direction) -> tuple[float, float]:
        if direction is not Direction.REPLACE:
            raise NotImplementedError("randomised response is defined under REPLACE only")
        return -self.local_epsilon, self.local_epsilon

    def atoms(self, direction: Direction) -> tuple[float, float] | None:
        return self.bounds(direction)

    def closed_form(self, direction: Direction) -> closed_form.Profile:
        return lambda epsilon: closed_form.randomized_response_delta(epsilon, local_epsilon=self.local_epsilon, count=1)


_SAMPLED = {Direction.REMOVE: closed_form.sampled_remove, Direction.ADD: closed_form.sampled_add}


def _legendre(panels: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre of order 24 on equal panels of (0, 1)."""
    node, weight = np.polynomial.legendre.leggauss(24)
    x = (np.arange(panels)[:, None] + 0.5 * (node + 1)[None, :]) / panels
    return x.ravel(), np.tile(0.5 * weight / panels, panels)
