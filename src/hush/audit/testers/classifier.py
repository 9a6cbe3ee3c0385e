"""Attacks that train a classifier. Their event is the set of outputs that it is most certain about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hush.audit.testers.events import EventCounts, OutputSet, promise_of
from hush.audit.testers.outputs import Rows
from hush.audit.testers.scores import Bins, Classifier, OutputScore, Scores, log_odds
from hush.errors import check_epsilon, check_probability


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierAttack:
    """Learn which input an output comes from. The event holds the outputs with the highest log-odds.

    The threshold on the log-odds is set so that the event has a given probability on the other input. Ties at the
    threshold are broken at random, so that this probability is met exactly.

    >>> from hush.audit.testers import Batched, audit_mechanism
    >>> from hush.randomness import TestSource
    >>> def noisy(data, source, count):
    ...     return data + np.random.default_rng(source.words(4)).laplace(size=count)
    >>> settings = {"samples": 20_000, "attack": ClassifierAttack(probability=0.1), "source": TestSource(1)}
    >>> 0.8 < audit_mechanism(Batched(noisy), 0.0, 1.0, **settings).epsilon_lower <= 1.0
    True

    Guarantee:
        A lower bound on epsilon at the stated confidence. Threshold and tie probability are fixed before the fresh
        outputs are drawn, and the two directions share the error.

    Assumes:
        Independent runs on neighbouring inputs (the caller's duty).

    References:
        Bichsel et al. (2021), DP-Sniper: the attack with a threshold and a tie probability. Both bounds are those of
        Clopper & Pearson (1934).

    Attributes:
        probability: The probability of the event on the less likely input. Smaller ones can show more, and need more
            samples.
        classifier: A classifier with scikit-learn's interface; by default a logistic regression.
    """

    probability: float = 0.01
    classifier: Classifier | None = None

    def __post_init__(self) -> None:
        check_probability("probability", self.probability)

    @property
    def title(self) -> str:
        """The method in a few words."""
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

    def _event(self, score: OutputScore, scores: tuple[Scores, Scores], swapped: bool, delta: float) -> OutputSet:
        likely, other = scores[::-1] if swapped else scores
        sign = -1.0 if swapped else 1.0  # makes larger scores point to the likelier input
        # Of all events of this probability on the other input, the likeliest on this one: a threshold on the ratio,
        # with a coin for ties (Neyman & Pearson 1933).
        threshold = float(np.quantile(sign * other, 1 - self.probability, method="inverted_cdf"))
        above, equal = (
            [float(np.mean(compare(sign * values, threshold))) for values in (likely, other)]
            for compare in (np.greater, np.equal)
        )
        # Solve P(above) + tie P(equal) = probability on the other input.
        tie = min(max((self.probability - above[1]) / equal[1], 0.0), 1.0) if equal[1] else 1.0
        # Expected counts: coins decide ties only when fresh outputs are counted.
        hits = [(more + tie * same) * len(other) for more, same in zip(above, equal, strict=True)]
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
    """Test a claimed epsilon: the event holds the outputs whose log-likelihood ratio exceeds it.

    The hockey-stick divergence at epsilon is a sum over exactly these outputs. The ratio is that of two histograms: of
    the output, or of a classifier's log-odds if the output has several columns.

    >>> from hush.audit.testers import Batched, audit_mechanism
    >>> from hush.randomness import TestSource
    >>> def noisy(data, source, count):
    ...     return data + np.random.default_rng(source.words(4)).laplace(size=count)
    >>> settings = {"samples": 20_000, "attack": HockeyStick(epsilon=0.5), "source": TestSource(1)}
    >>> audit_mechanism(Batched(noisy), 0.0, 1.0, **settings).compare(0.5).verdict.value
    'violated'

    Guarantee:
        The same as for `ClassifierAttack`. The bound exceeds ``epsilon`` exactly if P_low - e^epsilon Q_high > delta,
        where P_low and Q_high bound the event's probabilities on the two inputs.

    Assumes:
        Independent runs on neighbouring inputs (the caller's duty).

    References:
        Kong et al. (2024), DP-Auditorium: the hockey-stick tester. Theirs bounds a classifier's accuracy by
        Hoeffding's inequality, in one direction. Here the two rates are bounded exactly, in both directions.

    Attributes:
        epsilon: The claim to test.
        classifier: A classifier with scikit-learn's interface. By default the output itself is used, or a logistic
            regression with products if the output has several columns.
    """

    epsilon: float
    classifier: Classifier | None = None

    def __post_init__(self) -> None:
        check_epsilon("epsilon", self.epsilon)

    @property
    def title(self) -> str:
        """The method in a few words."""
        return "hockey-stick test"

    @property
    def rule(self) -> str:
        """How the threshold is chosen."""
        return f"log-ratio above {self.epsilon:g}, Bonferroni over directions"

    def learn(self, first: Rows, second: Rows, delta: float, coins: np.random.Generator) -> EventCounts:
        """Return the event of each direction."""
        # E(epsilon) = P(S) - e^epsilon Q(S) is largest for S = {ln p / q > epsilon}, which is the event below.
        score = Bins.learned(first, second, classifier=self.classifier).ratio
        scores = score(first), score(second)
        events = [self._event(score, scores, swapped, delta) for swapped in (False, True)]
        return EventCounts(events, delta, coins)

    def _event(self, score: OutputScore, scores: tuple[Scores, Scores], swapped: bool, delta: float) -> OutputSet:
        # Swapping the inputs turns ln p / q into ln q / p, its negative.
        ordered = [-values for values in reversed(scores)] if swapped else list(scores)
        threshold = max(self._thresholds(ordered), key=lambda candidate: _promise(ordered, candidate, delta))
        return OutputSet(
            score=score,
            name="log-ratio of bins",
            threshold=-threshold if swapped else threshold,
            above=not swapped,
            swapped=swapped,
            promise=_promise(ordered, threshold, delta),
        )

    def _thresholds(self, ordered: list[Scores]) -> list[float]:
        """Return three candidates: the claim itself, a lower threshold, and the next value above that one.

        The lower threshold is the top half per cent of the other input's scores, in case all ratios are below the
        claim. Those scores may be a single atom, which would include every output; hence the next value, too.
        """
        top = min(self.epsilon, float(np.quantile(ordered[1], 0.995, method="inverted_cdf")))
        pooled = np.concatenate(ordered)
        return [self.epsilon, top, float(np.min(pooled, where=pooled > top, initial=np.inf))]


def _promise(ordered: list[Scores], threshold: float, delta: float) -> float:
    hits = [int(np.count_nonzero(values >= threshold)) for values in ordered]
    return promise_of(hits[0], hits[1], len(ordered[0]), delta)
