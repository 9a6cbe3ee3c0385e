"""The figure of `hush plan --plot`: epsilon over the epochs, drawn by `hush.report` as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from hush.errors import InvalidArgument
from hush.guarantee import Guarantee
from hush.report.page_parts import Line, Point, lines, svg_document

# Labels stand at the ends of the lines, so they are short.
_ACCOUNTANTS = {"PLD": "epsilon", "Renyi": "rdp_epsilon"}


def check_plot_path(path: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed."""
    if path.suffix.lower() != ".svg":
        svg = path.with_suffix(".svg").name
        raise InvalidArgument("plot", str(path), "a file name that ends in .svg", f"hush draws SVG only: --plot {svg}")
    if not path.parent.is_dir():
        raise InvalidArgument("plot", str(path), "a file in a folder that exists")


def plot_plan(epochs: Sequence[Mapping[str, float]], guarantee: Guarantee, path: Path) -> None:
    """Draw epsilon over the epochs, by the accountant of privacy loss distributions (PLD) and by that of Renyi (RDP).

    Args:
        epochs: The rows of a plan: ``epoch``, ``epsilon`` and ``rdp_epsilon``.
        guarantee: The guarantee of the whole training; drawn as a dashed line.
        path: The file to write.
    """
    series = [
        Line(label=label, points=[Point(x=row["epoch"], y=row[key]) for row in epochs if math.isfinite(row[key])])
        for label, key in _ACCOUNTANTS.items()
    ]
    series = [line for line in series if line.points]
    if not series:
        raise InvalidArgument("plot", str(path), "a plan with a finite epsilon", "There is nothing to draw")
    drawing = lines(
        series,
        title="Epsilon during training",
        description=f"After the last epoch, epsilon is {guarantee.epsilon:.4g} at delta {guarantee.delta:.3g}.",
        across="epoch",
        up=f"epsilon at delta = {guarantee.delta:.3g}",
        reference=(f"epsilon = {guarantee.epsilon:.4g}", guarantee.epsilon) if guarantee.epsilon < math.inf else None,
    )
    try:
        path.write_text(svg_document(drawing), encoding="utf-8")
    except OSError as error:
        raise InvalidArgument("plot", str(path), "a file that can be written", error.strerror or "") from None
