"""The default attack: try many events and certify the most promising ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hush.audit.testers.events import EventCounts, OutputSet, best_events
from hush.audit.testers.outputs import Rows
from hush.audit.testers.scores import all_scores
from hush.errors import check_count


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSearch:
    """Try thresholds on values, columns, bins, pairs of columns and a logistic regression.

    >>> from hush.audit.testers import audit_mechanism
    >>> from hush.randomness import TestSource
    >>> result = audit_mechanism(
    ...     lambda data, source: data, 0.0, 1.0, samples=500, attack=EventSearch(num_events=2), source=TestSource(1)
    ... )
    >>> result.method, result.details["num_events"]
    ('event search', 4)

    Guarantee:
        A lower bound on epsilon at the stated confidence. Events are certified on fresh outputs by Clopper-Pearson
        bounds, and all events of both directions share the error probability.

    Assumes:
        Independent runs on neighbouring inputs (the caller's duty).

    References:
        Ding et al. (2018), Detecting Violations of Differential Privacy: the search on separate data. Exact bounds
        replace their p-values of thinned counts, so you need not guess a claim beforehand.

    Attributes:
        num_events: How many events are certified in each direction.
    """

    num_events: int = 4

    def __post_init__(self) -> None:
        check_count("num_events", self.num_events)

    @property
    def title(self) -> str:
        """The method in a few words."""
        return "event search"

    @property
    def rule(self) -> str:
        """How the threshold is chosen."""
        return "chosen on other outputs, Bonferroni over events and directions"

    def learn(self, first: Rows, second: Rows, delta: float, coins: np.random.Generator) -> EventCounts:
        """Return the most promising events of both directions."""
        candidates = [
            event
            for name, score in all_scores(first, second)
            for event in best_events(name, score, first, second, delta)
        ]
        # A few events: the best on search outputs need not be the best on fresh ones. They share the error.
        selected: list[OutputSet] = []
        for swapped in (False, True):
            direction = [event for event in candidates if event.swapped is swapped]
            selected += sorted(direction, key=lambda event: -event.promise)[: self.num_events]
        return EventCounts(selected, delta, coins)
