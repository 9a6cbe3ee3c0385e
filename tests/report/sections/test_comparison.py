"""An epsilon beside published ones."""

from __future__ import annotations

import math

import pytest

from hush.guarantee import Bound
from hush.report import render
from hush.report.sections.comparison import DEPLOYMENTS, comparison
from hush.report.sections.promise import read_guarantee
from report import records
from report.pages import check


@pytest.mark.parametrize(
    ("epsilon", "word"), [(0.0, "strong"), (1.0, "strong"), (3.0, "moderate"), (6.0, "weak"), (30.0, "very weak")]
)
def test_the_page_says_how_strong_an_epsilon_is(epsilon: float, word: str) -> None:
    text = check(render({"guarantee": records.guarantee(epsilon)})).text
    assert f"is {word}." in " ".join(text.split()).replace(" .", ".")
    assert "Abowd et al. 2022" in text


def test_deployments_and_the_run_stand_in_order_of_epsilon() -> None:
    section = comparison(read_guarantee({"guarantee": records.guarantee(3.0)}))
    assert section is not None
    places = [section.body.index(item.name) for item in DEPLOYMENTS]
    assert places == sorted(places)
    assert places[1] < section.body.index("This run") < places[2]


def test_only_promises_are_compared() -> None:
    for epsilon, bound in ((math.inf, Bound.UPPER), (2.0, Bound.LOWER)):
        assert comparison(read_guarantee({"guarantee": records.guarantee(epsilon, bound=bound)})) is None
    assert comparison(None) is None


def test_beliefs_are_rounded_up() -> None:
    """Odds of 1 to 9, times e: 23.2 %; rounded down, the sentence would promise too much."""
    section = comparison(read_guarantee({"guarantee": records.guarantee(1.0)}))
    assert section is not None
    prior = 0.1 * math.e / (0.1 * math.e + 0.9)
    assert 0.2319 < prior < 0.232
    assert "23.2" in section.body
