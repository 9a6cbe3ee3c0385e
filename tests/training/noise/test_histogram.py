"""The histogram: its boxes lie where they should against the curve, and points are decided exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from hush.randomness import TestSource, Uniform
from hush.training.noise.histogram import BOXES, CELLS, Histogram

RHOS = [64.0, 64.0 + 2.0**-40, 90.50966799187809, 100.0, 127.99999999999999]
FINE = 1 << 63


def curve(histogram: Histogram, x: mpmath.mpf) -> mpmath.mpf:
    """The curve, to 60 digits."""
    return mpmath.mpf(histogram.height) * mpmath.exp(-((mpmath.mpf(x) / mpmath.mpf(histogram.rho)) ** 2) / 2)


def violations(histogram: Histogram) -> int:
    """The number of cells whose full boxes rise above the curve, or whose edge ends below it."""
    wrong = 0
    with mpmath.workdps(60):
        for c in range(CELLS):
            top = mpmath.mpf(int(histogram.parts[c])) * histogram.num_edges / 2 / FINE + int(histogram.full[c])
            wrong += curve(histogram, c + 1) < int(histogram.full[c]) or top < curve(histogram, c)
    return wrong


@pytest.mark.parametrize("rho", RHOS)
def test_full_boxes_are_below_the_curve_and_edges_reach_above_it(rho: float) -> None:
    histogram = Histogram.of(rho)
    assert violations(histogram) == 0
    assert 2 * int(histogram.full.sum()) + histogram.num_edges == BOXES
    assert sum(histogram.parts.tolist()) <= FINE, "the edges' cells are a division of them"
    assert histogram.num_edges < 0.02 * BOXES


def test_a_box_too_many_or_an_edge_too_short_is_noticed() -> None:
    histogram = Histogram.of(100.0)
    more, shorter = histogram.full.copy(), histogram.parts.copy()
    more[70] += 1
    shorter[200] -= int(shorter[200] * 1e-6)
    for full, parts in ((more, histogram.parts), (histogram.full, shorter)):
        assert violations(Histogram(histogram.rho, histogram.height, full, parts, histogram.num_edges)) == 1


@pytest.mark.parametrize("rho", RHOS)
def test_boxes_of_the_tail_reach_above_the_curve(rho: float) -> None:
    """Box i begins at 2^i times the tail's beginning, and the curve falls from there."""
    histogram = Histogram.of(rho)
    with mpmath.workdps(60):
        for doublings in range(20):
            start = CELLS * 2**doublings
            top = mpmath.mpf(histogram.num_edges) / (2 * FINE) / start / (2 << doublings)
            assert top > curve(histogram, start)


@pytest.mark.parametrize("rho", RHOS)
def test_cells_are_symmetric_and_hold_their_boxes(rho: float) -> None:
    histogram = Histogram.of(rho)
    cells, counts = np.unique(histogram.cells(), return_counts=True)
    assert dict(zip(cells.tolist(), counts.tolist(), strict=True)) == {
        cell: int(histogram.full[c]) for c in range(CELLS) if histogram.full[c] for cell in (c, -1 - c)
    }


@pytest.mark.parametrize("cell", [0, 1, 63, 300, 700, 1200, 2047])
def test_points_are_decided_as_with_many_digits(cell: int) -> None:
    """Places at random; heights just below the curve and just above it, by 2^-50 of it."""
    histogram, source = Histogram.of(100.0), TestSource(cell)
    for _ in range(20):
        t = source.word()
        with mpmath.workdps(200):
            value = curve(histogram, cell + mpmath.mpf(t) / 2**64)
            room = mpmath.mpf(histogram.num_edges) * int(histogram.parts[cell]) / (2 * FINE)
            for sign, is_below in ((-1, True), (1, False)):
                height = (value * (1 + mpmath.mpf(sign) * 2.0**-50) - int(histogram.full[cell])) / room
                if not 0 < height < 1:
                    continue
                v = Uniform(source, int(mpmath.floor(height * 2**600)), 600)
                settled = histogram.settle(cell, Uniform(source, t << 536, 600), v, 20, source)
                assert settled == ((cell << 20) + (t >> 44) if is_below else None)


def test_bits_are_drawn_until_they_decide() -> None:
    """A height whose first 64 bits are those of the curve itself."""
    histogram, source = Histogram.of(100.0), TestSource(1)
    with mpmath.workdps(60):
        height = (curve(histogram, mpmath.mpf(50)) - int(histogram.full[50])) * 2 * FINE
        height /= mpmath.mpf(histogram.num_edges) * int(histogram.parts[50])
        v = Uniform(source, int(mpmath.floor(height * 2**64)), 64)
    t = Uniform(source, 0, 64)
    histogram.settle(50, t, v, 10, source)
    assert v.num_bits > 64
    assert t.num_bits > 64


def test_the_tail_goes_on_without_end() -> None:
    """A point of the tail's boxes is far above the curve, but for one of height 0."""
    histogram, source = Histogram.of(127.0), TestSource(1)
    assert histogram.settle(CELLS, Uniform(source, 1 << 63, 64), Uniform(source, 1 << 63, 64), 10, source) is None
    low = histogram.settle(CELLS, Uniform(source, 1 << 63, 64), Uniform(source, 0, 1 << 20), 10, source)
    assert low is not None
    doublings = math.log2(Fraction(low, (CELLS << 10) * 3 // 2))
    assert doublings == int(doublings) >= 0, "the middle of a box that begins at a power of two"
