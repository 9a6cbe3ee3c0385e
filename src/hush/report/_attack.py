"""What an audit found, as a section that is added to a page when the audit is done."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hush.errors import InvalidArgument, check_instance
from hush.guarantee import Guarantee
from hush.report import _numbers as numbers
from hush.report._axes import WIDTH, Scale, drawing, grid_x, grid_y
from hush.report._markup import Html, bullets, facts, figure, name, tag
from hush.report._section import BEGIN_SILENT, END, GENERATOR, Section, hidden, listed, mapping

_WHY = "Found by attacking models that were trained again on people's records."
_BEFORE = "</main>"
_KEY = "audit"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decades(Scale):
    """A scale of powers of ten."""

    def label(self, value: float) -> str:
        """Write the power as a share."""
        return f"{100 * 10**value:.6g} %"


def with_audit(page: str, audit: Mapping[str, Any]) -> str:
    """Return a page of `render` with the section on an audit; one that is there already is replaced.

    All of it is marked as not private: `publishable` takes it out.

    Args:
        page: What `render` returned.
        audit: Plain values: ``sentence``, ``epsilon_lower``, ``confidence``, ``delta``, ``method``, ``num_in``,
            ``num_out``, ``roc`` (pairs of false and true positive rates), ``claimed`` (as `Guarantee.to_json` writes
            it), ``facts`` (a mapping) and ``assumptions``.
    """
    check_instance("page", page, str)
    if GENERATOR not in page or page.count(_BEFORE) != 1:
        raise InvalidArgument("page", "...", "a page of hush.report.render")
    page = _without(page)
    link = hidden(tag("li", tag("a", "What attacks found", href=f"#{_KEY}")))
    section = hidden(_section(audit).html())
    main, end = page.split(_BEFORE)
    head, nav, rest = main.partition("</ul></nav>")
    return f"{head}{link}{nav}{rest}{section}{_BEFORE}{end}" if nav else f"{main}{section}{_BEFORE}{end}"


def _without(page: str) -> str:
    """Take a section on an audit out."""
    begin, end = re.escape(BEGIN_SILENT), re.escape(END)
    inner = f"(?:(?!{end}).)*?"
    page = re.sub(f'{begin}<li><a href="#{_KEY}">{inner}{end}', "", page, flags=re.DOTALL)
    return re.sub(f'{begin}<section id="{_KEY}"{inner}{end}', "", page, flags=re.DOTALL)


def _section(audit: Mapping[str, Any]) -> Section:
    claimed = Guarantee.from_json(str(audit["claimed"]))
    rows = [
        ("Epsilon, at least", numbers.epsilon(audit.get("epsilon_lower"))),
        ("Epsilon, claimed: at most", numbers.epsilon(claimed.epsilon)),
        ("Confidence", numbers.percent(audit.get("confidence"))),
        ("Method", name(audit.get("method", ""))),
        ("Canaries that took part", numbers.general(audit.get("num_in"))),
        ("Canaries that did not", numbers.general(audit.get("num_out"))),
        *((name(key), name(numbers.general(value))) for key, value in mapping(audit, "facts").items()),
    ]
    flag = tag("p", "Not private: do not publish. ", tag("small", _WHY), class_="flag")
    body = tag(
        "div",
        flag,
        tag("p", tag("strong", str(audit.get("sentence", "")))),
        _curve([(float(a), float(b)) for a, b in listed(audit, "roc")], claimed),
        facts("The audit", rows),
        tag("p", "It is assumed that:"),
        bullets(map(name, listed(audit, "assumptions"))),
        class_="secret",
    )
    return Section(key=_KEY, title="What attacks found", body=body)


def _curve(found: Sequence[tuple[float, float]], claimed: Guarantee) -> Html:
    """Draw the attack's curve on scales of powers of ten, and over it what the claim allows at most."""
    least = min((rate for pair in found for rate in pair if rate > 0), default=1e-3)
    low = float(min(max(math.floor(math.log10(least)), -6), -2))
    x = _Decades(low=low, high=0.0, step=1.0, start=62.0, end=WIDTH - 22)
    y = _Decades(low=low, high=0.0, step=1.0, start=300.0, end=26.0)
    rates = [10 ** (low + place * -low / 120) for place in range(121)]
    allowed = [(rate, claimed.max_tpr(rate)) for rate in rates] if math.isfinite(claimed.epsilon) else []
    note = "The solid line is the attack; above the long dashes, the claim would be broken; short dashes are guessing."
    beside = found[7 * len(found) // 10] if found else (1.0, 1.0)
    high = next((pair for pair in allowed if pair[1] >= 10 ** (low / 4)), (1.0, 1.0))
    parts = [
        grid_y(y, x.start, x.end, "Members found"),
        grid_x(x, y.end, y.start, "Others taken for members"),
        _stroke([(rate, rate) for rate in rates], x, y, "reference"),
        _stroke(allowed, x, y, "line s1"),
        _stroke(found, x, y, "line s0"),
        _label("the attack", beside, x, y, above=True),
        _label("claimed limit", high, x, y, above=True),
        _label("guessing", (10 ** (low / 2),) * 2, x, y, above=False),
    ]
    title = "The attack beside the claim"
    return figure(drawing(344, title, note, *parts), note)


def _stroke(points: Sequence[tuple[float, float]], x: Scale, y: Scale, kind: str) -> Html:
    spots = " ".join(f"{x(_log(a)):.2f},{y(_log(b)):.2f}" for a, b in points)
    return tag("polyline", points=spots, class_=kind) if points else Html("")


def _label(text: str, spot: tuple[float, float], x: Scale, y: Scale, *, above: bool) -> Html:
    """Write a label to the upper left of a spot, or to its lower right; never beyond the left edge."""
    across, up = x(_log(spot[0])), y(_log(spot[1]))
    if not above:
        return tag("text", text, x=across + 8, y=up + 18, class_="aside")
    if across < x.start + 96:
        return tag("text", text, x=x.start + 8, y=up + 18, class_="aside")
    return tag("text", text, x=across - 8, y=up - 6, text_anchor="end", class_="aside")


def _log(rate: float) -> float:
    return math.log10(rate) if rate > 0 else -9.0  # at the edge
