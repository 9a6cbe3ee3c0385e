"""The attack that looks for one event by trying many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hush.audit.testers.events import EventCounts, OutputSet, best_events
from hush.audit.testers.outputs import Rows
from hush.audit.testers.scores import all_scores
from hush.errors import check_count


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSearch:
    """Try values, columns, bins, pairs of columns and a logistic regression; keep the most promising events.

    Guarantee:
        What it leads to is a lower bound at the stated confidence: events are certified on fresh outputs, with
        Clopper-Pearson bounds that share the error between all events of both directions.

    Assumes:
        Runs are independent and the two inputs are neighbours: the caller's duty.

    References:
        Ding et al. (2018), Detecting Violations of Differential Privacy: the search on split data. Their p-values of
        thinned counts are replaced by exact bounds, so that no claim has to be guessed beforehand.

    Attributes:
        num_events: How many events are certified in each direction.
    """

    num_events: int = 4

    def __post_init__(self) -> None:
        check_count("num_events", self.num_events)

    @property
    def title(self) -> str:
        """The method, in a few words."""
        return "event search"

    @property
    def rule(self) -> str:
        """How the threshold is chosen."""
        return "chosen on other outputs, Bonferroni over events and directions"

    def learn(self, first: Rows, second: Rows, delta: float, coins: np.random.Generator) -> EventCounts:
        """Return the most promising events of both directions."""
        found = [
            event
            for name, score in all_scores(first, second)
            for event in best_events(name, score, first, second, delta)
        ]
        kept: list[OutputSet] = []
        for swapped in (False, True):
            direction = [event for event in found if event.swapped is swapped]
            kept += sorted(direction, key=lambda event: -event.promise)[: self.num_events]
        return EventCounts(kept, delta, coins)
