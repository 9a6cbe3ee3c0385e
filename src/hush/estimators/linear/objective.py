"""Objective perturbation: a random linear term in what is minimised."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import helmert

from hush.accounting import ApproximateDPEvent, Event
from hush.errors import InvalidArgument, check_positive
from hush.estimators.base.estimator import Floats, noise_multiplier
from hush.estimators.linear.method import LinearMethod, LinearRecipe, Places, Problem, signs
from hush.estimators.linear.minimum import minimise, minimise_jointly
from hush.estimators.linear.noise import gaussian_vector, settle, spherical_vector
from hush.numerics import down, up
from hush.randomness import RandomSource

TOLERANCE = 1e-5
"""The gradient at which a search for a minimum stops, relative to what one record can contribute."""

SETTLING = 0.01
"""The part of epsilon that pays for what is between an approximate minimum and the exact one."""

EXPECTED_NORM = 20.0
"""How long weights are expected to be, in units of 1 / data_norm, where nothing else says how much to regularise."""


_SMALLEST, _LARGEST = 1e-6, 1e9  # epsilon of settling, and noise: gradients must be computed to the tolerance
_SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivePerturbation(LinearMethod):
    """Minimise sum_i loss(w; x_i, y_i) + ridge |w|^2 / 2 + <b, w> for a random vector b.

    Choose it for logistic regression and support vector machines of few to hundreds of features: of the methods here it
    mostly needs the least data, and it needs no number of steps and no learning rate. Logistic regression of several
    classes has one sum of cross entropies and one b for all of them; support vector machines have one for each class,
    which share epsilon.

    Guarantee:
        (epsilon, delta)-DP, add or remove. For margins' losses with slopes in [-1, 0] and curvature at most c, and rows
        of norm at most 1: one record moves b, seen from the result, by at most 1 in norm, along its own row and to one
        side; and the volume element by a factor of 1 + c / ridge at most, since its Hessian has rank one. So b
        needs the noise of epsilon - ln(1 + c / ridge): density ~ e^(-epsilon' |b|), or normal as for a Gaussian
        mechanism of sensitivity 1, whichever is shorter. For K classes together one record moves b by sqrt(2) at most,
        in directions that depend on the result, so that b has density ~ e^(-epsilon' |b| / sqrt(2)); its second
        derivatives have trace 1 - 1 / K and rank K - 1 at most, so that the volume element changes by a factor of (1 +
        1 / (K ridge))^(K - 1) at most. A percent of epsilon pays for minima that are approximate.

    Assumes:
        Rows have norm at most 1, that of the intercept included (checked here: they are clipped). Gradients are
        computed to half the tolerance, 1e-5 (true of double precision up to some 10^8 rows). The minimum is not assumed
        to be exact: whatever is within the tolerance is settled by noise.

    References:
        Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 2 and Theorem 9, for sums instead of means and add or remove;
        Kifer, Smith & Thakurta 2012 (normal noise); Iyengar et al. 2019, Algorithm 1 (approximate minima); Redberg,
        Koskela & Wang 2023, Theorem 3.1 (losses along one row; their factor 2 is for slopes of both signs).

    Attributes:
        curvature_share: The most of epsilon that ln(1 + c / ridge) may take; a smaller ridge is raised. None: what
            makes |b|^2 / (2 ridge) + ridge |w|^2 / 2 smallest, the most that noise and ridge can cost, for |w| = 20.
    """

    joint_classes = True

    curvature_share: float | None = None

    def __post_init__(self) -> None:
        """Check the share."""
        if self.curvature_share is not None and not check_positive("curvature_share", self.curvature_share) < 1:
            raise InvalidArgument("curvature_share", self.curvature_share, "a number in (0, 1)")

    def prepare(self, problem: Problem) -> LinearRecipe:
        """Choose the ridge and the noise."""
        if problem.together:
            return self._prepare_together(problem)
        epsilon, delta = problem.share()
        curvature, main = problem.loss.curvature, epsilon * (1 - SETTLING)

        def least(share: float) -> float:
            return curvature / math.expm1(main * share)

        def noise(ridge: float) -> _Noise:
            return _Noise.least(main - curvature_cost(curvature, ridge), delta, problem.dimension)

        ridge = self._ridge(least, noise, problem.regularization, EXPECTED_NORM)
        settling = _settling(epsilon, noise(ridge), problem)
        return _Objective(problem=problem, ridge=ridge, noise=noise(ridge), settling=settling)

    def _prepare_together(self, problem: Problem) -> LinearRecipe:
        classes, main = problem.outputs, problem.epsilon * (1 - SETTLING)
        size = (classes - 1) * problem.dimension

        def least(share: float) -> float:
            return 1 / (classes * math.expm1(main * share / (classes - 1)))

        def noise(ridge: float) -> _Noise:
            return _Noise(up(JOINT_REACH / down(main - joint_curvature_cost(classes, ridge))), False, size)

        # A margin of two classes is a difference of theirs: each has half of its length.
        ridge = self._ridge(least, noise, problem.regularization, EXPECTED_NORM * math.sqrt(classes) / 2)
        settling = _settling(problem.epsilon, noise(ridge), problem)
        return _JointObjective(problem=problem, ridge=ridge, noise=noise(ridge), settling=settling)

    def _ridge(
        self,
        least: Callable[[float], float],
        noise: Callable[[float], _Noise],
        given: float | None,
        expected: float,
    ) -> float:
        """Return the ridge, no smaller than a share of epsilon pays for: that given, or what costs least."""

        def cost(ridge: float) -> float:
            return noise(ridge).expected_norm ** 2 / (2 * ridge) + ridge * expected**2 / 2

        def ridge(share: float) -> float:
            paid = least(share)
            return max(paid, noise(paid).expected_norm / expected if given is None else given)

        shares = _SHARES if self.curvature_share is None else (float(self.curvature_share),)
        return up(min((ridge(share) for share in shares), key=cost))


def _settling(epsilon: float, noise: _Noise, problem: Problem) -> float:
    """Return what pays for approximate minima; refuse what rounding would decide."""
    settling = down(epsilon * SETTLING)
    if not (settling > _SMALLEST and noise.expected_norm < _LARGEST):
        advice = "Beside so much noise minima are lost in rounding"
        raise InvalidArgument("epsilon", problem.epsilon, "larger, or fewer classes and features", advice)
    return settling


JOINT_REACH = math.sqrt(2) * (1 + 1e-9)
"""How far one record moves b of all classes together: |p - e_y| <= sqrt(2), and what rounding of the basis adds."""


def joint_curvature_cost(classes: int, ridge: float) -> float:
    """Return what one record can change of the volume element of all classes together, as an epsilon."""
    return up((classes - 1) * math.log1p((1 + 1e-9) / (classes * ridge)))


def curvature_cost(curvature: float, ridge: float) -> float:
    """Return what one record can change of the volume element, as an epsilon: ln(1 + c / ridge)."""
    return up(math.log1p(curvature / ridge))


@dataclass(frozen=True, slots=True)
class _Noise:
    scale: float
    normal: bool
    size: int

    @staticmethod
    def least(epsilon: float, delta: float, size: int) -> _Noise:
        """Return the shorter of two noises, which is a public choice."""
        pure = _Noise(up(1 / down(epsilon)), False, size)
        if not delta > 0:
            return pure
        normal = _Noise(up(noise_multiplier(down(epsilon), delta)), True, size)
        return min(pure, normal, key=lambda noise: noise.expected_norm)

    @property
    def expected_norm(self) -> float:
        return self.scale * (math.sqrt(self.size) if self.normal else self.size)

    def draw(self, source: RandomSource) -> tuple[Floats, float]:
        return (gaussian_vector if self.normal else spherical_vector)(source, self.scale, self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Objective(LinearRecipe):
    problem: Problem
    ridge: float
    noise: _Noise
    settling: float

    @property
    def event(self) -> Event:
        return self.problem.claimed()

    def run(self, rows: Floats, places: Places, source: RandomSource) -> Floats:
        labels = signs(places, self.problem.outputs)
        return np.stack([self._one(rows * labels[:, [k]], source) for k in range(labels.shape[1])])

    def _one(self, signed: Floats, source: RandomSource) -> Floats:
        tilt, off = self.noise.draw(source)
        found = minimise(self.problem.loss, signed, ridge=self.ridge, tilt=tilt, tolerance=TOLERANCE / 2)
        # The ridge is the least curvature: a gradient of g is within g / ridge of the minimum.
        return settle(found, distance=up((TOLERANCE + off) / self.ridge), epsilon=self.settling, source=source)


@dataclass(frozen=True, slots=True, kw_only=True)
class _JointObjective(LinearRecipe):
    """Weights that add up to 0 over the classes: cross entropies see no other, and noise has no room there."""

    problem: Problem
    ridge: float
    noise: _Noise
    settling: float

    @property
    def event(self) -> Event:
        return ApproximateDPEvent(self.problem.epsilon)

    def run(self, rows: Floats, places: Places, source: RandomSource) -> Floats:
        basis = helmert(self.problem.outputs)
        chosen = (places[:, None] == np.arange(self.problem.outputs)).astype(np.float64)
        tilt, off = self.noise.draw(source)
        tilt = tilt.reshape(len(basis), rows.shape[1])
        found = minimise_jointly(rows, chosen, basis, ridge=self.ridge, tilt=tilt, tolerance=TOLERANCE / 2)
        distance = up((TOLERANCE + off) / self.ridge)
        return np.asarray(basis.T @ settle(found, distance=distance, epsilon=self.settling, source=source))
