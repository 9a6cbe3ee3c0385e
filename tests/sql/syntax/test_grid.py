"""The grid: a power of two, fine enough for the noise, and coarse enough for sums in 64 bits."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from hush.sql.syntax.grid import BITS, grid_for, on_grid

BOUNDS = (
    st.tuples(st.floats(-1e45, 1e45), st.floats(-1e45, 1e45))
    .map(sorted)
    .filter(lambda pair: max(map(abs, pair)) > 1e-45)
)


@given(bounds=BOUNDS, rows=st.integers(1, 10**6), integral=st.booleans())
def test_contributions_have_at_most_30_bits(bounds: list[float], rows: int, integral: bool) -> None:
    step = grid_for(*bounds, rows, integral)
    assert math.frexp(step)[0] == 0.5  # a power of two
    largest = max(map(abs, bounds)) * rows
    assert largest / step <= 2**BITS
    if not integral:
        assert largest / step > 2 ** (BITS - 1) * (1 - 1e-12)  # not coarser than necessary


@given(value=st.floats(-1e6, 1e6), exponent=st.integers(-30, 10))
def test_rounding_is_to_the_nearest_step(value: float, exponent: int) -> None:
    step = 2.0**exponent
    assert abs(on_grid(value, step) * step - value) <= step / 2


def test_small_integers_are_exact() -> None:
    assert grid_for(-5, 2**20, 100, integral=True) == 1.0
    assert grid_for(0, 2**40, 1, integral=True) == 2.0**10
    assert grid_for(0, 0, 1, integral=False) == 1.0
