"""The fixed-point grid on which sums run."""

from __future__ import annotations

import math

BITS = 30  # the largest contribution of a unit has at most this many bits: finer than any noise, and sums fit 64 bits


def grid_for(low: float, high: float, rows: int, whole: bool) -> float:
    """Return the step of the grid for values in [low, high], of which a unit has ``rows``: a power of two.

    Integers that fit are left as they are.

    >>> grid_for(0, 100, 1, whole=True), grid_for(0, 1, 1, whole=False) == 2.0**-30
    (1.0, True)
    """
    largest = max(abs(low), abs(high)) * rows
    if largest == 0:
        return 1.0
    exponent = math.ceil(math.log2(largest)) - BITS
    step = math.ldexp(1.0, exponent)
    return max(step, 1.0) if whole else step


def on_grid(value: float, grid: float) -> int:
    """Return a number in steps of the grid, as the engines round it."""
    return math.floor(value / grid + 0.5)
