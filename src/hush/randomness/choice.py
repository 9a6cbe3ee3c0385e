"""Exact choices: uniform integers, coins whose probability is any real number, and floored Cauchy noise.

A coin compares 64 random bits with its probability in floating point. If the two agree up to the rounding error, it
encloses the probability in a rational interval and draws further bits until one side is clear.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument, check_count, check_fraction
from hush.randomness.resolution import ExactInterval, Uniform, exp_interval
from hush.randomness.source import RandomSource

# Encloses the probability of coin ``index``, computed with ``digits`` decimal digits.
Enclosure = Callable[[int, int], ExactInterval]

_ERROR = 1e-13  # of the approximate probabilities that `flip` accepts
_CHUNK = 1 << 14  # fits into the processor's cache


def uniform_below(source: RandomSource, bound: int, size: int) -> NDArray[np.int64]:
    """Return ``size`` integers, uniform on 0, ..., bound - 1.

    >>> from hush.randomness import TestSource
    >>> bool((uniform_below(TestSource(seed=1), 6, size=8) < 6).all())
    True
    """
    check_count("size", size, minimum=0)
    bound = check_count("bound", bound)
    if not bound <= 1 << 63:
        raise InvalidArgument("bound", bound, "at most 2^63")
    last = (1 << 64) - (1 << 64) % bound - 1  # words above it would make small remainders more likely
    words = source.words(size)
    while (rejected := np.flatnonzero(words > np.uint64(last))).size:
        words[rejected] = source.words(rejected.size)
    return (words % np.uint64(bound)).astype(np.int64)


def flip(source: RandomSource, approximate: NDArray[np.float64], enclosure: Enclosure) -> NDArray[np.bool_]:
    """Flip one coin for each probability.

    Args:
        source: The random bits.
        approximate: The probabilities, up to an error of 1e-13. NaN is allowed, and makes the coin slower.
        enclosure: A function of a coin's index and a number of decimal digits, which returns two fractions that
            enclose the exact probability. It is called only where ``approximate`` does not decide.
    """
    result = np.empty(len(approximate), dtype=np.bool_)
    for start in range(0, len(approximate), _CHUNK):
        part = approximate[start : start + _CHUNK]
        words = source.words(len(part))
        # 64 bits of U decide, unless U is within the error of the probability.
        gaps = part - words.astype(np.float64) * 2.0**-64
        np.greater(gaps, 0, out=result[start : start + _CHUNK])
        for index in np.flatnonzero(~(np.abs(gaps) >= _ERROR)).tolist():
            result[start + index] = _below(Uniform(source, int(words[index]), 64), start + index, enclosure)
    return result


def _below(uniform: Uniform, index: int, enclosure: Enclosure) -> bool:
    """Return whether U is below the probability of coin ``index``, drawing bits of U until that is clear."""
    while True:
        low, high = uniform.interval()
        bounds = enclosure(index, uniform.digits)
        # U is below the probability for every way in which its unknown bits can go on.
        if high <= bounds[0]:
            return True
        if low >= bounds[1]:
            return False
        uniform.refine()


def flip_exp(
    source: RandomSource, exponents: NDArray[np.float64], exact: Callable[[int], Fraction]
) -> NDArray[np.bool_]:
    """Flip coins with probabilities e^-x, for exponents x >= 0.

    Args:
        source: The random bits.
        exponents: The exponents, up to a relative error of about 2^-50.
        exact: Returns the exact exponent of a coin by its index.
    """

    def enclosure(index: int, digits: int) -> ExactInterval:
        exponent = exact(index)
        return (Fraction(1), Fraction(1)) if exponent == 0 else exp_interval((-exponent, -exponent), digits)

    return flip(source, np.exp(-exponents), enclosure)


def bernoulli(source: RandomSource, probability: float, size: int) -> NDArray[np.bool_]:
    """Flip ``size`` coins that are True with exactly this probability, as the float represents it.

    >>> from hush.randomness import TestSource
    >>> bernoulli(TestSource(seed=1), 1.0, size=3)
    array([ True,  True,  True])
    """
    exact = Fraction(check_fraction("probability", probability))
    check_count("size", size, minimum=0)
    return flip(source, np.full(size, float(probability)), lambda index, digits: (exact, exact))


def floored_cauchy(source: RandomSource, scale: Fraction) -> int:
    """Return floor(scale * X) for a standard Cauchy variable X, exactly, and 0 for scale 0.

    The slope of a uniformly random point in the quarter disc, with a random sign, has a Cauchy distribution.
    """
    if scale == 0:
        return 0
    sides = Uniform(source), Uniform(source)
    # Accepted with probability pi / 4. The bits drawn so far stay part of the accepted point.
    while not _in_disc(*sides):
        sides = Uniform(source), Uniform(source)
    while True:
        (low_a, high_a), (low_b, high_b) = (side.interval() for side in sides)
        if low_b > 0:
            first, last = scale * low_a / high_b // 1, scale * high_a / low_b // 1
            if first == last:
                return ~first if source.word() & 1 else first  # floor(-x) = -1 - floor(x) = ~floor(x)
        for side in sides:
            side.refine()


def _in_disc(a: Uniform, b: Uniform) -> bool:
    """Return whether a^2 + b^2 < 1, drawing bits of both until that is clear."""
    while True:
        a.refine()
        b.refine()
        (low_a, high_a), (low_b, high_b) = a.interval(), b.interval()
        if high_a**2 + high_b**2 <= 1:
            return True
        if low_a**2 + low_b**2 >= 1:
            return False
