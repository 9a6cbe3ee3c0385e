"""The plot of trade-off curves: the largest true positive rate at each false positive rate."""

from __future__ import annotations

from collections.abc import Mapping

from hush.errors import InvalidArgument
from hush.guarantee import TradeOff
from hush.report.drawing.svg import Line, Point, lines
from hush.report.drawing.svg_document import svg_document

_MAX_CURVES = 3  # the style sheet has colours and dashes for three


def trade_off_plot(curves: Mapping[str, TradeOff]) -> str:
    """Draw up to three trade-off curves, with the largest true positive rates that they allow.

    >>> from hush.guarantee import Guarantee
    >>> text = trade_off_plot({"claim": Guarantee(epsilon=1, delta=1e-5).tradeoff()})
    >>> text.startswith("<svg"), "claim allows 2.7 % at 1 %" in text
    (True, True)

    Args:
        curves: What `Guarantee.tradeoff` or an accountant's `tradeoff` returned, by label.

    Returns:
        The text of an SVG file.
    """
    if not 1 <= len(curves) <= _MAX_CURVES:
        raise InvalidArgument("curves", len(curves), f"1 to {_MAX_CURVES} curves")
    figure = lines(
        [Line(label=label, points=_points(curve)) for label, curve in curves.items()],
        title="Trade-off of an attack's errors",
        description=_description(curves),
        across="false positive rate (%)",
        up="Largest true positive rate (%)",
        percent=True,
    )
    return svg_document(figure)


def _points(curve: TradeOff) -> list[Point]:
    return [Point(x=100 * fpr, y=100 * tpr) for fpr, tpr in curve.points()]


def _description(curves: Mapping[str, TradeOff]) -> str:
    """Return the text alternative of the drawing."""
    rates = (f"{label} allows {100 * curve.max_tpr(0.01):.1f} % at 1 %" for label, curve in curves.items())
    return f"Largest true positive rates against false positive rates: {'; '.join(rates)}."
