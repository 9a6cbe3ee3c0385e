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
from scipy.fft import next_fast_len

from hush.accounting.losses.lattice import Atoms
from hush.accounting.losses.profile import ULP, Array

_NEGLIGIBLE = 60.0
_TERMS = 10
_FEW = 20_000

Indices = NDArray[np.int64]
Complex = NDArray[np.complex128]


@dataclass(frozen=True, slots=True)
class LatticePart:
    """A loss on the lattice (``offset`` plus ``indices`` times the spacing) that is composed ``count`` times."""

    atoms: Atoms
    indices: Indices
    count: int
    offset: float = 0.0


class Spectrum:
    """The composed loss at the frequencies that matter, ready to be evaluated at any epsilon.

    Attributes:
        spacing, tilt, num_points: h, c and n.
        log_scale: log M(c)^T, up to ``log_scale_error``.
        infinite: probability of an unbounded loss, over all steps.
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
        """Take the tilted transform at frequencies 2 pi k / (n h), weighted, with bounds on the errors."""
        self._offset = offset
        self.spacing, self.tilt, self.num_points = band.spacing, tilt, band.num_points
        self.log_scale, self.log_scale_error, self.infinite = log_scale, log_scale_error, infinite
        # The kernel's transform at eps is e^(-c v) slow - e^(-(c+1) v) fast, with v the way to the next lattice point.
        angles = (2j * math.pi / self.num_points) * indices
        slow = -1 / np.expm1(angles - tilt * self.spacing)
        fast = -1 / np.expm1(angles - (tilt + 1) * self.spacing)
        self._tail_sums = _TailSums(self.num_points, indices, values, tilt * self.spacing, self.spacing)
        size = 16 * ULP * np.abs(values)
        self._difference_error = 1.01 * float(np.dot(errors, np.abs(slow - fast)))
        self._fast_error = 1.01 * float(np.dot(errors, np.abs(fast)))
        self._rounding = 1.01 * float(np.dot(size, np.abs(slow) + np.abs(fast))) + self._tail_sums.error
        self._left_out = -2 * math.exp(-_NEGLIGIBLE) / math.expm1(-tilt * self.spacing)

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) for the lattice's delta; both still include wrap-around."""
        scaled, error = self._kernel_sum(epsilon - self._offset)
        exponent = self.log_scale - self.tilt * epsilon
        slack = self.log_scale_error + 8 * ULP * (abs(self.log_scale) + abs(self.tilt * epsilon) + 1)
        low = max(scaled - error, 0.0) * math.exp(min(exponent - slack, 700.0))
        high = max(scaled + error, 0.0) * math.exp(min(exponent + slack, 700.0))
        return self.infinite + low, min(self.infinite + high, 1.0)

    def _kernel_sum(self, epsilon: float) -> tuple[float, float]:
        first = math.floor(epsilon / self.spacing) + 1
        # In (0, h]; rounding here shifts epsilon by an ulp, which the caller's slack covers.
        way = min(max(first * self.spacing - epsilon, 0.0), self.spacing)
        slow, fast = math.exp(-self.tilt * way), math.exp(-(self.tilt + 1) * way)
        slow_sum, fast_sum = self._tail_sums.at(first)
        total = slow * slow_sum - fast * fast_sum
        error = slow * self._difference_error + (slow - fast) * self._fast_error + self._rounding + self._left_out
        return total, error


class _TailSums:
    """The sums over j >= 0 of p(m + j) e^(-c j h) and of p(m + j) e^(-(c+1) j h), for the periodic p of a spectrum.

    With few frequencies they are summed in the frequency domain; with many, p is found once by an inverse FFT.
    """

    def __init__(self, num_points: int, indices: Indices, values: Complex, decay: float, spacing: float) -> None:
        self._num_points = num_points
        decays = (decay, decay + spacing)
        self.error = 0.0
        self._inverted = len(indices) > max(_FEW, num_points // 64)
        if not self._inverted:
            angles = (2j * math.pi / num_points) * indices
            self._indices = indices
            self._slow, self._fast = (values / -np.expm1(angles - one) for one in decays)
            return
        half: Complex = np.zeros(num_points // 2 + 1, dtype=np.complex128)
        half[indices] = values * num_points
        half[(indices[1:] if indices[0] == 0 else indices)] /= 2  # both halves of a conjugate pair are summed again
        if num_points % 2 == 0 and indices[-1] == num_points // 2:
            half[-1] *= 2
        self._masses = fft.irfft(half, num_points)
        steps = np.arange(num_points, dtype=float)
        self._weights = [np.exp(-one * steps) / -math.expm1(-one * num_points) for one in decays]
        norm = math.sqrt(float(np.dot(self._masses, self._masses)))
        rounding = 8 * ULP * math.log2(num_points) * norm
        self.error = sum(math.sqrt(float(np.dot(one, one))) for one in self._weights) * rounding

    def at(self, first: int) -> tuple[float, float]:
        n = self._num_points
        if not self._inverted:
            turns = np.exp((2j * math.pi / n) * (self._indices * (first % n) % n))
            return float(np.dot(turns, self._slow).real), float(np.dot(turns, self._fast).real)
        start = first % n
        slow, fast = (
            float(np.dot(self._masses[start:], one[: n - start]) + np.dot(self._masses[:start], one[n - start :]))
            for one in self._weights
        )
        return slow, fast


def spectrum(
    parts: Sequence[LatticePart], spacing: float, tilt: float, num_points: int, max_points: int
) -> Spectrum | None:
    """Tilt, transform and compose the parts; None if that would take an FFT of more than ``max_points``.

    Only low frequencies matter after many steps. They are found from few bins (see `_low_band`), if the rest can be
    shown to be negligible; else from more bins, in the end from a plain FFT.
    """
    tilted = [_tilt(part, tilt) for part in parts]
    # Showing that takes an FFT of some eighty times a part's mean size.
    long = max(one.mean_size for one in tilted) > max_points / 100
    bins = num_points if long else _first_guess(tilted, spacing, num_points)
    while bins < min(num_points // 4, max_points):
        band = _Band(bins=bins, width=-(-num_points // bins), spacing=spacing)
        if sum(one.count * math.log(_beyond(one, band, tilt)) for one in tilted) < -_NEGLIGIBLE:
            return _compose(tilted, band, tilt)
        bins *= 4
    if num_points > max_points:
        return None
    return _compose(tilted, _Band(bins=num_points, width=1, spacing=spacing), tilt)


@dataclass(frozen=True, slots=True)
class _Tilted:
    r"""The masses e^(c y) P(y) / M of one part, around the heaviest one, with bounds on their errors.

    Attributes:
        offsets, masses: lattice points counted from the heaviest, and what they weigh; ``origin`` is that one's index.
        flat_error: bound on the sum of all errors of the masses, those of the curve excepted.
        curve_error: what errors of the curve contribute, to be multiplied by |s (s + 1)| (see `_error`).
        mean_size: the mean of \|offset\|.
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
    atoms = part.atoms
    exponents = tilt * atoms.losses
    with np.errstate(divide="ignore"):
        peak = float(exponents[np.argmax(np.log(np.abs(atoms.masses)) + exponents)])
    weights = np.exp(np.minimum(exponents - peak, 600.0))
    log_moment = peak + math.log(float(np.dot(np.abs(atoms.masses), weights)))
    weights *= math.exp(peak - log_moment)
    masses = atoms.masses * weights
    origin = int(part.indices[np.argmax(masses)])
    offsets = part.indices - origin
    sizes = np.abs(masses)
    # Product, difference, exponential, two more products; the common factor's own error is log_scale_error's.
    tilt_error = ULP * float(np.dot(sizes, 4 + 2 * np.abs(exponents) + abs(peak)))
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
        mean_size=float(np.dot(sizes, np.abs(offsets))),
    )


def _curve_errors(atoms: Atoms, weights: Array, tilt: float) -> tuple[float, float]:
    """Bound what errors of the curve do to the transform: (to be multiplied by |s (s + 1)|, to be added).

    On a fine grid they enter through second differences: summation by parts, twice, gives |s (s + 1)| times the first.
    On one as coarse as the kernel, each error spoils its own mass and its neighbours'.
    """
    errors = atoms.curve_error * np.abs(atoms.curve)
    if (tilt + 2) * float(atoms.gaps.max()) < 1:
        around = np.append(atoms.gaps, 0.0) + np.append(0.0, atoms.gaps)
        return float(np.dot(errors * weights, around * np.exp((tilt + 2) * around))), 0.0
    with np.errstate(over="ignore"):
        up, down = 1 / np.expm1(atoms.gaps), -1 / np.expm1(-atoms.gaps)
    own = np.append(up, 0.0) + np.append(1.0, down)
    spoilt = (
        np.dot(errors, own * weights) + np.dot(errors[1:], up * weights[:-1]) + np.dot(errors[:-1], down * weights[1:])
    )
    return 0.0, float(spoilt)


@dataclass(frozen=True, slots=True)
class _Band:
    """Frequencies 2 pi k / (n h), k = 0 .. last, that are found from ``bins`` bins of ``width`` lattice points each."""

    bins: int
    width: int
    spacing: float

    @property
    def num_points(self) -> int:
        """n: the lattice points of a period."""
        return self.bins * self.width

    @property
    def last(self) -> int:
        """The highest k: all of them without binning; with it, those whose angle per half bin is at most 1/2."""
        return self.bins // 2 if self.width == 1 else math.floor(self.bins / (2 * math.pi))

    @property
    def unit(self) -> float:
        """The lowest frequency but 0."""
        return 2 * math.pi / (self.num_points * self.spacing)


def _first_guess(tilted: Sequence[_Tilted], spacing: float, num_points: int) -> int:
    """Guess how many bins are enough: one step's transform must have fallen, the less the more steps there are."""
    steps = sum(one.count for one in tilted)
    size = sum(one.count * one.mean_size for one in tilted) / steps
    angle = max(0.6, 1.2 * math.sqrt(4 * _NEGLIGIBLE / steps)) / max(size, 1e-9)  # per lattice point
    return int(next_fast_len(math.ceil(num_points * min(angle, math.pi)) + 16, real=True))


def _beyond(one: _Tilted, band: _Band, tilt: float) -> float:
    r"""Bound the size of a part's transform at all lattice frequencies above the band.

    It is sampled by a short FFT; in between it changes by at most the mean \|offset\| times half the distance.
    """
    length = int(next_fast_len(math.ceil(80 * one.mean_size) + 64, real=True))
    samples = np.abs(fft.rfft(np.bincount(one.offsets % length, one.masses, length)))
    first = max(math.floor(band.last * length / band.num_points) - 1, 0)
    error = float(_error(one, np.array([math.pi / band.spacing]), tilt)[0])
    rounding = _fft_error(length, float(np.dot(one.masses, one.masses)))
    return float(samples[first:].max()) + one.mean_size * math.pi / length + error + rounding


def _error(one: _Tilted, frequencies: Array, tilt: float) -> Array:
    """Bound a transform's error, the FFT's excepted; the curve's share grows with |s (s + 1)|, s = c + i t."""
    return one.flat_error + one.curve_error * np.hypot(tilt, frequencies) * np.hypot(tilt + 1, frequencies)


def _fft_error(length: int, squares: float) -> float:
    """Bound each coefficient's rounding error (Higham 2002, Theorem 24.2, with a constant for mixed radices)."""
    return 4 * ULP * math.log2(length + 2) * math.sqrt(length * squares)


def _low_band(one: _Tilted, band: _Band) -> tuple[Complex, Array]:
    """Return a part's transform at the frequencies of the band, and a bound on the error of finding it.

    The masses are collected in bins, with their moments about the bins' centres; the transform is then a power series
    in the angle x across half a bin, ``sum_q (-i x)^q / q! * FFT(q-th moments)``.
    """
    half = max(band.width / 2, 0.5)
    centred = (one.offsets + band.num_points // 2) % band.num_points - band.num_points // 2
    places = np.floor_divide(centred + band.width // 2, band.width)
    within = (centred - places * band.width) / half
    places %= band.bins
    angles = (math.pi / band.bins) * np.arange(band.last + 1)
    total: Complex = np.zeros(band.last + 1, dtype=np.complex128)
    factor: Complex = np.ones(band.last + 1, dtype=np.complex128)
    weights = one.masses
    rest = 0.0
    terms = 1 if band.width == 1 else _TERMS
    for order in range(terms):
        moments = np.bincount(places, weights, band.bins)
        if order == 0:
            atom = float(one.masses[np.argmax(one.masses)])
            moments[0] -= atom  # the heaviest point is transformed exactly: only the rest is rounded
            total += atom
            rest = float(np.dot(moments, moments))
        total += factor * fft.rfft(moments)[: band.last + 1]
        factor = factor * (-1j * angles / (order + 1))
        weights = weights * within
    left_out = 0.0 if terms == 1 else np.abs(factor) * float(np.abs(one.masses).sum())
    return total, np.exp(angles if terms > 1 else 0 * angles) * (_fft_error(band.bins, rest) + 8 * ULP) + left_out


def _compose(tilted: Sequence[_Tilted], band: _Band, tilt: float) -> Spectrum:
    n = band.num_points
    kept: Indices = np.arange(band.last + 1)
    logs: Complex = np.zeros(len(kept), dtype=np.complex128)
    relative, log_bound = np.zeros(len(kept)), np.zeros(len(kept))
    for one in tilted:
        values, error = _low_band(one, band)
        error = error[kept] + _error(one, band.unit * kept.astype(float), tilt)
        size = np.sqrt(values.real[kept] ** 2 + values.imag[kept] ** 2)
        # Every factor is below 1 + its error: a frequency once negligible stays so (hence twice the margin).
        log_bound = log_bound + one.count * np.log(size + error)
        alive = np.flatnonzero(log_bound > -2 * _NEGLIGIBLE)
        kept, error, size, log_bound = kept[alive], error[alive], np.maximum(size[alive], 1e-300), log_bound[alive]
        log_one = np.log(size) + 1j * np.angle(values[kept])
        ratio = np.minimum(error / size, 0.5)
        logs = logs[alive] + one.count * log_one
        relative = relative[alive] + one.count * (ratio / (1 - ratio) + 8 * ULP * (1 + np.abs(log_one)))
    shift = sum(one.count * one.origin for one in tilted)
    weight = np.where((kept == 0) | (2 * kept == n), 1.0, 2.0) / n
    turns = np.exp((-2j * math.pi / n) * (kept * (shift % n) % n))
    composed = np.exp(np.minimum(logs.real, 1.0) + 1j * logs.imag)  # above 0 by rounding only; errors tell how much
    size = np.abs(composed)
    grown = size * np.expm1(np.minimum(relative, 700.0))
    return Spectrum(
        band=band,
        tilt=tilt,
        log_scale=sum(one.count * one.log_moment for one in tilted),
        log_scale_error=8 * ULP * sum(one.count * (1 + abs(one.log_moment)) for one in tilted),
        infinite=-math.expm1(sum(one.count * math.log1p(-one.infinite) for one in tilted)),
        offset=sum(one.count * one.offset for one in tilted),
        indices=kept,
        values=weight * composed * turns,
        errors=weight * np.minimum(grown, size + np.exp(np.minimum(log_bound, 700.0))),
    )
