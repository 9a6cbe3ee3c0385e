"""The event search: the most promising events of each direction, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from hush.audit.testers import EventSearch
from hush.audit.testers.events import best_events
from hush.audit.testers.scores import all_scores
from hush.errors import InvalidArgument


def test_the_most_promising_events_are_certified() -> None:
    rng = np.random.default_rng(4)
    first, second = rng.laplace(1.0, 1.0, (2000, 1)), rng.laplace(0.0, 1.0, (2000, 1))
    promises = [
        event.promise
        for name, score in all_scores(first, second)
        for event in best_events(name, score, first, second, 0.0)
    ]
    learned = EventSearch(num_events=3).learn(first, second, 0.0, rng)
    learned.observe(first, second)
    assert learned.promise == max(promises)
    assert learned.conclude(0.05).details["num_events"] == 6  # three in each direction


def test_a_search_without_events_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="^num_events="):
        EventSearch(num_events=0)
