"""Counts and sums: rows and totals are clamped as stated, and errors are as large as stated."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

import hush.statistics as hs
from hush.accounting import events
from hush.errors import InvalidArgument
from hush.randomness import TestSource
from statistics_exact import exact

COLOURS = ["brown", "blue", "green", "hazel", "grey"]


def test_eye_colours() -> None:
    colours = [COLOURS[index % 5 if index % 3 else 0] for index in range(600)]
    result = hs.count(colours, units=range(600), groups=colours, keys=COLOURS, epsilon=1.0, source=TestSource(1))
    # Adding one person moves one of the counts by one: sensitivity 1.
    assert isinstance(result.event.event, events.DiscreteLaplaceEvent)  # type: ignore[attr-defined]
    assert result.noise_scale == pytest.approx(1.0)
    truth = Counter(colours)
    assert all(abs(result[colour].value - truth[colour]) < 25 for colour in COLOURS)


def exact_sum(values: list[float], units: list[int], **settings: object) -> float:
    """Return the sum that noise is added to, in units of the largest bound."""
    result = exact(lambda source: hs.sum(values, units=units, epsilon=1.0, source=source, **settings))  # type: ignore[arg-type]
    (row,) = result.totals.values()
    return int(row[0]) / 2**30


def test_rows_are_clamped_and_sampled_or_their_total_is_clamped() -> None:
    values, units = [3.0, 3.0, -9.0, math.nan, math.inf], [1, 1, 2, 3, 4]
    assert exact_sum(values, units, bounds=(-2, 4)) == pytest.approx((3 - 2 + 4) / 4)  # one row of unit 1
    assert exact_sum(values, units, bounds=(-2, 4), rows_per_unit=2) == pytest.approx((6 - 2 + 4) / 4, rel=1e-6)
    assert exact_sum(values, units, total_bounds=(-2, 4)) == pytest.approx((4 - 2 + 4) / 4)  # 6 is clamped to 4


def test_a_count_is_clamped_for_each_unit() -> None:
    units = [1] * 50 + [2, 3, 3]
    counted = [
        exact(lambda source, limit=limit: hs.count(units, units=units, rows_per_unit=limit, epsilon=1.0, source=source))
        for limit in (1, 2, 100)
    ]
    assert [int(next(iter(result.totals.values()))[0]) for result in counted] == [3, 5, 53]


def test_sums_are_precise() -> None:
    values = np.random.default_rng(1).uniform(-50, 100, 3_000)
    result = hs.sum(values, units=range(3_000), bounds=(-50, 100), epsilon=100.0, source=TestSource(1))
    # False alarms: the noise has the scale 1; beyond 30 it is with 1e-13.
    assert abs(result.value - values.sum()) < 30
    assert result.noise_scale == pytest.approx(1.0)


def test_one_kind_of_bounds_is_needed() -> None:
    for bounds in ({}, {"bounds": (0, 1), "total_bounds": (0, 1)}):
        with pytest.raises(InvalidArgument, match="^bounds="):
            hs.sum([1], units=[1], epsilon=1.0, **bounds)


def test_nothing_is_cut_off_at_zero() -> None:
    negative = [hs.count([], units=[], epsilon=0.1, source=TestSource(seed)).value for seed in range(40)]
    # Half of them are below 0: all of 40 at least 0 has the probability 0.53^40 = 1e-11.
    assert min(negative) < 0
