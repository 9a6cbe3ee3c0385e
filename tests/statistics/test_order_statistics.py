"""Quantiles and medians: three methods, by group, and with their own guarantees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hush.statistics as hs
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation
from hush.randomness import TestSource

SALARIES = [*np.linspace(30_000, 90_000, 999), 2e9]
METHODS = [hs.MedianMethod.tree(), hs.MedianMethod.exponential(), hs.MedianMethod.smooth()]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_median_is_not_moved_by_an_outlier(method: Any) -> None:
    source = TestSource(2)
    settings = {"units": range(1000), "epsilon": 1.0, "bounds": (0, 200_000)}
    results = [hs.median(SALARIES, method=method, **settings, source=source) for _ in range(25)]
    # Smooth noise has heavy tails: 5 of 60 answers were further off. Of 25 most are with P(Binomial(25, 0.1) > 12)
    # = 2e-7; none of the others' was.
    assert abs(np.median([result.value for result in results]) - 60_000) < 6_000


def test_quantiles_by_group() -> None:
    values = np.concatenate([np.linspace(0, 10, 400), np.linspace(50, 60, 400)])
    settings = {"groups": np.repeat(["a", "b"], 400), "units": range(800), "bounds": (0, 100), "epsilon": 8.0}
    result = hs.quantiles(values, [0.25, 0.75], keys=["b", "a", "c"], **settings, source=TestSource(1))
    assert result.value.shape == result.low.shape == (3, 2)
    assert np.abs(result["a"].value - [2.5, 7.5]).max() < 1.0
    assert np.abs(result["b"].value - [52.5, 57.5]).max() < 1.0
    private = hs.quantiles(values, [0.5], delta=1e-6, **settings, source=TestSource(1))
    assert private.keys == ("a", "b")
    assert private.guarantee.delta == 1e-6
    medians = hs.median(values, keys=["a", "b"], **settings, source=TestSource(2))
    assert medians.value.shape == (2,)
    assert isinstance(hs.median(values, units=range(800), bounds=(0, 100), epsilon=1.0).value, float)


def test_levels_are_checked() -> None:
    for levels in ([], [1.5], [-0.1], [float("nan")], ["half"]):
        with pytest.raises(InvalidArgument, match="^levels="):
            hs.quantiles([1], levels, units=[1], bounds=(0, 1), epsilon=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS[1:], ids=str)
def test_methods_without_groups_or_noise_of_a_kind_say_so(method: Any) -> None:
    settings = {"units": [1], "bounds": (0, 1), "method": method, "epsilon": 1.0}
    with pytest.raises(Unsupported, match="by group"):
        hs.median([1], groups=["a"], keys=["a"], **settings)
    with pytest.raises(Unsupported, match="its own noise"):
        hs.median([1], noise=hs.LaplaceNoise(), **settings)


def test_the_smooth_median_is_for_replaced_units_of_one_row() -> None:
    settings = {"units": [1, 2, 3], "bounds": (0, 4), "method": hs.MedianMethod.smooth(), "epsilon": 1.0}
    result = hs.median([1, 2, 3], **settings)
    assert result.guarantee.relation is Relation.REPLACE
    assert "the number of units is public" in result.guarantee.assumptions
    with pytest.raises(InvalidArgument, match="^rows_per_unit="):
        hs.median([1, 2, 3], rows_per_unit=2, **settings)
    with pytest.raises(InvalidArgument, match="^method="):
        hs.median([1, 2, 3], **{**settings, "method": "tree"})
