"""Finds the best of many candidates under real-valued noise, ordered exactly.

Report-noisy-max and the exponential mechanism (by Gumbel noise) need the order of *real* keys; rounding the keys would
create ties and change the distribution. Here no key is ever rounded:

    deficits     d_i: how far score i is below a reference score, in units of the noise scale
    words        64 random bits for each candidate
    rough keys   X_i - d_i in floating point, X_i being Gumbel or Laplace noise of scale 1
    candidates   the few that can still be among the best, now with a bound on the error of each key
    keys         the best, sorted; where the errors leave the order open (one in 10^10 or so), compared exactly

Deficits have the relative error of one subtraction, so large scores cost no accuracy and nothing overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.errors import check_count
from hush.randomness.resolution import ExactInterval, Uniform, log_interval
from hush.randomness.source import RandomSource, Words

Floats = NDArray[np.float64]

_LARGEST_DEFICIT = 1e300
_LARGEST_LEAD = Fraction(10**300)  # converts to a float without overflow
_CHUNK = 1 << 14  # fits into the processor's cache
_MARGIN = 1e-6  # above 2^-53 / 2^-28, the relative error where ln(1 - u) is least precise
# Words this close to either end leave u, or 1 - u, with few known bits.
_SMALL_WORD = np.uint64(1 << 36)
_LARGE_WORD = np.uint64((1 << 64) - (1 << 36))


class Noise(Enum):
    """The distribution of the noise on a key, of scale 1."""

    GUMBEL = "gumbel"
    LAPLACE = "laplace"


@dataclass(slots=True)
class Key:
    """One candidate's key: a real number, known as precisely as comparisons have needed so far.

    Attributes:
        index: The candidate's position among the scores.
        noise: The distribution of the noise.
        uniform: The random bits of the noise, of which more can be drawn.
        negative: Whether Laplace noise is negative.
        deficit: How far the score is below the reference, in units of the noise scale.
        approximation: The noise in floating point.
        error: A bound on the error of the approximation.
    """

    index: int
    noise: Noise
    uniform: Uniform
    negative: bool
    deficit: Fraction
    approximation: float
    error: float

    def interval(self) -> ExactInterval:
        """Return two fractions that enclose the key."""
        while True:
            low, high = self.uniform.interval()
            if self.noise is Noise.GUMBEL:
                low, high = 1 - high, 1 - low  # X = -ln(-ln(1 - U))
            if low > 0:
                logs = log_interval((low, high), self.uniform.digits)
                small, large = max(-logs[1], Fraction(0)), -logs[0]  # an exponential variable
                if self.noise is Noise.LAPLACE:
                    small, large = (-large, -small) if self.negative else (small, large)
                    return small - self.deficit, large - self.deficit
                if small > 0:
                    logs = log_interval((small, large), self.uniform.digits)
                    return -logs[1] - self.deficit, -logs[0] - self.deficit
            self.uniform.refine()


def compare(first: Key, second: Key) -> int:
    """Return -1 if the first key is larger, 1 if the second one is."""
    deficit_lead = float(max(min(second.deficit - first.deficit, _LARGEST_LEAD), -_LARGEST_LEAD))
    lead = deficit_lead + (first.approximation - second.approximation)
    magnitudes = 1 + abs(lead) + abs(first.approximation) + abs(second.approximation)
    if abs(lead) > first.error + second.error + 1e-12 * magnitudes:  # 1e-12 covers the roundings in this function
        return -1 if lead > 0 else 1
    while True:
        (low, high), (second_low, second_high) = first.interval(), second.interval()
        if low > second_high:
            return -1
        if high < second_low:
            return 1
        # Equal keys have probability 0, so this ends with probability 1.
        first.uniform.refine()
        second.uniform.refine()


def rank(source: RandomSource, noise: Noise, scores: Floats, rate: float, count: int) -> list[Key]:
    """Return the keys of the ``count`` best candidates, best first.

    Args:
        source: The random bits.
        noise: The distribution of the noise.
        scores: Finite numbers; larger is better.
        rate: One over the noise scale.
        count: How many keys to return; all of them if there are fewer.
    """
    count = min(check_count("count", count), len(scores))
    # Deficits from the ``count``-th best score are small where the order is decided, and so are their errors.
    reference = float(scores.max() if count == 1 else np.partition(scores, len(scores) - count)[len(scores) - count])
    best: _Candidates | None = None
    for start in range(0, len(scores), _CHUNK):
        deficits = reference - scores[start : start + _CHUNK]
        deficits *= rate
        part = _candidates(source, noise, deficits, start, count)
        best = (part if best is None else best.joined(part)).contenders(count)
    assert best is not None
    order = np.argsort(-best.keys, kind="stable")
    sign_bits = 0 if noise is Noise.GUMBEL else 1  # the lowest bit of a word is the sign of Laplace noise

    def exact_deficit(index: int) -> Fraction:
        return (Fraction(reference) - Fraction(float(scores[index]))) * Fraction(rate)

    keys = [
        Key(
            index=index,
            noise=noise,
            uniform=Uniform(source, word >> sign_bits, 64 - sign_bits),
            negative=bool(word & 1),
            deficit=exact_deficit(index),
            approximation=approximation,
            error=error,
        )
        for index, word, approximation, error in zip(*best.with_noise(noise, order), strict=True)
    ]
    low, high = (best.keys - best.errors)[order], (best.keys + best.errors)[order]
    if not (low[:-1] > high[1:]).all():
        keys.sort(key=cmp_to_key(compare))
    return keys[:count]


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Candidates with their keys, a bound on each key's error, and the words that the keys were computed from."""

    indices: NDArray[np.int64]
    words: Words
    keys: Floats
    errors: Floats

    def joined(self, other: _Candidates) -> _Candidates:
        return _Candidates(
            np.concatenate([self.indices, other.indices]),
            np.concatenate([self.words, other.words]),
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.errors, other.errors]),
        )

    def with_noise(self, noise: Noise, order: NDArray[np.int64]) -> tuple[list[Any], ...]:
        """Return the indices and words in this order, the noise alone, and bounds on the noise's error."""
        values, errors = _noise_with_errors(noise, self.words[order])
        return self.indices[order].tolist(), self.words[order].tolist(), values.tolist(), errors.tolist()

    def contenders(self, count: int) -> _Candidates:
        """Return the candidates that can be among the ``count`` best, given the errors."""
        if len(self.keys) <= count:
            return self
        low = self.keys - self.errors
        # The ``count``-th largest lower end: a candidate that cannot reach it is beaten by ``count`` others.
        limit = low.max() if count == 1 else np.partition(low, len(low) - count)[len(low) - count]
        possible = np.flatnonzero(self.keys + self.errors >= limit)
        return _Candidates(self.indices[possible], self.words[possible], self.keys[possible], self.errors[possible])


def _candidates(source: RandomSource, noise: Noise, deficits: Floats, start: int, count: int) -> _Candidates:
    """Draw noise for a part of the candidates and return those that may be among the ``count`` best.

    Rough keys exclude most of them; error bounds are computed for the rest only.
    """
    words = source.words(len(deficits))
    np.clip(deficits, -_LARGEST_DEFICIT, _LARGEST_DEFICIT, out=deficits)
    rough = _rough_keys(noise, words)
    rough -= deficits
    # Words near either end have few known bits. Those candidates always stay, and exclude no others.
    unclear = None
    if words.min() < _SMALL_WORD or words.max() > _LARGE_WORD:
        unclear = (words < _SMALL_WORD) | (words > _LARGE_WORD)
        rough[unclear] = -np.inf
    count = min(count, len(rough))
    best = rough.max() if count == 1 else np.partition(rough, len(rough) - count)[len(rough) - count]
    # Every other rough key is off by less than the margin, relative to itself and to its deficit. A key near the best
    # has a deficit of about the same size.
    possible = rough >= best - _MARGIN * (1 + abs(best))
    if unclear is not None:
        possible |= unclear
    positions = np.flatnonzero(possible)
    keys, errors = _noise_with_errors(noise, words[positions])
    keys -= deficits[positions]
    errors += 1e-14 * (np.abs(keys) + np.abs(deficits[positions]))
    return _Candidates(positions + start, words[positions], keys, errors)


def _rough_keys(noise: Noise, words: Words) -> Floats:
    """Return the noise for each word in floating point, computed in place."""
    uniform = words.astype(np.float64)
    uniform *= 2.0**-64
    with np.errstate(divide="ignore"):
        if noise is Noise.GUMBEL:
            np.negative(uniform, out=uniform)
            np.log1p(uniform, out=uniform)
            np.negative(uniform, out=uniform)
            np.log(uniform, out=uniform)
            return np.negative(uniform, out=uniform)
        np.log(uniform, out=uniform)
    signs = ~words
    signs <<= np.uint64(63)
    signs ^= uniform.view(np.uint64)  # ln u is negative already: right for an odd word, flipped for an even one
    return signs.view(np.float64)


def gap(first: Key, second: Key, scale: Fraction) -> int:
    """Return floor(scale * (first - second)) for two keys, exactly."""
    while True:
        (low, high), (second_low, second_high) = first.interval(), second.interval()
        smallest, largest = scale * (low - second_high) // 1, scale * (high - second_low) // 1
        if smallest == largest:
            return smallest
        first.uniform.refine()
        second.uniform.refine()


def _noise_with_errors(noise: Noise, words: Words) -> tuple[Floats, Floats]:
    return (_gumbel if noise is Noise.GUMBEL else _laplace)(words)


def _gumbel(words: Words) -> tuple[Floats, Floats]:
    """Return -ln(-ln(1 - u)) and a bound on its error, where each word holds the leading 64 bits of u."""
    from_zero, from_one = words.astype(np.float64), (~words).astype(np.float64) + 1.0  # 2^64 u and 2^64 (1 - u)
    with np.errstate(divide="ignore"):
        exponential = np.where(from_zero < from_one, -np.log1p(-from_zero * 2.0**-64), -np.log(from_one * 2.0**-64))
        keys = -np.log(exponential)
    errors = 1e-14 + 2 / (from_zero + 0.5) + 2 / from_one
    # The word 0 gives an infinite key. A finite one will do, with an error so large that it stays a candidate.
    unknown = words == 0
    keys[unknown], errors[unknown] = 44.0, 1e3
    return keys, errors


def _laplace(words: Words) -> tuple[Floats, Floats]:
    """Return -ln u with a sign, and a bound on its error; 63 bits of each word are for u and one is for the sign."""
    leading_bits = (words >> np.uint64(1)).astype(np.float64) + 0.5
    magnitudes = -np.log(leading_bits * 2.0**-63)
    keys = np.where(words & np.uint64(1), -magnitudes, magnitudes)
    errors = 1e-14 + 2 / leading_bits
    unknown = leading_bits < 1
    errors[unknown] = 1e3
    return keys, errors
