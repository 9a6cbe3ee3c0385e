"""Plots for notebooks: up to three lines, drawn by hush itself as an SVG image, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hush.errors import InvalidArgument
from hush.report.page_parts import Line, Point, lines, svg_document

__all__ = ["LinePlot", "line_plot"]

_MAX_LINES = 3  # the style sheet has colours and dashes for three


@dataclass(frozen=True, slots=True)
class LinePlot:
    """A plot. Notebooks show it; its text is that of an SVG file.

    >>> LinePlot("<svg></svg>")._repr_svg_()
    '<svg></svg>'

    Attributes:
        svg: The text of the SVG file.
    """

    svg: str

    def _repr_svg_(self) -> str:
        """Return what notebooks show."""
        return self.svg


def line_plot(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    across: str,
    up: str,
    reference: tuple[str, float] | None = None,
) -> LinePlot:
    """Draw up to three lines.

    >>> plot = line_plot({"basic": [(1, 0.1), (100, 10.0)]}, title="Composition", across="steps", up="Epsilon")
    >>> plot.svg.startswith("<svg"), "basic" in plot.svg
    (True, True)

    Args:
        curves: The points (x, y) of each line, by its label.
        title: The title of the plot, for screen readers.
        across: The name of the horizontal axis.
        up: The name of the vertical axis.
        reference: A label and a value of the vertical axis, for a dashed line.
    """
    if not 1 <= len(curves) <= _MAX_LINES:
        raise InvalidArgument("curves", len(curves), f"1 to {_MAX_LINES} lines")
    series = [Line(label=label, points=_points(label, pairs)) for label, pairs in curves.items()]
    if reference is not None and not math.isfinite(reference[1]):
        raise InvalidArgument("reference", reference[1], "a finite number")
    description = "; ".join(f"{line.label} ends at {line.points[-1].y:.4g}" for line in series)
    return LinePlot(
        svg_document(
            lines(series, title=title, description=f"{description}.", across=across, up=up, reference=reference)
        )
    )


def _points(label: str, pairs: Sequence[tuple[float, float]]) -> list[Point]:
    points = [Point(x=float(x), y=float(y)) for x, y in pairs]
    if not points or not all(math.isfinite(point.x) and math.isfinite(point.y) for point in points):
        raise InvalidArgument(f"curves[{label!r}]", len(points), "at least one point, all of them finite")
    return points
