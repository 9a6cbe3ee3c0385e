"""The largest of many numbers with real-valued noise: exactly ordered, without a number ever being rounded.

Every candidate i has a key ``X_i - d_i``, where X_i is Gumbel or Laplace noise of scale 1 and d_i >= 0 how far its
score is below the best, in units of the scale. Keys are computed in floating point with a bound on their error.
Candidates whose order that leaves open (one in 10^10 or so) are compared exactly, with more bits. Deficits instead of
scores: their relative error is that of one subtraction, so large scores cost no accuracy, and nothing overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cmp_to_key

import numpy as np
from numpy.typing import NDArray

from hush.randomness._resolve import Interval, Uniform, log_interval
from hush.randomness._source import Source, Words

Floats = NDArray[np.float64]

_LARGEST = 1e300


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
    while True:
        (low, high), (other_low, other_high) = one.interval(), other.interval()
        if low > other_high:
            return -1
        if high < other_low:
            return 1
        one.uniform.refine()
        other.uniform.refine()


def rank(source: Source, noise: Noise, deficits: Floats, exact: Callable[[int], Fraction], count: int) -> list[Key]:
    """Return the keys of the ``count`` best candidates, best first.

    Args:
        source: Where the noise comes from.
        noise: Its law.
        deficits: d_i, to a relative error of 2^-50.
        exact: d_i exactly, asked for few i.
        count: How many to return; all if there are fewer.
    """
    deficits = np.minimum(deficits, _LARGEST)
    words = source.words(len(deficits))
    keys, errors = (_gumbel if noise is Noise.GUMBEL else _laplace)(words)
    keys -= deficits
    errors += 1e-14 * (np.abs(keys) + deficits)
    count = min(count, len(keys))
    low = keys - errors
    limit = np.partition(low, len(low) - count)[len(low) - count]
    possible = np.flatnonzero(keys + errors >= limit)
    possible = possible[np.argsort(-keys[possible], kind="stable")]
    bits, shift = (64, 0) if noise is Noise.GUMBEL else (63, 1)
    found = [
        Key(i, noise, Uniform(source, int(words[i]) >> shift, bits), bool(words[i] & np.uint64(1)), exact(i))
        for i in possible.tolist()
    ]
    clear = keys[possible[:-1]] - errors[possible[:-1]] > (keys + errors)[possible[1:]]
    if not clear.all():
        found.sort(key=cmp_to_key(compare))
    return found[:count]


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
