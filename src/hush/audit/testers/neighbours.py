"""The search for bad neighbours: pairs of inputs that give a mechanism away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.audit.bounds.result import AuditResult
from hush.audit.testers.attack import Attack
from hush.audit.testers.outputs import Mechanism, NeighbourPair
from hush.audit.testers.search import EventSearch
from hush.audit.testers.tester import audit_mechanism, learned
from hush.errors import InvalidArgument, check_count, check_delta, check_positive
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource, source_or_default

Vector = NDArray[np.float64]
Inputs = tuple[Any, Any]
Change = Callable[[Inputs, np.random.Generator], Inputs]


def patterns(length: int, *, change: float = 1.0, one_entry: bool = False) -> dict[str, tuple[Vector, Vector]]:
    """Return pairs of vectors that are neighbours if each entry, or one entry, may change by ``change``.

    >>> sorted(patterns(4, one_entry=True))
    ['one above', 'one below']
    >>> [vector.tolist() for vector in patterns(4)["half half"]]
    [[1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 0.0, 0.0]]

    References:
        Ding et al. (2018), Detecting Violations of Differential Privacy: the patterns.

    Args:
        length: Of the vectors.
        change: How far an entry may move.
        one_entry: Whether one entry alone may change, or all.
    """
    check_count("length", length)
    check_positive("change", change)
    half, level = length // 2, np.ones(length)
    first = np.arange(length) == 0
    left = np.arange(length) < half
    pairs = {
        "one above": (level, np.where(first, 0.0, 1.0)),
        "one below": (level, np.where(first, 2.0, 1.0)),
        "one above, rest below": (level, np.where(first, 2.0, 0.0)),
        "one below, rest above": (level, np.where(first, 0.0, 2.0)),
        "half half": (level, np.where(left, 2.0, 0.0)),
        "all above": (level, 2 * level),
        "all below": (level, 0 * level),
        "X shape": (left.astype(np.float64), 1.0 - left),
    }
    kept = list(pairs)[:2] if one_entry else list(pairs)
    return {name: (change * pairs[name][0], change * pairs[name][1]) for name in kept}


def audit_worst_neighbours(
    mechanism: Mechanism,
    inputs: Mapping[str, Inputs],
    *,
    samples: int,
    search_samples: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    attack: Attack | None = None,
    change: Change | None = None,
    num_steps: int = 0,
    source: RandomSource | None = None,
    unit: Unit = Unit.example(),
    relation: Relation = Relation.ADD_OR_REMOVE,
) -> AuditResult:
    """Audit a mechanism on the most telling of some pairs of inputs, and on what hill climbing finds from there.

    Every pair is run and searched for events. The best one is changed at random, and a change is kept if it
    promises more. What is certified is one pair, on runs that had no part in the choice: so nothing is left to
    correct for, however many pairs were tried.

    Guarantee:
        That of `audit_mechanism`.

    Assumes:
        All pairs are neighbours, and ``change`` makes neighbours of neighbours: the caller's duty. As in
        `audit_mechanism` otherwise.

    References:
        Ding et al. (2018): patterns; Bichsel et al. (2021): the choice of a witness.

    Args:
        mechanism: As in `audit_mechanism`.
        inputs: Pairs by name, such as `patterns(5)`.
        samples: Fresh runs per input, on the chosen pair.
        search_samples: Runs per input, on every pair that is tried.
        delta: At which epsilon is meant.
        confidence: Of the bound.
        attack: As in `audit_mechanism`.
        change: From a pair and a generator to another pair of neighbours, for hill climbing.
        num_steps: How many changes are tried.
        source: What the mechanism is given to draw from.
        unit: What the inputs differ in.
        relation: How they differ.
    """
    check_delta("delta", delta)
    if not inputs:
        raise InvalidArgument("inputs", inputs, "at least one pair of inputs")
    if check_count("num_steps", num_steps, minimum=0) and change is None:
        raise InvalidArgument("change", change, "a function that changes a pair, for num_steps > 0")
    source, attack = source_or_default(source), EventSearch() if attack is None else attack

    def promise(pair: Inputs) -> float:
        drawn = NeighbourPair(mechanism=mechanism, first=pair[0], second=pair[1], source=source)
        return learned(attack, drawn, search_samples, delta)[0].promise

    promises = {name: promise(pair) for name, pair in inputs.items()}
    name = max(promises, key=lambda key: promises[key])
    chosen, kept = inputs[name], 0
    if change is not None:
        chosen, kept = _climb(chosen, promises[name], promise, change, num_steps, source)
    result = audit_mechanism(
        mechanism,
        *chosen,
        samples=samples,
        delta=delta,
        confidence=confidence,
        attack=attack,
        source=source,
        unit=unit,
        relation=relation,
    )
    return replace(result, details={**result.details, "inputs": name, "changes": kept})


def _climb(
    pair: Inputs, value: float, promise: Callable[[Inputs], float], change: Change, num_steps: int, source: RandomSource
) -> tuple[Inputs, int]:
    """Return the best pair found by changes, each kept if it promises more, and how many were."""
    generator, kept = np.random.default_rng(source.words(4)), 0
    for _ in range(num_steps):
        candidate = change(pair, generator)
        found = promise(candidate)
        if found > value:
            pair, value, kept = candidate, found, kept + 1
    return pair, kept
