"""Histograms, contingency tables and the most frequent keys: counts by group, in other words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hush.accounting import Event, events
from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count
from hush.guarantee import Guarantee
from hush.mechanisms import IteratedTopK, OneShotTopK
from hush.randomness import RandomSource
from hush.statistics.columns import MISSING, as_floats, check_keys, key_codes
from hush.statistics.noise.charged import released
from hush.statistics.noise.estimate import Estimate
from hush.statistics.noise.release import NoiseKind
from hush.statistics.question import question
from hush.statistics.totals import count


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK:
    """The keys that most users have, best first.

    Attributes:
        keys: What was chosen.
        accuracy: With ``confidence``, no key left out has so many more users than a chosen one.
        confidence: Of that.
        guarantee: What the choice gives away.
        event: The same for accountants.
    """

    keys: tuple[Any, ...]
    accuracy: float
    confidence: float
    guarantee: Guarantee
    event: Event


@released
def histogram(
    values: Any,
    edges: Sequence[float],
    *,
    units: Any,
    rows_per_unit: int = 1,
    max_bins: int = 1,
    epsilon: float,
    delta: float = 0.0,
    noise: NoiseKind | None = None,
    confidence: float = 0.95,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> Estimate:
    """Count rows by bins [edge, next edge), the last one closed; what is outside of all of them is not counted.

    Args:
        values: Numbers.
        edges: Public numbers, from the smallest to the largest; infinity is one.
        units: As for `count`.
        rows_per_unit: How many rows of a user count in a bin.
        max_bins: How many bins of a user count.
        epsilon: As for `count`.
        delta: As for `count`.
        noise: As for `count`.
        confidence: As for `count`.
        source: As for `count`.
        budget: As for `count`.

    Guarantee:
        As `count`.

    Assumes:
        As `count` (the caller's duty). Edges are public (the caller's duty).

    References:
        Dwork, McSherry, Nissim & Smith 2006.
    """
    cuts = np.array([float(edge) for edge in edges])
    if len(cuts) < 2 or not bool((cuts[1:] > cuts[:-1]).all()):
        raise InvalidArgument("edges", list(edges), "two numbers at least, in increasing order")
    numbers = as_floats("values", values)
    bins = np.searchsorted(cuts, numbers, side="right") - 1
    bins = np.where(numbers == cuts[-1], len(cuts) - 2, bins)
    bins = np.where(np.isnan(numbers) | (bins >= len(cuts) - 1), MISSING, bins)
    return count(
        numbers,
        units=units,
        rows_per_unit=rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        groups=bins,
        keys=range(len(cuts) - 1),
        groups_per_unit=max_bins,
        noise=noise,
        confidence=confidence,
        source=source,
    )


@released
def contingency_table(
    columns: Sequence[Any],
    keys: Sequence[Sequence[Any]],
    *,
    units: Any,
    rows_per_unit: int = 1,
    max_cells: int = 1,
    epsilon: float,
    delta: float = 0.0,
    noise: NoiseKind | None = None,
    confidence: float = 0.95,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> Estimate:
    """Count rows by several columns at once; the value is an array with an axis for each column, in the keys' order.

    A row with a value that is not among the public ``keys`` of its column is not counted. Other arguments are those of
    `count`; ``max_cells`` is how many cells of a user count.

    Guarantee:
        As `count`.

    Assumes:
        As `count` (the caller's duty). Keys are public (the caller's duty).

    References:
        Dwork, McSherry, Nissim & Smith 2006.
    """
    if len(columns) != len(keys) or not columns:
        raise InvalidArgument("keys", f"{len(keys)} lists", f"one for each of {len(columns)} columns")
    lists = [check_keys("keys", one) for one in keys]
    shape = tuple(map(len, lists))
    if math.prod(shape) > 1 << 24:
        raise InvalidArgument("keys", shape, "at most 2^24 cells in all")
    codes = [key_codes("columns", column, one) for column, one in zip(columns, lists, strict=True)]
    if len({len(one) for one in codes}) != 1:
        raise InvalidArgument("columns", f"{len(columns)} columns", "of the same rows")
    present = np.all([one >= 0 for one in codes], axis=0)
    cells = np.where(present, np.ravel_multi_index([np.maximum(one, 0) for one in codes], shape), MISSING)
    found = count(
        cells,
        units=units,
        rows_per_unit=rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        groups=cells,
        keys=range(math.prod(shape)),
        groups_per_unit=max_cells,
        noise=noise,
        confidence=confidence,
        source=source,
    )
    low, high = found.low.reshape(shape), found.high.reshape(shape)
    return replace(found, value=found.value.reshape(shape), low=low, high=high, keys=None)


@released
def top_k(
    values: Any,
    k: int,
    *,
    units: Any,
    keys: Sequence[Any],
    epsilon: float,
    delta: float = 0.0,
    confidence: float = 0.95,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> TopK:
    """Return the k keys that most users have, best first; not how many, which would cost more.

    A user counts once for each key, and for as many keys as they have: a choice by scores needs no bound on that.

    Args:
        values: A key for each row; what is not among the keys is left out.
        k: How many to choose.
        units: As for `count`.
        keys: The public list to choose from.
        epsilon: What the choice costs, all k together.
        delta: With one, less noise if k is large.
        confidence: Of the accuracy.
        source: As for `count`.
        budget: As for `count`.

    Guarantee:
        (epsilon, delta)-differential privacy for all that one user has: every score moves by at most 1, all of them in
        the same direction.

    Assumes:
        Every person has one id (the caller's duty). Keys are public (the caller's duty).

    References:
        Ding, Wang, Zhang & Kifer 2019; Durfee & Rogers 2019.
    """
    choices = check_keys("keys", keys)
    check_count("k", k)
    asked = question(
        values,
        units=units,
        groups=values,
        keys=choices,
        rows_per_unit=1,
        groups_per_unit=1,
        epsilon=epsilon,
        delta=delta,
        noise=None,
        selection=None,
        confidence=confidence,
        source=source,
    )
    limits = replace(asked.limits, groups_per_unit=min(len(choices), 1 << 24))
    scores = replace(asked, limits=limits).bound().num_users().astype(np.float64)
    mechanism: OneShotTopK | IteratedTopK = OneShotTopK(epsilon=epsilon, k=k, monotone=True)
    described: Event = events.ApproximateDPEvent(epsilon)
    if delta > 0:
        mechanism = IteratedTopK(epsilon=epsilon, delta=delta, k=k, monotone=True)
        described = mechanism.event.event  # type: ignore[attr-defined]
    released = mechanism.release(scores, asked.source)
    guarantee, event = asked.claim(described, epsilon, released.guarantee.delta, released.guarantee.method)
    return TopK(
        keys=tuple(choices[place] for place in released.value),
        accuracy=mechanism.accuracy(len(choices), confidence),
        confidence=float(confidence),
        guarantee=guarantee,
        event=event,
    )
