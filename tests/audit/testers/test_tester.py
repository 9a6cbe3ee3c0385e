"""`audit_mechanism`: fresh outputs, the error shared between trials, what results carry, and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from audit.testers.known_mechanisms import CONFIDENCE, laplace
from audit.testers.test_attack import too_many
from hush.audit.testers import Batched, EventSearch, audit_mechanism
from hush.audit.testers.outputs import NeighbourPair
from hush.errors import InvalidArgument
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource, TestSource


def test_outputs_that_are_used_twice_are_noticed() -> None:
    # The broken twin certifies its events on the outputs that it chose them by. 80 % are misses; 59 % are too many.
    misses, error = 0, 0.4
    for number in range(200):
        pair = NeighbourPair(mechanism=laplace(1.0), first=0.0, second=1.0, source=TestSource(number))
        first, second = pair.draw(400)
        certifier = EventSearch(num_events=1).learn(first, second, 0.0, np.random.default_rng(number))
        certifier.observe(first, second)
        misses += certifier.conclude(error).epsilon_lower > 1.0
    assert too_many(misses, 200, error)


def test_outputs_may_be_wider_than_those_of_the_search() -> None:
    # The longest output is rare, and may first be seen when events are certified.
    def output(bit: int, source: RandomSource) -> list[float]:
        return [float(bit)] * (1 + (source.word() % 400 == 0))

    for seed in range(5):
        result = audit_mechanism(output, 0, 1, samples=300, search_samples=50, source=TestSource(seed))
        assert result.epsilon_lower > 3


def test_results_say_what_was_done() -> None:
    settings: dict[str, Any] = {"confidence": CONFIDENCE, "unit": Unit.user(), "relation": Relation.REPLACE}
    result = audit_mechanism(laplace(1.0), 0.0, 1.0, samples=1_000, source=TestSource(1), **settings)
    assert (result.unit, result.relation) == (Unit.user(), Relation.REPLACE)
    assert "test randomness" in result.guarantee.assumptions
    assert result.details["search_samples"] == 1_000
    assert result.compare(1.0).verdict.value == "consistent"


def test_trials_share_the_error() -> None:
    bounds = [
        audit_mechanism(laplace(1.0), 0.0, 1.0, samples=2_000, num_trials=trials, source=TestSource(1)).epsilon_lower
        for trials in (1, 100)
    ]
    assert bounds[1] < bounds[0]


def test_invalid_arguments_are_refused() -> None:
    for settings in ({"samples": 0}, {"samples": 10, "delta": math.nan}, {"samples": 10, "confidence": 1.0}):
        with pytest.raises(InvalidArgument):
            audit_mechanism(laplace(1.0), 0.0, 1.0, **settings)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="^source="):
        audit_mechanism(laplace(1.0), 0.0, 1.0, samples=10, source=np.random.default_rng(1))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="^draw="):
        audit_mechanism(Batched(lambda data, source, count: np.zeros(3)), 0, 1, samples=10)
