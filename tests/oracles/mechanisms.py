"""Moment generating functions of the privacy loss, M(s) = E_P exp(s loss) at complex s, to near machine precision.

Each mechanism has `log_mgf(s, direction, refine)` for Im s >= 0, and the facts about its loss that the inversion needs:

- `bounds`: the smallest and the largest loss;
- `atoms`: the two losses that carry mass (so that M does not decay), or None;
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
_STRIDE = 64


class Direction(Enum):
    """Which of the two neighbours is P. ADD and REMOVE differ by one record; REPLACE exchanges one."""

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
        if direction is Direction.ADD:  # E (P/Q)^(-s), conjugated so that the exponent has Im >= 0, too
            return np.conj(moment.log(-np.conj(s), refine=refine))
        return moment.log(s + 1, s, refine=refine)

    def bounds(self, direction: Direction) -> tuple[float, float]:
        smallest = math.log1p(-self.sampling_rate)
        return {
            Direction.REMOVE: (smallest, math.inf),
            Direction.ADD: (-math.inf, -smallest),
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
        u = self._order(s, direction)
        low, high = self._range()
        # The phase of e^(u loss) turns by at most 12 radians in a panel of 24 nodes.
        turns = float(np.abs(u).max() * self._slope(np.array([0.0, 1.0])).max())
        panels = math.ceil(refine * (2 + 0.2 / self.scale + turns / 12))
        x, weights = _legendre(panels)
        loss = np.concatenate([[low], self._loss(x), [high]])
        mass = np.concatenate([[0.5], self._density(x) * weights, [0.5 * math.exp(-1 / self.scale)]])
        if len(u) > _STRIDE and np.ptp(u.real) == 0:
            return np.log(_moments_on_line(u, loss, mass))
        return log_mean_exp(np.log(mass)[None, :], np.outer(u, loss))

    def envelope(self, s: float, direction: Direction) -> tuple[float, float]:
        """Return (a, b) with |M(s + i t)| <= a + b / t: the atoms, and the continuous part integrated by parts."""
        u = float(self._order(np.array([s]), direction)[0])
        low, high = self._range()
        x = np.linspace(0, 1, 2001)
        f = self._density(x) * np.exp(u * self._loss(x)) / self._slope(x)
        atoms = 0.5 * math.exp(u * low) + 0.5 * math.exp(-1 / self.scale + u * high)
        return atoms, float(f[0] + f[-1] + np.abs(np.diff(f)).sum())

    def _order(self, s: np.ndarray, direction: Direction) -> np.ndarray:
        """Return the u with M(s) = E (P/Q)^u under the unshifted noise."""
        self._refuse_replace(direction)
        return s + 1 if direction is Direction.REMOVE else -s

    def _loss(self, x: np.ndarray) -> np.ndarray:
        """Return the log of the mixture's density over the unshifted one, at x between 0 and 1."""
        return np.log1p(self.sampling_rate * np.expm1((2 * x - 1) / self.scale))

    def _slope(self, x: np.ndarray) -> np.ndarray:
        return 2 / self.scale * (1 - (1 - self.sampling_rate) * np.exp(-self._loss(x)))

    def _density(self, x: np.ndarray) -> np.ndarray:
        return 0.5 / self.scale * np.exp(-x / self.scale)

    def _range(self) -> tuple[float, float]:
        low, high = self._loss(np.array([0.0, 1.0]))
        return float(low), float(high)

    def bounds(self, direction: Direction) -> tuple[float, float]:
        self._refuse_replace(direction)
        low, high = self._range()
        return (low, high) if direction is Direction.REMOVE else (-high, -low)

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


def _moments_on_line(u: Complex, loss: np.ndarray, mass: np.ndarray) -> Complex:
    """Return sum_j mass_j e^(u loss_j) for equidistant u, as a matrix product, since e^(u loss) factors."""
    starts = u[::_STRIDE]
    strides = np.exp(np.outer(loss, u[:_STRIDE] - u[0]))
    return ((mass * np.exp(np.outer(starts, loss))) @ strides).ravel()[: len(u)]


def _legendre(panels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of Gauss-Legendre rules of order 24 on equal panels of (0, 1)."""
    node, weight = np.polynomial.legendre.leggauss(24)
    x = (np.arange(panels)[:, None] + 0.5 * (node + 1)[None, :]) / panels
    return x.ravel(), np.tile(0.5 * weight / panels, panels)
