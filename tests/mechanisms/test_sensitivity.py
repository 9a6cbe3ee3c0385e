"""The sensitivity calculator: the quiz, and brute force over neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation
from hush.mechanisms import Count, Counts, Histogram, Mean, Quantile, Sum, Variance, VectorSum, sensitivity

REPLACE = Relation.REPLACE


def test_the_quiz() -> None:
    """Brown eyes; four colours; brown and tall; zip 10027 and NYC; counts per zip; mean age of N people."""
    assert sensitivity(Count()).l1 == 1
    assert sensitivity(Histogram()).l1 == 1
    assert sensitivity(Counts(num_counts=2)).l1 == 2
    assert sensitivity(Counts(num_counts=2)).l1 == 2
    assert sensitivity(Histogram()).l1 == 1
    assert sensitivity(Mean(bounds=(0, 120), num_records=500), REPLACE).l1 == pytest.approx(120 / 500)
    assert sensitivity(Histogram(), REPLACE).l1 == 2, "four colours under replacement"


GRID = (-1.0, 0.0, 2.0)
QUERIES: dict[str, tuple[Any, Callable[[Sequence[float]], Any]]] = {
    "count": (Count(), lambda x: [sum(v > 0 for v in x)]),
    "counts": (
        Counts(num_counts=3),
        lambda x: [sum(v > -2 for v in x), sum(v > -1.5 for v in x), sum(v < 3 for v in x)],
    ),
    "histogram": (Histogram(), lambda x: [sum(v == g for v in x) for g in GRID]),
    "sum": (Sum(bounds=(-1, 2)), lambda x: [math.fsum(x)]),
    "quantile": (Quantile(bounds=(-1, 2)), lambda x: [sorted(x)[len(x) // 2] if x else 2.0]),
    "mean": (Mean(bounds=(-1, 2), num_records=3), lambda x: [math.fsum(x) / len(x)]),
    "variance": (Variance(bounds=(-1, 2), num_records=3), lambda x: [float(np.var(x))]),
}


def pairs(relation: Relation) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    three = list(itertools.product(GRID, repeat=3))
    if relation is REPLACE:
        return [(x, (v, *x[1:])) for x in three for v in GRID]
    return [(x, x[1:]) for size in (1, 2, 3) for x in itertools.product(GRID, repeat=size)]


@pytest.mark.parametrize("relation", [Relation.ADD_OR_REMOVE, REPLACE])
@pytest.mark.parametrize("name", QUERIES)
def test_no_neighbours_are_further_apart_and_some_are_as_far(name: str, relation: Relation) -> None:
    query, function = QUERIES[name]
    if name in ("mean", "variance") and relation is Relation.ADD_OR_REMOVE:
        with pytest.raises(Unsupported, match="their number is private"):
            sensitivity(query, relation)
        return
    changes = [np.subtract(function(x), function(y)) for x, y in pairs(relation)]
    stated = sensitivity(query, relation)
    for order, bound in ((1, stated.l1), (2, stated.l2), (np.inf, stated.linf)):
        largest = max(np.linalg.norm(change, order) for change in changes)
        assert largest <= bound + 1e-12
        if not (name == "counts" and relation is REPLACE):  # these three predicates never change all at once
            assert largest == pytest.approx(bound)


def test_vectors() -> None:
    assert sensitivity(VectorSum(clip_norm=3.0, dimension=4)).l2 == 3
    assert sensitivity(VectorSum(clip_norm=3.0, dimension=4)).l1 == 6
    assert sensitivity(VectorSum(clip_norm=3.0, dimension=4, order=1), REPLACE).l1 == 6


@pytest.mark.parametrize(
    "make", [lambda: Sum(bounds=(2, 1)), lambda: Mean(bounds=(0, 1), num_records=0), lambda: Counts(num_counts=0)]
)
def test_queries_are_checked(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgument):
        make()
    with pytest.raises(InvalidArgument, match="^query="):
        sensitivity("count")  # type: ignore[arg-type]


def test_a_record_that_is_zeroed_out_may_leave_the_bounds() -> None:
    assert sensitivity(Mean(bounds=(10, 20), num_records=100), Relation.ZERO_OUT).l1 == pytest.approx(0.2)
    assert sensitivity(Quantile(bounds=(10, 20)), Relation.ZERO_OUT).l1 == 20
