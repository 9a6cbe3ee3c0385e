"""Where the budget went, what was taken as public, every setting, and how to do it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hush.report.drawing import numbers as numbers
from hush.report.drawing.markup import Html, bullets, facts, figure, join, name, table, tag
from hush.report.drawing.svg import Row, bars
from hush.report.sections.section import Section, entries, listed, mapping


def budget(record: Mapping[str, Any]) -> Section | None:
    """Return the section on where the budget went."""
    spent, learned = entries(record, "budget"), listed(record, "learned")
    if not spent and not learned:
        return None
    parts = [_spending(spent) if spent else None]
    if learned:
        parts += [tag("h3", "Learned from the data, privately"), bullets(map(name, learned))]
    return Section(key="budget", title="Where the privacy budget went", body=join(parts))


def _spending(parts: list[Mapping[str, Any]]) -> Html:
    rows = [
        Row(label=str(entry.get("what", "")), value=value, text=numbers.epsilon(value))
        for entry in parts
        if (value := numbers.number(entry.get("epsilon"))) is not None and value >= 0
    ]
    note = "The epsilon of each part by itself. These do not add up to the total, which composes all parts."
    plot = bars(rows, title="Epsilon of each part", description=note) if rows else None
    cells = [
        [name(entry.get("what", "")), numbers.epsilon(entry.get("epsilon")), name(entry.get("event") or "")]
        for entry in parts
    ]
    spent = table("What was spent on what", ["What", "Epsilon", "Event that was accounted"], cells)
    return join([figure(plot, note) if plot is not None else None, spent])


def public(record: Mapping[str, Any]) -> Section | None:
    """Return the section on what was taken as public, or None where the record does not say."""
    if record.get("public") is None:
        return None
    sentences = listed(record, "public")
    intro = "The guarantee does not cover what follows. Whoever made the run stated that it is public."
    body = join([tag("p", intro), bullets(map(name, sentences))]) if sentences else tag("p", "Nothing was.")
    return Section(key="public", title="What was taken as public", body=body)


def settings(record: Mapping[str, Any]) -> Section | None:
    """Return the section with every hyper-parameter."""
    values = mapping(record, "hyperparameters")
    if not values:
        return None
    body = facts("As used in this run", [(name(key), name(numbers.general(value))) for key, value in values.items()])
    return Section(key="settings", title="Every hyper-parameter", body=body)


def reproduction(record: Mapping[str, Any]) -> Section | None:
    """Return the section on how to do it again: the command and the versions."""
    command, versions = record.get("command"), mapping(record, "versions")
    if not command and not versions:
        return None
    note = "The noise must be fresh for the guarantee to hold, so another run gives slightly other figures."
    parts: list[Html] = []
    if command:
        parts += [tag("pre", tag("code", command), tabindex="0"), tag("p", note)]
    if versions:
        parts.append(facts("Versions", [(name(key), name(value)) for key, value in versions.items()]))
    return Section(key="reproduction", title="To do it again", body=join(parts))
