"""Rules for choosing a threshold without invalidating the bound.

An attack gives scores, and a bound needs a test: "score >= threshold means member". If you choose the threshold by
looking at the scores, the usual confidence interval at that threshold is too optimistic. Each rule here is a valid
alternative: fix the threshold beforehand, correct for the search, or search on other scores. `method.apply_rule`
    applies the rules; the classes only hold their settings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hush.errors import InvalidArgument, check_count


class ThresholdRule:
    """Base class of the threshold rules that `hush.audit.audit_scores` takes.

    Every rule has a description, which appears in the result:

    >>> issubclass(Bonferroni, ThresholdRule), Bonferroni().description
    (True, 'best threshold, Bonferroni over counts')
    """

    description: str


@dataclass(frozen=True, slots=True)
class Explicit(ThresholdRule):
    """A threshold that you fixed before seeing the scores. Scores at or above it count as "member".

    No correction is made. It is your duty not to have looked at the scores.

    >>> from hush.audit import audit_scores
    >>> result = audit_scores([2.0] * 100, [0.0] * 100, threshold=Explicit(1.0))
    >>> result.details["tp"], result.details["fp"]
    (100, 0)

    Attributes:
        threshold: The threshold; it may be infinite.
    """

    threshold: float
    # One test, one confidence bound: nothing to correct for.
    description = "threshold fixed beforehand"

    def __post_init__(self) -> None:
        value: Any = self.threshold
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise InvalidArgument("threshold", value, "a number")


@dataclass(frozen=True, slots=True)
class Bonferroni(ThresholdRule):
    """The best of all thresholds, corrected for the search. This is the default.

    The correction divides the error probability over a fixed ladder of counts (`sample.ladder`: every small count, then
    steps that grow). A rate is monotone in the threshold, so the bound at one count holds for every threshold with a
    smaller count, and these few bounds hold for all thresholds at once. Dividing by the number of vertices of the ROC's
    convex hull, as is often done, is not valid: the scores themselves decide how many vertices there are.

    >>> from hush.audit import audit_scores
    >>> audit_scores([2.0] * 100, [0.0] * 100, threshold=Bonferroni()).epsilon_lower > 2
    True
    """

    # The union bound over a fixed ladder of m counts: each bound fails with probability a / m, so all hold at once.
    description = "best threshold, Bonferroni over counts"


@dataclass(frozen=True, slots=True)
class SplitScores(ThresholdRule):
    """Choose the best threshold on one part of the scores and compute the bound on the other part.

    >>> from hush.audit import audit_scores
    >>> result = audit_scores([2.0] * 100, [0.0] * 100, threshold=SplitScores(fraction=0.3))
    >>> result.num_in, result.num_out
    (70, 70)

    Attributes:
        fraction: The share of the scores used to choose the threshold.
        rng: The seed of the split. It need not be secret. If you try several seeds, count them in ``num_trials``.
    """

    fraction: float = 0.5
    rng: int = 0  # a seed, not a generator: a rule always does the same
    # The second part is independent of the choice, so the bound on it is that of a fixed threshold.
    description = "threshold chosen on a part, bound from the rest"

    def __post_init__(self) -> None:
        _check_fraction(self.fraction)
        check_count("rng", self.rng, minimum=0)


@dataclass(frozen=True, slots=True)
class MultiSplit(ThresholdRule):
    """Repeat `SplitScores` with many splits and report the median bound.

    Each split works at half the error probability a. If every split fails with probability at most a / 2, then at least
    half of them fail together with probability at most a, by Markov's inequality, however dependent they are
    (Meinshausen, Meier & Buehlmann 2009, Theorem 3.1 at the median). So the result does not depend on one lucky split.

    >>> from hush.audit import audit_scores
    >>> audit_scores([2.0] * 100, [0.0] * 100, threshold=MultiSplit(num_splits=5)).epsilon_lower > 1
    True

    Attributes:
        num_splits: The number of splits.
        fraction: The share of the scores used to choose each threshold.
        rng: The seed of the splits.
    """

    num_splits: int = 50
    fraction: float = 0.5
    rng: int = 0  # a seed, not a generator: a rule always does the same
    # P[at least half of the bounds fail] <= 2 E[share that fails] <= 2 a / 2, by Markov.
    description = "median over splits at half the error"

    def __post_init__(self) -> None:
        check_count("num_splits", self.num_splits)
        _check_fraction(self.fraction)
        check_count("rng", self.rng, minimum=0)


def _check_fraction(fraction: Any) -> None:
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction < 1:
        raise InvalidArgument("fraction", fraction, "a number in (0, 1)")
