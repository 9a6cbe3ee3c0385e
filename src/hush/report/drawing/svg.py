"""The plots: lines with bands, dots with whiskers, bars, a heat map and a reliability diagram, as inline SVG.

Colours are those of Okabe & Ito (2008), which people with common colour vision deficiencies can tell apart. They are
defined in the style sheet, for light and dark pages. Nothing is conveyed by colour alone: lines have their own dashes
and are labelled where they end.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from hush.notebook import clean
from hush.report.drawing.axes import WIDTH, Scale, drawing, grid_x, grid_y, scale
from hush.report.drawing.markup import Html, join, tag

_LETTER = 7.7  # the approximate width of a letter, in pixels
_MOST_POINTS = 300  # per line: more would not be visible, and would make the page large
_PERCENT = (0.0, 100.0)
_JOINER = "\u200d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of a line, with an optional interval.

    >>> Point(x=1.0, y=0.8, ends=(0.7, 0.9)).ends
    (0.7, 0.9)
    """

    x: float
    y: float
    ends: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A labelled line.

    >>> plot = lines([Line(label="a", points=[Point(x=0, y=0), Point(x=1, y=2)])],
    ...              title="A line", description="From 0 to 2.", across="step", up="Value")
    >>> "<title" in plot and "A line" in plot
    True
    """

    label: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A named value with an optional interval. ``text`` is its formatted value."""

    label: str
    value: float
    text: str
    ends: tuple[float, float] | None = None


def shortened(text: str, room: float) -> str:
    """Shorten a label to the available width, without splitting characters made of several code points.

    >>> shortened("cat", 100), shortened("a very long name indeed", 60)
    ('cat', 'a very…')
    """
    letters = _letters(" ".join(clean(text).split()))
    widths = [2 if unicodedata.east_asian_width(letter[0]) in "WF" else 1 for letter in letters]
    if sum(widths) <= room / _LETTER:
        return "".join(letters)
    while letters and sum(widths[: len(letters)]) + 1 > room / _LETTER:
        letters.pop()
    return "".join(letters).rstrip() + "…"


def _letters(text: str) -> list[str]:
    """Split text into the letters a reader sees: combining marks and joined emoji stay together."""
    letters: list[str] = []
    for sign in text:
        if letters and (unicodedata.category(sign) in ("Mn", "Me", "Cf", "Sk") or letters[-1].endswith(_JOINER)):
            letters[-1] += sign
        else:
            letters.append(sign)
    return letters


def lines(
    series: Sequence[Line],
    *,
    title: str,
    description: str,
    across: str,
    up: str,
    percent: bool = False,
    reference: tuple[str, float] | None = None,
) -> Html:
    """Draw lines with bands, and a reference value as a dashed line.

    Args:
        series: At least one line with at least one point.
        title: The title of the plot.
        description: A description for screen readers.
        across: The name of the horizontal axis.
        up: The name of the vertical axis.
        percent: Whether the vertical axis is a percentage.
        reference: A label and a value.
    """
    series = [Line(label=line.label, points=thinned(line.points)) for line in series]
    every = [point for line in series for point in line.points]
    ys = [y for point in every for y in (point.y, *(point.ends or ()))] + ([reference[1]] if reference else [])
    limits = _PERCENT if percent else None
    labels = max(len(line.label) for line in series)
    bottom, left = 226.0, _left(scale(ys, 0.0, 1.0, limits=limits))
    y = scale(ys, bottom, 26.0, limits=limits, zero=not percent)
    x = scale([point.x for point in every], left, WIDTH - 12 - _LETTER * labels, zero=True)
    parts = [grid_y(y, x.start, x.end, up), grid_x(x, y.end, bottom, across)]
    if reference:
        parts.append(_reference(reference, x, y))
    parts += [_line(line.points, index, x, y) for index, line in enumerate(series)]
    parts.append(_end_labels(series, x, y))
    return drawing(bottom + 44, title, description, *parts)


def dots(rows: Sequence[Row | None], *, title: str, description: str, across: str, gap: str | None = None) -> Html:
    """Draw one dot with whiskers per row, and the gap between the outermost dots above them.

    Args:
        rows: Figures in percent; None stands for rows that are left out.
        title: The title of the plot.
        description: A description for screen readers.
        across: The name of the axis.
        gap: What to write at the bracket from the smallest to the largest; without it there is none.
    """
    known = [row for row in rows if row is not None]
    left = min(130.0, 14 + _LETTER * max(len(row.label) for row in known))
    top, bottom = 40.0, 40.0 + 23 * len(rows)
    x = scale([v for row in known for v in (row.value, *(row.ends or ()))], left, WIDTH - 64, limits=_PERCENT)
    parts = [grid_x(x, top - 6, bottom, across)]
    if gap is not None:
        parts.append(_bracket([row.value for row in known], x, gap))
    parts += [_dot_row(row, top + 23 * i + 10, left, x) for i, row in enumerate(rows)]
    return drawing(bottom + 44, title, description, *parts)


def bars(rows: Sequence[Row], *, title: str, description: str, whole: float | None = None) -> Html:
    """Draw horizontal bars from zero, with the name above each bar and the value at its end.

    Args:
        rows: The bars.
        title: The title of the plot.
        description: A description for screen readers.
        whole: What each bar is a part of. It is drawn behind each of them, so that no two bars seem to add up.
    """
    longest = max([*(row.value for row in rows), whole or 0.0]) or 1.0
    x = scale([longest], 0.0, WIDTH - 110 if whole else WIDTH - 80, zero=True)
    parts = []
    for index, row in enumerate(rows):
        y, length = 42.0 * index, (x.end - x.start) * row.value / longest
        parts.append(tag("text", shortened(row.label, WIDTH), x=0.0, y=y + 14))
        behind = (x.end - x.start) * (whole or 0.0) / longest
        if whole is not None:
            parts.append(tag("rect", x=0.0, y=y + 20, width=max(behind, 1.0), height=12.0, class_="share"))
        parts.append(tag("rect", x=0.0, y=y + 20, width=max(length, 1.0), height=12.0, class_="bar"))
        parts.append(tag("text", row.text, x=max(length, behind, 1.0) + 7, y=y + 31, class_="figure"))
    return drawing(42.0 * len(rows) + 2, title, description, *parts)


def heat(labels: Sequence[str], shares: Sequence[Sequence[float]], *, title: str, description: str) -> Html:
    """Draw a square matrix of fractions as whole percentages. Correct cells have a frame."""
    size = len(labels)
    left = min(110.0, 14 + _LETTER * max(len(label) for label in labels))
    # Column names lean to the right, and the last one needs room for that.
    side = (WIDTH - left - min(46.0, 4 * len(labels[-1]))) / size
    head = min(84.0, 12 + 6 * max(len(label) for label in labels))
    parts = []
    for i, row in enumerate(shares):
        y = head + i * side
        parts.append(tag("text", shortened(labels[i], left - 8), x=left - 7, y=y + side / 2 + 4.5, text_anchor="end"))
        parts += [_cell(value, left + j * side, y, side, i == j) for j, value in enumerate(row)]
    for j, label in enumerate(labels):
        spot = f"translate({left + (j + 0.5) * side + 4:.2f} {head - 7:.2f}) rotate(-55)"
        parts.append(tag("text", shortened(label, 84), transform=spot))
    return drawing(head + side * size + 2, title, description, *parts)


def reliability(
    bins: Sequence[tuple[float, float, float]], *, title: str, description: str, across: str, up: str
) -> Html:
    """Draw accuracy against confidence, in percent, with the diagonal and, below, the share of each bin.

    Args:
        bins: Confidence, accuracy (percent) and share (of one) of each bin.
        title: The title of the plot.
        description: A description for screen readers.
        across: The name of the horizontal axis.
        up: The name of the vertical axis.
    """
    bottom = 300.0
    x = scale(_PERCENT, 40.0, WIDTH - 16, limits=_PERCENT)
    y = scale(_PERCENT, bottom, 26.0, limits=_PERCENT)
    tallest = max((part for _, _, part in bins), default=0) or 1.0
    parts = [grid_y(y, x.start, x.end, up), grid_x(x, y.end, bottom, across)]
    for confidence, _, part in bins:
        height = 46 * part / tallest
        parts.append(
            tag("rect", x=x(confidence) - 7, y=bottom - height, width=14.0, height=max(height, 0.5), class_="share")
        )
    parts.append(tag("polyline", points=_path([(x(0), y(0)), (x(50), y(50)), (x(100), y(100))]), class_="reference"))
    parts.append(tag("text", "underconfident", x=x(4), y=y(91), class_="aside"))
    parts.append(tag("text", "overconfident", x=x(97), y=y(22), text_anchor="end", class_="aside"))
    parts.append(_line([Point(x=confidence, y=accuracy) for confidence, accuracy, _ in bins], 0, x, y))
    return drawing(bottom + 44, title, description, *parts)


def thinned(points: Sequence[Point]) -> Sequence[Point]:
    """Thin out the points evenly if there are too many to draw, keeping the first and the last."""
    excess = len(points) / _MOST_POINTS
    if excess <= 1:
        return points
    return [points[round(i * (len(points) - 1) / (_MOST_POINTS - 1))] for i in range(_MOST_POINTS)]


def _left(up: Scale) -> float:
    """Return the width of the labels of a vertical axis."""
    return 14 + _LETTER * max(len(up.label(tick)) for tick in up.ticks)


def _line(points: Sequence[Point], index: int, x: Scale, y: Scale) -> Html:
    spots = [(x(point.x), y(point.y)) for point in points]
    band = [(x(p.x), y(p.ends[0]), y(p.ends[1])) for p in points if p.ends is not None]
    parts = []
    if len(band) > 1:
        outline = [(a, high) for a, _, high in band] + [(a, low) for a, low, _ in reversed(band)]
        parts.append(tag("polygon", points=_path(outline), class_=f"band s{index}"))
    elif band:
        parts.append(_whisker_up(*band[0]))
    parts.append(tag("polyline", points=_path(spots), class_=f"line s{index}"))
    # Where points lie closer than they are wide, only the last one is marked.
    marked = spots if len(spots) <= 40 else spots[-1:]
    parts += [tag("circle", cx=a, cy=b, r=3.2, class_=f"dot s{index}") for a, b in marked]
    return join(parts)


def _path(spots: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{a:.2f},{b:.2f}" for a, b in spots)


def _whisker_up(x: float, low: float, high: float) -> Html:
    return join(
        [
            tag("line", x1=x, x2=x, y1=low, y2=high, class_="whisker"),
            *(tag("line", x1=x - 4, x2=x + 4, y1=y, y2=y, class_="whisker") for y in (low, high)),
        ]
    )


def _reference(reference: tuple[str, float], x: Scale, y: Scale) -> Html:
    label, value = reference
    spot = y(value)
    # Above the line; below it where the name of the axis stands above.
    beside = spot - 5 if spot > y.end + 15 else spot + 15
    return join(
        [
            tag("line", x1=x.start, x2=x.end, y1=spot, y2=spot, class_="reference"),
            tag("text", shortened(label, x.end - x.start), x=x.start + 4, y=beside, class_="aside"),
        ]
    )


def _end_labels(series: Sequence[Line], x: Scale, y: Scale) -> Html:
    """Label each line at its end, and keep the labels apart."""
    spots = sorted((y(line.points[-1].y), line.label, x(line.points[-1].x)) for line in series if line.label)
    parts, free = [], 0.0
    for height, label, end in spots:
        free = max(height, free)
        parts.append(tag("text", label, x=end + 8, y=free + 4.5, class_="figure"))
        free += 15
    return join(parts)


def _bracket(values: Sequence[float], x: Scale, label: str) -> Html:
    low, high = x(min(values)), x(max(values))
    room = _LETTER * len(label) / 2
    middle = min(max((low + high) / 2, room), WIDTH - room)
    return join(
        [
            tag("path", d=f"M{low:.2f} 30V22H{high:.2f}V30", class_="bracket"),
            tag("text", label, x=middle, y=15.0, text_anchor="middle", class_="figure"),
        ]
    )


def _dot_row(row: Row | None, y: float, left: float, x: Scale) -> Html:
    if row is None:
        return tag("text", "⋮", x=left - 8, y=y + 4.5, text_anchor="end")
    parts = [tag("text", shortened(row.label, left - 8), x=left - 8, y=y + 4.5, text_anchor="end")]
    if row.ends is not None:
        low, high = (x(end) for end in row.ends)
        parts.append(tag("line", x1=low, x2=high, y1=y, y2=y, class_="whisker"))
        parts += [tag("line", x1=end, x2=end, y1=y - 4, y2=y + 4, class_="whisker") for end in (low, high)]
    parts.append(tag("circle", cx=x(row.value), cy=y, r=4.2, class_="dot s0"))
    parts.append(tag("text", row.text, x=WIDTH, y=y + 4.5, text_anchor="end", class_="figure"))
    return join(parts)


def _cell(value: float, x: float, y: float, side: float, correct: bool) -> Html:
    # Shades end well before full colour, so that dark text stays readable on all of them.
    shade = tag("rect", x=x + 0.5, y=y + 0.5, width=side - 1, height=side - 1, fill_opacity=0.65 * value, class_="cell")
    frame = tag("rect", x=x + 1, y=y + 1, width=side - 2, height=side - 2, class_="frame") if correct else None
    rounded = round(100 * value)
    text = None
    if side >= 22 and rounded:
        text = tag("text", str(rounded), x=x + side / 2, y=y + side / 2 + 4, text_anchor="middle", class_="tick")
    return join([shade, frame, text])
