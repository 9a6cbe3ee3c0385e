"""Random draws of the samplings: samples, orders and bins of units. Each is a function of a key and a number."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hush.randomness import KeyedSource, geometric, uniform_below

Indices = NDArray[np.int64]


def poisson_sample(key: bytes, step: int, num_units: int, sampling_rate: float) -> Indices:
    """Return the indices of a Poisson sample, in increasing order.

    The gaps between sampled indices are geometric. They are sampled exactly, at a rate that is rounded down by a
    relative error below 1e-15.
    """
    if sampling_rate == 1:
        return np.arange(num_units)
    source = KeyedSource(key, step)
    # P(gap >= k) = (1 - rate)^k = exp(-k / scale). A larger scale is a lower rate, which is the safe side.
    scale = -1 / math.log1p(-sampling_rate) * (1 + 2.0**-50)
    parts: list[Indices] = []
    last = -1
    while last < num_units:
        # Four standard deviations more than expected, so that one round nearly always reaches the end.
        expected = (num_units - last) * sampling_rate
        gaps = geometric(source, scale, math.ceil(expected + 4 * math.sqrt(expected)) + 16)
        # A gap of k means k units that are not sampled, and then one that is.
        parts.append(last + np.cumsum(gaps + 1))
        last = int(parts[-1][-1])
    indices = np.concatenate(parts)
    return indices[indices < num_units]


def distinct_units(source: KeyedSource, population: int, size: int) -> Indices:
    """Draw ``size`` distinct numbers below ``population``, in random order, by rejecting repetitions."""
    if 2 * size >= population:  # most draws would be repetitions
        return shuffled(source, population)[:size]
    drawn = np.zeros(0, dtype=np.int64)
    while True:
        drawn = np.concatenate([drawn, uniform_below(source, population, 2 * size)])
        # The first appearances, in the order in which they were drawn: a uniform sample without replacement.
        first_positions = np.sort(np.unique(drawn, return_index=True)[1])
        if len(first_positions) >= size:
            return drawn[first_positions[:size]]


def shuffled(source: KeyedSource, count: int) -> Indices:
    """Return a uniformly random permutation: sort random words, and draw them again if two are equal."""
    while True:
        words = source.words(count)
        # Without ties, all orders of independent words are equally likely.
        order = np.argsort(words, kind="stable")
        if not np.any(np.diff(words[order]) == 0):
            return order


@lru_cache(maxsize=2)
def order_of_epoch(key: bytes, epoch: int, count: int) -> Indices:
    """Return the order of an epoch; cached, as every step of the epoch asks for it."""
    return shuffled(KeyedSource(key, epoch), count)


@lru_cache(maxsize=2)
def bins_of_epoch(key: bytes, epoch: int, count: int, bins: int) -> Indices:
    """Return each unit's bin in an epoch; cached, as every step of the epoch asks for it."""
    return uniform_below(KeyedSource(key, epoch), bins, count)
