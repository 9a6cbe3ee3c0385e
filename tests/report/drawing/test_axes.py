"""Scales and ticks."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.report.drawing.axes import scale

VALUES = st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=20)


@given(VALUES, st.booleans())
def test_a_scale_holds_its_values_between_round_ticks(values: list[float], zero: bool) -> None:
    axis = scale(values, 0, 300, zero=zero)
    assert axis.low - 1e-6 * axis.step <= min(values)
    assert max(values) <= axis.high + 1e-6 * axis.step
    assert 2 <= len(axis.ticks) <= 9
    assert all(-1e-6 <= axis(value) <= 300 + 1e-6 for value in [*values, -1e300, 1e300])
    mantissa = axis.step / 10 ** math.floor(math.log10(axis.step) + 1e-9)
    assert min(abs(mantissa - digit) for digit in (1, 2, 5)) < 1e-6


@given(st.lists(st.floats(0, 100), min_size=1, max_size=20))
def test_percentages_stay_within_0_and_100(values: list[float]) -> None:
    axis = scale(values, 0, 300, limits=(0.0, 100.0))
    assert 0 <= axis.low < axis.high <= 100
    assert axis.low <= min(values) + 1e-6
    assert max(values) <= axis.high + 1e-6


@given(VALUES)
def test_ticks_are_told_apart(values: list[float]) -> None:
    axis = scale(values, 0, 300, zero=True)
    labels = [axis.label(tick) for tick in axis.ticks]
    assert len(set(labels)) == len(labels)


@given(VALUES)
def test_a_scale_is_straight(values: list[float]) -> None:
    axis = scale(values, 10, 310, zero=True)
    spots = [axis(tick) for tick in axis.ticks]
    assert spots[0] == pytest.approx(10, abs=1e-3)
    assert spots[-1] == pytest.approx(310, abs=1e-3)
    steps = [after - before for before, after in pairwise(spots)]
    assert max(steps) == pytest.approx(min(steps), abs=1e-3)
