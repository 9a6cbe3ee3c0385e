"""Noisy gradients: full-batch gradient descent on a convex sum, with normal noise in every step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import softmax

from hush.accounting import ComposedEvent, Event, calibrate_noise, events
from hush.errors import InvalidArgument, check_count, check_positive
from hush.estimators.base.estimator import Floats
from hush.estimators.linear.method import LinearMethod, LinearRecipe, Places, Problem, signs
from hush.estimators.linear.sums import exact_products, truncated
from hush.randomness import Grid, RandomSource, floored_gaussian

_COUNTING = 0.02  # of what all gradients together give away, in terms of 1 / noise^2
_FEWEST, _MOST, _PACE = 20, 400, 16.0
_SLACK = 1e-7  # sums are exact; what their conversion to floats and the grid round is far below


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyGradients(LinearMethod):
    """Gradient descent with momentum on the whole sum, with normal noise on every gradient, within a ball.

    Choose it for many classes (cross entropy costs one gradient of norm sqrt(2), not one fit per class), for many
    features, and wherever delta > 0 is acceptable. The mean of the last half of the steps is returned. The number of
    records is counted first, with noise: the step size follows from it, and the number of steps, unless it is given:
    16 sqrt(r), from 20 to 400, where r is how often the records outnumber the norm of the noise of a single step.

    Guarantee:
        (epsilon, delta)-DP, add or remove: a Gaussian mechanism for the count; then steps that each have sqrt(T) times
        the noise of one, which together are one Gaussian mechanism, whatever T the noisy count led to.

    Assumes:
        Rows have norm at most 1 (checked here: they are clipped, and slopes are bounded). Sums are exact in fixed
        point (checked here).

    References:
        Bassily, Smith & Thakurta 2014 (noisy projected descent); Song, Chaudhuri & Sarwate 2013; Dong, Roth & Su 2022,
        Corollary 3.3 (Gaussian mechanisms, composed).

    Attributes:
        num_steps: How many; None: by the rule above.
        radius: Of the ball for each class's weights, in units of 1 / data_norm.
        momentum: Of the descent.
    """

    joint_classes = True

    num_steps: int | None = None
    radius: float = 30.0
    momentum: float = 0.9

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.num_steps is not None:
            check_count("num_steps", self.num_steps)
        check_positive("radius", self.radius, maximum=1e3)
        if not 0 <= self.momentum < 1:
            raise InvalidArgument("momentum", self.momentum, "a number in [0, 1)")

    def prepare(self, problem: Problem) -> LinearRecipe:
        """Calibrate the noise."""
        if not problem.delta > 0:
            raise InvalidArgument("delta", problem.delta, "a number in (0, 1)", "Noise on gradients is Gaussian")
        noise = _calibrated(float(problem.epsilon), float(problem.delta))
        return _Descent(problem=problem, method=self, noise=noise)


def _event(noise: float) -> Event:
    return ComposedEvent((events.GaussianEvent(noise), events.GaussianEvent(noise / math.sqrt(_COUNTING))))


@lru_cache(maxsize=64)
def _calibrated(epsilon: float, delta: float) -> float:
    """Return the noise of all steps together, as that of one, in terms of a gradient's reach."""
    return calibrate_noise(epsilon=epsilon, delta=delta, template=_event)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Descent(LinearRecipe):
    problem: Problem
    method: NoisyGradients
    noise: float

    @property
    def event(self) -> Event:
        return _event(self.noise)

    def run(self, rows: Floats, places: Places, source: RandomSource) -> Floats:
        rows, labels = truncated(rows), signs(places, self.problem.outputs)
        count = _noisy(np.array([float(len(rows))]), 1.0, self.noise / math.sqrt(_COUNTING), source)
        size = max(float(count[0]), 1.0)
        ridge = self.problem.regularization or 0.0
        rate, steps = 1 / (self._curvature() * size + ridge), self._num_steps(size)
        weights = np.zeros((labels.shape[1], rows.shape[1]))
        speed, total = np.zeros_like(weights), np.zeros_like(weights)
        for step in range(steps):
            exact = exact_products(self._slopes(rows, labels, weights), rows)
            gradient = _noisy(exact, self._reach(), self.noise * math.sqrt(steps), source) + ridge * weights
            speed = self.method.momentum * speed - rate * gradient
            weights = self._projected(weights + speed)
            total += weights if step >= steps // 2 else 0.0
        return total / (steps - steps // 2)

    def _num_steps(self, size: float) -> int:
        if self.method.num_steps is not None:
            return int(self.method.num_steps)
        norm = self.noise * self._reach() * math.sqrt(self.problem.outputs * self.problem.dimension)
        return min(max(round(_PACE * math.sqrt(size / norm)), _FEWEST), _MOST)

    def _slopes(self, rows: Floats, labels: Floats, weights: Floats) -> Floats:
        margins = rows @ truncated(weights).T  # exact, too: no row's slope depends on where it stands
        if self.problem.together:
            return truncated(softmax(margins, axis=1) - (labels > 0))
        return truncated(self.problem.loss.slope(margins * labels) * labels)

    def _reach(self) -> float:
        """Return the largest norm of one record's gradient: |p - e_y| <= sqrt(2), or one slope for each output."""
        return math.sqrt(2) if self.problem.together else math.sqrt(self.problem.outputs)

    def _curvature(self) -> float:
        return 0.5 if self.problem.together else self.problem.loss.curvature

    def _projected(self, weights: Floats) -> Floats:
        norms = np.linalg.norm(weights, axis=1, keepdims=True)
        return np.asarray(weights * np.minimum(1.0, self.method.radius / np.maximum(norms, 1e-300)))


def _noisy(values: Floats, reach: float, multiplier: float, source: RandomSource) -> Floats:
    """Add floored normal noise on a grid; rounding to it is inside the reach."""
    grid = Grid.for_scale(multiplier * reach)
    spread = multiplier * (reach + _SLACK + math.sqrt(values.size) * grid.spacing)
    noise = floored_gaussian(source, spread / grid.spacing, values.size).reshape(values.shape)
    return np.asarray(grid.real(grid.integers(values) + noise))
