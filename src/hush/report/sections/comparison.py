"""Whether an epsilon is strong or weak: beside published deployments, and in the reader's own terms."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hush.guarantee import Bound, Guarantee
from hush.report.drawing import numbers as numbers
from hush.report.drawing.markup import Html, bullets, figure, join, table, tag
from hush.report.drawing.svg import Row, bars
from hush.report.sections.promise import protected, shown_epsilon
from hush.report.sections.section import Section

_LARGEST_DRAWN = 40.0  # beside a larger epsilon, all others would be slivers
_PRIORS = (0.01, 0.1)
# The largest epsilon of each level, and what to say. `hush.guarantee.verdict` warns above 5 and above 10.
_LEVELS = (
    (1.0, "strong", "It is what researchers mean by strong: little can be learnt about anyone, in the worst case."),
    (5.0, "moderate", "It is within what careful deployments use, and limits an attacker noticeably."),
    (10.0, "weak", "It is as large as some deployments, but the worst case that it allows is far from harmless."),
    (math.inf, "very weak", "Some releases have as much, but in the worst case it hardly limits an attacker."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A published release: its epsilon, what it protects, and who says so."""

    name: str
    epsilon: float
    delta: float
    protects: str
    source: str


# The figures are those of the owners of the data. Local releases protect each report on its device, from everybody.
DEPLOYMENTS = (
    Deployment(
        name="Microsoft, Windows telemetry",
        epsilon=1.672,
        delta=0.0,
        protects="a user's reports in 6 hours (local)",
        source="Ding, Kulkarni & Yekhanin 2017, Collecting telemetry data privately (NeurIPS)",
    ),
    Deployment(
        name="Google, Community Mobility Reports",
        epsilon=2.64,
        delta=0.0,
        protects="a user's day",
        source="Aktay et al. 2020, Google COVID-19 Community Mobility Reports: anonymization process (arXiv)",
    ),
    Deployment(
        name="Apple, emoji suggestions",
        epsilon=4.0,
        delta=0.0,
        protects="a user's day (local)",
        source="Apple 2017, Differential privacy overview",
    ),
    Deployment(
        name="Apple, new words in QuickType",
        epsilon=16.0,
        delta=0.0,
        protects="a user's day (local)",
        source="Apple 2017, Differential privacy overview",
    ),
    Deployment(
        name="US census 2020, redistricting data on persons",
        epsilon=17.14,
        delta=1e-10,
        protects="a person",
        source="Abowd et al. 2022, The 2020 Census Disclosure Avoidance System TopDown Algorithm (HDSR)",
    ),
)


def comparison(guarantee: Guarantee | None) -> Section | None:
    """Return the section; None if there is no finite promise to compare."""
    if guarantee is None or guarantee.bound is Bound.LOWER or guarantee.epsilon == math.inf:
        return None
    body = join([tag("p", *_level(guarantee)), _own_terms(guarantee), _plot(guarantee), _table(guarantee), _sources()])
    return Section(key="comparison", title="Is this epsilon strong or weak?", body=body)


def _level(guarantee: Guarantee) -> list[object]:
    word, sentence = next((word, sentence) for most, word, sentence in _LEVELS if guarantee.epsilon <= most)
    return ["An epsilon of ", shown_epsilon(guarantee), " is ", tag("strong", word), ". ", sentence]


def _own_terms(guarantee: Guarantee) -> Html:
    """Say what an observer with other beliefs than 50 % may come to believe."""
    aside = f", leaving delta = {numbers.delta(guarantee.delta)} aside" if guarantee.delta > 0 else ""
    intro = f"What somebody who studies the result may come to believe about {protected(guarantee)}, at most{aside}:"
    lines = [
        f"thought it {prior:.0%} likely beforehand: thinks it {numbers.at_most(guarantee.posterior(prior))} likely "
        "afterwards"
        for prior in _PRIORS
    ]
    return join([tag("p", intro), bullets(lines)])


def _rows(guarantee: Guarantee) -> list[tuple[str, float, float, str]]:
    """Return this run and the deployments, the smallest epsilon first."""
    this = ("This run", guarantee.epsilon, guarantee.delta, str(guarantee.unit))
    others = [(item.name, item.epsilon, item.delta, item.protects) for item in DEPLOYMENTS]
    return sorted([this, *others], key=lambda row: row[1])


def _plot(guarantee: Guarantee) -> Html | None:
    if guarantee.epsilon > _LARGEST_DRAWN:
        return None
    rows = [
        Row(
            label=f"{name}, per {protects}" if name == "This run" else f"{name}",
            value=epsilon,
            text=_text(epsilon, guarantee),
        )
        for name, epsilon, _, protects in _rows(guarantee)
    ]
    note = (
        "Not like for like: an epsilon per day grows with the days, a local one protects from the collector, too, and "
        "an epsilon per row is a weaker promise than the same number per person."
    )
    return figure(bars(rows, title="This epsilon beside published ones", description=note), note)


def _table(guarantee: Guarantee) -> Html:
    cells = [
        [name, _text(epsilon, guarantee), numbers.delta(delta), protects]
        for name, epsilon, delta, protects in _rows(guarantee)
    ]
    return table("Published deployments", ["Release", "Epsilon", "Delta", "Protects"], cells)


def _text(epsilon: float, guarantee: Guarantee) -> str:
    return shown_epsilon(guarantee) if epsilon == guarantee.epsilon else f"{epsilon:g}"


def _sources() -> Html:
    return tag("p", "Sources: ", "; ".join(dict.fromkeys(item.source for item in DEPLOYMENTS)), ".", class_="meta")
