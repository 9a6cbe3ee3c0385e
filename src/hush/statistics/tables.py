"""Histograms, contingency tables and the most frequent keys: variants of counting by group."""

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
from hush.mechanisms import IteratedTopK, Monotone, OneShotTopK
from hush.randomness import RandomSource
from hush.statistics.columns import MISSING, as_floats, check_keys, key_codes
from hush.statistics.limits import MAX_GROUPS_PER_UNIT
from hush.statistics.noise.charge import released
from hush.statistics.noise.estimate import Estimate
from hush.statistics.noise.release import NoiseKind
from hush.statistics.request import checked_request
from hush.statistics.totals import count

_MAX_CELLS = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK:
    """The keys that the most units have, best first; the result of `top_k`.

    >>> from hush.randomness import TestSource
    >>> votes = ["red"] * 80 + ["blue"] * 50 + ["grey"]
    >>> result = top_k(votes, 2, units=range(131), keys=["red", "blue", "grey"], epsilon=2.0, source=TestSource(1))
    >>> result.keys
    ('red', 'blue')

    Attributes:
        keys: The chosen keys.
        accuracy: With the stated confidence, no key that was left out has this many units more than a chosen one.
        confidence: The confidence of ``accuracy``.
        guarantee: The guarantee of the choice.
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
    groups_per_unit: int = 1,
    epsilon: float,
    delta: float = 0.0,
    noise: NoiseKind | None = None,
    confidence: float = 0.95,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> Estimate:
    """Count rows by bins [edge, next edge); the last bin is closed. Values outside all bins are not counted.

    >>> from hush.randomness import TestSource
    >>> histogram([1, 5, 12, 99], [0, 10, 20], units=range(4), epsilon=50.0, source=TestSource(1)).value.tolist()
    [2, 1]

    Args:
        values: The numbers.
        edges: Public numbers in increasing order; infinity is allowed.
        units: As for `count`.
        rows_per_unit: How many rows of a unit count in a bin.
        groups_per_unit: In how many bins a unit counts.
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
        raise InvalidArgument("edges", list(edges), "at least two numbers, in increasing order")
    numbers = as_floats("values", values)
    bins = np.searchsorted(cuts, numbers, side="right") - 1  # -1, which is MISSING, below the first edge
    bins = np.where(numbers == cuts[-1], len(cuts) - 2, bins)  # the last bin is closed
    bins = np.where(np.isnan(numbers) | (bins >= len(cuts) - 1), MISSING, bins)
    return count(
        numbers,
        units=units,
        rows_per_unit=rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        groups=bins,
        keys=range(len(cuts) - 1),
        groups_per_unit=groups_per_unit,
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
    groups_per_unit: int = 1,
    epsilon: float,
    delta: float = 0.0,
    noise: NoiseKind | None = None,
    confidence: float = 0.95,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> Estimate:
    """Count rows by several columns at once. The value is an array with an axis per column, in the order of its keys.

    A row with a value that is not among the public keys of its column is not counted.

    >>> from hush.randomness import TestSource
    >>> sex, smokes = ["f", "f", "m"], [True, False, False]
    >>> table = contingency_table([sex, smokes], [["f", "m"], [False, True]], units=range(3), epsilon=50.0,
    ...                           source=TestSource(1))
    >>> table.value.tolist()
    [[1, 1], [1, 0]]

    Args:
        columns: The columns, all of the same rows.
        keys: For each column, the public list of its values.
        units: As for `count`.
        rows_per_unit: How many rows of a unit count in a cell.
        groups_per_unit: In how many cells a unit counts.
        epsilon: As for `count`.
        delta: As for `count`.
        noise: As for `count`.
        confidence: As for `count`.
        source: As for `count`.
        budget: As for `count`.

    Guarantee:
        As `count`.

    Assumes:
        As `count` (the caller's duty). Keys are public (the caller's duty).

    References:
        Dwork, McSherry, Nissim & Smith 2006.
    """
    if len(columns) != len(keys) or not columns:
        raise InvalidArgument("keys", f"{len(keys)} lists", f"one list for each of {len(columns)} columns")
    key_lists = [check_keys("keys", column_keys) for column_keys in keys]
    shape = tuple(map(len, key_lists))
    if math.prod(shape) > _MAX_CELLS:
        raise InvalidArgument("keys", shape, "at most 2^24 cells in all")
    codes = [key_codes("columns", column, key_list) for column, key_list in zip(columns, key_lists, strict=True)]
    if len({len(column_codes) for column_codes in codes}) != 1:
        raise InvalidArgument("columns", f"{len(columns)} columns", "columns of the same length")
    present = np.all([column_codes >= 0 for column_codes in codes], axis=0)
    indices = [np.maximum(column_codes, 0) for column_codes in codes]
    # One group per cell, in row-major order, as reshape expects.
    cells = np.where(present, np.ravel_multi_index(indices, shape), MISSING)
    result = count(
        cells,
        units=units,
        rows_per_unit=rows_per_unit,
        epsilon=epsilon,
        delta=delta,
        groups=cells,
        keys=range(math.prod(shape)),
        groups_per_unit=groups_per_unit,
        noise=noise,
        confidence=confidence,
        source=source,
    )
    low, high = result.low.reshape(shape), result.high.reshape(shape)
    return replace(result, value=result.value.reshape(shape), low=low, high=high, keys=None)


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
    """Return the k keys that the most units have, best first.

    The numbers of units are not released; they would cost extra.

    A unit counts once for each of its keys, however many it has: a choice by scores needs no bound on that.

    Args:
        values: A key for each row. Values that are not among the keys are left out.
        k: How many keys to choose.
        units: As for `count`.
        keys: The public list to choose from.
        epsilon: The cost of the choice, for all k keys together.
        delta: If it is positive, large k need less noise.
        confidence: The confidence of the accuracy.
        source: As for `count`.
        budget: As for `count`.

    Guarantee:
        (epsilon, delta)-differential privacy for all rows of one unit: every score changes by at most 1, and all of
        them in the same direction.

    Assumes:
        Each person has exactly one id (the caller's duty). Keys are public (the caller's duty).

    References:
        Ding, Wang, Zhang & Kifer 2019; Durfee & Rogers 2019.
    """
    choices = check_keys("keys", keys)
    check_count("k", k)
    request = checked_request(
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
    # Each score is a number of units, which one unit changes by at most 1, whatever other keys it has.
    all_groups = replace(request.limits, groups_per_unit=min(len(choices), MAX_GROUPS_PER_UNIT))
    scores = replace(request, limits=all_groups).bound().units_per_group().astype(np.float64)
    # A unit that is added raises scores only, so the mechanisms may treat them as monotone: half the noise.
    mechanism: OneShotTopK | IteratedTopK = OneShotTopK(epsilon=epsilon, k=k, sensitivity=Monotone())
    event: Event = events.ApproximateDPEvent(epsilon)
    if delta > 0:
        mechanism = IteratedTopK(epsilon=epsilon, delta=delta, k=k, sensitivity=Monotone())
        event = mechanism.event.event  # type: ignore[attr-defined]
    result = mechanism.release(scores, request.source)
    guarantee, qualified = request.claim(event, epsilon, result.guarantee.delta, result.guarantee.method)
    return TopK(
        keys=tuple(choices[index] for index in result.value),
        accuracy=mechanism.accuracy(len(choices), confidence),
        confidence=float(confidence),
        guarantee=guarantee,
        event=qualified,
    )
