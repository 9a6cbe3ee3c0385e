"""Ways to release second moments of clipped rows, or directions of them; shared by PCA and covariance."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.accounting import ComposedEvent, Event, SelfComposedEvent, events
from hush.estimators.base.estimator import Floats, noise_multiplier
from hush.estimators.moments.bingham import bingham
from hush.estimators.moments.gram import STEPS, UNIT, check_noise, clipped_gram, noisy, noisy_symmetric
from hush.estimators.moments.wishart import wishart_noise
from hush.randomness import RandomSource, floored_laplace

_SECOND, _FIRST, _COUNT = 0.8, 0.15, 0.05  # shares of the squared sensitivity
_DIRECTIONS = 0.9  # share of epsilon; the rest is for variances and the count
_BELOW = 1 - 2.0**-40  # parts of epsilon add up to no more than it; what is drawn has more noise than that
_FLOATS = "directions are drawn in double precision, and rounded to 2^-30"


@dataclass(frozen=True, slots=True)
class SecondMoments:
    """What noisy totals say, in units of the norm.

    Attributes:
        count: Of rows; at least 1.
        mean: Of rows, of norm at most 1; None where rows have a public centre.
        covariance: About the mean; not always positive.
        stddev: Of its noise, on the diagonal.
    """

    count: float
    mean: Floats | None
    covariance: Floats
    stddev: float


@dataclass(frozen=True, slots=True)
class Components:
    """Directions of large variance, in units of the norm.

    Attributes:
        count: Of rows; at least 1.
        mean: As of `SecondMoments`.
        directions: As rows.
        variances: Along them; at least 0.
        total: Variance in all directions.
    """

    count: float
    mean: Floats | None
    directions: Floats
    variances: Floats
    total: float


class SecondMomentsMethod(ABC):
    """How second moments are released; ``centred`` where rows have a public centre, so that no mean is learned."""

    needs_delta = True
    needs_center = False
    assumptions: tuple[str, ...] = ()

    @abstractmethod
    def event(self, num_features: int, wanted: int, epsilon: float, delta: float) -> Event:
        """Return what a release costs; refuse what cannot be had."""

    @abstractmethod
    def components(
        self,
        rows: Floats,
        norm: float,
        center: Floats | None,
        wanted: int,
        epsilon: float,
        delta: float,
        source: RandomSource,
    ) -> Components:
        """Release directions."""


class CovarianceMethod(SecondMomentsMethod):
    """How a covariance matrix is released; directions are its eigenvectors."""

    @abstractmethod
    def moments(
        self, rows: Floats, norm: float, center: Floats | None, epsilon: float, delta: float, source: RandomSource
    ) -> SecondMoments:
        """Release the matrix."""

    def components(
        self,
        rows: Floats,
        norm: float,
        center: Floats | None,
        wanted: int,
        epsilon: float,
        delta: float,
        source: RandomSource,
    ) -> Components:
        """Release directions."""
        found = self.moments(rows, norm, center, epsilon, delta, source)
        values, vectors = np.linalg.eigh(found.covariance)
        values = np.maximum(values[::-1], 0.0)
        directions = vectors.T[::-1][:wanted]
        return Components(found.count, found.mean, directions, values[:wanted], float(values.sum()))


@dataclass(frozen=True, slots=True)
class AnalyzeGauss(CovarianceMethod):
    """Gaussian noise on the matrix: the smallest of the three ways' with a delta.

    Choose it wherever a delta is allowed: it is the default of `PrivatePCA` and `PrivateCovariance`.

    Variant: noise beside the diagonal is smaller by sqrt(2) than in the paper (see the Frobenius norm of x x'); the
    number of rows and the mean are part of the same release (5 and 15 % of the squared sensitivity).

    Guarantee:
        (epsilon, delta)-differential privacy for one row, added or removed.

    Assumes:
        Rows have norm at most 1 (checked here: done by whoever releases).

    References:
        Dwork, Talwar, Thakurta & Zhang 2014, Algorithm 1; Balle & Wang 2018 (the noise).

    >>> AnalyzeGauss().event(5, 2, 1.0, 1e-6) == AnalyzeGauss().event(50, 2, 1.0, 1e-6)  # whatever the features
    True
    """

    def event(self, num_features: int, wanted: int, epsilon: float, delta: float) -> Event:
        """Return what a release costs."""
        return events.GaussianEvent(check_noise(epsilon, delta, _COUNT))

    def moments(
        self, rows: Floats, norm: float, center: Floats | None, epsilon: float, delta: float, source: RandomSource
    ) -> SecondMoments:
        """Release the matrix, the mean and the count."""
        totals = _totals(rows, norm, center, 1.0, STEPS)
        size, multiplier = len(totals) - 1, noise_multiplier(epsilon, delta)
        spread = multiplier / math.sqrt(_SECOND if center is None else _SECOND + _FIRST)
        matrix = noisy_symmetric(totals[:size, :size], spread, source)
        count = max(float(noisy(totals[size:, size], multiplier / math.sqrt(_COUNT), source)[0]), 1.0)
        sums = None if center is not None else noisy(totals[:size, size], multiplier / math.sqrt(_FIRST), source)
        return _about_the_mean(matrix, sums, count, spread)


@dataclass(frozen=True, slots=True)
class Wishart(CovarianceMethod):
    """Wishart noise on the matrix, which is then positive before the noise's mean is subtracted; for comparison.

    Choose it to compare with work that uses such noise. Else choose `AnalyzeGauss`: the noise here is up to a quarter
    more than there, and never less.

    Variant: not Jiang, Xie & Zhang's,
    who claim delta = 0 with d + 1 degrees of freedom, where there is none: a row is ruled out with a probability of
    28 % at their epsilon 1. Here there are as many degrees of freedom as delta asks for, by an exact formula; count and
    mean are in the same matrix, by a constant feature (5 % of a squared norm with a public centre, and 20 % without).

    Guarantee:
        (epsilon, delta)-differential privacy for one row, added or removed. Rounding errors of the noise are in delta.

    Assumes:
        Rows have norm at most 1 (checked here: done by whoever releases).

    References:
        Jiang, Xie & Zhang 2016 (whose claim of delta = 0 does not hold); Sheffet 2019 (additive Wishart noise).

    >>> Wishart().event(5, 2, 1.0, 1e-6)
    ApproximateDP(epsilon=1.0, delta=1e-06)
    """

    def event(self, num_features: int, wanted: int, epsilon: float, delta: float) -> Event:
        """Return what a release costs; refuse more features than rounding errors allow."""
        wishart_noise(num_features + 1, epsilon, delta)
        return events.ApproximateDPEvent(epsilon, delta)

    def moments(
        self, rows: Floats, norm: float, center: Floats | None, epsilon: float, delta: float, source: RandomSource
    ) -> SecondMoments:
        """Release the matrix, the mean and the count."""
        share = _COUNT if center is not None else _COUNT + _FIRST
        inner, outer = math.sqrt(1 - share), math.floor(STEPS * math.sqrt(share)) / STEPS
        totals = _totals(rows, norm, center, inner, round(STEPS * outer))
        noise = wishart_noise(len(totals), epsilon, delta)
        matrix = noise.release(totals, source)
        count = max(float(matrix[-1, -1]) / outer**2, 1.0)
        sums = matrix[:-1, -1] / (inner * outer) if center is None else None
        return _about_the_mean(matrix[:-1, :-1] / inner**2, sums, count, noise.stddev / inner**2)


@dataclass(frozen=True, slots=True)
class ExponentialPCA(SecondMomentsMethod):
    r"""Directions by the exponential mechanism, one after the other: pure epsilon; for comparison.

    Choose it for one or two directions where no delta is allowed; else `AnalyzeGauss`.

    A direction u has the score u'X'Xu. A row x adds (x'u)^2, between 0 and 1: so the density e^(epsilon score) is
    epsilon-private for a row added or removed, without a factor of 2. The next one is from the directions orthogonal to
    those before. Each has the same part of 90 % of epsilon; with the rest, variances get Laplace noise: along all
    directions and in all others together one row adds \|x\|^2 <= 1.

    It takes a public ``center``: a mean would have to be released before. Variant: exact sampling by rejection, where
    Chaudhuri, Sarwate & Sinha run a Markov chain, whose law is the mechanism's in the limit only. Its running time
    depends on the data: on how many proposals are rejected.

    Guarantee:
        epsilon-differential privacy for one row, added or removed; delta = 0.

    Assumes:
        Rows have norm at most 1 (checked here: done by whoever releases). Directions are drawn in double precision and
        rounded, so that the law is the mechanism's up to relative errors of about 1e-9 (told in the guarantee).

    References:
        McSherry & Talwar 2007; Chaudhuri, Sarwate & Sinha 2013 (PPCA); Kapralov & Talwar 2013 (one direction after the
        other); Kent, Ganeiber & Mardia 2018 (the sampler).

    >>> ExponentialPCA().needs_delta, ExponentialPCA().needs_center
    (False, True)
    """

    needs_delta = False
    needs_center = True
    assumptions = (_FLOATS,)

    def event(self, num_features: int, wanted: int, epsilon: float, delta: float) -> Event:
        """Return what a release costs."""
        one = events.ExponentialMechanismEvent(epsilon * _DIRECTIONS / wanted * _BELOW)
        scale = events.LaplaceEvent(2 / (epsilon * (1 - _DIRECTIONS) * _BELOW))
        return ComposedEvent((SelfComposedEvent(one, wanted), scale, scale))

    def components(
        self,
        rows: Floats,
        norm: float,
        center: Floats | None,
        wanted: int,
        epsilon: float,
        delta: float,
        source: RandomSource,
    ) -> Components:
        """Release directions."""
        totals = _totals(rows, norm, center, 1.0, STEPS)
        size = len(totals) - 1
        exact = totals[:size, :size].astype(np.float64) / UNIT
        # Scores of up to 2^30 rows are computed to within size 2^-52 of them: a little is taken off.
        doubt = 1 + (size + 1) * 2.0**-20
        basis, directions = np.eye(size), np.empty((wanted, size))
        for place in range(wanted):
            within = basis @ exact @ basis.T
            directions[place] = bingham(within * (epsilon * _DIRECTIONS / wanted / doubt), source) @ basis
            basis = np.linalg.svd(directions[: place + 1], full_matrices=True)[2][place + 1 :]
        scores = np.einsum("ij,jk,ik->i", directions, exact, directions)
        scores = np.append(scores, np.trace(exact) - scores.sum())
        scale = 2 * doubt * UNIT / (epsilon * (1 - _DIRECTIONS))
        found = (np.rint(scores * UNIT).astype(np.int64) + floored_laplace(source, scale, wanted + 1)) / UNIT
        count = max(float(totals[size, size] + floored_laplace(source, scale, 1)[0]) / UNIT, 1.0)
        variances = np.maximum(found, 0.0) / count
        return Components(count, None, directions, variances[:wanted], float(variances.sum()))


def _totals(rows: Floats, norm: float, center: Floats | None, length: float, constant: int) -> NDArray[np.int64]:
    """Return sums of products of clipped rows, of ``length`` at most, and a constant feature, in steps."""

    def fill(out: Floats, part: slice) -> None:
        out[:] = constant

    return clipped_gram(rows, norm, 1, fill, length=length, center=center)


def _about_the_mean(matrix: Floats, sums: Floats | None, count: float, stddev: float) -> SecondMoments:
    if sums is None:
        return SecondMoments(count, None, matrix / count, stddev / count)
    mean = sums / count
    mean /= max(1.0, float(np.linalg.norm(mean)))
    return SecondMoments(count, mean, matrix / count - np.outer(mean, mean), stddev / count)
