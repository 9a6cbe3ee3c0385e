"""Events that tell two inputs apart, their counts on fresh outputs, and the bound they give together.

An event is a set of outputs, written as a threshold on a score (`scores.py`). `best_events` finds promising thresholds
on search outputs; `EventCounts` counts how often the events occur in fresh outputs and bounds epsilon.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.audit.bounds.counts import Side, clopper_pearson, epsilon_at
from hush.audit.testers.attack import AttackEvidence
from hush.audit.testers.outputs import Rows
from hush.audit.testers.scores import OutputScore, Scores

# Quantile levels of the scores that are tried as thresholds: even ones, and powers of two into both tails.
_LEVELS = np.unique(np.concatenate([np.linspace(0, 1, 65), 2.0 ** -np.arange(1, 24), 1 - 2.0 ** -np.arange(1, 24)]))
_RANKING_ERROR = 1e-3  # the error at which events are ranked before their number is known; it hardly matters


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSet:
    """An event: all outputs whose score is on one side of a threshold.

    Attributes:
        score: The function of an output.
        name: The name of the score.
        threshold: The threshold.
        above: Whether the set holds the larger scores, or the smaller ones.
        swapped: Whether the event is more probable on the second input.
        promise: The bound that it would have had on the search outputs.
        tie: The probability with which an output exactly at the threshold counts as inside.
    """

    score: OutputScore
    name: str
    threshold: float
    above: bool
    swapped: bool
    promise: float
    tie: float = 1.0

    def hits(self, scores: Scores, coins: np.random.Generator) -> int:
        """Count the scores that are inside the set."""
        if self.tie == 1:
            return int(np.count_nonzero(scores >= self.threshold if self.above else scores <= self.threshold))
        # A coin of its own for each output at the threshold makes the event one of a larger probability space, in which
        # the runs stay independent.
        inside = np.count_nonzero(scores > self.threshold if self.above else scores < self.threshold)
        ties = int(np.count_nonzero(scores == self.threshold)) if self.tie else 0
        return int(inside) + int(coins.binomial(ties, self.tie))

    def __str__(self) -> str:
        sign = ">" if self.above else "<"
        ties = {1.0: "=", 0.0: ""}.get(self.tie, f" (= with probability {self.tie:.3g})")
        side = "second" if self.swapped else "first"
        return f"{self.name} {sign}{ties} {self.threshold:.6g}, {side} input"


class EventCounts:
    """Counts several events on fresh outputs. They share the error probability, so the best one may be reported."""

    def __init__(self, events: Sequence[OutputSet], delta: float, coins: np.random.Generator) -> None:
        """Start with no outputs."""
        self._events, self._delta, self._coins = tuple(events), delta, coins
        self._hits = np.zeros((2, len(self._events)), dtype=np.int64)
        self._samples = 0

    @property
    def promise(self) -> float:
        """The bound of the best event on the search outputs."""
        return max((event.promise for event in self._events), default=0.0)

    def observe(self, first: Rows, second: Rows) -> None:
        """Count a block of fresh outputs."""
        self._samples += len(first)
        for score in {event.score: None for event in self._events}:  # events that share a score evaluate it once
            scores = score(first), score(second)
            for index, event in enumerate(self._events):
                if event.score == score:
                    for row, values in enumerate(scores[::-1] if event.swapped else scores):
                        self._hits[row, index] += event.hits(values, self._coins)

    def conclude(self, error: float) -> AttackEvidence:
        """Return the largest bound. The error is divided by the number of events."""
        if not self._events:
            return AttackEvidence(epsilon=0.0, epsilon_lower=0.0, details={"event": "none", "num_events": 0})
        # The union bound over events lets the best one be reported.
        bounds = epsilon_bounds(self._hits[0], self._hits[1], self._samples, self._delta, error / len(self._events))
        best = int(np.argmax(bounds))
        hits, other_hits = (int(count) for count in self._hits[:, best])
        return AttackEvidence(
            epsilon=float(epsilon_at(hits / self._samples, other_hits / self._samples, self._delta)),
            epsilon_lower=float(bounds[best]),
            details={
                "event": str(self._events[best]),
                "hits": hits,
                "other_hits": other_hits,
                "num_events": len(self._events),
            },
        )


def epsilon_bounds(hits: Any, other_hits: Any, samples: int, delta: float, error: float) -> NDArray[np.float64]:
    """Return the epsilon that the counts of an event, or of its complement, prove. Takes one event or many.

    Half of the error goes to each of the two counts (Clopper & Pearson 1934).
    """
    # P(S | first) <= e^epsilon P(S | second) + delta; both probabilities are bounded at once, by the union bound.
    lower = clopper_pearson(hits, samples, error / 2, Side.LOWER)
    other_upper = clopper_pearson(other_hits, samples, error / 2, Side.UPPER)
    return epsilon_at(lower, other_upper, delta)


def best_events(name: str, score: OutputScore, first: Rows, second: Rows, delta: float) -> Iterator[OutputSet]:
    """Yield the best threshold of a score for each side and direction."""
    scores = [values[~np.isnan(values)] for values in (score(first), score(second))]
    for values in scores:
        values.sort()
    # The best event of a likelihood ratio is a threshold (Neyman & Pearson 1933); a score stands in for the ratio.
    thresholds = [values[(_LEVELS * (len(values) - 1)).astype(int)] for values in scores if len(values)]
    if not thresholds:
        return
    candidates = np.unique(np.concatenate(thresholds))
    # NaN scores were dropped from the sorted arrays but stay in the denominator: they are in no event.
    for above in (True, False):
        below = [np.searchsorted(values, candidates, side="left" if above else "right") for values in scores]
        hits = [len(values) - count if above else count for values, count in zip(scores, below, strict=True)]
        for swapped in (False, True):
            ordered = hits[::-1] if swapped else hits
            promises = epsilon_bounds(ordered[0], ordered[1], len(first), delta, _RANKING_ERROR)
            best = int(np.argmax(promises))
            yield OutputSet(
                score=score,
                name=name,
                threshold=float(candidates[best]),
                above=above,
                swapped=swapped,
                promise=float(promises[best]),
            )


def promise_of(hits: float, other_hits: float, samples: int, delta: float) -> float:
    """Return the bound that an event with these search counts would have, to compare it with others."""
    # Rounded, because a promise ranks events and may be off by a count.
    return float(epsilon_bounds(round(hits), round(other_hits), samples, delta, _RANKING_ERROR))
