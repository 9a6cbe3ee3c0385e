"""How the runs of a private search are compared: a score gives something away as well, and has to be paid for."""

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

_STEPS = 1024  # a unit's share of the score, -1 to 1, in integers: exact noise is on integers


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a run returns if its score may be seen: on public data, or made private and part of its cost.

    Attributes:
        score: How good it is; the largest wins. NaN and infinities lose against every number.
        result: What is released if it wins: a model, or the run.
    """

    score: float
    result: Any = None


@dataclass(frozen=True, slots=True)
class HeldOutAnswers:
    """What a run returns if it is scored on private held-out examples: `PrivateScore` adds the noise.

    Attributes:
        correct: For each held-out example, whether it was answered rightly; or how well, from 0 to 1.
        result: What is released if it wins: a model, or the run.
        owners: Whose each example is, if users are protected: each user counts once, by the mean.
    """

    correct: Any
    result: Any = None
    owners: Any = None


class Score(ABC):
    """How runs are compared. Another way is another type, with another event."""

    returned: ClassVar[type[Candidate] | type[HeldOutAnswers]]
    """What a run returns."""

    def event(self, noise_multiplier: float) -> Event | None:
        """Return what the score of one run costs those who are held out; None if it costs nobody anything."""
        return None

    @abstractmethod
    def assumptions(self, unit: Unit) -> tuple[str, ...]:
        """Return what has to be true for the search's guarantee to hold."""

    @abstractmethod
    def value(self, outcome: Any, noise_multiplier: float | None, unit: Unit, source: RandomSource) -> float:
        """Return the score of what a run returned."""


@dataclass(frozen=True, slots=True)
class PublicScore(Score):
    """Runs are compared on data that is public. It costs nothing, and the guarantee says so.

    Attributes:
        public: Which data it is, and why it is public. Nothing can check that.
    """

    public: str
    returned: ClassVar[type[Candidate] | type[HeldOutAnswers]] = Candidate

    def __post_init__(self) -> None:
        """Insist on a reason."""
        check_instance("public", self.public, str, "Say which data it is, and why it is public")
        if not self.public.strip() or not self.public.isprintable():
            raise InvalidArgument("public", self.public, "words on one line: which data it is, and why it is public")

    def assumptions(self, unit: Unit) -> tuple[str, ...]:
        """Return that the data is public."""
        return (f"the runs were compared on data that was declared public: {self.public}",)

    def value(self, outcome: Any, noise_multiplier: float | None, unit: Unit, source: RandomSource) -> float:
        """Return the score that the run returned."""
        return _number(outcome.score)


@dataclass(frozen=True, slots=True)
class ChargedScore(Score):
    """Runs are compared by something private that each run releases, and that its cost has in it."""

    returned: ClassVar[type[Candidate] | type[HeldOutAnswers]] = Candidate

    def assumptions(self, unit: Unit) -> tuple[str, ...]:
        """Return that it is in the cost."""
        return ("the score of a run is part of what the run was stated to cost",)

    def value(self, outcome: Any, noise_multiplier: float | None, unit: Unit, source: RandomSource) -> float:
        """Return the score that the run returned."""
        return _number(outcome.score)


@dataclass(frozen=True, slots=True)
class PrivateScore(Score):
    """Runs are compared by their accuracy on private examples that are held out, with Gaussian noise.

    A unit adds 1 for a right answer and -1 for a wrong one to the sum, so that adding or removing it moves the sum by
    1 at most, and replacing it by 2; the score is 1/2 + sum / (2 size). Noise of the search's choice is on the sum. A
    unit is in the training data or held out, never both: what a run costs it is the larger of the two costs, not their
    sum. So a score on held-out examples costs next to nothing.

    Attributes:
        size: By how many the sum is divided: about as many as are held out, and public. It changes no comparison.

    References:
        Canonne, Kamath & Steinke 2020 (the discrete Gaussian); McSherry 2009, Theorem 4 (disjoint parts).
    """

    size: int
    returned: ClassVar[type[Candidate] | type[HeldOutAnswers]] = HeldOutAnswers

    def __post_init__(self) -> None:
        """Check the size."""
        check_count("size", self.size)

    def event(self, noise_multiplier: float) -> Event | None:
        """Return the event of one score."""
        return DiscreteGaussianEvent(noise_multiplier * _STEPS, _STEPS)

    def assumptions(self, unit: Unit) -> tuple[str, ...]:
        """Return what the parts have to be."""
        return (
            f"no {unit} is both held out and trained on, and which it is follows from a public index, not from data",
        )

    def value(self, outcome: Any, noise_multiplier: float | None, unit: Unit, source: RandomSource) -> float:
        """Return the noisy score of answers."""
        assert noise_multiplier is not None
        shares = _per_unit(outcome, unit)
        total = int(np.rint((2 * shares - 1) * _STEPS).astype(np.int64).sum())
        total += int(discrete_gaussian(source, noise_multiplier * _STEPS, 1)[0])
        return 0.5 + total / (2 * _STEPS * self.size)


def _per_unit(outcome: HeldOutAnswers, unit: Unit) -> NDArray[np.float64]:
    """Return one number from 0 to 1 for each unit; what is not a number is 0."""
    given = outcome.correct
    correct = given.detach().cpu().double().numpy() if isinstance(given, Tensor) else np.asarray(given)
    if correct.ndim != 1 or correct.dtype.kind not in "biuf":
        raise InvalidArgument(
            "correct", f"{correct.dtype} in {correct.ndim} dimensions", "one number or truth value for each example"
        )
    shares = np.clip(np.nan_to_num(correct.astype(np.float64), nan=0.0), 0.0, 1.0)
    if (outcome.owners is not None) != (unit.kind is not UnitKind.EXAMPLE):
        raise InvalidArgument(
            "owners",
            None if outcome.owners is None else type(outcome.owners).__name__,
            f"ids where users are protected, and nothing else (here it is each {unit})",
            "Without them, a user with many held-out examples would count many times",
        )
    if outcome.owners is None:
        return shares
    if np.shape(outcome.owners) != shares.shape:
        raise InvalidArgument("owners", type(outcome.owners).__name__, "one id for each held-out example")
    labels = unit_labels(outcome.owners, len(shares), "owners")
    means: NDArray[np.float64] = np.bincount(labels, weights=shares) / np.bincount(labels)
    return np.clip(means, 0.0, 1.0)


def _number(score: Any) -> float:
    """Return a score as a float: what is not a number at all is a mistake in the code, and is refused."""
    try:
        if not isinstance(score, (str, bytes)):
            return float(score)
    except OverflowError:  # an integer beyond the range of floats
        return math.inf
    except (TypeError, ValueError, RuntimeError):
        pass
    raise InvalidArgument("score", type(score).__name__, "a number")
