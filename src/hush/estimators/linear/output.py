"""Output perturbation: the regularised minimum, which one record cannot move far, with noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.accounting import ApproximateDPEvent, ComposedEvent, Event, events
from hush.estimators.base.estimator import Floats, noise_multiplier
from hush.estimators.linear.method import LinearMethod, LinearRecipe, Places, Problem, signs
from hush.estimators.linear.minimum import minimise
from hush.estimators.linear.noise import settle, spherical_vector
from hush.estimators.linear.objective import EXPECTED_NORM, SETTLING, TOLERANCE
from hush.mechanisms import DiscreteLaplace, Gaussian
from hush.numerics import down, up
from hush.randomness import RandomSource

COUNTING = 0.05
"""The part of epsilon for the number of records, where it decides how much to regularise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPerturbation(LinearMethod):
    """Add noise to the minimum of sum_i loss(w; x_i, y_i) + ridge |w|^2 / 2.

    Choose it where training must stay as it is, and only its result may be touched. For the same epsilon it is mostly
    worse than `ObjectivePerturbation`. Without a given regularisation, a part of epsilon (1/20) counts the
    records, and the ridge follows from the noisy count.

    Guarantee:
        (epsilon, delta)-DP, add or remove. One record of norm 1 moves the minimum by 1 / ridge at most, and an
        approximate one by that plus twice its distance. With delta, normal noise on all classes' weights together; with
        delta = 0, noise of density ~ e^(-epsilon |b| ridge) for each.

    Assumes:
        Rows have norm at most 1 (checked here: they are clipped). Gradients are computed to half the tolerance, 1e-5
        (true of double precision up to some 10^8 rows).

    References:
        Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 1 and Corollary 8, for sums and add or remove; Wu et al. 2017,
        Section 3 (approximate minima).
    """

    def prepare(self, problem: Problem) -> LinearRecipe:
        """Divide epsilon between the count, if there is one, and the weights."""
        counting = 0.0 if problem.regularization is not None else problem.epsilon * COUNTING
        return _Output(problem=problem, counting=counting, left=down(problem.epsilon - counting))


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbed(LinearRecipe):
    """A noisy number of records, if it is needed, and then weights with noise that may depend on it."""

    problem: Problem
    counting: float
    left: float

    @property
    def event(self) -> Event:
        """What a run costs."""
        parts: list[Event] = [ApproximateDPEvent(self.counting)] if self.counting else []
        if self.problem.delta > 0:
            parts.append(events.GaussianEvent(self.multiplier()))
        else:
            ApproximateDPEvent(
                down(self.left / self.problem.outputs) * SETTLING
            )  # refused here, where nothing is charged
            parts.append(ApproximateDPEvent(self.left))
        return parts[0] if len(parts) == 1 else ComposedEvent(tuple(parts))

    def multiplier(self) -> float:
        """Return the normal noise of the weights, in terms of their reach."""
        return noise_multiplier(self.left, self.problem.delta)

    def count(self, count: int, source: RandomSource) -> int:
        """Return about how many records there are."""
        return max(int(DiscreteLaplace(epsilon=self.counting).release(count, source).value), 1)

    def release(self, found: Floats, *, reach: float, distance: float, source: RandomSource) -> Floats:
        """Return noisy weights; without rounding each vector would be within ``distance``, and move by ``reach``."""
        if self.problem.delta > 0:
            whole = up(math.sqrt(len(found)) * (reach + 2 * distance))
            mechanism = Gaussian(epsilon=self.left, delta=self.problem.delta, sensitivity=whole, size=found.size)
            return np.asarray(mechanism.release(found, source).value)
        epsilon = down(self.left / self.problem.outputs)
        scale = up(reach / down(epsilon * (1 - SETTLING)))
        noisy = []
        for one in found:
            noise, off = spherical_vector(source, scale, one.size)
            near = up(distance + off)
            noisy.append(settle(one + noise, distance=near, epsilon=down(epsilon * SETTLING), source=source))
        return np.stack(noisy)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output(Perturbed):
    def run(self, rows: Floats, places: Places, source: RandomSource) -> Floats:
        ridge = self._ridge(len(rows), source)
        labels = signs(places, self.problem.outputs)
        found = np.stack([self._minimum(rows * labels[:, [k]], ridge) for k in range(labels.shape[1])])
        return self.release(found, reach=up(1 / ridge), distance=up(TOLERANCE / ridge), source=source)

    def _minimum(self, signed: Floats, ridge: float) -> Floats:
        still = np.zeros(signed.shape[1])
        return minimise(self.problem.loss, signed, ridge=ridge, tilt=still, tolerance=TOLERANCE / 2)

    def _ridge(self, count: int, source: RandomSource) -> float:
        """Balance what noise costs, n c |b|^2 / (2 ridge^2), and what the ridge does, ridge |w|^2 / 2."""
        if self.problem.regularization is not None:
            return self.problem.regularization
        noisy = self.count(count, source)
        size, outputs = self.problem.dimension, self.problem.outputs
        pure = size * outputs / self.left
        norm = self.multiplier() * math.sqrt(size * outputs) if self.problem.delta > 0 else pure
        return float((2 * noisy * self.problem.loss.curvature * (norm / EXPECTED_NORM) ** 2) ** (1 / 3))
