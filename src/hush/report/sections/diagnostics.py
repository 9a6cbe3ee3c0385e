"""Diagnostics for whoever trains the model: exact gradient and loss statistics, which are not private."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hush.report.drawing import numbers as numbers
from hush.report.drawing.markup import Html, figure, join, tag
from hush.report.drawing.svg import Line, Point, lines
from hush.report.sections.section import Section, entries, listed, mapping, secret

_WHY = "Exact functions of private records. The guarantee does not cover them."


def diagnostics(record: Mapping[str, Any]) -> Section | None:
    """Return the diagnostics, marked as not private; None if the record has none."""
    part = mapping(record, "not_private")
    plots = [plot for plot in (_clipped(part), _norms(part), _loss(part)) if plot is not None]
    if not plots:
        return None
    return Section(key="diagnostics", title="Diagnostics (not private: do not publish)", body=secret(_WHY, join(plots)))


def _clipped(part: Mapping[str, Any]) -> Html | None:
    points = [
        Point(x=step, y=100 * value)
        for row in entries(part, "clipped_fraction")
        if (step := numbers.number(row.get("step"))) is not None
        and (value := numbers.share(row.get("value"))) is not None
    ]
    note = "The fraction of gradients above the clip norm. Near 0 %, a smaller clip norm would need less noise."
    return _plot("Fraction of gradients clipped", "Clipped (%)", note, {"": points}, percent=True)


def _norms(part: Mapping[str, Any]) -> Html | None:
    names = {"q90": "90 %", "q50": "median", "q10": "10 %"}
    series = {label: _series(entries(part, "norm_quantiles"), key) for key, label in names.items()}
    return _plot("Gradient norms", "Norm", "Quantiles of the per-example norms, before clipping.", series)


def _loss(part: Mapping[str, Any]) -> Html | None:
    rows = listed(part, "loss")
    # A plain list of numbers is one loss per step.
    losses = [row if isinstance(row, Mapping) else {"step": i, "value": row} for i, row in enumerate(rows, 1)]
    return _plot("Loss", "Loss", "The loss during training, without noise.", {"": _series(losses, "value")})


def _series(rows: list[Mapping[str, Any]], key: str) -> list[Point]:
    return [
        Point(x=step, y=value)
        for row in rows
        if (step := numbers.number(row.get("step"))) is not None and (value := numbers.number(row.get(key))) is not None
    ]


def _plot(title: str, up: str, note: str, series: Mapping[str, list[Point]], *, percent: bool = False) -> Html | None:
    plotted = [Line(label=label, points=points) for label, points in series.items() if points]
    if not plotted:
        return None
    last = ", ".join(f"{line.label} {line.points[-1].y:.3g}".strip() for line in plotted)
    summary = f"At the last step: {last}{' %' if percent else ''}."
    plot = lines(plotted, title=title, description=f"{note} {summary}", across="step", up=up, percent=percent)
    return join([tag("h3", title), figure(plot, note, summary)])
