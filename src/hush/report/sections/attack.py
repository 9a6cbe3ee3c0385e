"""What an audit found, as a section that is added to a page when the audit is done."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hush.errors import InvalidArgument, check_instance
from hush.guarantee import Guarantee
from hush.report.drawing import numbers as numbers
from hush.report.drawing.markup import Html, bullets, facts, figure, name, tag
from hush.report.sections.section import BEGIN_SILENT, END, GENERATOR, Section, hidden, listed, mapping

_WHY = "Found by attacking models that were trained again on people's records."
_BEFORE = "</main>"
_KEY = "audit"


def with_audit(page: str, audit: Mapping[str, Any], curve: Html) -> str:
    """Return a page of `render` with the section on an audit; one that is there already is replaced.

    All of it is marked as not private: `publishable` takes it out.

    Args:
        page: What `render` returned.
        audit: Plain values: ``sentence``, ``epsilon_lower``, ``confidence``, ``delta``, ``method``, ``num_in``,
            ``num_out``, ``claimed`` (as `Guarantee.to_json` writes it), ``facts`` (a mapping) and ``assumptions``.
        curve: The drawing of the attack's ROC, such as `hush.audit.membership.roc_figure` makes.
    """
    check_instance("page", page, str)
    if GENERATOR not in page or page.count(_BEFORE) != 1:
        raise InvalidArgument("page", "...", "a page of hush.report.render")
    page = _without(page)
    link = hidden(tag("li", tag("a", "What attacks found", href=f"#{_KEY}")))
    section = hidden(_section(audit, curve).html())
    main, end = page.split(_BEFORE)
    head, nav, rest = main.partition("</ul></nav>")
    return f"{head}{link}{nav}{rest}{section}{_BEFORE}{end}" if nav else f"{main}{section}{_BEFORE}{end}"


def _without(page: str) -> str:
    """Take a section on an audit out."""
    begin, end = re.escape(BEGIN_SILENT), re.escape(END)
    inner = f"(?:(?!{end}).)*?"
    page = re.sub(f'{begin}<li><a href="#{_KEY}">{inner}{end}', "", page, flags=re.DOTALL)
    return re.sub(f'{begin}<section id="{_KEY}"{inner}{end}', "", page, flags=re.DOTALL)


def _section(audit: Mapping[str, Any], curve: Html) -> Section:
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
        figure(curve, "A curve above the limit by more than luck breaks the claim; the bound says what luck leaves."),
        facts("The audit", rows),
        tag("p", "It is assumed that:"),
        bullets(map(name, listed(audit, "assumptions"))),
        class_="secret",
    )
    return Section(key=_KEY, title="What attacks found", body=body)
