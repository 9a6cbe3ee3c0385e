"""Objective perturbation: a random linear term in what is minimised."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.accounting import Event
from hush.errors import InvalidArgument, check_positive
from hush.estimators._erm_method import Method, Places, Problem, Recipe, signs
from hush.estimators._erm_minimum import minimise
from hush.estimators._erm_noise import gaussian_vector, settle, spherical_vector
from hush.estimators._private import Floats, noise_multiplier
from hush.mechanisms._mechanism import down, up
from hush.randomness import Source

TOLERANCE = 1e-5
"""The gradient at which a search for a minimum stops, relative to what one record can contribute."""

SETTLING = 0.01
"""The part of epsilon that pays for what is between an approximate minimum and the exact one."""

EXPECTED_NORM = 10.0
"""How long weights are expected to be, in units of 1 / data_norm, where nothing else says how much to regularise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivePerturbation(Method):
    """Minimise sum_i loss(w; x_i, y_i) + ridge |w|^2 / 2 + <b, w> for a random vector b.

    Choose it for logistic regression and support vector machines of few to hundreds of features: of the methods here it
    mostly needs the least data, and it needs no number of steps and no learning rate.

    Guarantee:
        (epsilon, delta)-DP, add or remove. For margins' losses with slopes in [-1, 0] and curvature at most c, and rows
        of norm at most 1: one record moves b, seen from the result, by at most 1 in norm, along its own row and to one
        side; and the volume element by a factor of 1 + c / ridge at most, since its Hessian has rank one. So b
        needs the noise of epsilon - ln(1 + c / ridge): density ~ e^(-epsilon' |b|), or normal as for a Gaussian
        mechanism of sensitivity 1, whichever is shorter. A percent of epsilon pays for minima that are approximate.

    Assumes:
        Rows have norm at most 1, that of the intercept included (checked here: they are clipped). Gradients are
        computed to half the tolerance, 1e-5 (true of double precision up to some 10^8 rows). The minimum is not assumed
        to be exact: whatever is within the tolerance is settled by noise.

    References:
        Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 2 and Theorem 9, for sums instead of means and add or remove;
        Kifer, Smith & Thakurta 2012 (normal noise); Iyengar et al. 2019, Algorithm 1 (approximate minima); Redberg,
        Koskela & Wang 2023, Theorem 3.1 (losses along one row; their factor 2 is for slopes of both signs).

    Attributes:
        curvature_share: The most of epsilon that ln(1 + c / ridge) may take; a smaller ridge is raised.
    """

    curvature_share: float = 0.25

    def __post_init__(self) -> None:
        """Check the share."""
        if not check_positive("curvature_share", self.curvature_share) < 1:
            raise InvalidArgument("curvature_share", self.curvature_share, "a number in (0, 1)")

    def prepare(self, problem: Problem) -> Recipe:
        """Choose the ridge and the noise."""
        epsilon, delta = problem.share()
        curvature, main = problem.loss.curvature, epsilon * (1 - SETTLING)
        ridge = curvature / math.expm1(main * self.curvature_share)
        noise = _Noise.least(main - curvature_cost(curvature, ridge), delta, problem.dimension)
        # Noise costs |b|^2 / (2 ridge), at most, and the ridge ridge |w|^2 / 2.
        wanted = noise.expected_norm / EXPECTED_NORM if problem.regularization is None else problem.regularization
        ridge = up(max(ridge, wanted))
        noise = _Noise.least(main - curvature_cost(curvature, ridge), delta, problem.dimension)
        return _Objective(problem=problem, ridge=ridge, noise=noise, settling=down(epsilon * SETTLING))


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

    def draw(self, source: Source) -> tuple[Floats, float]:
        return (gaussian_vector if self.normal else spherical_vector)(source, self.scale, self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Objective(Recipe):
    problem: Problem
    ridge: float
    noise: _Noise
    settling: float

    @property
    def event(self) -> Event:
        return self.problem.claimed()

    def run(self, rows: Floats, places: Places, source: Source) -> Floats:
        labels = signs(places, self.problem.outputs)
        return np.stack([self._one(rows * labels[:, [k]], source) for k in range(labels.shape[1])])

    def _one(self, signed: Floats, source: Source) -> Floats:
        tilt, off = self.noise.draw(source)
        found = minimise(self.problem.loss, signed, ridge=self.ridge, tilt=tilt, tolerance=TOLERANCE / 2)
        # The ridge is the least curvature: a gradient of g is within g / ridge of the minimum.
        return settle(found, distance=up((TOLERANCE + off) / self.ridge), epsilon=self.settling, source=source)
