"""The largest of many numbers with real-valued noise: exactly ordered, without a number ever being rounded.

Every candidate i has a key ``X_i - d_i``, where X_i is Gumbel or Laplace noise of scale 1 and d_i >= 0 how far its
score is below the best, in units of the scale. Keys are computed in floating point with a bound on their error.
Candidates whose order that leaves open (one in 10^10 or so) are compared exactly, with more bits. Deficits instead of
scores: their relative error is that of one subtraction, so large scores cost no accuracy, and nothing overflows.
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
from hush.randomness.resolution import Interval, Uniform, log_interval
from hush.randomness.source import RandomSource, Words

Floats = NDArray[np.float64]

_LARGEST = 1e300
_FAR = Fraction(10**300)
_CHUNK = 1 << 14
_MARGIN = 1e-6  # 2^-53 / 2^-28 where ln(1 - u) is least precise, and then some
_FEW_BITS = np.uint64(1 << 36)
_MANY_BITS = np.uint64((1 << 64) - (1 << 36))


class Noise(Enum):
    """The law of the keys' noise."""

    GUMBEL = "gumbel"
    LAPLACE = "laplace"


@dataclass(slots=True)
class Key:
    """One candidate's key: a real number, known as precisely as anybody has asked so far."""

    index: int
    noise: Noise
    uniform: Uniform
    negative: bool
    deficit: Fraction
    about: float  # the noise, up to ``error``
    error: float

    def interval(self) -> Interval:
        """Return two fractions between which the key lies."""
        while True:
            low, high = self.uniform.interval()
            if self.noise is Noise.GUMBEL:
                low, high = 1 - high, 1 - low
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


def compare(one: Key, other: Key) -> int:
    """Return -1 if the first key is larger, 1 if the second one is."""
    lead = float(max(min(other.deficit - one.deficit, _FAR), -_FAR)) + (one.about - other.about)
    if abs(lead) > one.error + other.error + 1e-12 * (1 + abs(lead) + abs(one.about) + abs(other.about)):
        return -1 if lead > 0 else 1
    while True:
        (low, high), (other_low, other_high) = one.interval(), other.interval()
        if low > other_high:
            return -1
        if high < other_low:
            return 1
        one.uniform.refine()
        other.uniform.refine()


def rank(source: RandomSource, noise: Noise, scores: Floats, rate: float, count: int) -> list[Key]:
    """Return the keys of the ``count`` best candidates, best first.

    Args:
        source: Where the noise comes from.
        noise: Its law.
        scores: Finite numbers; the larger, the better.
        rate: One over the noise's scale.
        count: How many to return; all if there are fewer.
    """
    count = min(check_count("count", count), len(scores))
    # Deficits from the ``count``-th best: where the order is decided they are small, and their errors, too.
    reference = float(scores.max() if count == 1 else np.partition(scores, len(scores) - count)[len(scores) - count])
    best: _Candidates | None = None
    for start in range(0, len(scores), _CHUNK):  # parts that fit into the cache, of which few candidates remain
        deficits = reference - scores[start : start + _CHUNK]
        deficits *= rate
        part = _candidates(source, noise, deficits, start, count)
        best = (part if best is None else best.joined(part)).of_the_best(count)
    assert best is not None
    order = np.argsort(-best.keys, kind="stable")
    shift = 0 if noise is Noise.GUMBEL else 1

    def exact(index: int) -> Fraction:
        return (Fraction(reference) - Fraction(float(scores[index]))) * Fraction(rate)

    found = [
        Key(index, noise, Uniform(source, word >> shift, 64 - shift), bool(word & 1), exact(index), about, error)
        for index, word, about, error in zip(*best.described(noise, order), strict=True)
    ]
    low, high = (best.keys - best.errors)[order], (best.keys + best.errors)[order]
    if not (low[:-1] > high[1:]).all():
        found.sort(key=cmp_to_key(compare))
    return found[:count]


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Keys, known up to errors, and the words that they came from."""

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

    def described(self, noise: Noise, order: NDArray[np.int64]) -> tuple[list[Any], ...]:
        """Return indices, words, and the noise by itself with its errors."""
        about, errors = (_gumbel if noise is Noise.GUMBEL else _laplace)(self.words[order])
        return self.indices[order].tolist(), self.words[order].tolist(), about.tolist(), errors.tolist()

    def of_the_best(self, count: int) -> _Candidates:
        """Leave out those that cannot be among the ``count`` best."""
        if len(self.keys) <= count:
            return self
        low = self.keys - self.errors
        limit = low.max() if count == 1 else np.partition(low, len(low) - count)[len(low) - count]
        possible = np.flatnonzero(self.keys + self.errors >= limit)
        return _Candidates(self.indices[possible], self.words[possible], self.keys[possible], self.errors[possible])


def _candidates(source: RandomSource, noise: Noise, deficits: Floats, start: int, count: int) -> _Candidates:
    """Return those of a part that may be among its ``count`` best: by rough keys first, then with error bounds."""
    words = source.words(len(deficits))
    np.clip(deficits, -_LARGEST, _LARGEST, out=deficits)
    rough = _rough_keys(noise, words)
    rough -= deficits
    # Words near either end have few known bits: always kept, and no standard for others.
    unclear = None
    if words.min() < _FEW_BITS or words.max() > _MANY_BITS:
        unclear = (words < _FEW_BITS) | (words > _MANY_BITS)
        rough[unclear] = -np.inf
    count = min(count, len(rough))
    best = rough.max() if count == 1 else np.partition(rough, len(rough) - count)[len(rough) - count]
    # All other rough keys are off by less than the margin, relative to themselves and to their deficits; and a key near
    # the best has a deficit of about the same size.
    possible = rough >= best - _MARGIN * (1 + abs(best))
    if unclear is not None:
        possible |= unclear
    kept = np.flatnonzero(possible)
    keys, errors = (_gumbel if noise is Noise.GUMBEL else _laplace)(words[kept])
    keys -= deficits[kept]
    errors += 1e-14 * (np.abs(keys) + np.abs(deficits[kept]))
    return _Candidates(kept + start, words[kept], keys, errors)


def _rough_keys(noise: Noise, words: Words) -> Floats:
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
    signs ^= uniform.view(np.uint64)  # an odd word is negative: ln u itself; of an even one the sign is turned
    return signs.view(np.float64)


def gap(first: Key, second: Key, scale: Fraction) -> int:
    """Return floor(scale * (first - second)) exactly."""
    while True:
        (low, high), (other_low, other_high) = first.interval(), second.interval()
        smallest, largest = scale * (low - other_high) // 1, scale * (high - other_low) // 1
        if smallest == largest:
            return smallest
        first.uniform.refine()
        second.uniform.refine()


def _gumbel(words: Words) -> tuple[Floats, Floats]:
    """Return -ln(-ln(1 - u)) and a bound on its error, for u between two words."""
    above, below = words.astype(np.float64), (~words).astype(np.float64) + 1.0
    with np.errstate(divide="ignore"):
        exponential = np.where(above < below, -np.log1p(-above * 2.0**-64), -np.log(below * 2.0**-64))
        keys = -np.log(exponential)
    errors = 1e-14 + 2 / (above + 0.5) + 2 / below
    # The word 0 gives an infinite key: any finite one, with an error that makes it a candidate, will do.
    unknown = words == 0
    keys[unknown], errors[unknown] = 44.0, 1e3
    return keys, errors


def _laplace(words: Words) -> tuple[Floats, Floats]:
    """Return -ln u with a sign, and a bound on its error: 63 bits for u, one for the sign."""
    known = (words >> np.uint64(1)).astype(np.float64) + 0.5
    sizes = -np.log(known * 2.0**-63)
    keys = np.where(words & np.uint64(1), -sizes, sizes)
    errors = 1e-14 + 2 / known
    unknown = known < 1
    errors[unknown] = 1e3
    return keys, errors
