"""The histogram below a Gaussian curve from which integer noise is drawn, exactly.

The curve is kappa exp(-x^2 / (2 rho^2)), where x is measured in cells. Boxes of equal area cover what is below it:

full boxes  in cell c, ``full[c]`` boxes of height 1 lie below the curve everywhere: a point of theirs needs no test
edges       what is left between these and the curve's highest point in the cell; a point of it is tested
tail        beyond the last cell, sixteen or more standard deviations out: boxes whose widths double

A uniform point of all boxes that lies below the curve has the Gaussian law in x. So the sampler picks a box of the
2^16, then a point of it, and starts over if the point is above the curve. Points are real numbers of which 64 bits are
drawn at first. Further bits are drawn where they decide (Karney 2016), so there is no error to account for.

Names: c is the number of a cell on its side of 0, t the place within it, v the height within a box, all in [0, 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hush.randomness import RandomSource, Uniform, exp_interval

BOXES = 1 << 16
SMALLEST_RHO = 64.0  # cells in a standard deviation; rho is below twice this
CELLS = 2048  # on each side of 0: at least sixteen standard deviations
_FINE = 1 << 63  # the edges of one side are divided among its cells in so many parts
_MARGIN = 2.0**-40  # far above the errors of double precision here
_SPARE = 2.0**-20  # a share of the boxes that is always rejected; it leaves room for rounding up


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """The boxes for one rho, which is between 64 and 128.

    Attributes:
        rho: The standard deviation, in cells.
        height: kappa, the curve's highest point, in boxes.
        full: For each cell of a side, the number of full boxes.
        parts: For each cell, how many parts of 2^63 of its side's edges it has; then 1 for the tail.
        num_edges: The number of boxes that are edges, on both sides.

    >>> histogram = Histogram.of(100.0)
    >>> int(histogram.full[0]), int(2 * histogram.full.sum() + histogram.num_edges)
    (260, 65536)
    >>> histogram.num_edges / 65536 < 0.02
    True
    """

    rho: float
    height: float
    full: NDArray[np.int64]
    parts: NDArray[np.int64]
    num_edges: int

    @staticmethod
    @lru_cache(maxsize=64)
    def of(rho: float) -> Histogram:
        """Return the histogram for a standard deviation of ``rho`` cells."""
        # The curve falls with the distance from 0, so a cell's bounds are its values at the cell's two ends.
        curve = np.exp(-0.5 * (np.arange(CELLS + 1) / rho) ** 2)
        height = float(BOXES / 2 / curve[:-1].sum() * (1 - _SPARE))
        full = np.floor(height * curve[1:] * (1 - _MARGIN)).astype(np.int64)
        num_edges = BOXES - 2 * int(full.sum())
        uncovered = (height * curve[:-1] * (1 + _MARGIN) - full) / (num_edges / 2)
        parts = np.append(np.ceil(uncovered * float(_FINE)), 1.0).astype(np.int64)
        return Histogram(rho, height, full, parts, num_edges)

    def cells(self) -> NDArray[np.int64]:
        """Return the cell of each full box: those of negative numbers have negative cells, -1 next to 0."""
        right = np.repeat(np.arange(CELLS), self.full)
        return np.concatenate([right, ~right])

    def settle(self, c: int, t: Uniform, v: Uniform, shift: int, source: RandomSource) -> int | None:
        """Decide exactly whether a point of an edge is below the curve.

        Args:
            c: Its cell; `CELLS` for the tail.
            t: Its place within the cell.
            v: Its height within the edge.
            shift: A cell has 2^shift integers.
            source: Bits for what only the tail needs.

        Returns:
            The integer that the point stands for; None if it is above the curve.
        """
        start, width, base = Fraction(c), Fraction(1), Fraction(0)
        room = Fraction(self.num_edges * int(self.parts[c]), 2 * _FINE)
        if c < CELLS:
            base = Fraction(int(self.full[c]))
        else:
            doublings = 0
            while source.word() & 1:
                doublings += 1
            # Box i has the probability 2^-(i+1), and goes from 2^i to 2^(i+1) times the tail's beginning.
            start = width = Fraction(CELLS << doublings)
            room /= width * (2 << doublings)
        while True:
            (t_low, t_high), (v_low, v_high) = t.interval(), v.interval()
            near, far = start + width * t_low, start + width * t_high
            exponents = (-((x / Fraction(self.rho)) ** 2) / 2 for x in (far, near))
            low, high = (Fraction(self.height) * value for value in exp_interval(tuple(exponents), t.digits))  # type: ignore[arg-type]
            if base + room * v_low >= high:
                return None
            first, last = (math.floor(x * (1 << shift)) for x in (near, far))
            if base + room * v_high <= low and (first == last or far * (1 << shift) == last == first + 1):
                return first
            t.refine()
            v.refine()
