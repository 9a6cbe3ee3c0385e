"""What was protected and how strongly: for a layman first, then in numbers, then what it stands on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from hush.guarantee import Bound, Guarantee, Relation, UnitKind
from hush.report.drawing import numbers as numbers
from hush.report.drawing.markup import Html, bullets, facts, folded, join, tag
from hush.report.sections.section import Section

# The rate of wrong accusations at which the best attack is described: one in a hundred.
_FALSE_ALARMS = 0.01

_TITLE = "What was protected, and how strongly"

_AT_STAKE = {
    Relation.ADD_OR_REMOVE: "whether it was used to make this model at all",
    Relation.REPLACE: "whether it, or something else in its place, was used to make this model",
    Relation.ZERO_OUT: "whether it was used to make this model, or blanked out",
}

_WANTED = {
    UnitKind.EXAMPLE: "the examples that were used",
    UnitKind.USER: "the users whose data were used",
    UnitKind.USER_WINDOW: "the users whose data were used in a given window of time",
}

_SIDES = {
    Bound.UPPER: "proven upper bound",
    Bound.LOWER: "lower bound: it proves leakage and promises nothing",
    Bound.ESTIMATE: "estimate: the true epsilon may be larger",
}


def read_guarantee(record: Mapping[str, Any]) -> Guarantee | None:
    """Rebuild the guarantee of a record, from a mapping or from JSON; what is damaged is refused."""
    stored = record.get("guarantee")
    if stored is None:
        return None
    return Guarantee.from_json(stored if isinstance(stored, str) else json.dumps(stored))


def promise(guarantee: Guarantee | None) -> Section:
    """Return the section about the guarantee; a run without one is said to promise nothing."""
    if guarantee is None:
        body = tag("p", "No guarantee was recorded. Treat everything that this run produced as not private.")
        return Section(key="promise", title=_TITLE, body=body)
    return Section(key="promise", title=_TITLE, body=join([_plain(guarantee), _figures(guarantee), _stands(guarantee)]))


def protected(guarantee: Guarantee) -> str:
    """Say what is protected, as the object of a sentence."""
    unit = guarantee.unit
    owner = "" if unit.kind is UnitKind.EXAMPLE else "the data of "
    return f"{owner}any {unit}" if unit.group_size > 1 else f"{owner}any one {unit}"


def _plain(guarantee: Guarantee) -> Html:
    return tag("div", *(tag("p", sentence) for sentence in _sentences(guarantee)), class_="lead")


def _sentences(guarantee: Guarantee) -> Iterator[str]:
    subject = protected(guarantee)
    at_stake = _AT_STAKE[guarantee.relation]
    if guarantee.epsilon == math.inf:
        yield "No finite limit is known on what the model gives away. Treat it as not private."
        return
    if guarantee.bound is Bound.LOWER:
        yield (
            f"At stake is {subject}: {at_stake}. The figure below says how much is given away at the least. It "
            f"promises nothing to the people in the data: treat the model as not private."
        )
        return
    if guarantee.bound is Bound.ESTIMATE:
        yield "What follows would hold if the estimate below were exact. It is not a proof."
    belief = numbers.at_most(guarantee.posterior(0.5))
    found = numbers.at_most(guarantee.max_tpr(_FALSE_ALARMS))
    slack = f" (a slack of {numbers.delta(guarantee.delta)}, delta, aside)" if guarantee.delta > 0 else ""
    yield f"There is a limit to what this model tells about {subject}: {at_stake}."
    yield (
        f"Anybody who thought beforehand that this is as likely as not can become at most {belief} sure"
        f"{_odds(guarantee)}, one way or the other, by studying the model, whatever else they know{slack}. An attacker "
        f"who tries to pick out {_WANTED[guarantee.unit.kind]}, and may be wrong about one in a hundred of the others, "
        f"can find at most {found} of them."
    )
    yield (
        "What is true of people in general can still be learned from the model, also about somebody who took no part."
        + _verdict(guarantee.epsilon)
    )


def _odds(guarantee: Guarantee) -> str:
    # Beyond a million to one the odds say no more than the percentage.
    return f" (odds of {numbers.epsilon(math.exp(guarantee.epsilon))} to 1)" if guarantee.epsilon < 14 else ""


def _verdict(epsilon: float) -> str:
    if epsilon > 10:
        return " An epsilon above 10 promises little: in the worst case it hardly limits an attacker at all."
    if epsilon > 5:
        return " An epsilon above 5 is a weak promise: the worst case that it allows is far from harmless."
    return ""


def shown_epsilon(guarantee: Guarantee) -> str:
    """Write the guarantee's epsilon; a lower bound is cut off rather than rounded up, which would claim too much."""
    if guarantee.bound is Bound.LOWER:
        return numbers.at_least(guarantee.epsilon)
    return numbers.epsilon(guarantee.epsilon)


def _figures(guarantee: Guarantee) -> Html:
    pairs = [
        ("Epsilon", shown_epsilon(guarantee)),
        ("Delta", numbers.delta(guarantee.delta)),
        ("Unit of protection", str(guarantee.unit)),
        ("Neighbouring data sets", guarantee.relation.value),
        ("Kind of claim", _SIDES[guarantee.bound]),
        ("Proven by", guarantee.method),
    ]
    return join(
        [tag("h3", "In numbers"), facts("The guarantee", pairs), folded("The limits in full", _full(guarantee))]
    )


def _full(guarantee: Guarantee) -> Html:
    """Turn the explanation's lines into paragraphs and lists; its assumptions have a place of their own."""
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


def _stands(guarantee: Guarantee) -> Html:
    if not guarantee.assumptions:
        return join([tag("h3", "Assumptions"), tag("p", "None was recorded.")])
    intro = tag("p", "The promise holds only if all of this is true. hush could not check it.")
    return join([tag("h3", "Assumptions"), intro, bullets(guarantee.assumptions)])
