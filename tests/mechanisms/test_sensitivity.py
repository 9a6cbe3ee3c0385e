"""The sensitivity calculator: the quiz, and brute force over neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation
from hush.mechanisms import Sensitivity

REPLACE = Relation.REPLACE


def test_the_quiz() -> None:
    """Brown eyes; four colours; brown and tall; zip 10027 and NYC; counts per zip; mean age of N people."""
    assert Sensitivity.count().l1 == 1
    assert Sensitivity.histogram().l1 == 1
    assert Sensitivity.counts(2).l1 == 2
    assert Sensitivity.counts(2).l1 == 2
    assert Sensitivity.histogram().l1 == 1
    assert Sensitivity.mean(bounds=(0, 120), num_records=500, relation=REPLACE).l1 == pytest.approx(120 / 500)
    assert Sensitivity.histogram(REPLACE).l1 == 2, "four colours under replacement"


GRID = (-1.0, 0.0, 2.0)
QUERIES: dict[str, tuple[Callable[..., Sensitivity], Callable[[Sequence[float]], Any]]] = {
    "count": (Sensitivity.count, lambda x: [sum(v > 0 for v in x)]),
    "counts": (
        partial(Sensitivity.counts, 3),
        lambda x: [sum(v > -2 for v in x), sum(v > -1.5 for v in x), sum(v < 3 for v in x)],
    ),
    "histogram": (Sensitivity.histogram, lambda x: [sum(v == g for v in x) for g in GRID]),
    "sum": (partial(Sensitivity.sum, bounds=(-1, 2)), lambda x: [math.fsum(x)]),
    "quantile": (partial(Sensitivity.quantile, bounds=(-1, 2)), lambda x: [sorted(x)[len(x) // 2] if x else 2.0]),
    "mean": (partial(Sensitivity.mean, bounds=(-1, 2), num_records=3), lambda x: [math.fsum(x) / len(x)]),
    "variance": (partial(Sensitivity.variance, bounds=(-1, 2), num_records=3), lambda x: [float(np.var(x))]),
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
            query(relation=relation)
        return
    changes = [np.subtract(function(x), function(y)) for x, y in pairs(relation)]
    stated = query(relation=relation)
    for order, bound in ((1, stated.l1), (2, stated.l2), (np.inf, stated.linf)):
        largest = max(np.linalg.norm(change, order) for change in changes)
        assert largest <= bound + 1e-12
        if not (name == "counts" and relation is REPLACE):  # these three predicates never change all at once
            assert largest == pytest.approx(bound)


def test_vectors() -> None:
    assert Sensitivity.vector_sum(clip_norm=3.0, dimension=4).l2 == 3
    assert Sensitivity.vector_sum(clip_norm=3.0, dimension=4).l1 == 6
    assert Sensitivity.vector_sum(clip_norm=3.0, dimension=4, order=1, relation=REPLACE).l1 == 6


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Sensitivity.sum(bounds=(2, 1)), "bounds"),
        (lambda: Sensitivity.mean(bounds=(0, 1), num_records=0, relation=REPLACE), "num_records"),
        (lambda: Sensitivity.counts(0), "num_counts"),
        (lambda: Sensitivity.vector_sum(clip_norm=0.0, dimension=2), "clip_norm"),
    ],
)
def test_queries_are_checked(make: Callable[[], Any], name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name}="):
        make()


@pytest.mark.parametrize("name", QUERIES)
def test_the_relation_is_checked(name: str) -> None:
    with pytest.raises(InvalidArgument, match="^relation="):
        QUERIES[name][0](relation="replace")


def test_a_record_that_is_zeroed_out_may_leave_the_bounds() -> None:
    assert Sensitivity.mean(bounds=(10, 20), num_records=100, relation=Relation.ZERO_OUT).l1 == pytest.approx(0.2)
    assert Sensitivity.quantile(bounds=(10, 20), relation=Relation.ZERO_OUT).l1 == 20
