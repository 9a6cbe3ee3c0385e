"""Ways to learn linear classifiers privately: what each of them is given, and what it owes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.accounting import ApproximateDPEvent, Event, SelfComposedEvent
from hush.estimators.base.estimator import Floats
from hush.estimators.linear.losses import MarginLoss
from hush.numerics import down
from hush.randomness import RandomSource

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is public about a fit.

    Attributes:
        loss: Of a margin.
        dimension: How many weights a vector has, that of the intercept included.
        outputs: How many vectors there are: one for two classes, else one for each class.
        softmax: Whether the vectors of several classes may be learned together, by cross entropy.
        epsilon, delta: For all of it.
        regularization: Half of it times the squared norm of the weights is added to the sum of losses; None: chosen.
    """

    loss: MarginLoss
    dimension: int
    outputs: int
    softmax: bool
    epsilon: float
    delta: float
    regularization: float | None

    @property
    def together(self) -> bool:
        """Whether there are several vectors, and a loss of all of them."""
        return self.softmax and self.outputs > 1

    def share(self) -> tuple[float, float]:
        """Return epsilon and delta of each of several vectors that are learned one after another."""
        return down(self.epsilon / self.outputs), down(self.delta / self.outputs)

    def claimed(self) -> Event:
        """Return the event of as many (epsilon, delta) releases as there are vectors."""
        epsilon, delta = self.share()
        claim = ApproximateDPEvent(epsilon, delta)
        return claim if self.outputs == 1 else SelfComposedEvent(claim, self.outputs)


class LinearRecipe(ABC):
    """A method with everything decided that does not depend on data."""

    @property
    @abstractmethod
    def event(self) -> Event:
        """What a run costs."""

    @abstractmethod
    def run(self, rows: Floats, places: Places, source: RandomSource) -> Floats:
        """Return private weights, a row for each output, for rows of norm 1 at most and the places of their classes."""


class LinearMethod(ABC):
    """A way to learn linear classifiers privately."""

    largest_entry = False  # whether rows are bounded in their largest entry, or in L2 norm
    joint_classes = False  # whether several classes' weights are learned together, by cross entropy, where there is one

    @abstractmethod
    def prepare(self, problem: Problem) -> LinearRecipe:
        """Decide everything that does not depend on data."""


def signs(places: Places, outputs: int) -> Floats:
    """Return labels -1 and 1, a column for each output: one class against the rest, or the second against the first."""
    chosen = np.arange(outputs) if outputs > 1 else np.array([1])
    return np.where(places[:, None] == chosen, 1.0, -1.0)
