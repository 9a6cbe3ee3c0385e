"""ROC curves on logarithmic axes, where attacks that are sure of a few people can be seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hush.audit.bounds.roc import Roc
from hush.errors import InvalidArgument
from hush.guarantee import Guarantee
from hush.report.drawing.axes import WIDTH, Scale, drawing, grid_x, grid_y
from hush.report.drawing.markup import Html, join, tag

_MOST_CURVES = 3  # that the page's style sheet has colours and dashes for
_MOST_POINTS = 300
_FEWEST_DECADES, _MOST_DECADES = 2, 6
# What the report's page says, for a drawing on its own; light, as an image viewer has no theme.
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1b1f23; } .tick { font-size: 12px; fill: #555f69; }
.aside { fill: #555f69; font-style: italic; } .figure { font-weight: 600; } .grid { stroke: #d5dadf; }
.reference { fill: none; stroke: #555f69; stroke-width: 1.5; stroke-dasharray: 5 4; }
.reference.chance { stroke-dasharray: 1 3; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; } .line.s0 { stroke: #0072b2; }
.line.s1 { stroke: #b34700; stroke-dasharray: 7 3; } .line.s2 { stroke: #00795a; stroke-dasharray: 2 3; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decades(Scale):
    """A scale of powers of ten; values are given as they are."""

    def __call__(self, value: float) -> float:
        return Scale.__call__(self, math.log10(max(value, 1e-300)))

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(round(self.low), round(self.high) + 1)]

    def label(self, value: float) -> str:
        return f"{value:g}" if value >= 1e-3 else f"1e{round(math.log10(value))}"


def roc_figure(curves: Mapping[str, Roc], *, claimed: Guarantee | None = None) -> Html:
    """Draw up to three ROC curves on logarithmic axes, with chance and, dashed, the limit that a claim sets.

    The drawing begins at one false positive among the most non-members of any curve. Its colours are those of the
    report's page, into which it fits; `roc_document` makes a file of its own.

    Args:
        curves: By the label that each has.
        claimed: An upper bound; a curve above its limit contradicts it, up to chance.
    """
    if not 1 <= len(curves) <= _MOST_CURVES:
        raise InvalidArgument("curves", len(curves), f"1 to {_MOST_CURVES} curves")
    decades = math.ceil(math.log10(max(roc.num_out for roc in curves.values())))
    low = -float(min(max(decades, _FEWEST_DECADES), _MOST_DECADES))
    legend = 20.0 * (len(curves) + 1 + (claimed is not None))
    top, bottom, left = 26.0 + legend, 306.0 + legend, 52.0
    x = _Decades(low=low, high=0.0, step=1.0, start=left, end=WIDTH - 16)
    y = _Decades(low=low, high=0.0, step=1.0, start=bottom, end=top)
    shown = np.logspace(low, 0.0, _MOST_POINTS)
    parts = [_grid_up(y, x, legend), grid_x(x, top, bottom, "false positive rate")]
    parts += [_line(x, y, shown, shown, "reference chance"), _entry(0, "chance", "reference chance")]
    if claimed is not None:
        limit = np.array([claimed.max_tpr(float(rate)) for rate in shown])
        parts.append(_line(x, y, shown, limit, "reference"))
        parts.append(_entry(1, f"limit at epsilon {claimed.epsilon:.3g}", "reference"))
    first = 1 + (claimed is not None)
    for index, (label, roc) in enumerate(curves.items()):
        fpr, tpr = _steps(roc, 10.0**low)
        parts.append(_line(x, y, fpr, tpr, f"line s{index}"))
        parts.append(_entry(first + index, f"{label}: AUC {roc.auc:.3f}", f"line s{index}"))
    return drawing(bottom + 44, "ROC on logarithmic axes", _words(curves, claimed), *parts)


def roc_document(curves: Mapping[str, Roc], *, claimed: Guarantee | None = None) -> str:
    """Return the same drawing as an SVG file of its own."""
    head, body = roc_figure(curves, claimed=claimed).split(">", 1)
    style = join([tag("style", Html(_STYLE)), tag("rect", width="100%", height="100%", fill="#fff")])
    return f'{head} xmlns="http://www.w3.org/2000/svg">{style}{body}\n'


def _steps(roc: Roc, low: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the curve from one false positive on, at points as close as can be told apart: less cannot be seen."""
    fpr, tpr = np.asarray(roc.fpr, dtype=np.float64), np.asarray(roc.tpr, dtype=np.float64)
    # Steps, not chords: what is drawn was reached by a threshold.
    at = np.logspace(math.log10(max(low, 1 / roc.num_out)), 0.0, _MOST_POINTS) * (1 + 1e-12)
    reached = np.searchsorted(fpr, at, side="right") - 1
    return at, tpr[reached]


def _grid_up(y: Scale, x: Scale, legend: float) -> Html:
    """Draw the vertical axis, whose name stands below the legend."""
    return join(
        [grid_y(y, x.start, x.end, ""), tag("text", "true positive rate", x=0.0, y=legend + 16)],
    )


def _line(x: Scale, y: Scale, across: np.ndarray, up: np.ndarray, class_: str) -> Html:
    seen = up > 0  # zero has no logarithm; the curve begins where it rises
    spots = " ".join(f"{x(float(a)):.2f},{y(float(b)):.2f}" for a, b in zip(across[seen], up[seen], strict=True))
    return tag("polyline", points=spots, class_=class_)


def _entry(row: int, label: str, class_: str) -> Html:
    height = 12.0 + 20 * row
    mark = tag("polyline", points=f"2,{height} 34,{height}", class_=class_)
    return join([mark, tag("text", label, x=42.0, y=height + 4.5)])


def _words(curves: Mapping[str, Roc], claimed: Guarantee | None) -> str:
    told = "; ".join(f"{label} reaches {roc.tpr_at(0.01):.1%} at 1 %" for label, roc in curves.items())
    limit = "" if claimed is None else f" The claim allows {claimed.max_tpr(0.01):.1%} there."
    return f"True positive rates against false positive rates: {told}.{limit}"
