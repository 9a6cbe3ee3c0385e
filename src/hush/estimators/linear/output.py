"""Output perturbation: compute the regularised minimum, which one row cannot move far, and add noise to it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.accounting import ApproximateDPEvent, ComposedEvent, Event, events, gaussian_multiplier
from hush.estimators.base.estimator import Floats
from hush.estimators.linear.method import ClassIndices, LinearMethod, LinearRecipe, Problem, label_signs
from hush.estimators.linear.minimum import minimise
from hush.estimators.linear.noise import mask_error, spherical_vector
from hush.estimators.linear.objective import EXPECTED_NORM, MASKING_SHARE, TOLERANCE
from hush.mechanisms import DiscreteLaplace, Gaussian
from hush.numerics import round_down, round_up
from hush.randomness import RandomSource

COUNT_SHARE = 0.05
"""Share of epsilon for the number of rows, where the regularisation or the learning rate follows from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPerturbation(LinearMethod):
    """Add noise to the minimum of sum_i loss(w; x_i, y_i) + ridge |w|^2 / 2.

    Choose it where training must stay as it is and only its result may be touched. For the same epsilon,
    `ObjectivePerturbation` is usually more accurate. If you set no regularisation, 1/20 of epsilon counts the rows, and
    the ridge follows from the noisy count. Known as output perturbation.

    Guarantee:
        (epsilon, delta)-DP when one row is added or removed. A row of norm 1 moves the minimum by at most 1 / ridge,
        and an approximate minimum by that plus twice its distance from the exact one. With delta > 0, Gaussian noise is
        added to the weights of all classes together; with delta = 0, noise of density ~ e^(-epsilon |b| ridge) to each
        vector.

    Assumes:
        Rows have norm at most 1 (checked here: they are clipped). Gradients are computed to half the tolerance of 1e-5
        (true of double precision up to about 10^8 rows).

    References:
        Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 1 and Corollary 8, for sums and add-or-remove neighbours; Wu et
        al. 2017, Section 3 (approximate minima).

    >>> import numpy as np
    >>> from hush.estimators import PrivateLogisticRegression
    >>> from hush.randomness import TestSource
    >>> X = np.array([[-1.0], [1.0]] * 1000)
    >>> model = PrivateLogisticRegression(
    ...     epsilon=1.0, data_norm=1.0, classes=[0, 1], method=OutputPerturbation(), source=TestSource(1)
    ... )
    >>> model.fit(X, [0, 1] * 1000).predict([[-0.5], [0.5]]).tolist()
    [0, 1]
    """

    def prepare(self, problem: Problem) -> LinearRecipe:
        """Divide epsilon between the count, if one is needed, and the weights."""
        count_epsilon = 0.0 if problem.regularization is not None else problem.epsilon * COUNT_SHARE
        return _OutputRecipe(
            problem=problem, count_epsilon=count_epsilon, weights_epsilon=round_down(problem.epsilon - count_epsilon)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedRecipe(LinearRecipe):
    """The common part of output perturbation and bolt-on SGD: a noisy row count, then noise on finished weights.

    Attributes:
        problem: The public part of the fit.
        count_epsilon: Budget of the noisy count; 0 if none is needed.
        weights_epsilon: Budget of the weights.
    """

    problem: Problem
    count_epsilon: float
    weights_epsilon: float

    @property
    def event(self) -> Event:
        """The cost of a run: the count, then the weights."""
        parts: list[Event] = [ApproximateDPEvent(self.count_epsilon)] if self.count_epsilon else []
        if self.problem.delta > 0:
            parts.append(events.GaussianEvent(self.multiplier()))
        else:
            # Building the smallest part refuses an epsilon that is too small before anything is charged.
            ApproximateDPEvent(round_down(self.weights_epsilon / self.problem.outputs) * MASKING_SHARE)
            parts.append(ApproximateDPEvent(self.weights_epsilon))
        return parts[0] if len(parts) == 1 else ComposedEvent(tuple(parts))

    def multiplier(self) -> float:
        """Return the noise multiplier of the Gaussian noise on the weights."""
        return gaussian_multiplier(self.weights_epsilon, self.problem.delta)

    def count(self, count: int, source: RandomSource) -> int:
        """Return the noisy number of rows, at least 1."""
        return max(int(DiscreteLaplace(epsilon=self.count_epsilon).release(count, source).value), 1)

    def release(self, weights: Floats, *, sensitivity: float, distance: float, source: RandomSource) -> Floats:
        """Return noisy weights.

        Args:
            weights: Computed weights, one row per output.
            sensitivity: Distance by which one row moves each exact weight vector.
            distance: Distance of each computed weight vector from the exact one.
            source: Random source.
        """
        if self.problem.delta > 0:
            # Each of the K vectors moves by this much, so all of them together by sqrt(K) times as much.
            joint_sensitivity = round_up(math.sqrt(len(weights)) * (sensitivity + 2 * distance))
            mechanism = Gaussian(
                epsilon=self.weights_epsilon, delta=self.problem.delta, sensitivity=joint_sensitivity, size=weights.size
            )
            return np.asarray(mechanism.release(weights, source).value)
        # Pure noise: the vectors share epsilon, and a little of each share masks the errors.
        epsilon = round_down(self.weights_epsilon / self.problem.outputs)
        scale = round_up(sensitivity / round_down(epsilon * (1 - MASKING_SHARE)))
        noisy = []
        for vector in weights:
            noise, noise_error = spherical_vector(source, scale, vector.size)
            error = round_up(distance + noise_error)
            noisy.append(
                mask_error(vector + noise, distance=error, epsilon=round_down(epsilon * MASKING_SHARE), source=source)
            )
        return np.stack(noisy)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OutputRecipe(PerturbedRecipe):
    def run(self, rows: Floats, class_indices: ClassIndices, source: RandomSource) -> Floats:
        ridge = self._ridge(len(rows), source)
        labels = label_signs(class_indices, self.problem.outputs)
        weights = np.stack([self._minimum(rows * labels[:, [k]], ridge) for k in range(labels.shape[1])])
        # Chaudhuri et al. 2011, Corollary 8: a gradient of norm 1 moves the minimum by at most 1 / ridge.
        return self.release(
            weights, sensitivity=round_up(1 / ridge), distance=round_up(TOLERANCE / ridge), source=source
        )

    def _minimum(self, signed: Floats, ridge: float) -> Floats:
        no_tilt = np.zeros(signed.shape[1])
        # Half of the tolerance is for the gradient, and half for the rounding error of computing it.
        return minimise(self.problem.loss, signed, ridge=ridge, tilt=no_tilt, tolerance=TOLERANCE / 2)

    def _ridge(self, count: int, source: RandomSource) -> float:
        """Return the ridge: yours, or the one with the smallest total cost.

        Noise costs about n c |b|^2 / (2 ridge^2) in the sum of losses, and the penalty costs ridge |w|^2 / 2.
        """
        if self.problem.regularization is not None:
            return self.problem.regularization
        noisy_count = self.count(count, source)
        size, outputs = self.problem.dimension, self.problem.outputs
        # In units of the sensitivity, the norm of noise with density ~ e^(-epsilon' |b|) is a sum of ``size``
        # exponentials of mean 1 / epsilon', where epsilon' = epsilon / outputs is the share of one output.
        spherical_norm = size * outputs / self.weights_epsilon
        noise_norm = self.multiplier() * math.sqrt(size * outputs) if self.problem.delta > 0 else spherical_norm
        # The derivative of the total cost vanishes at ridge^3 = 2 n c (|b| / |w|)^2.
        return float((2 * noisy_count * self.problem.loss.curvature * (noise_norm / EXPECTED_NORM) ** 2) ** (1 / 3))
