"""The interface between linear classifiers and the methods that learn them privately.

A classifier (`classifiers`) is a loss and a method. The fit has two halves, and only the second one sees data:

    problem   the public part: loss, sizes, epsilon, delta, regularisation (`Problem`)
    recipe    all decisions that need no data: noise, ridge, number of steps; it knows its event
        (`LinearMethod.prepare`)
    weights   the private weights, from clipped rows and the class of each row (`LinearRecipe.run`)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.accounting import ApproximateDPEvent, Event, SelfComposedEvent
from hush.estimators.base.estimator import Floats
from hush.estimators.linear.losses import MarginLoss
from hush.numerics import round_down
from hush.randomness import RandomSource

ClassIndices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The public part of a fit.

    Attributes:
        loss: Loss of a margin.
        dimension: Number of weights in a vector, including the intercept.
        outputs: Number of weight vectors: one for two classes, otherwise one per class.
        softmax: Whether several classes may be learned jointly, by cross entropy.
        epsilon: Privacy budget of the whole fit.
        delta: Failure probability of the whole fit.
        regularization: Ridge: half of it times the squared norm of the weights is added to the sum of losses. None lets
            the method choose.
    """

    loss: MarginLoss
    dimension: int
    outputs: int
    softmax: bool
    epsilon: float
    delta: float
    regularization: float | None

    @property
    def joint(self) -> bool:
        """Whether there are several weight vectors that can be learned by one joint loss."""
        return self.softmax and self.outputs > 1

    def per_output_budget(self) -> tuple[float, float]:
        """Return the epsilon and delta of each weight vector when they are learned one after another."""
        # Basic composition (Dwork & Roth 2014, Theorem 3.16). Rounded down, so that the parts never exceed the whole.
        return round_down(self.epsilon / self.outputs), round_down(self.delta / self.outputs)

    def per_output_event(self) -> Event:
        """Return the event of one (epsilon, delta) release per weight vector."""
        epsilon, delta = self.per_output_budget()
        claim = ApproximateDPEvent(epsilon, delta)
        return claim if self.outputs == 1 else SelfComposedEvent(claim, self.outputs)


class LinearRecipe(ABC):
    """A method after all data-independent decisions have been made."""

    @property
    @abstractmethod
    def event(self) -> Event:
        """The cost of a run, for accountants."""

    @abstractmethod
    def run(self, rows: Floats, class_indices: ClassIndices, source: RandomSource) -> Floats:
        """Return private weights, one row per output.

        Args:
            rows: Clipped rows, of norm at most 1.
            class_indices: Class of each row.
            source: Random source.
        """


class LinearMethod(ABC):
    """A way to learn linear classifiers privately.

    Attributes:
        largest_entry: Whether rows are clipped by their largest entry instead of their L2 norm.
        joint_classes: Whether several classes are learned jointly by cross entropy, if the loss allows it.
    """

    largest_entry = False
    joint_classes = False

    @abstractmethod
    def prepare(self, problem: Problem) -> LinearRecipe:
        """Make all data-independent decisions, or refuse the problem."""


def label_signs(class_indices: ClassIndices, outputs: int) -> Floats:
    """Return labels -1 and 1 with a column per output: each class against the rest, or the second against the first."""
    # Two classes need one vector: that of the second class. The first is its negative.
    positive_classes = np.arange(outputs) if outputs > 1 else np.array([1])
    return np.where(class_indices[:, None] == positive_classes, 1.0, -1.0)
