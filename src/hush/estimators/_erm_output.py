"""Output perturbation: the regularised minimum, which one record cannot move far, with noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.accounting import ApproximateDP, Composed, Event, events
from hush.estimators._erm_method import Method, Places, Problem, Recipe, signs
from hush.estimators._erm_minimum import minimise
from hush.estimators._erm_noise import settle, spherical_vector
from hush.estimators._erm_objective import EXPECTED_NORM, SETTLING, TOLERANCE
from hush.estimators._private import Floats, noise_multiplier
from hush.mechanisms import DiscreteLaplace, Gaussian
from hush.mechanisms._mechanism import down, up
from hush.randomness import Source

COUNTING = 0.05
"""The part of epsilon for the number of records, where it decides how much to regularise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPerturbation(Method):
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

    def prepare(self, problem: Problem) -> Recipe:
        """Divide epsilon between the count, if there is one, and the weights."""
        counting = 0.0 if problem.regularization is not None else problem.epsilon * COUNTING
        return _Output(problem=problem, counting=counting, left=down(problem.epsilon - counting))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output(Recipe):
    problem: Problem
    counting: float
    left: float

    @property
    def event(self) -> Event:
        parts: list[Event] = [ApproximateDP(self.counting)] if self.counting else []
        if self.problem.delta > 0:
            parts.append(events.Gaussian(self._multiplier()))
        else:
            parts.append(ApproximateDP(self.left))
        return parts[0] if len(parts) == 1 else Composed(tuple(parts))

    def run(self, rows: Floats, places: Places, source: Source) -> Floats:
        ridge = self._ridge(len(rows), source)
        labels = signs(places, self.problem.outputs)
        found = np.stack([self._minimum(rows * labels[:, [k]], ridge) for k in range(labels.shape[1])])
        if self.problem.delta > 0:
            # Each class's weights move by 1 / ridge at most, and twice the distance from their minimum.
            reach = up(math.sqrt(len(found)) * (1 + 2 * TOLERANCE) / ridge)
            mechanism = Gaussian(epsilon=self.left, delta=self.problem.delta, sensitivity=reach, size=found.size)
            return np.asarray(mechanism.release(found, source).value)
        return np.stack([self._spherical(one, ridge, source) for one in found])

    def _multiplier(self) -> float:
        return noise_multiplier(self.left, self.problem.delta)

    def _minimum(self, signed: Floats, ridge: float) -> Floats:
        still = np.zeros(signed.shape[1])
        return minimise(self.problem.loss, signed, ridge=ridge, tilt=still, tolerance=TOLERANCE / 2)

    def _spherical(self, found: Floats, ridge: float, source: Source) -> Floats:
        epsilon = down(self.left / self.problem.outputs)
        scale = up(1 / (ridge * down(epsilon * (1 - SETTLING))))
        noise, off = spherical_vector(source, scale, found.size)
        return settle(
            found + noise, distance=up(TOLERANCE / ridge + off), epsilon=down(epsilon * SETTLING), source=source
        )

    def _ridge(self, count: int, source: Source) -> float:
        """Balance what noise costs, n c |b|^2 / (2 ridge^2), and what the ridge does, ridge |w|^2 / 2."""
        if self.problem.regularization is not None:
            return self.problem.regularization
        noisy = max(DiscreteLaplace(epsilon=self.counting).release(count, source).value, 1)
        size, outputs = self.problem.dimension, self.problem.outputs
        pure = size * outputs / self.left
        norm = self._multiplier() * math.sqrt(size * outputs) if self.problem.delta > 0 else pure
        return float((2 * noisy * self.problem.loss.curvature * (norm / EXPECTED_NORM) ** 2) ** (1 / 3))
