"""Attacks with a classifier: the outputs that it is surest about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hush.audit.testers.events import EventCounts, OutputSet, promise_of
from hush.audit.testers.outputs import Rows
from hush.audit.testers.scores import Bins, Classifier, Score, Scores, log_odds
from hush.errors import check_epsilon, check_probability


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierAttack:
    """Learn which input an output is from; take the likeliest outputs, of a given probability on the other input.

    Guarantee:
        What it leads to is a lower bound at the stated confidence: threshold and ties are fixed before fresh outputs
        are drawn, and the two directions share the error.

    Assumes:
        Runs are independent and the two inputs are neighbours: the caller's duty.

    References:
        Bichsel et al. (2021), DP-Sniper: the attack with a threshold and a tie probability. Both bounds are
        Clopper & Pearson's (1934).

    Attributes:
        probability: Of the event on the less likely input. Smaller ones show more and need more samples.
        classifier: Anything like scikit-learn's classifiers; by default a logistic regression.
    """

    probability: float = 0.01
    classifier: Classifier | None = None

    def __post_init__(self) -> None:
        check_probability("probability", self.probability)

    @property
    def title(self) -> str:
        """The method, in a few words."""
        return "classifier attack"

    @property
    def rule(self) -> str:
        """How the threshold is chosen."""
        return f"event of probability {self.probability:g}, chosen on other outputs, Bonferroni over directions"

    def learn(self, first: Rows, second: Rows, delta: float, coins: np.random.Generator) -> EventCounts:
        """Return the event of each direction."""
        score = log_odds(first, second, classifier=self.classifier)
        scores = score(first), score(second)
        events = [self._event(score, scores, swapped, delta) for swapped in (False, True)]
        return EventCounts(events, delta, coins)

    def _event(self, score: Score, scores: tuple[Scores, Scores], swapped: bool, delta: float) -> OutputSet:
        likely, other = scores[::-1] if swapped else scores
        sign = -1.0 if swapped else 1.0  # of scores that speak for the likelier input
        threshold = float(np.quantile(sign * other, 1 - self.probability, method="inverted_cdf"))
        inside, ties = (
            [float(np.mean(compare(sign * values, threshold))) for values in (likely, other)]
            for compare in (np.greater, np.equal)
        )
        tie = min(max((self.probability - inside[1]) / ties[1], 0.0), 1.0) if ties[1] else 1.0
        hits = [(more + tie * same) * len(other) for more, same in zip(inside, ties, strict=True)]
        return OutputSet(
            score=score,
            name="log-odds of the classifier",
            threshold=sign * threshold,
            above=not swapped,
            swapped=swapped,
            promise=promise_of(hits[0], hits[1], len(other), delta),
            tie=tie,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HockeyStick:
    """Take outputs whose log-ratio exceeds a claimed epsilon: those that the hockey-stick divergence is summed over.

    The log-ratio is that of histograms, of the output or of a classifier's log-odds where it has several columns.

    Guarantee:
        As for `ClassifierAttack`. The bound exceeds ``epsilon`` just if P_low - e^epsilon Q_high > delta, a lower
        bound on the divergence at ``epsilon``.

    Assumes:
        Runs are independent and the two inputs are neighbours: the caller's duty.

    References:
        Kong et al. (2024), DP-Auditorium: the hockey-stick tester. Theirs bounds a classifier's accuracy by
        Hoeffding's inequality, in one direction; here the two rates are bounded exactly, in both.

    Attributes:
        epsilon: The claim to be tested.
        classifier: Anything like scikit-learn's classifiers; by default the output itself, or a
            logistic regression with products where it has several columns.
    """

    epsilon: float
    classifier: Classifier | None = None

    def __post_init__(self) -> None:
        check_epsilon("epsilon", self.epsilon)

    @property
    def title(self) -> str:
        """The method, in a few words."""
        return "hockey-stick test"

    @property
    def rule(self) -> str:
        """How the threshold is chosen."""
        return f"log-ratio above {self.epsilon:g}, Bonferroni over directions"

    def learn(self, first: Rows, second: Rows, delta: float, coins: np.random.Generator) -> EventCounts:
        """Return the event of each direction."""
        score = Bins.learned(first, second, classifier=self.classifier).ratio
        scores = score(first), score(second)
        events = [self._event(score, scores, swapped, delta) for swapped in (False, True)]
        return EventCounts(events, delta, coins)

    def _event(self, score: Score, scores: tuple[Scores, Scores], swapped: bool, delta: float) -> OutputSet:
        ordered = [-values for values in reversed(scores)] if swapped else list(scores)
        threshold = max(self._thresholds(ordered), key=lambda each: _promise(ordered, each, delta))
        return OutputSet(
            score=score,
            name="log-ratio of bins",
            threshold=-threshold if swapped else threshold,
            above=not swapped,
            swapped=swapped,
            promise=_promise(ordered, threshold, delta),
        )

    def _thresholds(self, ordered: list[Scores]) -> list[float]:
        """Return the claim, and where the likeliest outputs are below it, the top half per cent of the others.

        The other input's outputs may be one atom, which would take in everything: so the next value above it, too.
        """
        top = min(self.epsilon, float(np.quantile(ordered[1], 0.995, method="inverted_cdf")))
        both = np.concatenate(ordered)
        return [self.epsilon, top, float(np.min(both, where=both > top, initial=np.inf))]


def _promise(ordered: list[Scores], threshold: float, delta: float) -> float:
    hits = [int(np.count_nonzero(values >= threshold)) for values in ordered]
    return promise_of(hits[0], hits[1], len(ordered[0]), delta)
