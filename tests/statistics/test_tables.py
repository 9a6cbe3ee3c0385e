"""Histograms, contingency tables and the most frequent keys."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

import hush.statistics as hs
from hush.errors import InvalidArgument
from hush.randomness import TestSource
from statistics_exact import exact

COLOURS = ["brown", "blue", "green", "hazel", "grey"]


def test_bins_are_closed_below_and_the_last_one_above() -> None:
    values = [-0.1, 0.0, 0.9, 1.0, 2.0, 2.1, math.nan, math.inf]
    result = exact(lambda source: hs.histogram(values, [0, 1, 2], units=range(8), epsilon=1.0, source=source))
    assert [int(row[0]) for row in result.totals.values()] == [2, 2]
    open_ended = exact(
        lambda source: hs.histogram(values, [-math.inf, 0, math.inf], units=range(8), epsilon=1.0, source=source)
    )
    assert [int(row[0]) for row in open_ended.totals.values()] == [1, 6]


@pytest.mark.parametrize("edges", [[], [1], [1, 1], [2, 1], [1, math.nan]])
def test_edges_increase(edges: list[float]) -> None:
    with pytest.raises(InvalidArgument, match="^edges="):
        hs.histogram([1], edges, units=[1], epsilon=1.0)


def test_a_table_has_an_axis_for_each_column() -> None:
    first, second = ["a", "a", "b", "c"], [1, 2, 2, 1]
    result = hs.contingency_table(
        [first, second], [["b", "a"], [1, 2, 3]], units=range(4), epsilon=40.0, source=TestSource(1)
    )
    assert result.value.tolist() == [[0, 1, 0], [1, 1, 0]]
    assert result.low.shape == result.high.shape == (2, 3)
    for columns, keys in (([[1]], []), ([], []), ([[1], [1, 2]], [[1], [1]]), ([[1]] * 2, [range(5000)] * 2)):
        with pytest.raises(InvalidArgument):
            hs.contingency_table(columns, keys, units=[1], epsilon=1.0)  # type: ignore[arg-type]


def test_a_unit_counts_in_as_many_cells_as_it_may() -> None:
    cells, units = list(range(10)), [1] * 10
    for limit in (1, 4):
        result = exact(
            lambda source, limit=limit: hs.contingency_table(
                [cells], [cells], units=units, groups_per_unit=limit, epsilon=1.0, source=source
            )
        )
        assert sum(int(row[0]) for row in result.totals.values()) == limit


def test_the_most_frequent_eye_colour() -> None:
    colours = [COLOURS[index % 5 if index % 3 else 0] for index in range(600)]
    best = hs.top_k(
        colours, 1, units=range(600), keys=COLOURS, epsilon=1.0, confidence=1 - math.exp(-3), source=TestSource(2)
    )
    assert best.keys == ("brown",)
    assert best.accuracy == pytest.approx(9.22, abs=0.005)


def test_the_accuracy_of_the_most_frequent_key() -> None:
    keys = list(range(12))
    rows = np.repeat(keys, 40 + np.arange(12))
    runs, good = 300, 0
    for run in range(runs):
        settings = {"units": range(len(rows)), "keys": keys, "epsilon": 0.5, "confidence": 0.9}
        best = hs.top_k(rows, 1, **settings, source=TestSource(f"most {run}"))
        good += 40 + best.keys[0] >= 51 - best.accuracy
    assert good >= int(binom.ppf(1e-8, runs, 0.9))


def test_a_unit_counts_once_for_each_of_its_keys() -> None:
    # One unit has "a" a thousand times; five units have "b". At epsilon 40, noise decides with e^-80.
    values, units = ["a"] * 1_000 + ["b"] * 5, [0] * 1_000 + [1, 2, 3, 4, 5]
    settings = {"units": units, "keys": ["a", "b", "c"], "epsilon": 40.0}
    assert hs.top_k(values, 1, **settings, source=TestSource(1)).keys == ("b",)
    assert hs.top_k(values, 2, **settings, source=TestSource(1)).keys == ("b", "a")
    assert hs.top_k(values, 2, delta=1e-6, **settings, source=TestSource(1)).guarantee.delta == 1e-6
    by_row = hs.top_k(values, 1, units=hs.EachRow(), keys=["a", "b"], epsilon=40.0, source=TestSource(1))
    assert by_row.keys == ("a",)
