"""The fixed-point grid on which engines sum values.

Sums of floating-point numbers depend on the order of the rows, and one unit's rows can change that order for all others
(Casacuberta et al. 2022). Sums of integers do not. Each row's value is therefore clamped, divided by a power of two and
rounded to an integer before the engine adds it.
"""

from __future__ import annotations

import math

# The largest contribution of a unit has at most this many bits. The grid is then finer than any noise that hides the
# contribution, and the sum over 2^33 units still fits 64 bits.
BITS = 30


def grid_for(low: float, high: float, rows: int, integral: bool) -> float:
    """Return the step of the grid for values in [low, high]: a power of two.

    With m = max(|low|, |high|) * rows, the step is the smallest power of two with m / step <= 2^`BITS`.

    Args:
        low: The lower bound of a row's value.
        high: The upper bound of a row's value.
        rows: How many rows of a unit are added up.
        integral: Whether values are integers. Those that fit are kept as they are: the step is at least 1.

    >>> grid_for(0, 100, 1, integral=True), grid_for(0, 1, 1, integral=False) == 2.0**-30
    (1.0, True)
    """
    largest = max(abs(low), abs(high)) * rows
    if largest == 0:
        return 1.0
    exponent = math.ceil(math.log2(largest)) - BITS
    step = math.ldexp(1.0, exponent)
    return max(step, 1.0) if integral else step


def on_grid(value: float, grid: float) -> int:
    """Return a number in steps of the grid, rounded as the engines round it: half up.

    >>> on_grid(2.5, 1.0), on_grid(-2.5, 1.0)
    (3, -2)
    """
    return math.floor(value / grid + 0.5)
