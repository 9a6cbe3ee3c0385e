"""Search for the worst neighbours: the pair of inputs on which a mechanism leaks most.

`patterns` offers the usual pairs of vectors to start from. `audit_worst_neighbours` ranks pairs by the bound that an
attack promises on them, improves the best one by hill climbing, and audits only that pair, on fresh runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.audit.bounds.result import AuditResult
from hush.audit.testers.attack import Attack
from hush.audit.testers.outputs import BlackBox, NeighbourPair
from hush.audit.testers.search import EventSearch
from hush.audit.testers.tester import audit_mechanism, learn_from
from hush.errors import InvalidArgument, check_count, check_delta, check_positive
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource, source_or_default

Vector = NDArray[np.float64]
Inputs = tuple[Any, Any]
PairChange = Callable[[Inputs, np.random.Generator], Inputs]


def patterns(length: int, *, change: float = 1.0, one_entry: bool = False) -> dict[str, tuple[Vector, Vector]]:
    """Return typical pairs of neighbouring vectors, by name.

    >>> sorted(patterns(4, one_entry=True))
    ['one above', 'one below']
    >>> [vector.tolist() for vector in patterns(4)["half half"]]
    [[1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 0.0, 0.0]]

    Args:
        length: The length of the vectors.
        change: How far an entry may change between neighbours.
        one_entry: Whether only one entry may change; by default all may.

    Returns:
        The pairs, two with ``one_entry`` and eight without.

    References:
        Ding et al. (2018), Detecting Violations of Differential Privacy: the patterns.
    """
    check_count("length", length)
    check_positive("change", change)
    half, ones = length // 2, np.ones(length)
    # Entries move by at most ``change`` between the two vectors of a pair, in all directions that noise may favour.
    is_first = np.arange(length) == 0
    is_left = np.arange(length) < half
    pairs = {
        "one above": (ones, np.where(is_first, 0.0, 1.0)),
        "one below": (ones, np.where(is_first, 2.0, 1.0)),
        "one above, rest below": (ones, np.where(is_first, 2.0, 0.0)),
        "one below, rest above": (ones, np.where(is_first, 0.0, 2.0)),
        "half half": (ones, np.where(is_left, 2.0, 0.0)),
        "all above": (ones, 2 * ones),
        "all below": (ones, 0 * ones),
        "X shape": (is_left.astype(np.float64), 1.0 - is_left),
    }
    # The first two patterns differ in one entry only.
    names = list(pairs)[:2] if one_entry else list(pairs)
    return {name: (change * pairs[name][0], change * pairs[name][1]) for name in names}


def audit_worst_neighbours(
    mechanism: BlackBox,
    inputs: Mapping[str, Inputs],
    *,
    samples: int,
    search_samples: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    attack: Attack | None = None,
    change: PairChange | None = None,
    num_steps: int = 0,
    source: RandomSource | None = None,
    unit: Unit = Unit.example(),
    relation: Relation = Relation.ADD_OR_REMOVE,
) -> AuditResult:
    """Audit a mechanism on the worst of several pairs of inputs, improved by hill climbing.

    The attack ranks all pairs by their search outputs. The best pair is then changed at random, and a change is kept if
    it promises a larger bound. Only the final pair is certified, on fresh runs, so there is nothing to correct for,
    however many pairs were tried.

    >>> from hush.audit.testers import Batched, patterns
    >>> from hush.randomness import TestSource
    >>> def noisy_sum(data, source, count):  # forgets that all entries may change
    ...     return data.sum() + np.random.default_rng(source.words(4)).laplace(size=count)
    >>> settings = {"samples": 10_000, "search_samples": 2_000, "source": TestSource(1)}
    >>> audit_worst_neighbours(Batched(noisy_sum), patterns(4), **settings).compare(1.0).verdict.value
    'violated'

    Args:
        mechanism: The mechanism, as in `audit_mechanism`.
        inputs: Pairs of neighbouring inputs by name, such as `patterns(5)`.
        samples: The number of fresh runs per input, on the final pair.
        search_samples: The number of runs per input, on every pair that is tried.
        delta: The delta at which epsilon is bounded.
        confidence: The confidence of the bound.
        attack: The attack, as in `audit_mechanism`.
        change: A function of a pair and a NumPy generator that returns another pair of neighbours, for hill climbing.
        num_steps: The number of changes to try.
        source: The randomness that the mechanism gets.
        unit: The privacy unit in which the inputs differ.
        relation: The neighbouring relation between them.

    Returns:
        The audit of the final pair. The details name the starting pair and count the changes that were kept.

    Guarantee:
        The same as for `audit_mechanism`.

    Assumes:
        All pairs are neighbours, and ``change`` returns neighbours (the caller's duty). Otherwise as in
        `audit_mechanism`.

    References:
        Ding et al. (2018): patterns; Bichsel et al. (2021): the choice of a witness.
    """
    check_delta("delta", delta)
    if not inputs:
        raise InvalidArgument("inputs", inputs, "at least one pair of inputs")
    if check_count("num_steps", num_steps, minimum=0) and change is None:
        raise InvalidArgument("change", change, "a function that changes a pair, for num_steps > 0")
    source, attack = source_or_default(source), EventSearch() if attack is None else attack

    def promise(pair: Inputs) -> float:
        neighbours = NeighbourPair(mechanism=mechanism, first=pair[0], second=pair[1], source=source)
        # Only the promise is kept. What was learned here is learned again on other outputs of the final pair.
        return learn_from(neighbours, attack, search_samples, delta)[0].promise

    # Search outputs only: nothing of this is used for the bound.
    promises = {name: promise(pair) for name, pair in inputs.items()}
    name = max(promises, key=lambda key: promises[key])
    worst, num_changes = inputs[name], 0
    if change is not None:
        worst, num_changes = _climb(worst, promises[name], promise, change, num_steps, source)
    result = audit_mechanism(
        mechanism,
        *worst,
        samples=samples,
        delta=delta,
        confidence=confidence,
        attack=attack,
        source=source,
        unit=unit,
        relation=relation,
    )
    return replace(result, details={**result.details, "inputs": name, "changes": num_changes})


def _climb(
    pair: Inputs,
    value: float,
    promise: Callable[[Inputs], float],
    change: PairChange,
    num_steps: int,
    source: RandomSource,
) -> tuple[Inputs, int]:
    """Return the best pair after random changes, and how many changes were improvements."""
    rng, num_changes = np.random.default_rng(source.words(4)), 0
    for _ in range(num_steps):
        candidate = change(pair, rng)
        candidate_value = promise(candidate)
        # The climb sees search outputs only. The final pair is certified on fresh ones, so nothing is corrected for.
        if candidate_value > value:
            pair, value, num_changes = candidate, candidate_value, num_changes + 1
    return pair, num_changes
