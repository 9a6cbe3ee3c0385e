"""Objective perturbation: add a random linear term to the sum of losses, and minimise it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import helmert

from hush.accounting import ApproximateDPEvent, Event, gaussian_multiplier
from hush.errors import InvalidArgument, check_positive
from hush.estimators.base.estimator import Floats
from hush.estimators.linear.method import ClassIndices, LinearMethod, LinearRecipe, Problem, label_signs
from hush.estimators.linear.minimum import minimise, minimise_jointly
from hush.estimators.linear.noise import gaussian_vector, mask_error, spherical_vector
from hush.numerics import round_down, round_up
from hush.randomness import RandomSource

TOLERANCE = 1e-5
"""Norm of the gradient at which the search for a minimum stops; one row contributes a gradient of norm at most 1."""

MASKING_SHARE = 0.01
"""Share of epsilon for masking the difference between an approximate minimum and the exact one."""

EXPECTED_NORM = 20.0
"""Expected norm of the weights, in units of 1 / data_norm. A ridge that you do not set is chosen for it."""


# Limits within which gradients can be computed to the tolerance.
_MIN_MASKING_EPSILON, _MAX_NOISE_NORM = 1e-6, 1e9
# Shares of epsilon to try for the curvature term. They are public, so the best of them costs nothing.
_CURVATURE_SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivePerturbation(LinearMethod):
    """Minimise sum_i loss(w; x_i, y_i) + ridge |w|^2 / 2 + <b, w> for a random vector b.

    Choose it for logistic regression and support vector machines with up to hundreds of features. It usually needs the
    least data of all methods here, and it has no number of steps and no learning rate to tune. Logistic regression with
    several classes minimises one sum of cross entropies, with one b for all classes. Support vector machines minimise
    one sum per class, and the classes share epsilon. Known as objective perturbation.

    Attributes:
        curvature_share: Largest share of epsilon that ln(1 + c / ridge) may take; a smaller ridge is raised. Default:
            the share that minimises |b|^2 / (2 ridge) + ridge |w|^2 / 2, a bound on the cost of noise and ridge, at |w|
            = 20.

    Guarantee:
        (epsilon, delta)-DP when one row is added or removed, for losses with slope in [-1, 0] and curvature at most c,
        and rows of norm at most 1. Fix the result, and ask which b leads to it. One row shifts this b by at most 1 in
        norm, along that row and to one side. It changes the volume element by a factor of at most 1 + c / ridge, since
        its Hessian has rank one. So b needs the noise of epsilon' = epsilon - ln(1 + c / ridge): density ~ e^(-epsilon'
        |b|), or that of a Gaussian mechanism of sensitivity 1, whichever is shorter. For K classes learned jointly, one
        row shifts b by at most sqrt(2), in directions that depend on the result, so that b has density ~ e^(-epsilon'
        |b| / sqrt(2)). The Hessian of a row then has trace at most 1 - 1 / K and rank at most K - 1, so the volume
        element changes by a factor of at most (1 + 1 / (K ridge))^(K - 1). One percent of epsilon masks the error of
        approximate minima.

    Assumes:
        Rows have norm at most 1, including the intercept (checked here: they are clipped). Gradients are computed to
        half the tolerance of 1e-5 (true of double precision up to about 10^8 rows). The minimum need not be exact:
        noise masks everything within the tolerance.

    References:
        Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 2 and Theorem 9, for sums instead of means and add-or-remove
        neighbours; Kifer, Smith & Thakurta 2012 (Gaussian noise); Iyengar et al. 2019, Algorithm 1 (approximate
        minima); Redberg, Koskela & Wang 2023, Theorem 3.1 (losses along one row; their factor 2 is for slopes of both
        signs).

    >>> import numpy as np
    >>> from hush.estimators import PrivateLogisticRegression
    >>> from hush.randomness import TestSource
    >>> X = np.array([[-1.0], [1.0]] * 1000)
    >>> model = PrivateLogisticRegression(
    ...     epsilon=1.0, data_norm=1.0, classes=[0, 1], method=ObjectivePerturbation(), source=TestSource(1)
    ... )
    >>> model.fit(X, [0, 1] * 1000).predict([[-0.5], [0.5]]).tolist()
    [0, 1]
    """

    joint_classes = True

    curvature_share: float | None = None

    def __post_init__(self) -> None:
        """Check the share."""
        if self.curvature_share is not None and not check_positive("curvature_share", self.curvature_share) < 1:
            raise InvalidArgument("curvature_share", self.curvature_share, "a number in (0, 1)")

    def prepare(self, problem: Problem) -> LinearRecipe:
        """Choose the ridge and the noise."""
        if problem.joint:
            return self._prepare_joint(problem)
        epsilon, delta = problem.per_output_budget()
        curvature, noise_epsilon = problem.loss.curvature, epsilon * (1 - MASKING_SHARE)

        def smallest_ridge(share: float) -> float:
            # Solves ln(1 + c / ridge) = share * epsilon for the ridge.
            return curvature / math.expm1(noise_epsilon * share)

        def noise(ridge: float) -> _ObjectiveNoise:
            return _smallest_noise(noise_epsilon - curvature_cost(curvature, ridge), delta, problem.dimension)

        ridge = self._ridge(smallest_ridge, noise, problem.regularization, EXPECTED_NORM)
        masking_epsilon = _masking_epsilon(epsilon, noise(ridge), problem)
        return _ObjectiveRecipe(problem=problem, ridge=ridge, noise=noise(ridge), masking_epsilon=masking_epsilon)

    def _prepare_joint(self, problem: Problem) -> LinearRecipe:
        classes, noise_epsilon = problem.outputs, problem.epsilon * (1 - MASKING_SHARE)
        size = (classes - 1) * problem.dimension  # weights sum to 0 over the classes

        def smallest_ridge(share: float) -> float:
            # Solves (K - 1) ln(1 + 1 / (K ridge)) = share * epsilon for the ridge.
            return 1 / (classes * math.expm1(noise_epsilon * share / (classes - 1)))

        def noise(ridge: float) -> _ObjectiveNoise:
            remaining_epsilon = round_down(noise_epsilon - joint_curvature_cost(classes, ridge))
            return _SphericalNoise(round_up(JOINT_SENSITIVITY / remaining_epsilon), size)

        # A margin between two classes is the difference of their scores, so each vector has half its length.
        ridge = self._ridge(smallest_ridge, noise, problem.regularization, EXPECTED_NORM * math.sqrt(classes) / 2)
        masking_epsilon = _masking_epsilon(problem.epsilon, noise(ridge), problem)
        return _JointObjectiveRecipe(problem=problem, ridge=ridge, noise=noise(ridge), masking_epsilon=masking_epsilon)

    def _ridge(
        self,
        smallest_ridge: Callable[[float], float],
        noise: Callable[[float], _ObjectiveNoise],
        regularization: float | None,
        expected_norm: float,
    ) -> float:
        """Return the ridge: yours, or the cheapest one, but no smaller than a share of epsilon pays for.

        Args:
            smallest_ridge: From a share of epsilon to the smallest ridge whose curvature cost it covers.
            noise: From a ridge to the noise that the rest of epsilon needs.
            regularization: The ridge that you set, or None.
            expected_norm: Expected norm of the weights.
        """

        def cost(ridge: float) -> float:
            # The tilt b raises the minimum by at most |b|^2 / (2 ridge), and the ridge adds ridge |w|^2 / 2.
            return noise(ridge).expected_norm ** 2 / (2 * ridge) + ridge * expected_norm**2 / 2

        def ridge(share: float) -> float:
            smallest = smallest_ridge(share)
            return max(
                smallest, noise(smallest).expected_norm / expected_norm if regularization is None else regularization
            )

        # Unless it is set, the ridge balances both costs: |b| / |w|, but no less than the share allows.
        shares = _CURVATURE_SHARES if self.curvature_share is None else (float(self.curvature_share),)
        return round_up(min((ridge(share) for share in shares), key=cost))


def _masking_epsilon(epsilon: float, noise: _ObjectiveNoise, problem: Problem) -> float:
    """Return the epsilon for masking approximate minima, or refuse noise that would drown in rounding errors."""
    masking_epsilon = round_down(epsilon * MASKING_SHARE)
    if not (masking_epsilon > _MIN_MASKING_EPSILON and noise.expected_norm < _MAX_NOISE_NORM):
        advice = "With this much noise, rounding errors would decide the minimum"
        raise InvalidArgument("epsilon", problem.epsilon, "a larger value, or fewer classes and features", advice)
    return masking_epsilon


JOINT_SENSITIVITY = math.sqrt(2) * (1 + 1e-9)
"""Shift of b by one row when all classes are learned jointly: |p - e_y| <= sqrt(2), plus the rounding of the basis."""


def joint_curvature_cost(classes: int, ridge: float) -> float:
    """Return the change of the volume element by one row when classes are learned jointly, as an epsilon."""
    return round_up((classes - 1) * math.log1p((1 + 1e-9) / (classes * ridge)))


def curvature_cost(curvature: float, ridge: float) -> float:
    """Return the change of the volume element by one row, as an epsilon: ln(1 + c / ridge)."""
    return round_up(math.log1p(curvature / ridge))


class _ObjectiveNoise(Protocol):
    """The distribution of b."""

    @property
    def expected_norm(self) -> float: ...

    def draw(self, source: RandomSource) -> tuple[Floats, float]: ...


@dataclass(frozen=True, slots=True)
class _SphericalNoise:
    """Density ~ e^(-|b| / scale)."""

    scale: float
    size: int

    @property
    def expected_norm(self) -> float:
        return self.scale * self.size  # |b| has a gamma distribution of this shape

    def draw(self, source: RandomSource) -> tuple[Floats, float]:
        return spherical_vector(source, self.scale, self.size)


@dataclass(frozen=True, slots=True)
class _GaussianVectorNoise:
    """Independent Gaussian coordinates, of standard deviation ``scale``."""

    scale: float
    size: int

    @property
    def expected_norm(self) -> float:
        return self.scale * math.sqrt(self.size)  # up to a factor that tends to 1

    def draw(self, source: RandomSource) -> tuple[Floats, float]:
        return gaussian_vector(source, self.scale, self.size)


def _smallest_noise(epsilon: float, delta: float, size: int) -> _ObjectiveNoise:
    """Return the noise of smaller expected norm. The choice depends on public numbers only."""
    # Scale 1 / epsilon: a shift of b by 1 changes ln of the density by at most epsilon.
    spherical: _ObjectiveNoise = _SphericalNoise(round_up(1 / round_down(epsilon)), size)
    if not delta > 0:
        return spherical
    gaussian: _ObjectiveNoise = _GaussianVectorNoise(round_up(gaussian_multiplier(round_down(epsilon), delta)), size)
    return min(spherical, gaussian, key=lambda noise: noise.expected_norm)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ObjectiveRecipe(LinearRecipe):
    problem: Problem
    ridge: float
    noise: _ObjectiveNoise
    masking_epsilon: float

    @property
    def event(self) -> Event:
        return self.problem.per_output_event()

    def run(self, rows: Floats, class_indices: ClassIndices, source: RandomSource) -> Floats:
        labels = label_signs(class_indices, self.problem.outputs)
        return np.stack([self._fit_output(rows * labels[:, [k]], source) for k in range(labels.shape[1])])

    def _fit_output(self, signed: Floats, source: RandomSource) -> Floats:
        tilt, noise_error = self.noise.draw(source)
        weights = minimise(self.problem.loss, signed, ridge=self.ridge, tilt=tilt, tolerance=TOLERANCE / 2)
        # The sum has curvature at least ridge, so a gradient of norm g is within g / ridge of the minimum.
        distance = round_up((TOLERANCE + noise_error) / self.ridge)
        return mask_error(weights, distance=distance, epsilon=self.masking_epsilon, source=source)


@dataclass(frozen=True, slots=True, kw_only=True)
class _JointObjectiveRecipe(LinearRecipe):
    """Joint weights of all classes, which sum to 0 over the classes.

    Cross entropy does not change when the same vector is added to every class, so that direction is left out: it needs
    no noise.
    """

    problem: Problem
    ridge: float
    noise: _ObjectiveNoise
    masking_epsilon: float

    @property
    def event(self) -> Event:
        return ApproximateDPEvent(self.problem.epsilon)

    def run(self, rows: Floats, class_indices: ClassIndices, source: RandomSource) -> Floats:
        # Rows of a Helmert matrix span the vectors that sum to 0.
        basis = helmert(self.problem.outputs)
        one_hot = (class_indices[:, None] == np.arange(self.problem.outputs)).astype(np.float64)
        tilt, noise_error = self.noise.draw(source)
        tilt = tilt.reshape(len(basis), rows.shape[1])
        weights = minimise_jointly(rows, one_hot, basis, ridge=self.ridge, tilt=tilt, tolerance=TOLERANCE / 2)
        distance = round_up((TOLERANCE + noise_error) / self.ridge)
        return np.asarray(basis.T @ mask_error(weights, distance=distance, epsilon=self.masking_epsilon, source=source))
