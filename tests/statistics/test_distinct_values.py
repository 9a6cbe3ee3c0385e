"""Distinct values: counted once each, and only so many of a unit."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import hush.statistics as hs
from hush.randomness import TestSource
from statistics_exact import exact

rows = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("ab"), st.sampled_from([1, 2, 3, None])), max_size=30)


def totals(table: list[tuple[int, str, int | None]], *, rows_per_unit: int = 99) -> dict[str, int]:
    units, groups, values = zip(*table, strict=True) if table else ((), (), ())
    result = exact(
        lambda source: hs.distinct_count(
            list(values),
            units=list(units),
            groups=list(groups),
            keys=["a", "b"],
            groups_per_unit=2,
            rows_per_unit=rows_per_unit,
            epsilon=1.0,
            source=source,
        )
    )
    return {key: int(row[0]) for (_, key), row in result.totals.items()}


@settings(max_examples=40)
@given(rows)
def test_without_a_bound_they_are_those_of_a_set(table: list[tuple[int, str, int | None]]) -> None:
    expected = {
        key: len({value for _, group, value in table if group == key and value is not None}) for key in ("a", "b")
    }
    assert totals(table) == expected


@settings(max_examples=40)
@given(rows)
def test_a_unit_brings_no_more_than_its_share(table: list[tuple[int, str, int | None]]) -> None:
    newcomer = [(9, "a", value) for value in (1, 2, 3, 1, 1)]
    before, after = totals(table, rows_per_unit=2), totals([*table, *newcomer], rows_per_unit=2)
    assert 0 <= after["a"] - before["a"] <= 2
    assert after["b"] == before["b"]


def test_a_value_that_a_unit_has_often_displaces_no_other() -> None:
    # Of rows [x, x, ..., x, y], two random ones would nearly always be x and x.
    values, units = ["x"] * 1_000 + ["y"], [1] * 1_001
    result = hs.distinct_count(values, units=units, rows_per_unit=2, epsilon=80.0, source=TestSource(1))
    assert result.value == 2  # noise of scale 1/40 is rounded to 0 with 1 - 1e-8


def test_equal_values_of_several_units_count_once() -> None:
    values = np.repeat(np.arange(7), 50)
    result = hs.distinct_count(values, units=range(350), epsilon=40.0, source=TestSource(1))
    assert result.value == 7
    missing = hs.distinct_count([math.nan, None, 1], units=[1, 2, 3], epsilon=40.0, source=TestSource(2))
    assert missing.value == 1
