"""The saddle point: the tilt at which delta is decided, from the cumulants of the composed loss.

delta(eps) is an integral of exp(K(c) - c eps) / (c (c + 1)) along a line in the complex plane, with K the cumulant
generating function of the composed privacy loss. Near the saddle point of the integrand the integral is easy to
estimate, and the tilt c there is the right one for the lattice. This only guides the choice of a grid; no bound depends
on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hush.accounting.losses.lattice import Atoms, dominating, loss_range
from hush.accounting.losses.profile import Array, DominatingPair

# Points in (0, 1]: dense near 0, and evenly spaced further out.
_UNEVEN = np.union1d(np.geomspace(1e-8, 1.0, 260), np.linspace(0.0, 1.0, 260)[1:])
_MOST_TERMS = 2**17  # tilts times losses at a time

CountedPair = tuple[DominatingPair, int]


@dataclass(frozen=True, slots=True)
class CumulantFunction:
    """The cumulant generating function K(c) = sum_i T_i log E[e^(c Y_i)] of the composed loss, from above.

    Attributes:
        losses: A row of losses for each pair.
        masses: Their probabilities.
        log_masses: Their logarithms.
        counts: T_i, how often each pair is composed.
    """

    losses: Array
    masses: Array
    log_masses: Array
    counts: Array

    @staticmethod
    def of(parts: Sequence[CountedPair], tail: float) -> CumulantFunction:
        """Discretise each pair on losses that are dense around 0 and evenly spaced further out."""
        rows = [_uneven(pair, tail) for pair, _ in parts]
        counts = np.array([count for _, count in parts], dtype=float)
        # Masses keep their sign: clipping rounding errors at 0 would add mass, T times.
        masses = np.stack([row.masses for row in rows])
        with np.errstate(divide="ignore"):
            log_masses = np.log(np.maximum(masses, 0.0))
        return CumulantFunction(np.stack([row.losses for row in rows]), masses, log_masses, counts)

    def values(self, tilts: Array) -> Array:
        """Return K at several tilts."""
        values = []
        for some in np.array_split(tilts, math.ceil(tilts.size * self.losses.size / _MOST_TERMS)):
            weights, peaks = self._tilted(some[:, None, None])
            values.append((peaks[..., 0] + np.log(weights.sum(axis=-1))) @ self.counts)
        return np.concatenate(values)

    def at(self, tilt: float) -> tuple[float, float, float, Array]:
        """Return K, K', K'' and the tilted probabilities of each pair."""
        weights, peak = self._tilted(tilt)
        total = weights.sum(axis=1, keepdims=True)
        weights /= total
        mean = (weights * self.losses).sum(axis=1)
        variance = (weights * (self.losses - mean[:, None]) ** 2).sum(axis=1)
        log_moment = peak[:, 0] + np.log(total[:, 0])
        return float(self.counts @ log_moment), float(self.counts @ mean), float(self.counts @ variance), weights

    def _tilted(self, tilt: float | Array) -> tuple[Array, Array]:
        """Return masses times e^(tilt * loss - peak), and the peaks, which keep the last axis."""
        exponents = tilt * self.losses
        # Exponents are taken relative to the largest term, which then is about 1: nothing overflows.
        largest = (self.log_masses + exponents).argmax(axis=-1)
        peak = np.take_along_axis(exponents, largest[..., None], axis=-1)
        exponents -= peak
        return self.masses * np.exp(np.minimum(exponents, 600.0, out=exponents), out=exponents), peak


def _uneven(pair: DominatingPair, tail: float) -> Atoms:
    low, high = loss_range(pair, tail)
    losses = np.concatenate([low * _UNEVEN[::-1], [0.0], high * _UNEVEN])
    return dominating(pair, losses, np.diff(losses))


@dataclass(frozen=True, slots=True)
class Saddle:
    """A saddle point.

    Attributes:
        tilt: The tilt c.
        epsilon: The epsilon to which it belongs, approximately.
        log_delta: The log of delta there, approximately.
        spread: The standard deviation of the tilted loss.
    """

    tilt: float
    epsilon: float
    log_delta: float
    spread: float


def _saddle_at(moments: CumulantFunction, tilt: float) -> Saddle:
    """Return the saddle point of K(c) - c eps - log(c (c + 1)) at the tilt c, by solving for eps."""
    value, mean, variance, _ = moments.at(tilt)
    # The derivative of K(c) - c eps - log c - log(c + 1) is 0 at the saddle point.
    epsilon = mean - 1 / tilt - 1 / (tilt + 1)
    curvature = max(variance, 0.0) + tilt**-2 + (tilt + 1) ** -2
    exponent = value - tilt * epsilon - math.log(tilt) - math.log1p(tilt)
    # Laplace's method: the integral is e^exponent / sqrt(2 pi curvature), up to a factor near 1.
    return Saddle(tilt, epsilon, exponent - 0.5 * math.log(2 * math.pi * curvature), math.sqrt(curvature))


def find_saddle(moments: CumulantFunction, *, log_delta: float | None = None, epsilon: float = 0.0) -> Saddle:
    """Return the saddle point for a delta, or, without one, for an epsilon."""

    def excess(log_tilt: float) -> float:
        saddle = _saddle_at(moments, math.exp(log_tilt))
        return saddle.epsilon - epsilon if log_delta is None else log_delta - saddle.log_delta

    # The tilt times the largest loss has no unit: search it from e^-21 to e^18, which is wider than any delta needs.
    scale = math.log(float(np.abs(moments.losses).max()))
    return _saddle_at(moments, math.exp(bisect(excess, -21 - scale, 18 - scale, 1e-3)))


def bisect(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Return where an increasing function changes sign, or an end of the interval if it does not."""
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if function(middle) > 0 else (middle, high)
    return 0.5 * (low + high)
