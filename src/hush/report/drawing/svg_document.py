"""Writes a drawing as a stand-alone SVG file, without the page and its style sheet."""

from __future__ import annotations

import re
from typing import Final

from hush.report.drawing.markup import Html, join, tag

# The drawing rules of the page's style sheet, in light colours: an image viewer has no theme.
_STYLE: Final = """
text { font: 13px system-ui, sans-serif; fill: #1b1f23; } .tick { font-size: 12px; fill: #555f69; }
.aside { fill: #555f69; font-style: italic; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
.figure { font-weight: 600; } .grid { stroke: #d5dadf; }
.reference { fill: none; stroke: #555f69; stroke-width: 1.5; stroke-dasharray: 5 4; }
.reference.chance { stroke-dasharray: 1 3; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; } .line.s0 { stroke: #0072b2; }
.line.s1 { stroke: #b34700; stroke-dasharray: 7 3; } .line.s2 { stroke: #00795a; stroke-dasharray: 2 3; }
.bar { fill: #0072b2; } .share { fill: #555f69; fill-opacity: .3; }
.dot { stroke: #fff; } .dot.s0 { fill: #0072b2; } .dot.s1 { fill: #b34700; } .dot.s2 { fill: #00795a; }
"""
_MARGIN = 8


def svg_document(drawing: Html) -> str:
    """Return a drawing, such as `hush.report.page_parts.lines` makes, as the text of an SVG file.

    >>> text = svg_document(tag("svg", tag("line", x1=0, x2=1), viewBox="0 0 400 200"))
    >>> text.startswith('<svg viewBox="-8 -8 416 216" xmlns="http://www.w3.org/2000/svg"><style>')
    True
    """
    head, body = drawing.split(">", 1)
    head = re.sub(r'viewBox="0 0 (\d+) (\d+)"', _with_margin, head)
    paper = tag("rect", x=-_MARGIN, y=-_MARGIN, width="100%", height="100%", fill="#fff")
    return f'{head} xmlns="http://www.w3.org/2000/svg">{join([tag("style", Html(_STYLE)), paper])}{body}\n'


def _with_margin(box: re.Match[str]) -> str:
    width, height = (int(side) + 2 * _MARGIN for side in box.groups())
    return f'viewBox="-{_MARGIN} -{_MARGIN} {width} {height}"'
