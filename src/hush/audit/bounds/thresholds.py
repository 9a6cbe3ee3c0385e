"""How a threshold is chosen without spoiling the bound that it is chosen for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hush.errors import InvalidArgument, check_count


class ThresholdRule:
    """Base of the rules."""

    description: str


@dataclass(frozen=True, slots=True)
class Explicit(ThresholdRule):
    """A threshold that was fixed before the scores were seen: accused is who scores at least this.

    Nothing is paid for a choice. That no look at the scores led to it is the caller's duty.
    """

    threshold: float
    description = "threshold fixed beforehand"

    def __post_init__(self) -> None:
        value: Any = self.threshold
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise InvalidArgument("threshold", value, "a number")


@dataclass(frozen=True, slots=True)
class Bonferroni(ThresholdRule):
    """The best of all thresholds, with what may fail divided among them.

    Corrected are bounds at a fixed ladder of counts (0, 1, 2, ... and on in steps of a quarter, from both ends). A rate
    is monotone in the threshold, so a bound at one count holds for every threshold with fewer, and these few bounds
    hold for all thresholds at once. To divide by the vertices of the ROC's hull, as is often done, would not do: which
    thresholds are vertices, and how many, is what the scores decide.
    """

    description = "best threshold, Bonferroni over counts"


@dataclass(frozen=True, slots=True)
class SplitScores(ThresholdRule):
    """The best threshold of one part of the scores, used on the other part.

    Attributes:
        fraction: Of the scores, for the choice.
        seed: Of the split, which needs no secrecy. To try several is to make several trials.
    """

    fraction: float = 0.5
    seed: int = 0
    description = "threshold chosen on a part, bound from the rest"

    def __post_init__(self) -> None:
        _check_fraction(self.fraction)
        check_count("seed", self.seed, minimum=0)


@dataclass(frozen=True, slots=True)
class MultiSplit(ThresholdRule):
    """Many splits; the bound is one that half of them reach with half of what may fail.

    If each fails with probability a / 2, half of them or more fail together with probability a at most, by Markov's
    inequality, however they depend on each other (Meinshausen, Meier & Buehlmann 2009, Theorem 3.1 at the median).

    Attributes:
        num_splits: How many.
        fraction: Of the scores, for each choice.
        seed: Of the splits.
    """

    num_splits: int = 50
    fraction: float = 0.5
    seed: int = 0
    description = "median over splits at half the error"

    def __post_init__(self) -> None:
        check_count("num_splits", self.num_splits)
        _check_fraction(self.fraction)
        check_count("seed", self.seed, minimum=0)


def _check_fraction(fraction: Any) -> None:
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction < 1:
        raise InvalidArgument("fraction", fraction, "a number in (0, 1)")
