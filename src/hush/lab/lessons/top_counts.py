"""The k largest counts, by the sparse vector technique and by the iterated exponential mechanism, at the same cost.

SVT answers "is it above the threshold?" and pays only for the k positive answers; but it needs a threshold, and stops
at the first k counts that noise lifts above it. The exponential mechanism sees all counts at once. Where all of them
are known beforehand, it is the better choice (Lyu, Su & Li 2017); SVT is for queries that arrive one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hush.errors import InvalidArgument, check_count
from hush.mechanisms import AboveThreshold, IteratedTopK, Monotone
from hush.randomness import RandomSource, public_generator, source_or_default

__all__ = ["TopCounts", "compare_top_counts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopCounts:
    """The mean share of the k largest counts that each method returned.

    >>> TopCounts(svt=0.7, exponential=0.8, exponential_with_delta=0.9).exponential
    0.8

    Attributes:
        svt: By `AboveThreshold` with the best possible threshold: the k-th largest count, which is not public.
        exponential: By `IteratedTopK` with delta 0.
        exponential_with_delta: By `IteratedTopK` with the delta.
    """

    svt: float
    exponential: float
    exponential_with_delta: float


def compare_top_counts(
    counts: Sequence[float],
    k: int,
    *,
    epsilon: float,
    delta: float,
    trials: int,
    rng: int | np.random.Generator,
    source: RandomSource | None = None,
) -> TopCounts:
    """Return how many of the k largest counts each method finds. The counts are treated as known: nothing is private.

    >>> from hush.randomness import TestSource
    >>> counts = [1000 / rank for rank in range(1, 101)]
    >>> result = compare_top_counts(counts, 10, epsilon=1.0, delta=1e-6, trials=40, rng=1, source=TestSource(1))
    >>> result.svt < result.exponential < result.exponential_with_delta
    True

    Args:
        counts: The counts; one person moves all of them in one direction, each by at most 1.
        k: How many to find.
        epsilon: The epsilon of each method.
        delta: The delta of the last method.
        trials: How often to try.
        rng: The order in which SVT sees the counts.
        source: The source of the noise.

    References:
        Lyu, Su & Li 2017, section 5 (the comparison); Dong, Durfee & Rogers 2020 (the composition).
    """
    generator, bits = public_generator(rng), source_or_default(source)
    if not check_count("k", k) < len(counts):
        raise InvalidArgument("k", k, "fewer than all counts")
    best = set(np.argsort(np.negative(counts), kind="stable")[:k].tolist())
    threshold = sorted(counts, reverse=True)[k - 1]
    sparse = AboveThreshold(epsilon=epsilon, sensitivity=Monotone(1.0), count=k)
    pure, approximate = (
        IteratedTopK(epsilon=epsilon, sensitivity=Monotone(1.0), k=k, delta=other) for other in (0.0, delta)
    )
    shares = np.zeros(3)
    for _ in range(check_count("trials", trials)):
        session, above = sparse.start(threshold, bits), []
        for index in generator.permutation(len(counts)).tolist():
            if session.remaining == 0:
                break
            if session.ask(counts[index]):
                above.append(index)
        chosen = above, pure.release(list(counts), bits).value, approximate.release(list(counts), bits).value
        shares += [len(best & set(indices)) / k for indices in chosen]
    svt, exponential, with_delta = (shares / trials).tolist()
    return TopCounts(svt=svt, exponential=exponential, exponential_with_delta=with_delta)
