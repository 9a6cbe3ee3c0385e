"""Scales, ticks and axes of the plots."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hush.report.drawing.markup import Html, join, tag

# Every plot is drawn 400 units wide. The page shows it at 320 to 440 pixels, so text of 13 units can always be read.
WIDTH = 400.0
_WANTED_TICKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Maps values to coordinates of the drawing.

    Attributes:
        low: The smallest value, a tick.
        high: The largest value, a tick.
        step: From one tick to the next.
        start: Where ``low`` is drawn.
        end: Where ``high`` is drawn.

    >>> Scale(low=0.0, high=10.0, step=5.0, start=100.0, end=200.0)(5.0)
    150.0
    """

    low: float
    high: float
    step: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value. Values outside the range are drawn at the edge."""
        part = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """The values that are labelled on the axis."""
        return [self.low + i * self.step for i in range(round((self.high - self.low) / self.step) + 1)]

    def label(self, value: float) -> str:
        """Format a tick with as many decimals as its step needs."""
        size = max(abs(self.low), abs(self.high))
        if size >= 1e6 or size < 1e-3:
            return f"{value:.3g}"
        return f"{value:,.{max(0, -math.floor(math.log10(self.step) + 1e-9))}f}"


def scale(
    values: Iterable[float], start: float, end: float, *, limits: tuple[float, float] | None = None, zero: bool = False
) -> Scale:
    """Return a scale that contains all values and ends at round numbers.

    Args:
        values: What will be drawn, finite.
        start: Where the low end is drawn.
        end: Where the high end is drawn.
        limits: The scale stays within these, such as 0 and 100 for percentages.
        zero: Whether 0 must be on it.
    """
    shown = [*values, *([0.0] if zero else [])] or [0.0, 1.0]
    low, high = min(shown), max(shown)
    # Relative to the size, because low + 1 is low for large numbers; and what is tiny cannot be divided into steps.
    if not high - low > max(1e-9 * max(abs(low), abs(high)), 1e-100):
        room = max(abs(low) * 0.1, 1e-3) if limits is None else (limits[1] - limits[0]) * 0.05
        low, high = low - room, high + room
    step = _round_step((high - low) / _WANTED_TICKS)
    low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    if limits is not None:
        low, high = max(low, limits[0]), min(high, limits[1])
    return Scale(low=low, high=high, step=step, start=start, end=end)


def grid_x(across: Scale, top: float, bottom: float, label: str) -> Html:
    """Draw the grid lines, ticks and name of a horizontal axis."""
    spots = [(across(tick), across.label(tick)) for tick in across.ticks]
    return join(
        [
            *(tag("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid") for x, _ in spots),
            *(tag("text", text, x=x, y=bottom + 17, text_anchor="middle", class_="tick") for x, text in spots),
            tag("text", label, x=(across.start + across.end) / 2, y=bottom + 36, text_anchor="middle"),
        ]
    )


def grid_y(up: Scale, left: float, right: float, label: str) -> Html:
    """Draw the grid lines and ticks of a vertical axis, with its name above it (rotated text is hard to read)."""
    spots = [(up(tick), up.label(tick)) for tick in up.ticks]
    return join(
        [
            *(tag("line", x1=left, x2=right, y1=y, y2=y, class_="grid") for y, _ in spots),
            *(tag("text", text, x=left - 7, y=y + 4.5, text_anchor="end", class_="tick") for y, text in spots),
            tag("text", label, x=0.0, y=13.0),
        ]
    )


def drawing(height: float, title: str, description: str, *parts: object) -> Html:
    """Wrap a drawing with a title and description for screen readers."""
    return tag(
        "svg",
        tag("title", title),
        tag("desc", description),
        *parts,
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        role="img",
        aria_label=title,
        class_="plot",
    )


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is not below ``least``."""
    power = math.floor(math.log10(least))
    for digit, exponent in ((1, power), (2, power), (5, power), (1, power + 1)):
        # Dividing by a power of ten gives the float nearest to 0.01; multiplying by 10**-2 need not.
        step = digit * 10.0**exponent if exponent >= 0 else digit / 10.0**-exponent
        if step >= least * (1 - 1e-9):
            return step
    raise AssertionError("10 times a power of ten exceeds what lies below it")
