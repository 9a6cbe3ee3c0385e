"""Neighbours never move what is released further than the event says; twins that skip a step do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hush.statistics as hs
from hush.mechanisms import ExponentialMechanism, Monotone, OneShotTopK
from hush.randomness import RandomSource
from hush.statistics import bounding, request
from statistics_exact import NoChoice, exact, excess

KEYS = ["a", "b", "c", "d"]
ODD = [None, "x", math.nan, math.inf, -math.inf, 1e308, -1e308, 10**400, -(10**400), [1], 5e-324]
numbers = st.sampled_from(ODD) | st.floats(-3, 3) | st.integers(-3, 3)
labels = st.sampled_from([*KEYS, *KEYS, "new", 1, 1.0, True, None, math.nan, ("t",)])
Row = tuple[Any, Any, Any, Any]  # unit, group, number, second number


def rows_of(units: list[Any], max_size: int) -> st.SearchStrategy[list[Row]]:
    return st.lists(st.tuples(st.sampled_from(units), labels, numbers, numbers), max_size=max_size)


def columns(rows: list[Row]) -> tuple[list[Any], list[Any], list[Any], list[list[Any]]]:
    return (
        [row[0] for row in rows],
        [row[1] for row in rows],
        [row[2] for row in rows],
        [[row[2], row[3]] for row in rows],
    )


def numeric(function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    def ask(rows: list[Row], source: RandomSource, groups: dict[str, Any]) -> Any:
        units, labels, values, _ = columns(rows)
        grouping = {"groups": labels, **groups} if groups else {}
        return function(values, units=units, source=source, **grouping, **settings)

    return ask


def vector(function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    def ask(rows: list[Row], source: RandomSource, groups: dict[str, Any]) -> Any:
        units, _, _, vectors = columns(rows)
        return function(vectors, units=units, dimension=2, clip_norm=1.5, source=source, **settings)

    return ask


def table(rows: list[Row], source: RandomSource, groups: dict[str, Any]) -> Any:
    units, labels, values, _ = columns(rows)
    result = hs.contingency_table(
        [labels, values], [KEYS, [0, 1, 2]], units=units, groups_per_unit=3, rows_per_unit=2, epsilon=1.0, source=source
    )
    return result


LAPLACE, GAUSSIAN = {"epsilon": 0.7}, {"epsilon": 0.7, "delta": 1e-6, "noise": hs.GaussianNoise()}
GROUPED = {
    "count": numeric(hs.count, **LAPLACE, rows_per_unit=2),
    "count, Gaussian": numeric(hs.count, **GAUSSIAN, rows_per_unit=2),
    "distinct": numeric(hs.distinct_count, **LAPLACE, rows_per_unit=2),
    "sum": numeric(hs.sum, **LAPLACE, bounds=(-1, 2), rows_per_unit=3),
    "sum, Gaussian": numeric(hs.sum, **GAUSSIAN, bounds=(1, 2)),
    "sum of totals": numeric(hs.sum, **LAPLACE, total_bounds=(-1, 2)),
    "sum of totals away from 0, Gaussian": numeric(hs.sum, **GAUSSIAN, total_bounds=(2, 2.5)),
    "mean": numeric(hs.mean, **LAPLACE, bounds=(-1, 2), rows_per_unit=2),
    "mean, Gaussian": numeric(hs.mean, **GAUSSIAN, bounds=(-1, 2)),
    "variance": numeric(hs.variance, **LAPLACE, bounds=(-1, 2), rows_per_unit=2),
    "variance, Gaussian": numeric(hs.variance, **GAUSSIAN, bounds=(-1, 2)),
    "describe": numeric(hs.describe, **LAPLACE, bounds=(0, 1e-150)),
}
UNGROUPED = {
    "histogram": numeric(hs.histogram, **LAPLACE, edges=[-2, 0, 0.5, 1, math.inf], groups_per_unit=2, rows_per_unit=2),
    "table": table,
    "quantiles": numeric(hs.quantiles, **LAPLACE, levels=[0.5], bounds=(-1, 2), rows_per_unit=2),
    "quantiles, Gaussian": numeric(hs.quantiles, **GAUSSIAN, levels=[0.5], bounds=(-1, 2)),
    "bounds": numeric(hs.approximate_bounds, **LAPLACE, rows_per_unit=2),
    "vector mean": vector(hs.vector_mean, epsilon=0.7, rows_per_unit=2),
    "vector mean, Gaussian": vector(hs.vector_mean, epsilon=0.7, delta=1e-6),
    "covariance": vector(hs.covariance, epsilon=0.7),
    "covariance, Gaussian": vector(hs.covariance, epsilon=0.7, delta=1e-6, rows_per_unit=3),
}
PUBLIC, PRIVATE = {"keys": KEYS, "groups_per_unit": 2}, {"groups_per_unit": 2}


def measured(ask: Callable[..., Any], others: list[Row], added: list[Row], groups: dict[str, Any]) -> float:
    """Return the excess between others alone and others with one more unit, whose rows are spread among theirs."""
    step = max(len(others) // (len(added) + 1), 1)
    joined = list(others)
    for index, row in enumerate(added):
        joined.insert(index * (step + 1), row)
    first = exact(lambda source: ask(others, source, groups))
    second = exact(lambda source: ask(joined, source, groups))
    return excess(first, second)


neighbours = given(others=rows_of([1, 2, "3"], 12), added=rows_of(["me"], 10))


@pytest.mark.parametrize("name", GROUPED)
@settings(max_examples=12)
@neighbours
def test_public_groups(name: str, others: list[Row], added: list[Row]) -> None:
    assert measured(GROUPED[name], others, added, PUBLIC) <= 1e-12


@pytest.mark.parametrize("name", GROUPED)
@settings(max_examples=8)
@neighbours
def test_private_groups(name: str, others: list[Row], added: list[Row]) -> None:
    slack = {} if "Gaussian" in name else {"delta": 1e-6, "noise": hs.LaplaceNoise()}
    assert measured(GROUPED[name], others, added, {**PRIVATE, **slack}) <= 1e-12


@pytest.mark.parametrize("name", {**GROUPED, **UNGROUPED})
@settings(max_examples=8)
@neighbours
def test_no_groups(name: str, others: list[Row], added: list[Row]) -> None:
    assert measured({**GROUPED, **UNGROUPED}[name], others, added, {}) <= 1e-12


HEAVY = [("me", key, value, 1.0) for key in [*KEYS, "new"] for value in (2.0, 1e300, 2, 2, -1.0, 2.0, 1.0, 2)]
CROWD = [(unit, key, 0.5, 0.5) for unit in range(5) for key in KEYS]


@pytest.mark.parametrize("name", [*GROUPED, *UNGROUPED])
def test_a_heavy_unit_reaches_the_bound_or_stays_below(name: str) -> None:
    everything = {**GROUPED, **UNGROUPED}
    assert measured(everything[name], CROWD, HEAVY, PUBLIC if name in GROUPED else {}) <= 1e-12


@pytest.mark.parametrize("name", ["count", "sum", "sum of totals", "mean", "variance"])
def test_sensitivities_are_tight(name: str) -> None:
    # Otherwise noise is wasted: a unit with many extreme rows moves totals as far as the event says.
    assert measured(GROUPED[name], CROWD, HEAVY, PUBLIC) >= -1e-6


def unbounded_groups(*arguments: Any, limits: hs.ContributionLimits, **settings: Any) -> Any:
    return bounding.bounded(*arguments, limits=replace(limits, groups_per_unit=1 << 24), **settings)


def clamped_before(contributions: Any, weights: Any, limits: Any = None) -> Any:
    rows = weights if limits is None else np.clip(weights, *limits)
    return ORIGINAL_TOTALS(contributions, rows)


ORIGINAL_TOTALS = bounding.Bounded.totals


@pytest.mark.parametrize("name", ["count", "sum", "mean, Gaussian", "variance", "distinct"])
def test_a_twin_without_a_bound_on_groups_is_caught(name: str) -> None:
    with (
        mock.patch.object(request, "bounded", unbounded_groups),
        mock.patch("hush.statistics.distinct_values.bounded", unbounded_groups),
    ):
        rows = [(unit, key, value, 0.0) for unit, key, _, _ in HEAVY for value in (3.0, 4.0)]
        assert measured(GROUPED[name], CROWD, rows, PUBLIC) > 0.2


@pytest.mark.parametrize("name", ["count", "sum of totals"])
def test_a_twin_that_clamps_rows_instead_of_totals_is_caught(name: str) -> None:
    with mock.patch.object(bounding.Bounded, "totals", clamped_before):
        assert measured(GROUPED[name], CROWD, HEAVY, PUBLIC) > 1


def test_a_twin_that_keeps_all_rows_is_caught() -> None:
    def all_rows(*arguments: Any, sample_rows: bool, **settings: Any) -> Any:
        return bounding.bounded(*arguments, sample_rows=False, **settings)

    with mock.patch.object(request, "bounded", all_rows):
        assert measured(GROUPED["mean"], CROWD, HEAVY, PUBLIC) > 1


def test_float_sums_would_move_further() -> None:
    def sums(number: int) -> tuple[Fraction, int]:
        values = [0.1] * number
        total = exact(lambda source: hs.sum(values, units=range(number), bounds=(0, 0.1), epsilon=1.0, source=source))
        return Fraction(sum(values)), int(next(iter(total.totals.values()))[0])

    pairs = [sums(number) for number in range(1, 60)]
    float_moves = [later[0] - former[0] for former, later in pairwise(pairs)]
    grid_moves = {later[1] - former[1] for former, later in pairwise(pairs)}
    assert max(float_moves) > Fraction(0.1)
    assert grid_moves == {1 << 30}


@settings(max_examples=25)
@neighbours
def test_scores_of_choices_move_by_their_sensitivity(others: list[Row], added: list[Row]) -> None:
    seen: list[Any] = []

    def record(mechanism: Any, scores: Any, source: Any = None) -> Any:
        seen.append((mechanism, np.array(scores, dtype=np.float64)))
        # A source without randomness would never come to a decision.
        return SimpleNamespace(value=[0] if isinstance(mechanism, OneShotTopK) else 0, guarantee=mechanism.guarantee())

    with mock.patch.object(ExponentialMechanism, "release", record), mock.patch.object(OneShotTopK, "release", record):
        for rows in (others, [*others, *added]):
            units, labels, values, _ = columns(rows)
            hs.top_k(labels, 2, units=units, keys=KEYS, epsilon=1.0, source=NoChoice(0))
            hs.median(
                values,
                units=units,
                bounds=(-1, 2),
                method=hs.MedianMethod.exponential(),
                epsilon=1.0,
                source=NoChoice(0),
            )
    (top, first), (median, middle), (_, second), (_, other_middle) = seen
    assert ((second - first >= 0) & (second - first <= top.sensitivity.largest_change)).all()
    assert isinstance(top.sensitivity, Monotone)
    assert (np.abs(other_middle - middle) <= median.sensitivity + 1e-12).all()
