"""Bolt-on privacy: stochastic gradient descent as it is, and noise on its result alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hush.errors import check_count, check_positive
from hush.estimators.base.estimator import Floats
from hush.estimators.linear.method import LinearMethod, LinearRecipe, Places, Problem, signs
from hush.estimators.linear.objective import EXPECTED_NORM
from hush.estimators.linear.output import COUNTING, Perturbed
from hush.numerics import down, up
from hush.randomness import RandomSource, uniform_below

_ROUNDING = 1e-9  # what double precision may add to one step, and far more: see Assumes


@dataclass(frozen=True, slots=True, kw_only=True)
class BoltOnSGD(LinearMethod):
    """A few passes of stochastic gradient descent over batches, without noise, and then noise on the weights.

    Choose it where the training loop must stay as it is, and the minimum that `OutputPerturbation` needs would take too
    long; for the same epsilon `ObjectivePerturbation` and `NoisyGradients` are mostly better. A part of epsilon (1/20)
    counts the records: from the noisy count follow the number of batches and the learning rate. Every record is in one
    batch, drawn once by a coin of its own, and batches are taken in the same order in every pass. A batch's gradient is
    a sum; one of more than ``batch_size`` records is scaled down to that many. With a ``regularization`` the learning
    rate falls as 1 / t, and the more passes the less a record counts; without, it is constant, and weights stay in a
    ball.

    Guarantee:
        (epsilon, delta)-DP, add or remove; with delta, normal noise on all classes' weights together; with delta = 0,
        noise of density ~ e^(-epsilon |b| / reach) for each. A record is in one batch of a pass, and adds or changes
        2 eta there at most: eta for its own gradient of norm 1, and, in a batch that is scaled down, eta for what that
        does to the others. All steps of the same batches on both sides keep distances or shrink them, by 1 - eta
        lambda for a regularised one, since eta times a batch's curvature is at most 1. The reach is what this adds up
        to, for the worst batch, with the very learning rates used.

    Assumes:
        Rows have norm at most 1 (checked here: they are clipped). A step is computed to 1e-9 (true of double precision
        up to some millions of records in a batch).

    References:
        Wu et al. 2017, Algorithms 1 and 2. Variants: add or remove, where they replace one of a public number of
        records; batches by coins in the place of a permutation, so that all have one law, the last one included; and
        nothing is gained by larger batches where the rate falls as 1 / t: a record's share of a step is smaller, and
        there are fewer steps after it that make it forgotten.

    Attributes:
        num_passes: How many times every record is seen.
        batch_size: About how many records are in a batch, and the most that count in full.
        learning_rate: Of sums of gradients, at most 1 / (c batch_size + lambda) for losses of curvature c. None: such
            that all passes lead about as far as weights are expected to be long.
        radius: Of the ball for each class's weights, in units of 1 / data_norm.
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
        counting = problem.epsilon * COUNTING
        return _BoltOn(problem=problem, method=self, counting=counting, left=down(problem.epsilon - counting))


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRates:
    """Learning rates of all steps, and how much each of them shrinks distances.

    Attributes:
        rates: For each step.
        pull: What a batch's share of the regularisation is, per unit of weights.
        batches: How many there are in a pass.
    """

    rates: Floats
    pull: float
    batches: int

    @staticmethod
    def chosen(method: BoltOnSGD, problem: Problem, count: int) -> LearningRates:
        """Return the learning rates for about so many records."""
        batches = max(round(count / method.batch_size), 1)
        steps, pull = method.num_passes * batches, (problem.regularization or 0.0) / batches
        largest = 1 / (problem.loss.curvature * method.batch_size + pull)
        # Slopes are some 1/4 on the way: so many records lead so far in all passes.
        wanted = method.learning_rate or 4 * EXPECTED_NORM / (count * method.num_passes)
        rates = np.full(steps, largest if pull and method.learning_rate is None else min(largest, wanted))
        if pull:
            rates = np.minimum(rates, 1 / (pull * np.arange(1, steps + 1)))
        return LearningRates(rates=rates, pull=pull, batches=batches)

    def reach(self) -> float:
        """Return how far one record moves the weights: the worst batch's steps, each shrunk by all that follow it."""
        factors = 1 - self.pull * self.rates
        later = np.append(np.cumprod(factors[:0:-1])[::-1], 1.0)
        moved = (2 * self.rates * later).reshape(-1, self.batches)
        return up(float(moved.sum(axis=0).max()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _BoltOn(Perturbed):
    method: BoltOnSGD

    def run(self, rows: Floats, places: Places, source: RandomSource) -> Floats:
        labels = signs(places, self.problem.outputs)
        schedule = LearningRates.chosen(self.method, self.problem, self.count(len(rows), source))
        batch = uniform_below(source, schedule.batches, len(rows)) if len(rows) else np.zeros(0, dtype=np.int64)
        order = np.argsort(batch, kind="stable")
        parts = np.split(order, np.searchsorted(batch[order], np.arange(1, schedule.batches)))
        weights = np.zeros((labels.shape[1], rows.shape[1]))
        for step, rate in enumerate(schedule.rates):
            part = parts[step % schedule.batches]
            weights = self._step(weights, rows[part], labels[part], float(rate), schedule.pull)
        rounding = _ROUNDING * len(schedule.rates)
        return self.release(weights, reach=self._reach(schedule), distance=rounding, source=source)

    def _reach(self, schedule: LearningRates) -> float:
        return schedule.reach()

    def _step(self, weights: Floats, rows: Floats, labels: Floats, rate: float, pull: float) -> Floats:
        share = min(1.0, self.method.batch_size / max(len(rows), 1))
        slopes = self.problem.loss.slope(rows @ weights.T * labels) * labels
        moved = weights - rate * (share * (slopes.T @ rows) + pull * weights)
        norms = np.linalg.norm(moved, axis=1, keepdims=True)
        return np.asarray(moved * (self.method.radius / np.maximum(norms, self.method.radius)))
