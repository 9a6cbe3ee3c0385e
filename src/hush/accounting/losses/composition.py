"""Composition of lattice losses in the frequency domain, with certified errors.

For losses on the multiples of h, a tilt c > 0, M(c) = E[e^(c Y)], and the transform ``Phi`` of the tilted and composed
loss,

    delta(eps) = M(c)^T e^(-c eps) * (1/n) sum_k Phi_k G_k(eps),

where G is the transform of ``e^(-c v) (1 - e^-v)_+`` in closed form. The tilt moves the mass to where delta is decided,
which makes rounding errors relative to delta instead of to 1: the error of an ordinary FFT, ``T * 1e-16 / delta``,
becomes ``T * 1e-16``. Three errors separate the sum from the true value, and the bounds include all of them:

- *Wrap-around.* With n frequencies the sum equals ``sum_l e^(c l L) delta(eps + l L)``, where L = n h. All terms are
  positive, so the error is upwards only. For a lower bound the terms l != 0 are bounded and subtracted.
- *Rounding* of the curve values, the masses, the tilt, the FFT and the power T. The relative error of each frequency is
  bounded, and is raised to the power T with it.
- *Omitted frequencies*, where ``|Phi_k|`` is below e^-60.

    parts      each loss on the lattice, tilted: `_tilt`
    band       the low frequencies, computed from few bins: `_low_band`
    spectrum   the product over the parts, with its errors: `_compose`
    delta      at any epsilon: `Spectrum.delta_bounds`
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.fft import next_fast_len

from hush.accounting.losses.lattice import Atoms
from hush.accounting.losses.profile import ULP, Array

_NEGLIGIBLE = 60.0  # frequencies where the transform is below e^-60 are omitted
_TERMS = 10  # of the power series within a bin
_FEW_FREQUENCIES = 20_000  # up to here, sums are taken in the frequency domain

Indices = NDArray[np.int64]
Complex = NDArray[np.complex128]


@dataclass(frozen=True, slots=True)
class LatticePart:
    """A loss on the lattice, at ``offset`` plus ``indices`` times the spacing, that is composed ``count`` times."""

    atoms: Atoms
    indices: Indices
    count: int
    offset: float = 0.0


class Spectrum:
    """The transform of the composed loss, from which delta can be computed at any epsilon.

    Attributes:
        spacing: The spacing h.
        tilt: The tilt c.
        num_points: The number n of lattice points in a period.
        log_scale: log M(c)^T.
        log_scale_error: A bound on its error.
        infinite: The probability of an infinite loss, over all steps.
    """

    def __init__(
        self,
        *,
        band: _Band,
        tilt: float,
        log_scale: float,
        log_scale_error: float,
        infinite: float,
        offset: float,
        indices: Indices,
        values: Complex,
        errors: Array,
    ) -> None:
        """Store the weighted transform at frequencies 2 pi k / (n h), with bounds on its errors."""
        self._offset = offset
        self.spacing, self.tilt, self.num_points = band.spacing, tilt, band.num_points
        self.log_scale, self.log_scale_error, self.infinite = log_scale, log_scale_error, infinite
        # The kernel's transform at eps is e^(-c v) slow - e^(-(c+1) v) fast, with v the distance to the next lattice
        # point.
        angles = (2j * math.pi / self.num_points) * indices
        slow = -1 / np.expm1(angles - tilt * self.spacing)
        fast = -1 / np.expm1(angles - (tilt + 1) * self.spacing)
        self._tail_sums = _TailSums(self.num_points, indices, values, tilt * self.spacing, self.spacing)
        magnitudes = 16 * ULP * np.abs(values)
        self._difference_error = 1.01 * float(np.dot(errors, np.abs(slow - fast)))
        self._fast_error = 1.01 * float(np.dot(errors, np.abs(fast)))
        self._rounding = 1.01 * float(np.dot(magnitudes, np.abs(slow) + np.abs(fast))) + self._tail_sums.error
        self._omitted = -2 * math.exp(-_NEGLIGIBLE) / math.expm1(-tilt * self.spacing)

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) for the lattice's delta. Both still include wrap-around."""
        scaled, error = self._kernel_sum(epsilon - self._offset)
        exponent = self.log_scale - self.tilt * epsilon
        # An absolute error of an exponent is a relative error of delta.
        slack = self.log_scale_error + 8 * ULP * (abs(self.log_scale) + abs(self.tilt * epsilon) + 1)
        low = max(scaled - error, 0.0) * math.exp(min(exponent - slack, 700.0))
        high = max(scaled + error, 0.0) * math.exp(min(exponent + slack, 700.0))
        return self.infinite + low, min(self.infinite + high, 1.0)

    def _kernel_sum(self, epsilon: float) -> tuple[float, float]:
        """Return (1/n) sum_k Phi_k G_k(eps), and a bound on its error."""
        first = math.floor(epsilon / self.spacing) + 1
        # The distance is in (0, h]. Rounding it shifts epsilon by an ulp, which the caller's slack covers.
        distance = min(max(first * self.spacing - epsilon, 0.0), self.spacing)
        slow, fast = math.exp(-self.tilt * distance), math.exp(-(self.tilt + 1) * distance)
        # delta = sum over y > eps of P(y) (1 - e^(eps - y)): a sum with decay c, minus one with decay c + 1.
        slow_sum, fast_sum = self._tail_sums.at(first)
        total = slow * slow_sum - fast * fast_sum
        error = slow * self._difference_error + (slow - fast) * self._fast_error + self._rounding + self._omitted
        return total, error


class _TailSums:
    """The sums over j >= 0 of p(m + j) e^(-c j h) and of p(m + j) e^(-(c+1) j h), for the periodic p of a spectrum.

    With few frequencies they are computed in the frequency domain. With many, an inverse FFT computes p once.
    """

    def __init__(self, num_points: int, indices: Indices, values: Complex, decay: float, spacing: float) -> None:
        self._num_points = num_points
        decays = (decay, decay + spacing)
        self.error = 0.0
        self._inverted = len(indices) > max(_FEW_FREQUENCIES, num_points // 64)
        if not self._inverted:
            angles = (2j * math.pi / num_points) * indices
            self._indices = indices
            self._slow, self._fast = (values / -np.expm1(angles - rate) for rate in decays)
            return
        half: Complex = np.zeros(num_points // 2 + 1, dtype=np.complex128)
        half[indices] = values * num_points
        half[(indices[1:] if indices[0] == 0 else indices)] /= 2  # irfft adds both halves of a conjugate pair
        if num_points % 2 == 0 and indices[-1] == num_points // 2:
            half[-1] *= 2
        self._masses = fft.irfft(half, num_points)
        steps = np.arange(num_points, dtype=float)
        self._weights = [np.exp(-rate * steps) / -math.expm1(-rate * num_points) for rate in decays]
        # Cauchy-Schwarz: the error of a dot product is at most the product of the norms of weights and errors.
        norm = math.sqrt(float(np.dot(self._masses, self._masses)))
        rounding = 8 * ULP * math.log2(num_points) * norm
        self.error = sum(math.sqrt(float(np.dot(weights, weights))) for weights in self._weights) * rounding

    def at(self, first: int) -> tuple[float, float]:
        """Return both sums from the lattice point ``first`` on."""
        n = self._num_points
        if not self._inverted:
            turns = np.exp((2j * math.pi / n) * (self._indices * (first % n) % n))
            return float(np.dot(turns, self._slow).real), float(np.dot(turns, self._fast).real)
        start = first % n
        slow, fast = (
            float(
                np.dot(self._masses[start:], weights[: n - start]) + np.dot(self._masses[:start], weights[n - start :])
            )
            for weights in self._weights
        )
        return slow, fast


def spectrum(
    parts: Sequence[LatticePart], spacing: float, tilt: float, num_points: int, max_points: int
) -> Spectrum | None:
    """Tilt, transform and compose the parts. Return None if that takes an FFT of more than ``max_points`` points.

    After many steps only low frequencies matter. They are computed from few bins (see `_low_band`) if the others can be
    shown to be negligible, otherwise from more bins, and finally by a plain FFT.

    Args:
        parts: The losses.
        spacing: The spacing h.
        tilt: The tilt c.
        num_points: The number n of lattice points in a period.
        max_points: The size of the largest FFT that memory allows.
    """
    tilted = [_tilt(part, tilt) for part in parts]
    # Showing that takes an FFT of about eighty times a part's mean offset.
    too_wide = max(part.mean_size for part in tilted) > max_points / 100
    # In units of the spread, |Phi|^T falls about like e^(-T t^2 / 2): after T steps few frequencies matter.
    bins = num_points if too_wide else _first_guess(tilted, spacing, num_points)
    while bins < min(num_points // 4, max_points):
        band = _Band(bins=bins, width=-(-num_points // bins), spacing=spacing)
        if sum(part.count * math.log(_beyond(part, band, tilt)) for part in tilted) < -_NEGLIGIBLE:
            return _compose(tilted, band, tilt)
        bins *= 4
    if num_points > max_points:
        return None
    return _compose(tilted, _Band(bins=num_points, width=1, spacing=spacing), tilt)


@dataclass(frozen=True, slots=True)
class _Tilted:
    r"""The tilted masses e^(c y) P(y) / M of one part, with bounds on their errors.

    Attributes:
        offsets: The lattice points, counted from the one with the largest mass.
        masses: The tilted masses.
        origin: The index of the lattice point with the largest mass.
        count: How often the part is composed.
        offset: The loss of the lattice's point 0.
        infinite: The probability of an infinite loss.
        log_moment: log M.
        flat_error: A bound on the sum of all errors of the masses, except those of the curve.
        curve_error: The contribution of the curve's errors, to be multiplied by |s (s + 1)| (see `_error`).
        mean_size: The mean of \|offsets\|.
    """

    offsets: Indices
    masses: Array
    origin: int
    count: int
    offset: float
    infinite: float
    log_moment: float
    flat_error: float
    curve_error: float
    mean_size: float


def _tilt(part: LatticePart, tilt: float) -> _Tilted:
    """Return a part's masses, tilted by e^(c y) and normalised, with bounds on their errors."""
    atoms = part.atoms
    exponents = tilt * atoms.losses
    with np.errstate(divide="ignore"):
        peak = float(exponents[np.argmax(np.log(np.abs(atoms.masses)) + exponents)])
    # Relative to the largest tilted mass, so that neither it nor the sum overflows.
    weights = np.exp(np.minimum(exponents - peak, 600.0))
    log_moment = peak + math.log(float(np.dot(np.abs(atoms.masses), weights)))
    weights *= math.exp(peak - log_moment)
    masses = atoms.masses * weights
    origin = int(part.indices[np.argmax(masses)])
    offsets = part.indices - origin
    magnitudes = np.abs(masses)
    # A product, a difference, an exponential and two more products. The common factor's error is in log_scale_error.
    tilt_error = ULP * float(np.dot(magnitudes, 4 + 2 * np.abs(exponents) + abs(peak)))
    mass_error = float(np.dot(atoms.mass_noise, weights))
    smooth, rough = _curve_errors(atoms, weights, tilt)
    return _Tilted(
        offsets=offsets,
        masses=masses,
        origin=origin,
        count=part.count,
        offset=part.offset,
        infinite=atoms.infinite,
        log_moment=log_moment,
        flat_error=1.01 * (tilt_error + mass_error + rough),
        curve_error=1.01 * smooth,
        mean_size=float(np.dot(magnitudes, np.abs(offsets))),
    )


def _curve_errors(atoms: Atoms, weights: Array, tilt: float) -> tuple[float, float]:
    """Bound the effect of the curve's errors on the transform: (a factor of |s (s + 1)|, a constant to add).

    On a fine grid the errors enter through second differences, and summing by parts twice gives the first term. On a
    grid as coarse as the kernel, each error affects its own mass and those of its neighbours.
    """
    # Masses are second differences of the curve, divided by the gaps, so errors of the curve can be amplified.
    errors = atoms.curve_error * np.abs(atoms.curve)
    if (tilt + 2) * float(atoms.gaps.max()) < 1:
        around = np.append(atoms.gaps, 0.0) + np.append(0.0, atoms.gaps)
        return float(np.dot(errors * weights, around * np.exp((tilt + 2) * around))), 0.0
    with np.errstate(over="ignore"):
        up, down = 1 / np.expm1(atoms.gaps), -1 / np.expm1(-atoms.gaps)
    at_corner = np.append(up, 0.0) + np.append(1.0, down)
    total = (
        np.dot(errors, at_corner * weights)
        + np.dot(errors[1:], up * weights[:-1])
        + np.dot(errors[:-1], down * weights[1:])
    )
    return 0.0, float(total)


@dataclass(frozen=True, slots=True)
class _Band:
    """The frequencies 2 pi k / (n h), k = 0, ..., last, computed from ``bins`` bins of ``width`` lattice points."""

    bins: int
    width: int
    spacing: float

    @property
    def num_points(self) -> int:
        """The number n of lattice points in a period."""
        return self.bins * self.width

    @property
    def last(self) -> int:
        """The highest k. With binning, only angles of at most 1/2 per half bin are computed."""
        return self.bins // 2 if self.width == 1 else math.floor(self.bins / (2 * math.pi))

    @property
    def unit(self) -> float:
        """The lowest frequency above 0."""
        return 2 * math.pi / (self.num_points * self.spacing)


def _first_guess(tilted: Sequence[_Tilted], spacing: float, num_points: int) -> int:
    """Return a first guess at how many bins are enough; the more steps, the lower the frequencies that matter."""
    steps = sum(part.count for part in tilted)
    mean_size = sum(part.count * part.mean_size for part in tilted) / steps
    # 1 - |Phi| is about (angle * size)^2 / 4, and T times that should reach _NEGLIGIBLE. Only a guess: `_beyond`
    # decides.
    angle = max(0.6, 1.2 * math.sqrt(4 * _NEGLIGIBLE / steps)) / max(mean_size, 1e-9)  # per lattice point
    return int(next_fast_len(math.ceil(num_points * min(angle, math.pi)) + 16, real=True))


def _beyond(part: _Tilted, band: _Band, tilt: float) -> float:
    r"""Return a bound on the absolute value of a part's transform at all lattice frequencies above the band.

    A short FFT samples it. Between two samples it changes by at most the mean \|offset\| times half their distance.
    """
    # 80 samples per mean offset bound what lies between two samples by pi / 80, or 0.04.
    length = int(next_fast_len(math.ceil(80 * part.mean_size) + 64, real=True))
    samples = np.abs(fft.rfft(np.bincount(part.offsets % length, part.masses, length)))
    first = max(math.floor(band.last * length / band.num_points) - 1, 0)
    error = float(_error(part, np.array([math.pi / band.spacing]), tilt)[0])
    rounding = _fft_error(length, float(np.dot(part.masses, part.masses)))
    return float(samples[first:].max()) + part.mean_size * math.pi / length + error + rounding


def _error(part: _Tilted, frequencies: Array, tilt: float) -> Array:
    """Return a bound on a transform's error, without the FFT's. The curve's grows with |s (s + 1)|, s = c + i t."""
    return part.flat_error + part.curve_error * np.hypot(tilt, frequencies) * np.hypot(tilt + 1, frequencies)


def _fft_error(length: int, squares: float) -> float:
    """Return a bound on each coefficient's rounding error (Higham 2002, Theorem 24.2, for mixed radices).

    Args:
        length: The length of the FFT.
        squares: The sum of the squares of its input.
    """
    return 4 * ULP * math.log2(length + 2) * math.sqrt(length * squares)


def _low_band(part: _Tilted, band: _Band) -> tuple[Complex, Array]:
    """Return a part's transform at the frequencies of the band, and a bound on the error of computing it.

    The masses are collected in bins, with their moments about the centres of the bins. The transform is then a power
    series in the angle x across half a bin: ``sum_q (-i x)^q / q! * FFT(q-th moments)``.
    """
    half = max(band.width / 2, 0.5)
    centred = (part.offsets + band.num_points // 2) % band.num_points - band.num_points // 2
    bins = np.floor_divide(centred + band.width // 2, band.width)
    within = (centred - bins * band.width) / half
    bins %= band.bins
    # The angle across half a bin at frequency k: at most 1/2, so ten terms of the series leave 2^-10 / 10!.
    angles = (math.pi / band.bins) * np.arange(band.last + 1)
    total: Complex = np.zeros(band.last + 1, dtype=np.complex128)
    factor: Complex = np.ones(band.last + 1, dtype=np.complex128)
    weights = part.masses
    rest = 0.0
    terms = 1 if band.width == 1 else _TERMS
    for order in range(terms):
        moments = np.bincount(bins, weights, band.bins)
        if order == 0:
            atom = float(part.masses[np.argmax(part.masses)])
            moments[0] -= atom  # the largest mass is transformed exactly; only the others are rounded
            total += atom
            rest = float(np.dot(moments, moments))
        total += factor * fft.rfft(moments)[: band.last + 1]
        factor = factor * (-1j * angles / (order + 1))
        weights = weights * within
    truncation = 0.0 if terms == 1 else np.abs(factor) * float(np.abs(part.masses).sum())
    return total, np.exp(angles if terms > 1 else 0 * angles) * (_fft_error(band.bins, rest) + 8 * ULP) + truncation


def _compose(tilted: Sequence[_Tilted], band: _Band, tilt: float) -> Spectrum:
    """Return the product of the parts' transforms, each to the power of its count, with bounds on the errors."""
    n = band.num_points
    indices: Indices = np.arange(band.last + 1)  # of the frequencies that are not negligible yet
    logs: Complex = np.zeros(len(indices), dtype=np.complex128)
    relative, log_bound = np.zeros(len(indices)), np.zeros(len(indices))
    for part in tilted:
        values, error = _low_band(part, band)
        error = error[indices] + _error(part, band.unit * indices.astype(float), tilt)
        magnitude = np.sqrt(values.real[indices] ** 2 + values.imag[indices] ** 2)
        # Every factor is below 1 + its error, so a negligible frequency stays negligible (hence twice the margin).
        log_bound = log_bound + part.count * np.log(magnitude + error)
        alive = np.flatnonzero(log_bound > -2 * _NEGLIGIBLE)
        indices, error, log_bound = indices[alive], error[alive], log_bound[alive]
        magnitude = np.maximum(magnitude[alive], 1e-300)
        log_values = np.log(magnitude) + 1j * np.angle(values[indices])
        # |log(1 + z)| <= |z| / (1 - |z|): a relative error r of a factor becomes T r / (1 - r) in the log of its power.
        ratio = np.minimum(error / magnitude, 0.5)
        logs = logs[alive] + part.count * log_values
        relative = relative[alive] + part.count * (ratio / (1 - ratio) + 8 * ULP * (1 + np.abs(log_values)))
    shift = sum(part.count * part.origin for part in tilted)
    weight = np.where((indices == 0) | (2 * indices == n), 1.0, 2.0) / n
    # Each part was transformed relative to its largest mass. Integers modulo n keep the phase exact.
    turns = np.exp((-2j * math.pi / n) * (indices * (shift % n) % n))
    composed = np.exp(np.minimum(logs.real, 1.0) + 1j * logs.imag)  # logs.real > 0 by rounding only, as errors state
    magnitude = np.abs(composed)
    grown = magnitude * np.expm1(np.minimum(relative, 700.0))
    return Spectrum(
        band=band,
        tilt=tilt,
        log_scale=sum(part.count * part.log_moment for part in tilted),
        log_scale_error=8 * ULP * sum(part.count * (1 + abs(part.log_moment)) for part in tilted),
        infinite=-math.expm1(sum(part.count * math.log1p(-part.infinite) for part in tilted)),
        offset=sum(part.count * part.offset for part in tilted),
        indices=indices,
        values=weight * composed * turns,
        errors=weight * np.minimum(grown, magnitude + np.exp(np.minimum(log_bound, 700.0))),
    )
