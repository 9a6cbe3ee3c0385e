"""Grids: every release lies on one, whatever the data are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.errors import InvalidArgument
from hush.mechanisms import Gaussian, Laplace, Staircase
from hush.randomness import Grid, TestSource

ANYTHING = st.floats(allow_nan=True, allow_infinity=True)
SCALES = st.floats(1e-200, 1e200)


def on_grid(value: float, spacing: float) -> bool:
    return math.isfinite(value) and math.fmod(value, spacing) == 0.0


@given(SCALES)
def test_the_spacing_follows_from_the_scale(scale: float) -> None:
    spacing = Grid.for_scale(scale).spacing
    assert math.frexp(spacing)[0] == 0.5
    assert scale / 2**41 <= spacing <= scale / 2**40


@given(st.lists(ANYTHING, max_size=20), SCALES)
def test_every_number_is_rounded_to_a_multiple(values: list[float], scale: float) -> None:
    grid = Grid.for_scale(scale)
    multiples = grid.integers(values)
    assert np.isfinite(multiples).all()
    assert np.array_equal(multiples, np.rint(multiples))
    real = grid.real(multiples)
    assert np.isfinite(real).all()
    for value, rounded in zip(values, real.tolist(), strict=True):
        if math.isnan(value):
            assert rounded == 0
        elif abs(value) < min(1e299, 2.0**890 * grid.spacing):
            assert abs(rounded - value) <= grid.spacing / 2
        else:
            assert math.copysign(1, rounded) == math.copysign(1, value)


@given(ANYTHING, SCALES)
def test_a_single_number_is_rounded_as_in_an_array(value: float, scale: float) -> None:
    grid = Grid.for_scale(scale)
    assert grid.integer(value) == float(grid.integers([value])[0])


@given(st.floats(-1e6, 1e6), st.floats(-1.0, 1.0))
def test_rounding_adds_at_most_one_step(value: float, change: float) -> None:
    grid = Grid(2.0**-20)
    moved = value + change
    assert abs(float(grid.integers(moved) - grid.integers(value))) <= abs(moved - value) / grid.spacing + 1


@given(ANYTHING, st.floats(1e-6, 1e6), st.integers(0, 2**32))
def test_releases_are_on_the_grid(value: float, sensitivity: float, seed: int) -> None:
    for mechanism in (
        Laplace(epsilon=0.7, sensitivity=sensitivity),
        Gaussian(epsilon=0.7, delta=1e-5, sensitivity=sensitivity),
        Staircase(epsilon=0.7, sensitivity=sensitivity),
    ):
        released = mechanism.release(value, TestSource(seed)).value
        assert type(released) is float
        assert on_grid(released, mechanism._grid.spacing)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 10**400, -(10**400)])
@pytest.mark.parametrize("sensitivity", [1e-100, 1.0, 1e100])
def test_extreme_values_are_answered(value: float, sensitivity: float) -> None:
    mechanism = Laplace(epsilon=1.0, sensitivity=sensitivity)
    released = mechanism.release(value, TestSource(1)).value
    assert on_grid(released, mechanism._grid.spacing)


@pytest.mark.parametrize("spacing", [0.0, -1.0, 3.0, 0.1, math.nan, math.inf, 2.0**901, 2.0**-901])
def test_what_is_no_power_of_two_is_refused(spacing: float) -> None:
    with pytest.raises(InvalidArgument, match="^spacing="):
        Grid(spacing)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 1e201, 1e-201, True, "1", None])
def test_what_is_no_scale_is_refused(scale: Any) -> None:
    with pytest.raises(InvalidArgument, match="^scale="):
        Grid.for_scale(scale)
