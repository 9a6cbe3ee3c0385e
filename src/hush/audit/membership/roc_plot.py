"""ROC curves on logarithmic axes, which show attacks that are confident about a few examples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hush.audit.bounds.roc import Roc
from hush.errors import InvalidArgument
from hush.guarantee import Guarantee
from hush.report.page_parts import WIDTH, Html, Scale, drawing, grid_x, grid_y, join, svg_document, tag

_MAX_CURVES = 3  # the page's style sheet has colours and dashes for three
_NUM_POINTS = 300
_MIN_DECADES, _MAX_DECADES = 2, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decades(Scale):
    """A logarithmic scale with ticks at powers of ten. ``low`` and ``high`` are exponents; values are not."""

    def __call__(self, value: float) -> float:
        return Scale.__call__(self, math.log10(max(value, 1e-300)))

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(round(self.low), round(self.high) + 1)]

    def label(self, value: float) -> str:
        return f"{value:g}" if value >= 1e-3 else f"1e{round(math.log10(value))}"


def roc_figure(curves: Mapping[str, Roc], *, claimed: Guarantee | None = None) -> Html:
    """Draw up to three ROC curves on logarithmic axes, with the line of chance and, dashed, a claim's limit.

    The axes start at one false positive in the largest set of non-members. The colours come from the style sheet of the
    report's page; for a file that stands alone, use `roc_document`.

    >>> from hush.audit import roc
    >>> roc_figure({"an attack": roc([2.0, 1.0], [1.0, 0.0])}).startswith("<svg")
    True

    Args:
        curves: The curves by their label.
        claimed: A guarantee. A curve above its limit contradicts it, apart from chance.

    Returns:
        An ``svg`` element.
    """
    if not 1 <= len(curves) <= _MAX_CURVES:
        raise InvalidArgument("curves", len(curves), f"1 to {_MAX_CURVES} curves")
    decades = math.ceil(math.log10(max(roc.num_out for roc in curves.values())))
    low = -float(min(max(decades, _MIN_DECADES), _MAX_DECADES))
    legend_height = 20.0 * (len(curves) + 1 + (claimed is not None))
    top, bottom, left = 26.0 + legend_height, 306.0 + legend_height, 52.0
    x = _Decades(low=low, high=0.0, step=1.0, start=left, end=WIDTH - 16)
    y = _Decades(low=low, high=0.0, step=1.0, start=bottom, end=top)
    rates = np.logspace(low, 0.0, _NUM_POINTS)
    parts = [_vertical_axis(y, x, legend_height), grid_x(x, top, bottom, "false positive rate")]
    parts += [_polyline(x, y, rates, rates, "reference chance"), _legend_entry(0, "chance", "reference chance")]
    if claimed is not None:
        limits = np.array([claimed.max_tpr(float(rate)) for rate in rates])
        parts.append(_polyline(x, y, rates, limits, "reference"))
        parts.append(_legend_entry(1, f"limit at epsilon {claimed.epsilon:.3g}", "reference"))
    first_row = 1 + (claimed is not None)
    for index, (label, roc) in enumerate(curves.items()):
        fpr, tpr = _steps(roc, 10.0**low)
        parts.append(_polyline(x, y, fpr, tpr, f"line s{index}"))
        parts.append(_legend_entry(first_row + index, f"{label}: AUC {roc.auc:.3f}", f"line s{index}"))
    return drawing(bottom + 44, "ROC on logarithmic axes", _description(curves, claimed), *parts)


def roc_document(curves: Mapping[str, Roc], *, claimed: Guarantee | None = None) -> str:
    """Return the drawing of `roc_figure` as the text of an SVG file."""
    return svg_document(roc_figure(curves, claimed=claimed))


def _steps(roc: Roc, low: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the curve from one false positive on, at as many points as a plot can show."""
    fpr, tpr = np.asarray(roc.fpr, dtype=np.float64), np.asarray(roc.tpr, dtype=np.float64)
    # Steps, not chords: every point drawn was reached by a threshold.
    rates = np.logspace(math.log10(max(low, 1 / roc.num_out)), 0.0, _NUM_POINTS) * (1 + 1e-12)
    vertices = np.searchsorted(fpr, rates, side="right") - 1
    return rates, tpr[vertices]


def _vertical_axis(y: Scale, x: Scale, legend_height: float) -> Html:
    """Draw the vertical axis, with its name below the legend."""
    return join(
        [grid_y(y, x.start, x.end, ""), tag("text", "true positive rate", x=0.0, y=legend_height + 16)],
    )


def _polyline(x: Scale, y: Scale, fpr: np.ndarray, tpr: np.ndarray, class_: str) -> Html:
    positive = tpr > 0  # zero has no logarithm; the curve starts where it rises
    points = " ".join(f"{x(float(a)):.2f},{y(float(b)):.2f}" for a, b in zip(fpr[positive], tpr[positive], strict=True))
    return tag("polyline", points=points, class_=class_)


def _legend_entry(row: int, label: str, class_: str) -> Html:
    height = 12.0 + 20 * row
    sample = tag("polyline", points=f"2,{height} 34,{height}", class_=class_)
    return join([sample, tag("text", label, x=42.0, y=height + 4.5)])


def _description(curves: Mapping[str, Roc], claimed: Guarantee | None) -> str:
    """Return the text alternative of the drawing."""
    rates = "; ".join(f"{label} reaches {100 * roc.tpr_at(0.01):.1f} % at 1 %" for label, roc in curves.items())
    limit = "" if claimed is None else f" The claim allows {100 * claimed.max_tpr(0.01):.1f} % there."
    return f"True positive rates against false positive rates: {rates}.{limit}"
