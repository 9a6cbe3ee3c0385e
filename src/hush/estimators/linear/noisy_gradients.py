"""Full-batch gradient descent on a convex sum, with Gaussian noise on every gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import softmax

from hush.accounting import ComposedEvent, Event, calibrate_noise, events
from hush.errors import InvalidArgument, check_count, check_positive
from hush.estimators.base.estimator import Floats
from hush.estimators.linear.method import ClassIndices, LinearMethod, LinearRecipe, Problem, label_signs
from hush.estimators.linear.sums import exact_products, truncate
from hush.randomness import Grid, RandomSource, floored_gaussian

_COUNT_SHARE = 0.02  # squared sensitivity of the count, relative to that of all gradients together
_MIN_STEPS, _MAX_STEPS, _PACE = 20, 400, 16.0  # steps: 16 sqrt(rows / noise norm), between these limits
_SLACK = 1e-7  # sums are exact; converting them to floats and to the grid rounds by far less than this


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyGradients(LinearMethod):
    """Full-batch gradient descent with momentum, with Gaussian noise on every gradient and projection onto a ball.

    Choose it for many classes (cross entropy costs one gradient of norm sqrt(2) instead of one fit per class), for many
    features, and wherever delta > 0 is acceptable. It returns the mean of the second half of the steps. First it counts
    the rows, with noise. The learning rate follows from that count, and so does the number of steps if you do not set
    it: 16 sqrt(r), between 20 and 400, where r is the number of rows divided by the norm of the noise of a single step.

    Attributes:
        num_steps: Number of steps. Default: from the noisy count, as above.
        radius: Radius of the ball for each class's weights, in units of 1 / data_norm.
        momentum: Momentum of the descent, in [0, 1).

    Guarantee:
        (epsilon, delta)-DP when one row is added or removed. The count is a Gaussian mechanism. Each of T steps has
        sqrt(T) times the noise of a single step, so all steps together are one Gaussian mechanism, for any T that the
        noisy count leads to.

    Assumes:
        Rows have norm at most 1 (checked here: they are clipped, and slopes are bounded). Sums are exact in fixed point
        (checked here).

    References:
        Bassily, Smith & Thakurta 2014 (noisy projected gradient descent); Song, Chaudhuri & Sarwate 2013; Dong, Roth &
        Su 2022, Corollary 3.3 (composition of Gaussian mechanisms).

    >>> import numpy as np
    >>> from hush.estimators import PrivateLogisticRegression
    >>> from hush.randomness import TestSource
    >>> X = np.array([[-1.0], [1.0]] * 1000)
    >>> model = PrivateLogisticRegression(
    ...     epsilon=1.0, delta=1e-6, data_norm=1.0, classes=[0, 1], method=NoisyGradients(), source=TestSource(1)
    ... )
    >>> model.fit(X, [0, 1] * 1000).predict([[-0.5], [0.5]]).tolist()
    [0, 1]
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
            raise InvalidArgument(
                "delta",
                problem.delta,
                "a number in (0, 1)",
                "The noise on gradients is Gaussian, which needs delta > 0",
            )
        noise = _calibrated(float(problem.epsilon), float(problem.delta))
        return _NoisyGradientsRecipe(problem=problem, method=self, noise=noise)


def _event(noise: float) -> Event:
    """Return the cost of all steps together and of the count."""
    return ComposedEvent((events.GaussianEvent(noise), events.GaussianEvent(noise / math.sqrt(_COUNT_SHARE))))


@lru_cache(maxsize=64)
def _calibrated(epsilon: float, delta: float) -> float:
    """Return the noise multiplier of all steps together, as if they were a single step."""
    return calibrate_noise(epsilon=epsilon, delta=delta, template=_event)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoisyGradientsRecipe(LinearRecipe):
    problem: Problem
    method: NoisyGradients
    noise: float

    @property
    def event(self) -> Event:
        return _event(self.noise)

    def run(self, rows: Floats, class_indices: ClassIndices, source: RandomSource) -> Floats:
        rows, labels = truncate(rows), label_signs(class_indices, self.problem.outputs)
        count = _add_noise(np.array([float(len(rows))]), 1.0, self.noise / math.sqrt(_COUNT_SHARE), source)
        num_rows = max(float(count[0]), 1.0)
        ridge = self.problem.regularization or 0.0
        # The rate is the inverse curvature of the sum, up to the noise of the count.
        rate, steps = 1 / (self._curvature() * num_rows + ridge), self._num_steps(num_rows)
        weights = np.zeros((labels.shape[1], rows.shape[1]))
        velocity, total = np.zeros_like(weights), np.zeros_like(weights)
        for step in range(steps):
            exact_gradient = exact_products(self._slopes(rows, labels, weights), rows)
            # sqrt(T) times the noise of a single step: T such steps are one Gaussian mechanism (Dong et al. 2022).
            noisy_gradient = _add_noise(exact_gradient, self._sensitivity(), self.noise * math.sqrt(steps), source)
            gradient = noisy_gradient + ridge * weights
            velocity = self.method.momentum * velocity - rate * gradient
            weights = self._project(weights + velocity)
            # Averaging the second half of the steps averages the noise out.
            total += weights if step >= steps // 2 else 0.0
        return total / (steps - steps // 2)

    def _num_steps(self, num_rows: float) -> int:
        """Return the number of steps: yours, or one that follows from the noisy number of rows."""
        if self.method.num_steps is not None:
            return int(self.method.num_steps)
        noise_norm = self.noise * self._sensitivity() * math.sqrt(self.problem.outputs * self.problem.dimension)
        return min(max(round(_PACE * math.sqrt(num_rows / noise_norm)), _MIN_STEPS), _MAX_STEPS)

    def _slopes(self, rows: Floats, labels: Floats, weights: Floats) -> Floats:
        """Return the slope of each row and output; the gradient is their product with the rows."""
        margins = rows @ truncate(weights).T  # also exact, so a row's slope does not depend on its position
        if self.problem.joint:
            return truncate(softmax(margins, axis=1) - (labels > 0))
        return truncate(self.problem.loss.slope(margins * labels) * labels)

    def _sensitivity(self) -> float:
        """Return the largest norm of a row's gradient: |p - e_y| <= sqrt(2), or one slope per output."""
        return math.sqrt(2) if self.problem.joint else math.sqrt(self.problem.outputs)

    def _curvature(self) -> float:
        return 0.5 if self.problem.joint else self.problem.loss.curvature

    def _project(self, weights: Floats) -> Floats:
        norms = np.linalg.norm(weights, axis=1, keepdims=True)
        return np.asarray(weights * np.minimum(1.0, self.method.radius / np.maximum(norms, 1e-300)))


def _add_noise(values: Floats, sensitivity: float, multiplier: float, source: RandomSource) -> Floats:
    """Add Gaussian noise on a grid. Rounding to the grid is included in the sensitivity."""
    # Each value is rounded to the grid, which moves a vector of n values by up to sqrt(n) grid steps.
    grid = Grid.for_scale(multiplier * sensitivity)
    stddev = multiplier * (sensitivity + _SLACK + math.sqrt(values.size) * grid.spacing)
    noise = floored_gaussian(source, stddev / grid.spacing, values.size).reshape(values.shape)
    return np.asarray(grid.real(grid.integers(values) + noise))
