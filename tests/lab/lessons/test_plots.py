"""Plots for notebooks."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from hush.errors import InvalidArgument
from hush.lab.lessons.plots import LinePlot, line_plot

WORDS = {"title": "Composition", "across": "steps", "up": "Epsilon"}
POINTS = [(1, 0.1), (10, 1.0), (100, 10.0)]


def test_a_plot_is_one_image_with_its_words() -> None:
    plot = line_plot({"basic": POINTS, "a < b": POINTS[:2]}, **WORDS, reference=("budget", 3.0))
    assert isinstance(plot, LinePlot)
    assert plot._repr_svg_() == plot.svg
    image = ElementTree.fromstring(plot.svg)
    words = " ".join(image.itertext())
    for word in ("Composition", "steps", "Epsilon", "basic", "a < b", "budget", "basic ends at 10"):
        assert word in words


def test_as_many_lines_as_curves() -> None:
    for count in (1, 2, 3):
        plot = line_plot({f"curve {index}": POINTS for index in range(count)}, **WORDS)
        assert sum(f"line s{index}" in plot.svg for index in range(3)) == count


@pytest.mark.parametrize(
    "curves", [{}, {str(index): POINTS for index in range(4)}, {"none": []}, {"NaN": [(1, math.nan)]}]
)
def test_refuses_what_cannot_be_drawn(curves: dict[str, list[tuple[float, float]]]) -> None:
    with pytest.raises(InvalidArgument, match="curves"):
        line_plot(curves, **WORDS)


def test_refuses_a_reference_that_is_not_finite() -> None:
    with pytest.raises(InvalidArgument, match="reference"):
        line_plot({"basic": POINTS}, **WORDS, reference=("none", math.inf))
