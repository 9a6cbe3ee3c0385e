r"""Exact samplers: Laplace and Gaussian noise on the integers, vectorised.

Two families. *Discrete* noise has P(k) proportional to e^(-|k| / scale) or e^(-k^2 / (2 sigma^2)). *Floored* noise is
floor(X) of a real Laplace or Gaussian X: what is released, an integer plus it, is the floor of the integer plus X, so
whatever is proven of the continuous mechanism holds, in any dimension, without a correction.

Both come from one proposal. With t the scale, |k| = j B + r, where B is a power of two, at most t / 16:

- j = floor(-(t / B) ln U) is geometric, by inversion;
- r is uniform on [0, B), which fits all but a factor e^(-r / t);
- accepted with probability e^-g, where g = r / t for Laplace, and (x - 1)^2 / 2 + r / t, x = |k| / t, for Gaussian
  noise (for the floored Gaussian r and k have a uniform fraction, too).

The first 64 bits of each U decide by floating point, unless the result is within its error of the other outcome. Then
`_resolve` computes exactly, with more bits. How often a proposal is rejected does not depend on what is accepted in
the end, so the running time says nothing about the noise, with one exception: what is decided exactly takes a tenth of
a millisecond longer, and noise beyond 14 times the scale (one in two millions) is among that.

References: Canonne, Kamath & Steinke 2020 (the discrete laws, rejection from Laplace); Karney 2016 (lazily drawn bits).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument, check_count, check_positive
from hush.randomness.resolution import Interval, Uniform, below_exp, floor_exponential
from hush.randomness.source import RandomSource, Words

Integers = NDArray[np.int64]

MAX_SCALE = 2.0**50
_CHUNK = 1 << 14
_FEW = 8  # draws for which NumPy's overhead would cost more than it saves
_LOG_2_64 = 64 * math.log(2)
# Errors of the floating-point path, from above. j: 32 (|ln U| + 44) 2^-51 < 2e-12, and 32 / w for the bits not drawn.
_FLOOR_ERROR = 1e-11
_FEW_BITS = 8e12
# e^-g: g has a relative error below 2^-49, and g e^-g < 1; a fraction not drawn moves g by at most x / t.
_ACCEPT_ERROR = 1e-13


def discrete_laplace(source: RandomSource, scale: float, size: int) -> Integers:
    """Return ``size`` integers with P(k) ~ e^(-|k| / scale), exactly."""
    return _Sampler(source, scale, gaussian=False, floored=False).draw(size)


def discrete_gaussian(source: RandomSource, sigma: float, size: int) -> Integers:
    """Return ``size`` integers with P(k) ~ e^(-k^2 / (2 sigma^2)), exactly."""
    return _Sampler(source, sigma, gaussian=True, floored=False).draw(size)


def floored_laplace(source: RandomSource, scale: float, size: int) -> Integers:
    """Return floor(X) for ``size`` reals X with density ~ e^(-|x| / scale), exactly."""
    return _Sampler(source, scale, gaussian=False, floored=True).draw(size)


def floored_gaussian(source: RandomSource, sigma: float, size: int) -> Integers:
    """Return floor(X) for ``size`` reals X with density ~ e^(-x^2 / (2 sigma^2)), exactly; sigma is at least 2^20."""
    if not check_positive("sigma", sigma) >= 2.0**20:
        raise InvalidArgument("sigma", sigma, "at least 2^20", "Use a finer grid")
    return _Sampler(source, sigma, gaussian=True, floored=True).draw(size)


def geometric(source: RandomSource, scale: float, size: int) -> Integers:
    """Return ``size`` integers k >= 0 with P(k) ~ e^(-k / scale), exactly: floors of exponential variables."""
    return _Sampler(source, scale, gaussian=False, floored=True).draw(size, signed=False)


class _Sampler:
    def __init__(self, source: RandomSource, scale: float, *, gaussian: bool, floored: bool) -> None:
        self._scale = check_positive("scale", scale, "Choose a coarser grid", maximum=MAX_SCALE)
        self._source, self._gaussian, self._floored = source, gaussian, floored
        self._low_bits = max(math.frexp(self._scale)[1] - 5, 0)
        self._steps = math.ldexp(self._scale, -self._low_bits)
        undrawn = 10 / self._scale if gaussian and floored else 0.0
        self._accept_error = _ACCEPT_ERROR + undrawn

    def draw(self, size: int, *, signed: bool = True) -> Integers:
        check_count("size", size, minimum=0)
        if size <= _FEW:
            return np.array([self._one(signed=signed) for _ in range(size)], dtype=np.int64)
        result = np.empty(size, dtype=np.int64)
        filled = 0
        while filled < size:
            some = self._propose(min(_CHUNK, (size - filled) * 3 // 2 + 8), signed=signed)[: size - filled]
            result[filled : filled + len(some)] = some
            filled += len(some)
        return result

    def _propose(self, count: int, *, signed: bool) -> Integers:
        """Return those of ``count`` proposals that were accepted."""
        first, second, third = self._source.words(3 * count).reshape(3, count)
        size = self._multiples(first)
        if self._low_bits:
            size = (size << self._low_bits) | (second >> np.uint64(64 - self._low_bits)).view(np.int64)
        negative = (second & np.uint64(1)).view(np.int64)
        keep = self._accepted(size, third)
        if not signed:
            return size if keep is None else size[keep]
        if self._floored:
            noise = size ^ -negative  # -1 - k = floor(-x) if k = floor(x)
        else:
            noise = (size ^ -negative) + negative
            twice = (size == 0) & (negative == 1)  # 0 has one sign only
            keep = ~twice if keep is None else keep & ~twice
        return noise if keep is None else noise[keep]

    def _one(self, *, signed: bool) -> int:
        """Do what `_propose` does for a single draw, until it is accepted."""
        while True:
            first, second, third = self._source.word(), self._source.word(), self._source.word()
            exact = (_LOG_2_64 - math.log(first)) * self._steps if first else 0.0
            if first < _FEW_BITS or abs(exact - round(exact)) < _FLOOR_ERROR:
                size = floor_exponential(Uniform(self._source, first, 64), Fraction(self._steps))
            else:
                size = int(exact)
            size = (size << self._low_bits) | (second >> (64 - self._low_bits))
            negative = signed and bool(second & 1)
            if self._gaussian or self._low_bits:
                gap = math.exp(-self._approximate_exponent(size)) - third * 2.0**-64
                if abs(gap) < self._accept_error:
                    gap = 1 if self._accept_exactly(size, third) else -1
                if gap <= 0:
                    continue
            if self._floored:
                return ~size if negative else size
            if size or not negative:
                return -size if negative else size

    def _approximate_exponent(self, size: Any) -> Any:
        # For an integer or an array of them. A half in x, where it is floored, is within the error.
        low = size & ((1 << self._low_bits) - 1)
        if not self._gaussian:
            return low / self._scale
        return (low + 0.5 * self._floored) / self._scale + 0.5 * (size / self._scale - 1.0) ** 2

    def _multiples(self, words: Words) -> Integers:
        uniform = words.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):  # ln 0, for the word 0
            exact = (_LOG_2_64 - np.log(uniform)) * self._steps
            unclear = np.abs(exact - np.rint(exact)) < _FLOOR_ERROR
        unclear |= uniform < _FEW_BITS
        undecided = np.flatnonzero(unclear)
        exact[undecided] = 0.0
        result = np.floor(exact).astype(np.int64)
        for index in undecided.tolist():
            uniform_real = Uniform(self._source, int(words[index]), 64)
            result[index] = floor_exponential(uniform_real, Fraction(self._steps))
        return result

    def _accepted(self, size: Integers, words: Words) -> NDArray[np.bool_] | None:
        """Decide which proposals to keep; None for all."""
        if not (self._gaussian or self._low_bits):
            return None
        gap = np.exp(-self._approximate_exponent(size)) - words.astype(np.float64) * 2.0**-64
        keep: NDArray[np.bool_] = gap > 0
        for index in np.flatnonzero(np.abs(gap) < self._accept_error).tolist():
            keep[index] = self._accept_exactly(int(size[index]), int(words[index]))
        return keep

    def _accept_exactly(self, size: int, word: int) -> bool:
        scale, low = Fraction(self._scale), size & ((1 << self._low_bits) - 1)
        part = Uniform(self._source)

        def exponent() -> Interval:
            fractions = part.interval() if self._floored and self._gaussian else (Fraction(0), Fraction(0))
            # It grows with the fraction: by x / t.
            first, last = (self._exponent((size + end) / scale, (low + end) / scale) for end in fractions)
            return first, last

        return below_exp(Uniform(self._source, word, 64), exponent, part.refine)

    def _exponent(self, x: Fraction, rest: Fraction) -> Fraction:
        return (x - 1) ** 2 / 2 + rest if self._gaussian else rest
