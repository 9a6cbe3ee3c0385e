"""Scores, by which the runs of a private search are compared.

A score is computed from data, so comparing runs by it releases information. `PublicScore` uses public data,
`PrivateScore` adds noise to accuracies on held-out private data, and `ChargedScore` is for scores that a run has
already made private at its own cost. Each kind is a type with its own event and assumptions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from hush.accounting import DiscreteGaussianEvent, Event
from hush.errors import InvalidArgument, check_count, check_instance
from hush.guarantee import Unit, UnitKind
from hush.randomness import RandomSource, discrete_gaussian
from hush.training.plan.units import unit_labels

# A unit's share of the score, between -1 and 1, in integer steps: exact noise exists for integers.
_STEPS = 1024


@dataclass(frozen=True, slots=True)
class Candidate:
    """The result of a run whose score needs no more noise: computed on public data, or already private.

    Attributes:
        score: The score; the largest wins. NaN and infinities lose to every number.
        result: The result to release if the run wins: a model, or the run itself.

    >>> Candidate(score=0.9, result="model").score
    0.9
    """

    score: float
    result: Any = None


@dataclass(frozen=True, slots=True)
class HeldOutAnswers:
    """The result of a run that is scored on private held-out examples. `PrivateScore` adds the noise.

    Attributes:
        correct: For each held-out example, whether the answer was right; or how good it was, from 0 to 1.
        result: The result to release if the run wins: a model, or the run itself.
        units: If users are protected, the user of each held-out example. A user counts once, with the mean.

    >>> HeldOutAnswers(correct=[True, False, True], result="model").correct
    [True, False, True]
    """

    correct: Any
    result: Any = None
    units: Any = None


class Score(ABC):
    """How runs are compared: `public`, `private` or `charged`.

    >>> Score.public("the test set of MNIST").assumptions(Unit.example())
    ('the runs were compared on data declared public: the test set of MNIST',)

    Attributes:
        returned: The type that a run has to return.
    """

    returned: ClassVar[type[Candidate] | type[HeldOutAnswers]]

    @staticmethod
    def public(reason: str) -> Score:
        """Compare runs on public data. It costs nothing; the guarantee states your reason.

        Args:
            reason: Your statement of which data it is and why it is public; hush cannot check it.
        """
        return PublicScore(reason)

    @staticmethod
    def private(size: int) -> Score:
        """Compare runs by their accuracy on held-out private examples, with Gaussian noise that is added for you.

        A unit is either trained on or held out. So a run costs it the larger of the two costs, not their sum, and a
        score on held-out examples adds next to nothing.

        Args:
            size: About the number of held-out units, and public. It does not affect comparisons.
        """
        return PrivateScore(size)

    @staticmethod
    def charged() -> Score:
        """Compare runs by a private score that each run computes itself, and that its cost includes."""
        return ChargedScore()

    def event(self, noise_multiplier: float) -> Event | None:
        """Return the cost of one run's score for a held-out unit, or None if the score costs nothing."""
        return None

    @abstractmethod
    def assumptions(self, unit: Unit) -> tuple[str, ...]:
        """Return the assumptions of a search's guarantee about the score."""

    @abstractmethod
    def value(self, outcome: Any, noise_multiplier: float | None, unit: Unit, source: RandomSource) -> float:
        """Return the score of a run's result."""


@dataclass(frozen=True, slots=True)
class PublicScore(Score):
    """Runs are compared on public data. It costs nothing; the guarantee states your reason.

    Attributes:
        reason: Your statement of which data it is and why it is public; hush cannot check it.
    """

    reason: str
    returned: ClassVar[type[Candidate] | type[HeldOutAnswers]] = Candidate

    def __post_init__(self) -> None:
        """Require a reason."""
        check_instance("reason", self.reason, str, "Say which data it is, and why it is public")
        if not self.reason.strip() or not self.reason.isprintable():
            raise InvalidArgument("reason", self.reason, "words on one line: which data it is, and why it is public")

    def assumptions(self, unit: Unit) -> tuple[str, ...]:
        return (f"the runs were compared on data declared public: {self.reason}",)

    def value(self, outcome: Any, noise_multiplier: float | None, unit: Unit, source: RandomSource) -> float:
        return _as_number(outcome.score)


@dataclass(frozen=True, slots=True)
class ChargedScore(Score):
    """Runs are compared by a private score that each run computes itself, and that its cost includes.

    >>> ChargedScore().assumptions(Unit.example())
    ('the cost of a run includes its score',)
    """

    returned: ClassVar[type[Candidate] | type[HeldOutAnswers]] = Candidate

    def assumptions(self, unit: Unit) -> tuple[str, ...]:
        return ("the cost of a run includes its score",)

    def value(self, outcome: Any, noise_multiplier: float | None, unit: Unit, source: RandomSource) -> float:
        return _as_number(outcome.score)


@dataclass(frozen=True, slots=True)
class PrivateScore(Score):
    """Runs are compared by their accuracy on held-out private examples, with Gaussian noise.

    A unit adds 1 to a sum for a right answer and -1 for a wrong one. So adding or removing it moves the sum by at most
    1, and replacing it by at most 2. The score is 1/2 + (sum + noise) / (2 size).

    A unit is either trained on or held out. So a run costs it the larger of the two costs, not their sum, and a score
    on held-out examples adds next to nothing.

    Attributes:
        size: The divisor of the sum: about the number of held-out units, and public. It changes no comparison.

    References:
        Canonne, Kamath & Steinke 2020, "The Discrete Gaussian for Differential Privacy"; McSherry 2009, Theorem 4
        (parallel composition over disjoint parts).

    >>> from hush.randomness import TestSource
    >>> answers = HeldOutAnswers([True] * 80 + [False] * 20)
    >>> round(PrivateScore(size=100).value(answers, 2.0, Unit.example(), TestSource(0)), 2)
    0.81
    """

    size: int
    returned: ClassVar[type[Candidate] | type[HeldOutAnswers]] = HeldOutAnswers

    def __post_init__(self) -> None:
        """Check the size."""
        check_count("size", self.size)

    def event(self, noise_multiplier: float) -> Event | None:
        return DiscreteGaussianEvent(noise_multiplier * _STEPS, _STEPS)

    def assumptions(self, unit: Unit) -> tuple[str, ...]:
        return (f"no {unit} is both held out and trained on, and a public index, not the data, decides which",)

    def value(self, outcome: Any, noise_multiplier: float | None, unit: Unit, source: RandomSource) -> float:
        assert noise_multiplier is not None
        unit_scores = _unit_scores(outcome, unit)
        # Rounding to steps is a function of the unit alone, and stays within [-1, 1]: the sensitivity is unchanged.
        total = int(np.rint((2 * unit_scores - 1) * _STEPS).astype(np.int64).sum())
        total += int(discrete_gaussian(source, noise_multiplier * _STEPS, 1)[0])
        return 0.5 + total / (2 * _STEPS * self.size)


def _unit_scores(outcome: HeldOutAnswers, unit: Unit) -> NDArray[np.float64]:
    """Return a number from 0 to 1 for each unit. NaN counts as 0."""
    answers = outcome.correct
    correct = answers.detach().cpu().double().numpy() if isinstance(answers, Tensor) else np.asarray(answers)
    if correct.ndim != 1 or correct.dtype.kind not in "biuf":
        raise InvalidArgument(
            "correct", f"{correct.dtype} in {correct.ndim} dimensions", "one number or truth value for each example"
        )
    example_scores = np.clip(np.nan_to_num(correct.astype(np.float64), nan=0.0), 0.0, 1.0)
    if (outcome.units is not None) != (unit.kind is not UnitKind.EXAMPLE):
        raise InvalidArgument(
            "units",
            None if outcome.units is None else type(outcome.units).__name__,
            f"ids if users are protected, and None otherwise; this search protects each {unit}",
            "Without ids, a user with many held-out examples would count many times",
        )
    if outcome.units is None:
        return example_scores
    if np.shape(outcome.units) != example_scores.shape:
        raise InvalidArgument("units", type(outcome.units).__name__, "one id for each held-out example")
    labels = unit_labels(outcome.units, len(example_scores), "units")
    means: NDArray[np.float64] = np.bincount(labels, weights=example_scores) / np.bincount(labels)
    return np.clip(means, 0.0, 1.0)


def _as_number(score: Any) -> float:
    """Return a score as a float. Anything but a number is a mistake in the code, and is refused."""
    try:
        if not isinstance(score, (str, bytes)):
            return float(score)
    except OverflowError:  # an integer beyond the range of floats
        return math.inf
    except (TypeError, ValueError, RuntimeError):
        pass
    raise InvalidArgument("score", type(score).__name__, "a number")
