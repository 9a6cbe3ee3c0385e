"""Private Frank-Wolfe: steps towards corners of an L1 ball, each selected by the exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hush.accounting import Event, SelfComposedEvent, events, selection_epsilon
from hush.errors import check_count, check_positive
from hush.estimators.base.estimator import Floats
from hush.estimators.linear.method import ClassIndices, LinearMethod, LinearRecipe, Problem, label_signs
from hush.estimators.linear.sums import exact_products, truncate
from hush.mechanisms import ExponentialMechanism
from hush.randomness import RandomSource

_SLACK = 1e-7  # sums are exact; converting them to floats rounds by far less than this


@dataclass(frozen=True, slots=True, kw_only=True)
class FrankWolfe(LinearMethod):
    """Minimise the sum of losses over an L1 ball, by steps towards its corners.

    Choose it for thousands of features of which few matter: its error grows with the logarithm of their number. Rows
    are clipped by their largest entry, to ``data_norm``, instead of their L2 norm. The ball is the only regularisation.

    Attributes:
        num_steps: Number of steps.
        radius: Radius of the L1 ball, in units of 1 / data_norm.

    Guarantee:
        (epsilon, delta)-DP when one row is added or removed. The data enters through the selected corners only, and
        each is an exponential mechanism.

    Assumes:
        Entries of rows are at most 1 (checked here: rows are scaled down). Sums are exact in fixed point (checked
        here).

    References:
        Talwar, Thakurta & Zhang 2015, Algorithm 2. Variants: sums, which need no number of rows, and the exponential
        mechanism instead of report noisy min.

    >>> import numpy as np
    >>> from hush.estimators import PrivateLogisticRegression
    >>> from hush.randomness import TestSource
    >>> X = np.array([[-1.0], [1.0]] * 1000)
    >>> model = PrivateLogisticRegression(
    ...     epsilon=1.0, data_norm=1.0, classes=[0, 1], method=FrankWolfe(), source=TestSource(1)
    ... )
    >>> model.fit(X, [0, 1] * 1000).predict([[-0.5], [0.5]]).tolist()
    [0, 1]
    """

    largest_entry = True

    num_steps: int = 30
    radius: float = 10.0

    def __post_init__(self) -> None:
        """Check the settings."""
        check_count("num_steps", self.num_steps)
        check_positive("radius", self.radius, maximum=1e3)

    def prepare(self, problem: Problem) -> LinearRecipe:
        """Divide epsilon between the selections."""
        num_selections = self.num_steps * problem.outputs
        return _FrankWolfeRecipe(
            problem=problem, method=self, epsilon=selection_epsilon(problem.epsilon, problem.delta, num_selections)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _FrankWolfeRecipe(LinearRecipe):
    problem: Problem
    method: FrankWolfe
    epsilon: float

    @property
    def event(self) -> Event:
        return SelfComposedEvent(
            events.ExponentialMechanismEvent(self.epsilon), self.method.num_steps * self.problem.outputs
        )

    def run(self, rows: Floats, class_indices: ClassIndices, source: RandomSource) -> Floats:
        rows, labels = truncate(rows), label_signs(class_indices, self.problem.outputs)
        return np.stack([self._fit_output(rows, labels[:, k], source) for k in range(labels.shape[1])])

    def _fit_output(self, rows: Floats, labels: Floats, source: RandomSource) -> Floats:
        # |slope| <= 1 and |x_j| <= 1, so one row moves each entry of the gradient, a score, by at most 1.
        selection = ExponentialMechanism(epsilon=self.epsilon, sensitivity=1 + _SLACK)
        weights = np.zeros(rows.shape[1])
        for step in range(self.method.num_steps):
            # Weights follow from released corners alone, so truncating them is post-processing.
            margins = rows @ truncate(weights)  # also exact, so a row's slope does not depend on its position
            slopes = truncate(self.problem.loss.slope(margins * labels) * labels)
            gradient = exact_products(slopes[:, None], rows)[0]
            # The inner product of corner +-radius e_j and the gradient is +-radius g_j. The smallest is the best step.
            corner = selection.release(np.concatenate([-gradient, gradient]), source).value
            target = np.zeros_like(weights)
            target[corner % len(weights)] = self.method.radius * (1 if corner < len(weights) else -1)
            # Step size 2 / (t + 2): the first step replaces the zero start.
            weights += 2 / (step + 2) * (target - weights)
        return weights
