"""Sensitivities of a query of your own, by trying neighbours: to understand and to check, never to add noise by.

- Global sensitivity is the largest change between any two neighbours. `hush.mechanisms.Sensitivity` states it.
- **Local sensitivity** is the largest change from *one* dataset (`local_sensitivity`). It depends on the data, so noise
  scaled to it reveals data: `epsilon_of_local_noise` is the counter-example.
- An **observed** sensitivity is the largest change that random neighbours showed (`observed_sensitivity`). It is a
  lower bound on the global one. It can prove that a sensitivity you state is too small, and nothing else.

Nothing here is private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hush.errors import InvalidArgument, check_count, check_instance
from hush.guarantee import Relation
from hush.randomness import public_generator

__all__ = ["epsilon_of_local_noise", "local_sensitivity", "observed_sensitivity"]

Query = Callable[[list[Any]], Any]


def local_sensitivity(
    query: Query, records: Sequence[Any], values: Sequence[Any], *, relation: Relation = Relation.ADD_OR_REMOVE
) -> float:
    """Return the largest L1 change of a query between this dataset and a neighbour. It is not private.

    The local sensitivity belongs to one dataset; the largest of all datasets is the global one.

    >>> median = lambda records: float(np.median(records))
    >>> local_sensitivity(median, [3, 3, 3, 9, 9], values=[0, 3, 9], relation=Relation.REPLACE)
    6.0
    >>> local_sensitivity(median, [3, 3, 3, 3, 9], values=[0, 3, 9], relation=Relation.REPLACE)
    0.0

    Args:
        query: From a list of records to a number or an array.
        records: The dataset.
        values: All values that a record may have.
        relation: How neighbours differ.

    References:
        Nissim, Raskhodnikova & Smith 2007, Definition 1.3.
    """
    exact, data = np.asarray(query(list(records)), dtype=np.float64), list(records)
    return max((_distance(exact, query(other)) for other in _neighbours(data, list(values), relation)), default=0.0)


def observed_sensitivity(
    query: Query,
    draw: Callable[[np.random.Generator], Sequence[Any]],
    *,
    trials: int,
    rng: int | np.random.Generator,
    relation: Relation = Relation.ADD_OR_REMOVE,
) -> float:
    """Return the largest L1 change of a query between random neighbours: a lower bound on its sensitivity.

    Use it to catch a mistake: a stated sensitivity below this is wrong. One that is above it may be wrong, too. Let
    ``draw`` return extreme records, and few of them: random ones hardly ever show the worst case.

    >>> total = lambda records: float(np.clip(records, -5, 10).sum())  # of sensitivity 10
    >>> draw = lambda generator: generator.choice([-100.0, 0.0, 100.0], size=4).tolist()
    >>> observed_sensitivity(total, draw, trials=200, rng=1)
    10.0

    Args:
        query: From a list of records to a number or an array.
        draw: Returns a random dataset of at least two records. Its last record is the one that changes.
        trials: How many pairs of neighbours to try.
        rng: Draws the datasets.
        relation: How neighbours differ. Under replacement, the last record takes the place of the first.

    References:
        Nissim, Raskhodnikova & Smith 2007, Definition 1.2 (what it bounds from below).
    """
    generator, largest = public_generator(rng), 0.0
    _check_relation(relation)
    for _ in range(check_count("trials", trials)):
        records = list(draw(generator))
        if len(records) < 2:
            raise InvalidArgument("draw", len(records), "at least two records in each dataset")
        others = records[:-1]
        before = records if relation is Relation.ADD_OR_REMOVE else others
        after = others if relation is Relation.ADD_OR_REMOVE else [records[-1], *others[1:]]
        largest = max(largest, _distance(np.asarray(query(before), dtype=np.float64), query(after)))
    return largest


def epsilon_of_local_noise(value: float, sensitivity: float, other_value: float, other_sensitivity: float) -> float:
    """Return the exact epsilon between neighbours if Laplace noise is scaled to their local sensitivities, at epsilon
    1.

    The counter-example: a median of 3 where no neighbour differs gets no noise; its neighbour's does. Whoever sees
    anything but a 3 knows which of the two it was.

    >>> epsilon_of_local_noise(3.0, 0.0, 3.0, 6.0)
    inf

    Even two scales above 0 have no finite epsilon: far away, one density is e^(|x| (1/b - 1/b')) times the other.

    >>> epsilon_of_local_noise(3.0, 5.0, 3.0, 6.0)
    inf
    >>> epsilon_of_local_noise(3.0, 6.0, 9.0, 6.0)  # the same scale, as with a global sensitivity
    1.0

    Args:
        value: The exact answer.
        sensitivity: Its local sensitivity, which is the scale of its noise.
        other_value: The neighbour's answer.
        other_sensitivity: The neighbour's local sensitivity.

    References:
        Nissim, Raskhodnikova & Smith 2007, section 1.2 (why the noise must not follow the local sensitivity).
    """
    for name, size in (("sensitivity", sensitivity), ("other_sensitivity", other_sensitivity)):
        if not 0 <= size < math.inf:
            raise InvalidArgument(name, size, "a number >= 0")
    if sensitivity != other_sensitivity:
        return math.inf
    if value == other_value:
        return 0.0
    return abs(value - other_value) / sensitivity if sensitivity > 0 else math.inf


def _neighbours(records: list[Any], values: list[Any], relation: Relation) -> list[list[Any]]:
    """Return all neighbours of a dataset."""
    _check_relation(relation)
    places = range(len(records))
    if relation is Relation.REPLACE:
        return [[*records[:i], value, *records[i + 1 :]] for i in places for value in values]
    removed = [[*records[:i], *records[i + 1 :]] for i in places]
    return [*removed, *([*records, value] for value in values)]


def _check_relation(relation: Relation) -> None:
    check_instance("relation", relation, Relation)
    if relation is Relation.ZERO_OUT:
        raise InvalidArgument("relation", relation.value, "add-or-remove or replace", "No value is a zero everywhere")


def _distance(exact: Any, other: Any) -> float:
    return float(np.abs(exact - np.asarray(other, dtype=np.float64)).sum())
