"""Bolt-on privacy: ordinary stochastic gradient descent, with noise added only to its result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hush.errors import check_count, check_positive
from hush.estimators.base.estimator import Floats
from hush.estimators.linear.method import ClassIndices, LinearMethod, LinearRecipe, Problem, label_signs
from hush.estimators.linear.objective import EXPECTED_NORM
from hush.estimators.linear.output import COUNT_SHARE, PerturbedRecipe
from hush.numerics import round_down, round_up
from hush.randomness import RandomSource, uniform_below

_ROUNDING = 1e-9  # generous bound on the rounding error of one step: see Assumes


@dataclass(frozen=True, slots=True, kw_only=True)
class BoltOnSGD(LinearMethod):
    """A few passes of ordinary mini-batch SGD, and then noise on the weights.

    Choose it where the training loop must stay as it is, and the exact minimum that `OutputPerturbation` needs would
    take too long. For the same epsilon, `ObjectivePerturbation` and `NoisyGradients` are usually more accurate.

    First, 1/20 of epsilon counts the rows; the number of batches and the learning rate follow from the noisy count.
    Every row is assigned to one batch at random, once, and all passes visit the batches in the same order. The gradient
    of a batch is a sum; a batch of more than ``batch_size`` rows is scaled down to that many. With a ``regularization``
    the learning rate falls as 1 / t, and later passes shrink the effect of a row. Without one it is constant, and
    weights are projected onto a ball.

    Attributes:
        num_passes: Number of passes over the rows.
        batch_size: Expected number of rows in a batch, and the largest number that counts in full.
        learning_rate: Learning rate for sums of gradients, at most 1 / (c batch_size + lambda) for losses of curvature
            c. Default: all passes together move the weights by about their expected norm.
        radius: Radius of the ball for each class's weights, in units of 1 / data_norm.

    Guarantee:
        (epsilon, delta)-DP when one row is added or removed. A row is in one batch of a pass, and changes the weights
        there by at most 2 eta: eta for its own gradient of norm at most 1, and eta for scaling down the rest of its
        batch. Every step on the same batch keeps or shrinks the distance between two runs, by 1 - eta lambda if it is
        regularised, because eta times the curvature of a batch is at most 1. The sensitivity is the sum of these
        effects for the worst batch, at the learning rates that are used. With delta > 0, Gaussian noise is added to the
        weights of all classes together; with delta = 0, noise of density ~ e^(-epsilon |b| / sensitivity) to each
        vector.

    Assumes:
        Rows have norm at most 1 (checked here: they are clipped). A step is computed to within 1e-9 (true of double
        precision up to millions of rows in a batch).

    References:
        Wu et al. 2017, Algorithms 1 and 2. Variants: they replace one of a public number of rows, here one is added or
        removed. Rows choose their batches independently instead of by a permutation, so that all batches have the same
        distribution. Larger batches bring no gain where the rate falls as 1 / t: a row has a smaller share of each
        step, but fewer steps follow that shrink its effect.

    >>> import numpy as np
    >>> from hush.estimators import PrivateLogisticRegression
    >>> from hush.randomness import TestSource
    >>> X = np.array([[-1.0], [1.0]] * 1000)
    >>> model = PrivateLogisticRegression(
    ...     epsilon=1.0, data_norm=1.0, classes=[0, 1], method=BoltOnSGD(), source=TestSource(1)
    ... )
    >>> model.fit(X, [0, 1] * 1000).predict([[-0.5], [0.5]]).tolist()
    [0, 1]
    """

    num_passes: int = 5
    batch_size: int = 50
    learning_rate: float | None = None
    radius: float = 100.0

    def __post_init__(self) -> None:
        """Check the settings."""
        check_count("num_passes", self.num_passes)
        check_count("batch_size", self.batch_size)
        check_positive("radius", self.radius, maximum=1e3)
        if self.learning_rate is not None:
            check_positive("learning_rate", self.learning_rate)

    def prepare(self, problem: Problem) -> LinearRecipe:
        """Divide epsilon between the count and the weights."""
        count_epsilon = problem.epsilon * COUNT_SHARE
        return _BoltOnRecipe(
            problem=problem,
            method=self,
            count_epsilon=count_epsilon,
            weights_epsilon=round_down(problem.epsilon - count_epsilon),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRates:
    """The learning rates of all steps, and their effect on distances.

    Attributes:
        rates: Learning rate of each step.
        decay: Share of the regularisation in one batch: the gradient has ``decay`` times the weights added.
        batches: Number of batches in a pass.
    """

    rates: Floats
    decay: float
    batches: int

    @staticmethod
    def choose(method: BoltOnSGD, problem: Problem, count: int) -> LearningRates:
        """Return the learning rates for about ``count`` rows."""
        batches = max(round(count / method.batch_size), 1)
        steps, decay = method.num_passes * batches, (problem.regularization or 0.0) / batches
        # Up to this rate, a step on the same batch never increases the distance between two runs.
        largest = 1 / (problem.loss.curvature * method.batch_size + decay)
        # Slopes average about 1/4, so count * num_passes gradients at this rate move weights by their expected norm.
        target_rate = method.learning_rate or 4 * EXPECTED_NORM / (count * method.num_passes)
        rates = np.full(steps, largest if decay and method.learning_rate is None else min(largest, target_rate))
        if decay:
            rates = np.minimum(rates, 1 / (decay * np.arange(1, steps + 1)))
        return LearningRates(rates=rates, decay=decay, batches=batches)

    def sensitivity(self) -> float:
        """Return how far one row moves the weights: the sum of its steps, each shrunk by all later steps."""
        # Every step shrinks distances by 1 - eta lambda, and the step on the batch of the row adds 2 eta.
        shrink_factors = 1 - self.decay * self.rates
        later_shrinkage = np.append(np.cumprod(shrink_factors[:0:-1])[::-1], 1.0)
        # A row is in one batch: its steps are one column of this table.
        moves = (2 * self.rates * later_shrinkage).reshape(-1, self.batches)
        return round_up(float(moves.sum(axis=0).max()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _BoltOnRecipe(PerturbedRecipe):
    method: BoltOnSGD

    def run(self, rows: Floats, class_indices: ClassIndices, source: RandomSource) -> Floats:
        labels = label_signs(class_indices, self.problem.outputs)
        schedule = LearningRates.choose(self.method, self.problem, self.count(len(rows), source))
        # Each row draws its batch on its own, so adding a row leaves all others where they are.
        batch_indices = uniform_below(source, schedule.batches, len(rows)) if len(rows) else np.zeros(0, dtype=np.int64)
        order = np.argsort(batch_indices, kind="stable")
        batches = np.split(order, np.searchsorted(batch_indices[order], np.arange(1, schedule.batches)))
        weights = np.zeros((labels.shape[1], rows.shape[1]))
        for step, rate in enumerate(schedule.rates):
            batch_rows = batches[step % schedule.batches]
            weights = self._step(weights, rows[batch_rows], labels[batch_rows], float(rate), schedule.decay)
        rounding = _ROUNDING * len(schedule.rates)
        return self.release(weights, sensitivity=self._sensitivity(schedule), distance=rounding, source=source)

    def _sensitivity(self, schedule: LearningRates) -> float:
        return schedule.sensitivity()

    def _step(self, weights: Floats, rows: Floats, labels: Floats, rate: float, decay: float) -> Floats:
        # A batch that is too large is scaled down: a row then changes the factor of the others, too.
        scale = min(1.0, self.method.batch_size / max(len(rows), 1))
        slopes = self.problem.loss.slope(rows @ weights.T * labels) * labels
        moved = weights - rate * (scale * (slopes.T @ rows) + decay * weights)
        # Projection onto the ball never increases distances.
        norms = np.linalg.norm(moved, axis=1, keepdims=True)
        return np.asarray(moved * (self.method.radius / np.maximum(norms, self.method.radius)))
