"""The guarantee: in plain words first, then in numbers, then its assumptions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from hush.guarantee import Bound, Guarantee, Relation, UnitKind, verdict
from hush.report.drawing import numbers as numbers
from hush.report.drawing.markup import Html, bullets, facts, folded, join, tag
from hush.report.sections.section import Section

# The false positive rate at which the best attack is described.
_FALSE_ALARMS = 0.01

_TITLE = "The privacy guarantee"

_AT_STAKE = {
    Relation.ADD_OR_REMOVE: "whether it was used to train this model",
    Relation.REPLACE: "whether it, or something else in its place, was used to train this model",
    Relation.ZERO_OUT: "whether it was used to train this model, or replaced by a blank",
}

_WANTED = {
    UnitKind.EXAMPLE: "the examples that were used",
    UnitKind.USER: "the users whose data were used",
    UnitKind.USER_WINDOW: "the users whose data were used in a given time window",
}

_SIDES = {
    Bound.UPPER: "proven upper bound",
    Bound.LOWER: "lower bound: it proves leakage and guarantees nothing",
    Bound.ESTIMATE: "estimate: the true epsilon may be larger",
}


def read_guarantee(record: Mapping[str, Any]) -> Guarantee | None:
    """Return the guarantee of a record, from a mapping or from JSON. A damaged one is refused."""
    stored = record.get("guarantee")
    if stored is None:
        return None
    return Guarantee.from_json(stored if isinstance(stored, str) else json.dumps(stored))


def promise(guarantee: Guarantee | None) -> Section:
    """Return the section about the guarantee. A run without one guarantees nothing, and the section says so."""
    if guarantee is None:
        body = tag("p", "No guarantee was recorded. Treat everything this run produced as not private.")
        return Section(key="promise", title=_TITLE, body=body)
    return Section(
        key="promise", title=_TITLE, body=join([_plain(guarantee), _figures(guarantee), _assumptions(guarantee)])
    )


def protected(guarantee: Guarantee) -> str:
    """Return the protected unit as the object of a sentence."""
    unit = guarantee.unit
    owner = "" if unit.kind is UnitKind.EXAMPLE else "the data of "
    return f"{owner}any {unit}" if unit.group_size > 1 else f"{owner}any one {unit}"


def _plain(guarantee: Guarantee) -> Html:
    return tag("div", *(tag("p", sentence) for sentence in _sentences(guarantee)), class_="lead")


def _sentences(guarantee: Guarantee) -> Iterator[str]:
    subject = protected(guarantee)
    at_stake = _AT_STAKE[guarantee.relation]
    if guarantee.epsilon == math.inf:
        yield "No finite bound on the model's privacy loss is known. Treat it as not private."
        return
    if guarantee.bound is Bound.LOWER:
        yield (
            f"This is about {subject}: {at_stake}. The figure below is a lower bound on the privacy loss. It "
            f"guarantees nothing to the people in the data: treat the model as not private."
        )
        return
    if guarantee.bound is Bound.ESTIMATE:
        yield "The following would hold if the estimate below were exact. It is not a proof."
    belief = numbers.at_most(guarantee.posterior(0.5))
    exposed = numbers.at_most(guarantee.max_tpr(_FALSE_ALARMS))
    # Delta is not the probability that the bound on the odds fails, so the sentence must not say so.
    slack = f" (leaving delta = {numbers.delta(guarantee.delta)} aside)" if guarantee.delta > 0 else ""
    yield f"This model reveals only a limited amount about {subject}: {at_stake}."
    yield (
        f"Someone who gives each possibility a probability of 50 % beforehand can become at most {belief} certain"
        f"{_odds(guarantee)} by studying the model, whatever else they know{slack}. An attacker who tries to identify "
        f"{_WANTED[guarantee.unit.kind]}, with a false positive rate of 1 %, can find at most {exposed} of them."
    )
    yield (
        "The model still reveals what is true of people in general, including people whose data were not used."
        + f" {verdict(guarantee.epsilon)}".rstrip()
    )


def _odds(guarantee: Guarantee) -> str:
    # Beyond a million to one, the odds add nothing to the percentage.
    return f" (odds of {numbers.epsilon(math.exp(guarantee.epsilon))} to 1)" if guarantee.epsilon < 14 else ""


def shown_epsilon(guarantee: Guarantee) -> str:
    """Format the guarantee's epsilon. A lower bound is rounded down, so that it claims no more than was proven."""
    if guarantee.bound is Bound.LOWER:
        return numbers.at_least(guarantee.epsilon)
    return numbers.epsilon(guarantee.epsilon)


def _figures(guarantee: Guarantee) -> Html:
    pairs = [
        ("Epsilon", shown_epsilon(guarantee)),
        ("Delta", numbers.delta(guarantee.delta)),
        ("Privacy unit", str(guarantee.unit)),
        ("Neighbouring datasets", guarantee.relation.value),
        ("Type of claim", _SIDES[guarantee.bound]),
        ("Proven by", guarantee.method),
    ]
    return join(
        [tag("h3", "In numbers"), facts("The guarantee", pairs), folded("The guarantee in full", _full(guarantee))]
    )


def _full(guarantee: Guarantee) -> Html:
    """Turn the explanation into paragraphs and lists, without the assumptions, which are shown separately."""
    text = replace(guarantee, assumptions=()).explain()
    lines: list[tuple[bool, str]] = []  # whether it is a bullet, and its words
    for line in text.splitlines()[1:]:  # the first line repeats the table
        is_new = line.startswith("  - ") or not lines or (lines[-1][0] and not line.startswith("    "))
        if is_new and line:
            lines.append((line.startswith("  - "), line.removeprefix("  - ")))
        elif line:
            lines[-1] = (lines[-1][0], f"{lines[-1][1]} {line.strip()}")
    groups = ((bullet, [words for _, words in group]) for bullet, group in groupby(lines, key=itemgetter(0)))
    return join(bullets(words) if bullet else tag("p", " ".join(words)) for bullet, words in groups)


def _assumptions(guarantee: Guarantee) -> Html:
    if not guarantee.assumptions:
        return join([tag("h3", "Assumptions"), tag("p", "None.")])
    intro = tag("p", "The guarantee assumes:")
    return join([tag("h3", "Assumptions"), intro, bullets(guarantee.assumptions)])
