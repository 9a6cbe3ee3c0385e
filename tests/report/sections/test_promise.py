"""The guarantee in words and numbers."""

from __future__ import annotations

import json
import math

import pytest

from hush.guarantee import Bound, Relation
from hush.report import render
from report import records
from report.pages import check


def test_a_guarantee_is_read_from_a_mapping_and_from_json() -> None:
    stored = records.guarantee()
    assert render({"guarantee": stored}) == render({"guarantee": json.dumps(stored)})


GUARANTEES = [
    (epsilon, bound, relation)
    for epsilon in (0.0, 0.3, 2.9996, 7.0, 11.0, 40.0, 800.0, math.inf)
    for bound in Bound
    for relation in Relation
    if epsilon < math.inf or bound is not Bound.LOWER  # no attack proves an infinite lower bound
]


@pytest.mark.parametrize(("epsilon", "bound", "relation"), GUARANTEES)
def test_every_guarantee_is_explained(epsilon: float, bound: Bound, relation: Relation) -> None:
    text = check(render({"guarantee": records.guarantee(epsilon, bound=bound, relation=relation)})).text
    promises = bound is not Bound.LOWER and epsilon < math.inf
    assert ("can become at most" in text) == promises
    assert ("as not private" in text) != promises
    assert ("An epsilon above 5 is a weak guarantee" in text) == (promises and 5 < epsilon <= 10)
    assert ("not a proof" in text) == (bound is Bound.ESTIMATE and promises)


def test_delta_is_not_called_a_probability_of_failure() -> None:
    """(epsilon, delta) privacy is weaker than epsilon with probability 1 - delta."""
    text = check(render({"guarantee": records.guarantee(1.0)})).text
    assert "leaving delta" in text
    assert "except with probability" not in text
