"""Composition of lattice losses in the frequency domain, with a certificate.

For losses on the multiples of h, a tilt c > 0 and the tilted transform ``Phi`` of the composed loss,

    delta(eps) = M(c)^T e^(-c eps) * (1/n) sum_k Phi_k G_k(eps),

where G is the transform of ``e^(-c v) (1 - e^-v)_+`` in closed form. The tilt moves the mass to where delta is decided,
so that rounding is relative to delta and not to 1: what ruins an ordinary FFT, ``T * 1e-16 / delta``, becomes
``T * 1e-16``. Three things separate the sum from the true value, and each is inside the certificate:

- *wrap-around*: with n frequencies the sum equals ``sum_l e^(c l L) delta(eps + l L)``, L = n h. All terms are
  positive, so it errs upwards only; for a lower bound the terms l != 0 are bounded and taken off.
- *rounding*: of the curve values, of the masses, of the tilt, of the FFT, of the power T. Each frequency's relative
  error is bounded and raised to the power T with it.
- *frequencies left out* because ``|Phi_k|`` is below e^-60: bounded by that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from hush.accounting._lattice import Atoms
from hush.accounting._profile import ULP, Array

_NEGLIGIBLE = 60.0

Indices = NDArray[np.int64]
Complex = NDArray[np.complex128]


@dataclass(frozen=True, slots=True)
class LatticePart:
    """A loss on the lattice (``indices`` times the spacing) that is composed ``count`` times."""

    atoms: Atoms
    indices: Indices
    count: int


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The composed loss at the frequencies that matter, ready to be evaluated at any epsilon.

    Attributes:
        spacing, tilt, num_points: h, c and n.
        log_scale: log M(c)^T, up to ``log_scale_error``.
        indices: k of the frequencies 2 pi k / (n h) that are kept.
        values: the tilted transform there, times its weight (2 for a conjugate pair) and 1/n; ``errors`` bounds theirs.
        infinite: probability of an unbounded loss, over all steps.
    """

    spacing: float
    tilt: float
    num_points: int
    log_scale: float
    log_scale_error: float
    indices: Indices
    values: Complex
    errors: Array
    infinite: float

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) for the lattice's delta; both still include wrap-around."""
        scaled, error = self._kernel_sum(epsilon)
        exponent = self.log_scale - self.tilt * epsilon
        slack = self.log_scale_error + 8 * ULP * (abs(self.log_scale) + abs(self.tilt * epsilon) + 1)
        low = max(scaled - error, 0.0) * math.exp(min(exponent - slack, 700.0))
        high = max(scaled + error, 0.0) * math.exp(min(exponent + slack, 700.0))
        return self.infinite + low, min(self.infinite + high, 1.0)

    def _kernel_sum(self, epsilon: float) -> tuple[float, float]:
        h, c, n = self.spacing, self.tilt, self.num_points
        first = math.floor(epsilon / h) + 1
        start = min(max(first * h - epsilon, 0.0), h)  # rounding here shifts epsilon by an ulp: inside the slack
        angles = (2j * math.pi / n) * self.indices
        turns = np.exp((2j * math.pi / n) * (self.indices * (first % n) % n))
        slow = math.exp(-c * start) / -np.expm1(angles - c * h)
        fast = math.exp(-(c + 1) * start) / -np.expm1(angles - (c + 1) * h)
        total = float(np.sum((self.values * turns * (slow - fast)).real))
        rounding = 16 * ULP * np.abs(self.values) * (np.abs(slow) + np.abs(fast))
        error = float(np.sum(rounding + self.errors * np.abs(slow - fast)))
        left_out = 2 * math.exp(-_NEGLIGIBLE) / -math.expm1(-c * h)
        return total, 1.01 * error + left_out


def spectrum(parts: Sequence[LatticePart], spacing: float, tilt: float, num_points: int) -> Spectrum:
    """Transform, tilt and compose the parts."""
    kept: Indices = np.arange(num_points // 2 + 1)
    logs: Complex = np.zeros(len(kept), dtype=np.complex128)
    relative, log_bound = np.zeros(len(kept)), np.zeros(len(kept))
    log_scale = log_magnitude = log_finite = 0.0
    shift = 0
    unit = 2 * math.pi / (num_points * spacing)
    for part in parts:
        one = _tilt(part, spacing, tilt, num_points)
        values = one.transform if len(kept) == len(one.transform) else one.transform[kept]
        size = np.sqrt(values.real**2 + values.imag**2)
        # Every factor is below 1 + its error: a frequency once negligible stays so (hence twice the margin).
        floor = math.exp(-2 * _NEGLIGIBLE / part.count) - float(one.error_at(unit * kept[-1:].astype(float), tilt)[-1])
        alive = np.flatnonzero((size > floor) & (log_bound > -2 * _NEGLIGIBLE))
        kept, values, size = kept[alive], values[alive], np.maximum(size[alive], 1e-300)
        error = one.error_at(unit * kept.astype(float), tilt)
        log_one = np.log(size) + 1j * np.angle(values)
        ratio = np.minimum(error / size, 0.5)
        logs = logs[alive] + part.count * log_one
        relative = relative[alive] + part.count * (ratio / (1 - ratio) + 8 * ULP * (1 + np.abs(log_one)))
        log_bound = log_bound[alive] + part.count * np.log(size + error)
        log_scale += part.count * one.log_moment
        log_magnitude += part.count * abs(one.log_moment)
        log_finite += part.count * math.log1p(-part.atoms.infinite)
        shift += part.count * one.origin
    weight = np.where((kept == 0) | (2 * kept == num_points), 1.0, 2.0) / num_points
    turns = np.exp((-2j * math.pi / num_points) * (kept * (shift % num_points) % num_points))
    composed = np.exp(logs)
    size = np.abs(composed)
    grown = size * np.expm1(np.minimum(relative, 700.0))
    return Spectrum(
        spacing=spacing,
        tilt=tilt,
        num_points=num_points,
        log_scale=log_scale,
        log_scale_error=8 * ULP * log_magnitude,
        indices=kept,
        values=weight * composed * turns,
        errors=weight * np.minimum(grown, size + np.exp(np.minimum(log_bound, 700.0))),
        infinite=-math.expm1(log_finite),
    )


@dataclass(frozen=True, slots=True)
class _Tilted:
    """Transform of e^(c y) P(y) / M, as if the loss at lattice index ``origin`` were 0, with bounds on its errors."""

    transform: Complex
    origin: int
    log_moment: float
    flat_error: float
    curve_error: float

    def error_at(self, frequency: Array, tilt: float) -> Array:
        """Bound the transform's error: what the curve's errors contribute grows with |s (s + 1)|, s = c + i t."""
        size = np.hypot(tilt, frequency) * np.hypot(tilt + 1, frequency)
        return self.flat_error + self.curve_error * size


def _tilt(part: LatticePart, spacing: float, tilt: float, num_points: int) -> _Tilted:
    atoms = part.atoms
    exponents = tilt * atoms.losses
    peak = float(exponents[np.argmax(np.log(np.maximum(np.abs(atoms.masses), 1e-300)) + exponents)])
    weights = np.exp(np.minimum(exponents - peak, 600.0))
    log_moment = peak + math.log(float(np.dot(np.abs(atoms.masses), weights)))
    weights *= math.exp(peak - log_moment)
    masses = atoms.masses * weights
    origin = int(part.indices[np.argmax(masses)])
    folded = np.bincount((part.indices - origin) % num_points, masses, num_points)
    atom = folded[0]
    folded[0] = 0.0  # the heaviest point is transformed exactly: only the rest is rounded
    transform = fft.rfft(folded) + atom
    fft_error = 4 * ULP * math.log2(num_points + 2) * math.sqrt(num_points * float(np.dot(folded, folded)))
    tilt_error = 2 * ULP * float(np.dot(np.abs(masses), 8 + 2 * np.abs(exponents) + abs(log_moment)))
    mass_error = float(np.dot(atoms.mass_noise, weights))
    # Errors of the curve enter through second differences: summation by parts, twice, gives |s (s + 1)| times this.
    around = np.append(atoms.gaps, 0.0) + np.append(0.0, atoms.gaps)
    swing = np.exp(np.minimum((tilt + 2) * around, 600.0))
    curve_error = atoms.curve_error * float(np.dot(atoms.curve * weights, around * swing))
    return _Tilted(transform, origin, log_moment, 1.01 * (fft_error + tilt_error + mass_error), 1.01 * curve_error)
