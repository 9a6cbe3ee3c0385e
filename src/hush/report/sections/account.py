"""The budget, public inputs, hyper-parameters, and how to reproduce the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hush.report.drawing import numbers as numbers
from hush.report.drawing.markup import Html, bullets, facts, figure, join, name, table, tag
from hush.report.drawing.svg import Row, bars
from hush.report.sections.promise import read_guarantee
from hush.report.sections.section import Section, entries, listed, mapping


def budget(record: Mapping[str, Any]) -> Section | None:
    """Return the section on how the budget was spent."""
    spent, learned = entries(record, "budget"), listed(record, "learned")
    if not spent and not learned:
        return None
    guarantee = read_guarantee(record)
    total = None if guarantee is None or guarantee.epsilon == math.inf else guarantee.epsilon
    parts = [_spending(spent, total) if spent else None]
    if learned:
        parts += [tag("h3", "Learned privately from the data"), bullets(map(name, learned))]
    return Section(key="budget", title="Privacy budget", body=join(parts))


def _spending(parts: list[Mapping[str, Any]], total: float | None) -> Html:
    of_total = "" if total is None else f" of {numbers.epsilon(total)}"
    rows = [
        Row(label=str(entry.get("what", "")), value=value, text=f"{numbers.epsilon(value)}{of_total}")
        for entry in parts
        if (value := numbers.number(entry.get("epsilon"))) is not None and value >= 0
    ]
    note = "The epsilon of each part on its own. They do not add up: the total composes all parts."
    if total is not None:
        note = (
            f"Nobody's data cost more than {numbers.epsilon(total)}. Each bar is one part on its own, as if nothing "
            "else were released. Parts about the same people compose to less than their sum, and a part about other "
            "people adds nothing."
        )
    plot = bars(rows, title="Epsilon of each part", description=note, whole=total) if rows else None
    cells = [
        [name(entry.get("what", "")), numbers.epsilon(entry.get("epsilon")), name(entry.get("event") or "")]
        for entry in parts
    ]
    spent = table("Spending", ["Part", "Epsilon", "Accounting event"], cells)
    return join([figure(plot, note) if plot is not None else None, spent])


def public(record: Mapping[str, Any]) -> Section | None:
    """Return the section on public inputs; None if the record does not say."""
    if record.get("public") is None:
        return None
    sentences = listed(record, "public")
    intro = "The guarantee does not cover the following inputs, which were declared public."
    body = join([tag("p", intro), bullets(map(name, sentences))]) if sentences else tag("p", "None.")
    return Section(key="public", title="Public inputs", body=body)


def settings(record: Mapping[str, Any]) -> Section | None:
    """Return the section with every hyper-parameter."""
    values = mapping(record, "hyperparameters")
    if not values:
        return None
    body = facts(
        "Values used in this run", [(name(key), name(numbers.general(value))) for key, value in values.items()]
    )
    return Section(key="settings", title="Hyper-parameters", body=body)


def reproduction(record: Mapping[str, Any]) -> Section | None:
    """Return the section on reproducing the run: the command and the versions."""
    command, versions = record.get("command"), mapping(record, "versions")
    if not command and not versions:
        return None
    note = "The guarantee needs fresh noise, so another run gives slightly different figures."
    parts: list[Html] = []
    if command:
        parts += [tag("pre", tag("code", command), tabindex="0"), tag("p", note)]
    if versions:
        parts.append(facts("Versions", [(name(key), name(value)) for key, value in versions.items()]))
    return Section(key="reproduction", title="Reproduce this run", body=join(parts))
