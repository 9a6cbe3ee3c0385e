"""The result of an audit, as a section that is added to a finished page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hush.errors import InvalidArgument, check_instance
from hush.guarantee import Guarantee
from hush.report.drawing import numbers as numbers
from hush.report.drawing.markup import Html, bullets, facts, figure, name, tag
from hush.report.sections.section import BEGIN_SILENT, END, GENERATOR, Section, hidden, listed, mapping

_WHY = "Measured by attacking models that were retrained on private records."
_BEFORE = "</main>"
_KEY = "audit"


def with_audit(page: str, audit: Mapping[str, Any], curve: Html) -> str:
    """Return a page of `render` with a section on an audit. An earlier audit section is replaced.

    The section is marked as not private, so `publishable` removes it.

    Args:
        page: The page as `render` returned it.
        audit: Plain values: ``sentence``, ``epsilon_lower``, ``confidence``, ``delta``, ``method``, ``num_in``,
            ``num_out``, ``claimed`` (as `Guarantee.to_json` writes it), ``facts`` (a mapping) and ``assumptions``.
        curve: A drawing of the attack's ROC curve, as `hush.audit.membership.roc_figure` returns.
    """
    check_instance("page", page, str)
    if GENERATOR not in page or page.count(_BEFORE) != 1:
        raise InvalidArgument("page", "...", "a page of hush.report.render")
    page = _without(page)
    link = hidden(tag("li", tag("a", "Audit", href=f"#{_KEY}")))
    section = hidden(_section(audit, curve).html())
    main, end = page.split(_BEFORE)
    head, nav, rest = main.partition("</ul></nav>")
    return f"{head}{link}{nav}{rest}{section}{_BEFORE}{end}" if nav else f"{main}{section}{_BEFORE}{end}"


def _without(page: str) -> str:
    """Remove an earlier audit section."""
    begin, end = re.escape(BEGIN_SILENT), re.escape(END)
    inner = f"(?:(?!{end}).)*?"
    page = re.sub(f'{begin}<li><a href="#{_KEY}">{inner}{end}', "", page, flags=re.DOTALL)
    return re.sub(f'{begin}<section id="{_KEY}"{inner}{end}', "", page, flags=re.DOTALL)


def _section(audit: Mapping[str, Any], curve: Html) -> Section:
    claimed = Guarantee.from_json(str(audit["claimed"]))
    rows = [
        ("Epsilon, measured lower bound", numbers.epsilon(audit.get("epsilon_lower"))),
        ("Epsilon, claimed upper bound", numbers.epsilon(claimed.epsilon)),
        ("Confidence", numbers.percent(audit.get("confidence"))),
        ("Method", name(audit.get("method", ""))),
        ("Canaries included", numbers.general(audit.get("num_in"))),
        ("Canaries left out", numbers.general(audit.get("num_out"))),
        *((name(key), name(numbers.general(value))) for key, value in mapping(audit, "facts").items()),
    ]
    flag = tag("p", "Not private: do not publish. ", tag("small", _WHY), class_="flag")
    body = tag(
        "div",
        flag,
        tag("p", tag("strong", str(audit.get("sentence", "")))),
        figure(
            curve, "A curve significantly above the limit contradicts the claim. The lower bound accounts for chance."
        ),
        facts("Audit", rows),
        tag("p", "The audit assumes that:"),
        bullets(map(name, listed(audit, "assumptions"))),
        class_="secret",
    )
    return Section(key=_KEY, title="Audit", body=body)
