"""Sensitivities of small queries, found by trying neighbours; noise that follows them is caught."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from hush.errors import InvalidArgument
from hush.guarantee import Relation
from hush.lab.lessons.local_sensitivity import epsilon_of_local_noise, local_sensitivity, observed_sensitivity

VALUES = [0, 1, 5]


def total(records: list[Any]) -> float:
    return float(sum(records))


def histogram(records: list[Any]) -> np.ndarray[Any, Any]:
    return np.bincount(records, minlength=6)


@pytest.mark.parametrize(
    ("query", "relation", "expected"),
    [
        (total, Relation.ADD_OR_REMOVE, 5),
        (total, Relation.REPLACE, 5),
        (len, Relation.ADD_OR_REMOVE, 1),
        (len, Relation.REPLACE, 0),
        (histogram, Relation.ADD_OR_REMOVE, 1),
        (histogram, Relation.REPLACE, 2),
    ],
)
def test_global_sensitivity_is_the_largest_local_one(query: Any, relation: Relation, expected: float) -> None:
    datasets = [list(records) for size in range(4) for records in itertools.product(VALUES, repeat=size)]
    assert max(local_sensitivity(query, records, VALUES, relation=relation) for records in datasets) == expected


def test_a_mistake_in_a_stated_sensitivity_is_seen() -> None:
    def clamped_mean(records: list[Any]) -> float:  # of sensitivity 10 / 4 under replacement; somebody stated 1
        return float(np.clip(records, 0, 10).mean())

    settings: dict[str, Any] = {"trials": 100, "rng": 0, "relation": Relation.REPLACE}
    # Fixed seed. Five records that are 0 or 10: with probability 1/2, the one that is replaced differs.
    extreme = observed_sensitivity(clamped_mean, lambda g: g.choice([0.0, 10.0], size=5), **settings)
    assert extreme == 2.5
    usual = observed_sensitivity(clamped_mean, lambda g: g.normal(5, 0.1, size=5), **settings)
    assert usual < 0.3, "typical data show nothing: this is no proof"


def test_local_noise_has_no_epsilon() -> None:
    def median(records: list[Any]) -> float:
        return float(np.median(records))

    calm, near = [1, 1, 1, 1, 5], [1, 1, 1, 5, 5]  # neighbours by replacement
    scales = [local_sensitivity(median, records, VALUES, relation=Relation.REPLACE) for records in (calm, near)]
    assert scales[0] == 0 < scales[1]
    assert epsilon_of_local_noise(median(calm), scales[0], median(near), scales[1]) == math.inf
    assert epsilon_of_local_noise(1.0, 4.0, 3.0, 4.0) == 0.5
    assert epsilon_of_local_noise(1.0, 0.0, 1.0, 0.0) == 0
    assert epsilon_of_local_noise(1.0, 0.0, 2.0, 0.0) == math.inf


def test_refusals() -> None:
    with pytest.raises(InvalidArgument, match="sensitivity"):
        epsilon_of_local_noise(1.0, math.nan, 1.0, 1.0)
    with pytest.raises(InvalidArgument, match="relation"):
        local_sensitivity(total, [1], VALUES, relation=Relation.ZERO_OUT)
    with pytest.raises(InvalidArgument, match="relation"):
        observed_sensitivity(total, lambda g: [1, 2], trials=1, rng=0, relation=Relation.ZERO_OUT)
    with pytest.raises(InvalidArgument, match="draw"):
        observed_sensitivity(total, lambda g: [1], trials=1, rng=0)
