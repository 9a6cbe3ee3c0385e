r"""Exact samplers for Laplace and Gaussian noise on the integers, vectorised.

There are two families. *Discrete* noise has P(k) proportional to e^(-|k| / scale) or e^(-k^2 / (2 sigma^2)). *Floored*
noise is floor(X) for a real Laplace or Gaussian variable X. An integer n plus floor(X) is the floor of n + X, so a
release with floored noise is a function of the continuous mechanism's output, and every theorem about that mechanism
holds, in any dimension, without a correction.

Both families use one proposal. With t the scale, write |k| = j B + r, where B is a power of two, at most t / 16:

    j        geometric: floor(-(t / B) ln U), by inversion
    r        uniform on [0, B), which is right up to a factor e^(-r / t)
    accept   with probability e^-g, where g = r / t for Laplace noise,
             and g = (x - 1)^2 / 2 + r / t with x = |k| / t for Gaussian noise
             (for the floored Gaussian, r and k have a uniform fractional part, too)

The first 64 bits of each uniform variable decide in floating point, unless the outcome is within the error of another
one. Then `resolution` decides exactly, with more bits.

*Running time.* How often a proposal is rejected does not depend on the one that is finally accepted, so the running
time reveals nothing about the noise, with one exception. An exact decision takes a tenth of a millisecond longer, and
noise beyond 14 times the scale (one draw in two million) always needs one.

References: Canonne, Kamath & Steinke 2020 (the discrete distributions, rejection from Laplace); Karney 2016 (bits drawn
only when needed).
"""

from __future__ import annotations

import math
from enum import Enum, auto
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument, check_count, check_positive
from hush.randomness.resolution import ExactInterval, Uniform, below_exp, floor_exponential
from hush.randomness.source import RandomSource, Words

Integers = NDArray[np.int64]

MAX_SCALE = 2.0**50
_CHUNK = 1 << 14  # fits into the processor's cache
_SMALL_SIZE = 8  # up to here plain Python is faster than NumPy
_LOG_2_64 = 64 * math.log(2)
# Upper bounds on the errors of floating point. For j: 32 (|ln U| + 44) 2^-51 < 2e-12 by rounding, and 32 / word by the
# bits not drawn yet, which is small unless the word is.
_FLOOR_ERROR = 1e-11
_SMALL_WORD = 8e12
# For e^-g: g has a relative error below 2^-49, and g e^-g < 1. A fractional part not drawn yet adds at most x / t to g.
_ACCEPT_ERROR = 1e-13


def discrete_laplace(source: RandomSource, scale: float, size: int) -> Integers:
    """Return ``size`` integers with P(k) proportional to e^(-|k| / scale), exactly."""
    return _Sampler(source, scale, _NoiseLaw.LAPLACE, _Form.DISCRETE).draw(size)


def discrete_gaussian(source: RandomSource, sigma: float, size: int) -> Integers:
    """Return ``size`` integers with P(k) proportional to e^(-k^2 / (2 sigma^2)), exactly."""
    return _Sampler(source, sigma, _NoiseLaw.GAUSSIAN, _Form.DISCRETE).draw(size)


def floored_laplace(source: RandomSource, scale: float, size: int) -> Integers:
    """Return floor(X) for ``size`` real Laplace variables X of this scale, exactly."""
    return _Sampler(source, scale, _NoiseLaw.LAPLACE, _Form.FLOORED).draw(size)


def floored_gaussian(source: RandomSource, sigma: float, size: int) -> Integers:
    """Return floor(X) for ``size`` real Gaussian variables X of standard deviation sigma >= 2^20, exactly."""
    if not check_positive("sigma", sigma) >= 2.0**20:
        raise InvalidArgument("sigma", sigma, "at least 2^20", "Use a finer grid")
    return _Sampler(source, sigma, _NoiseLaw.GAUSSIAN, _Form.FLOORED).draw(size)


def geometric(source: RandomSource, scale: float, size: int) -> Integers:
    """Return ``size`` integers k >= 0 with P(k) proportional to e^(-k / scale), exactly.

    They are floors of exponential variables.
    """
    return _Sampler(source, scale, _NoiseLaw.LAPLACE, _Form.FLOORED).draw(size, signed=False)


class _NoiseLaw(Enum):
    """The distribution that proposals are accepted for."""

    LAPLACE = auto()
    GAUSSIAN = auto()


class _Form(Enum):
    """The way in which noise is an integer: its distribution is discrete, or it is the floor of a real variable."""

    DISCRETE = auto()
    FLOORED = auto()


class _Sampler:
    """The proposal and its acceptance for one distribution.

    Args:
        source: The random bits.
        scale: t, the scale of the Laplace or the sigma of the Gaussian distribution.
        law: The distribution.
        form: How it becomes an integer.
    """

    def __init__(self, source: RandomSource, scale: float, law: _NoiseLaw, form: _Form) -> None:
        self._scale = check_positive("scale", scale, "Choose a coarser grid", maximum=MAX_SCALE)
        self._source = source
        self._gaussian, self._floored = law is _NoiseLaw.GAUSSIAN, form is _Form.FLOORED
        self._low_bits = max(math.frexp(self._scale)[1] - 5, 0)  # B = 2^low_bits
        self._steps = math.ldexp(self._scale, -self._low_bits)  # t / B
        undrawn = 10 / self._scale if self._gaussian and self._floored else 0.0
        self._accept_error = _ACCEPT_ERROR + undrawn

    def draw(self, size: int, *, signed: bool = True) -> Integers:
        """Return ``size`` draws; without a sign, only magnitudes."""
        check_count("size", size, minimum=0)
        if size <= _SMALL_SIZE:
            return np.array([self._draw_single(signed=signed) for _ in range(size)], dtype=np.int64)
        result = np.empty(size, dtype=np.int64)
        filled = 0
        while filled < size:
            # About three proposals in four are accepted, so one round is usually enough.
            accepted = self._propose(min(_CHUNK, (size - filled) * 3 // 2 + 8), signed=signed)[: size - filled]
            result[filled : filled + len(accepted)] = accepted
            filled += len(accepted)
        return result

    def _propose(self, count: int, *, signed: bool) -> Integers:
        """Return the accepted ones among ``count`` proposals."""
        first, second, third = self._source.words(3 * count).reshape(3, count)
        magnitude = self._multiples(first)
        if self._low_bits:
            magnitude = (magnitude << self._low_bits) | (second >> np.uint64(64 - self._low_bits)).view(np.int64)
        negative = (second & np.uint64(1)).view(np.int64)  # a bit that the remainder does not use
        keep = self._accepted(magnitude, third)
        if not signed:
            return magnitude if keep is None else magnitude[keep]
        if self._floored:
            noise = magnitude ^ -negative  # -1 - k = floor(-x) if k = floor(x)
        else:
            noise = (magnitude ^ -negative) + negative
            negative_zero = (magnitude == 0) & (negative == 1)  # 0 would have twice its probability
            keep = ~negative_zero if keep is None else keep & ~negative_zero
        return noise if keep is None else noise[keep]

    def _draw_single(self, *, signed: bool) -> int:
        """Return one draw: what `_propose` does, in plain Python, until a proposal is accepted."""
        while True:
            first, second, third = self._source.word(), self._source.word(), self._source.word()
            exact = (_LOG_2_64 - math.log(first)) * self._steps if first else 0.0
            if first < _SMALL_WORD or abs(exact - round(exact)) < _FLOOR_ERROR:
                magnitude = floor_exponential(Uniform(self._source, first, 64), Fraction(self._steps))
            else:
                magnitude = int(exact)
            magnitude = (magnitude << self._low_bits) | (second >> (64 - self._low_bits))
            negative = signed and bool(second & 1)
            if self._gaussian or self._low_bits:
                gap = math.exp(-self._approximate_exponent(magnitude)) - third * 2.0**-64
                if abs(gap) < self._accept_error:
                    gap = 1 if self._accept_exactly(magnitude, third) else -1
                if gap <= 0:
                    continue
            if self._floored:
                return ~magnitude if negative else magnitude
            if magnitude or not negative:
                return -magnitude if negative else magnitude

    def _approximate_exponent(self, magnitude: Any) -> Any:
        """Return g in floating point, for an integer or an array of integers."""
        low = magnitude & ((1 << self._low_bits) - 1)
        if not self._gaussian:
            return low / self._scale
        # The fractional part of a floored Gaussian is not drawn yet; one half in r stands for it.
        return (low + 0.5 * self._floored) / self._scale + 0.5 * (magnitude / self._scale - 1.0) ** 2

    def _multiples(self, words: Words) -> Integers:
        """Return j = floor(-(t / B) ln U) for each word, the leading 64 bits of U."""
        uniform = words.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):  # ln 0, for the word 0
            exact = (_LOG_2_64 - np.log(uniform)) * self._steps
            unclear = np.abs(exact - np.rint(exact)) < _FLOOR_ERROR
        unclear |= uniform < _SMALL_WORD
        undecided = np.flatnonzero(unclear)
        exact[undecided] = 0.0
        result = np.floor(exact).astype(np.int64)
        for index in undecided.tolist():
            uniform_real = Uniform(self._source, int(words[index]), 64)
            result[index] = floor_exponential(uniform_real, Fraction(self._steps))
        return result

    def _accepted(self, magnitude: Integers, words: Words) -> NDArray[np.bool_] | None:
        """Return which proposals to keep, or None for all of them."""
        if not (self._gaussian or self._low_bits):
            return None  # Laplace noise with B = 1: g is always 0
        gap = np.exp(-self._approximate_exponent(magnitude)) - words.astype(np.float64) * 2.0**-64
        keep: NDArray[np.bool_] = gap > 0
        for index in np.flatnonzero(np.abs(gap) < self._accept_error).tolist():
            keep[index] = self._accept_exactly(int(magnitude[index]), int(words[index]))
        return keep

    def _accept_exactly(self, magnitude: int, word: int) -> bool:
        """Return whether the uniform variable that begins with ``word`` is below e^-g."""
        scale, low = Fraction(self._scale), magnitude & ((1 << self._low_bits) - 1)
        fractional_part = Uniform(self._source)

        def exponent() -> ExactInterval:
            ends = fractional_part.interval() if self._floored and self._gaussian else (Fraction(0), Fraction(0))
            # g grows with the fractional part, with slope x / t, so its ends enclose it.
            first, last = (self._exponent((magnitude + end) / scale, (low + end) / scale) for end in ends)
            return first, last

        return below_exp(Uniform(self._source, word, 64), exponent, fractional_part.refine)

    def _exponent(self, x: Fraction, remainder: Fraction) -> Fraction:
        return (x - 1) ** 2 / 2 + remainder if self._gaussian else remainder
