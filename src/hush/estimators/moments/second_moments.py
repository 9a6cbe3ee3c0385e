"""Three methods to release second moments of clipped rows, or their principal directions.

`PrivatePCA` and `PrivateCovariance` take one of them as ``method``. All start from the same exact sums
(`hush.estimators.moments.gram`): products of the clipped rows, extended by a constant feature, whose products with the
rows are the sum of the rows, and with itself their number.

    AnalyzeGauss    Gaussian noise on the sums; needs delta > 0; the smallest noise
    Wishart         Wishart noise on the sums (`wishart`); needs delta > 0; for comparison
    ExponentialPCA  no matrix at all: directions drawn by the exponential mechanism (`bingham`); delta = 0
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.accounting import ComposedEvent, Event, SelfComposedEvent, events, gaussian_multiplier
from hush.estimators.base.estimator import Floats
from hush.estimators.moments.bingham import bingham
from hush.estimators.moments.gram import STEPS, UNIT, add_noise, add_symmetric_noise, check_noise, clipped_gram
from hush.estimators.moments.wishart import wishart_noise
from hush.randomness import RandomSource, floored_laplace

_SECOND, _FIRST, _COUNT = 0.8, 0.15, 0.05  # shares of the squared sensitivity: x x', sum, count
_DIRECTIONS = 0.9  # share of epsilon for ExponentialPCA's directions; the rest is for variances and the count
_MARGIN = 1 - 2.0**-40  # rounding must not let the parts of epsilon add up to more; the noise drawn is larger still
_FLOATS = "directions are drawn in double precision and rounded to 2^-30"


@dataclass(frozen=True, slots=True)
class SecondMoments:
    """Noisy second moments, in units of the clip norm.

    Attributes:
        count: Number of rows, at least 1.
        mean: Mean of the rows, of norm at most 1; None where rows have a public centre.
        covariance: Covariance about the mean. It may have negative eigenvalues.
        stddev: Standard deviation of the noise on the diagonal of ``covariance``.
    """

    count: float
    mean: Floats | None
    covariance: Floats
    stddev: float


@dataclass(frozen=True, slots=True)
class Components:
    """Directions of large variance, in units of the clip norm.

    Attributes:
        count: Number of rows, at least 1.
        mean: Mean of the rows, as in `SecondMoments`.
        directions: Unit vectors, as rows.
        variances: Variance along each direction, at least 0.
        total: Total variance over all directions.
    """

    count: float
    mean: Floats | None
    directions: Floats
    variances: Floats
    total: float


class SecondMomentsMethod(ABC):
    """A way to release principal directions. A subclass states its requirements and the cost of a release.

    Attributes:
        needs_delta: Whether delta must be above 0.
        needs_center: Whether the rows need a public centre.
        assumptions: The assumptions of the guarantee beyond exact arithmetic.
    """

    needs_delta = True
    needs_center = False
    assumptions: tuple[str, ...] = ()

    @abstractmethod
    def event(self, num_features: int, num_components: int, epsilon: float, delta: float) -> Event:
        """Return the cost of a release, or refuse parameters that the method cannot handle.

        Args:
            num_features: Number of features.
            num_components: Number of directions to release.
            epsilon: Budget of the release.
            delta: Failure probability of the release.
        """

    @abstractmethod
    def components(
        self,
        rows: Floats,
        norm: float,
        center: Floats | None,
        num_components: int,
        epsilon: float,
        delta: float,
        source: RandomSource,
    ) -> Components:
        """Release principal directions.

        Args:
            rows: The private rows.
            norm: Clip norm of a row minus ``center``.
            center: Public centre; None to learn the mean.
            num_components: Number of directions to release.
            epsilon: Budget of the release.
            delta: Failure probability of the release.
            source: Random source.
        """


class CovarianceMethod(SecondMomentsMethod):
    """A way to release a covariance matrix. Principal directions are its eigenvectors."""

    @abstractmethod
    def moments(
        self, rows: Floats, norm: float, center: Floats | None, epsilon: float, delta: float, source: RandomSource
    ) -> SecondMoments:
        """Release the matrix, the mean (unless ``center`` is public) and the count."""

    def components(
        self,
        rows: Floats,
        norm: float,
        center: Floats | None,
        num_components: int,
        epsilon: float,
        delta: float,
        source: RandomSource,
    ) -> Components:
        """Release the matrix and return its leading eigenvectors."""
        moments = self.moments(rows, norm, center, epsilon, delta, source)
        values, vectors = np.linalg.eigh(moments.covariance)
        values = np.maximum(values[::-1], 0.0)
        directions = vectors.T[::-1][:num_components]
        return Components(moments.count, moments.mean, directions, values[:num_components], float(values.sum()))


@dataclass(frozen=True, slots=True)
class AnalyzeGauss(CovarianceMethod):
    """Gaussian noise on the covariance matrix: the smallest noise of the three methods when delta > 0.

    Choose it wherever delta > 0 is acceptable. It is the default of `PrivatePCA` and `PrivateCovariance`.

    Variant: off-diagonal noise is smaller by sqrt(2) than in the paper, because the Frobenius norm of x x' counts each
    off-diagonal entry twice. The number of rows and the mean are part of the same release, with 5 % and 15 % of the
    squared sensitivity.

    Guarantee:
        (epsilon, delta)-differential privacy when one row is added or removed.

    Assumes:
        Rows have norm at most 1 (checked here: `moments` clips them).

    References:
        Dwork, Talwar, Thakurta & Zhang 2014, Algorithm 1; Balle & Wang 2018 (calibration of the noise).

    >>> AnalyzeGauss().event(5, 2, 1.0, 1e-6) == AnalyzeGauss().event(50, 2, 1.0, 1e-6)  # independent of the features
    True
    """

    def event(self, num_features: int, num_components: int, epsilon: float, delta: float) -> Event:
        """Return the cost of a release: a single Gaussian mechanism."""
        return events.GaussianEvent(check_noise(epsilon, delta, _COUNT))

    def moments(
        self, rows: Floats, norm: float, center: Floats | None, epsilon: float, delta: float, source: RandomSource
    ) -> SecondMoments:
        """Release the matrix, the mean and the count."""
        totals = _totals(rows, norm, center, 1.0, STEPS)
        size, multiplier = len(totals) - 1, gaussian_multiplier(epsilon, delta)
        # A part with share s of the squared sensitivity gets noise multiplier / sqrt(s). Without a sum to release,
        # the matrix takes its share.
        stddev = multiplier / math.sqrt(_SECOND if center is None else _SECOND + _FIRST)
        matrix = add_symmetric_noise(totals[:size, :size], stddev, source)
        count = max(float(add_noise(totals[size:, size], multiplier / math.sqrt(_COUNT), source)[0]), 1.0)
        sums = None if center is not None else add_noise(totals[:size, size], multiplier / math.sqrt(_FIRST), source)
        return _centred_moments(matrix, sums, count, stddev)


@dataclass(frozen=True, slots=True)
class Wishart(CovarianceMethod):
    """Wishart noise on the covariance matrix: positive until the mean of the noise is subtracted; for comparison.

    Choose it to compare with work that uses this noise. Otherwise choose `AnalyzeGauss`: Wishart noise is up to a
    quarter larger, and never smaller.

    Variant: this is not the mechanism of Jiang, Xie & Zhang. They use d + 1 degrees of freedom and claim delta = 0, but
    their output rules out a given row with probability 28 % at epsilon = 1. Here the degrees of freedom follow from
    delta by an exact formula (`hush.estimators.moments.wishart`). A constant feature puts the count and the mean into
    the same matrix, with 5 % of the squared norm if the centre is public, and 20 % otherwise.

    Guarantee:
        (epsilon, delta)-differential privacy when one row is added or removed. Delta includes the rounding of the
        noise.

    Assumes:
        Rows have norm at most 1 (checked here: `moments` clips them).

    References:
        Jiang, Xie & Zhang 2016 (whose claim of delta = 0 does not hold); Sheffet 2019 (additive Wishart noise).

    >>> Wishart().event(5, 2, 1.0, 1e-6)
    ApproximateDPEvent(epsilon=1.0, delta=1e-06)
    """

    def event(self, num_features: int, num_components: int, epsilon: float, delta: float) -> Event:
        """Return the cost of a release, or refuse more features than the rounding of the noise allows."""
        wishart_noise(num_features + 1, epsilon, delta)
        return events.ApproximateDPEvent(epsilon, delta)

    def moments(
        self, rows: Floats, norm: float, center: Floats | None, epsilon: float, delta: float, source: RandomSource
    ) -> SecondMoments:
        """Release the matrix, the mean and the count."""
        constant_share = _COUNT if center is not None else _COUNT + _FIRST
        # Squared norms: 1 - constant_share for the row, constant_share for the constant feature, rounded down.
        row_length, constant = math.sqrt(1 - constant_share), math.floor(STEPS * math.sqrt(constant_share)) / STEPS
        totals = _totals(rows, norm, center, row_length, round(STEPS * constant))
        noise = wishart_noise(len(totals), epsilon, delta)
        matrix = noise.release(totals, source)
        count = max(float(matrix[-1, -1]) / constant**2, 1.0)
        sums = matrix[:-1, -1] / (row_length * constant) if center is None else None
        return _centred_moments(matrix[:-1, :-1] / row_length**2, sums, count, noise.stddev / row_length**2)


@dataclass(frozen=True, slots=True)
class ExponentialPCA(SecondMomentsMethod):
    r"""Directions drawn by the exponential mechanism, one after another, with delta = 0; for comparison.

    Choose it for one or two directions where delta must be 0. Otherwise choose `AnalyzeGauss`.

    The score of a direction u is u'X'Xu. A row x adds (x'u)^2, which lies between 0 and 1. All scores move the same
    way, so the density e^(epsilon score) is epsilon-private for adding or removing a row, without the usual factor of
    2. Each further direction is drawn from the directions orthogonal to the earlier ones, and 90 % of epsilon is
    divided equally between them. The rest buys Laplace noise for the variances: along all directions and in the
    remaining subspace together, one row adds \|x\|^2 <= 1.

    The method needs a public ``center``, since a mean would have to be released first. Variant: sampling is exact, by
    rejection, where Chaudhuri, Sarwate & Sinha run a Markov chain, which has the mechanism's distribution only in the
    limit. The running time depends on the data through the number of rejected proposals.

    Guarantee:
        epsilon-differential privacy when one row is added or removed; delta = 0.

    Assumes:
        Rows have norm at most 1 (checked here: `components` clips them). Directions are drawn in double precision and
        rounded, so their distribution is exact up to relative errors of about 1e-9 (the guarantee states this
        assumption).

    References:
        McSherry & Talwar 2007; Chaudhuri, Sarwate & Sinha 2013 (PPCA); Kapralov & Talwar 2013 (one direction after
        another); Kent, Ganeiber & Mardia 2018 (the sampler).

    >>> ExponentialPCA().needs_delta, ExponentialPCA().needs_center
    (False, True)
    """

    needs_delta = False
    needs_center = True
    assumptions = (_FLOATS,)

    def event(self, num_features: int, num_components: int, epsilon: float, delta: float) -> Event:
        """Return the cost of a release: one selection per direction, and two Laplace releases."""
        # Scores only grow when a row is added, so a selection has the privacy of a bounded range of epsilon.
        selection = events.ExponentialMechanismEvent(epsilon * _DIRECTIONS / num_components * _MARGIN)
        laplace = events.LaplaceEvent(2 / (epsilon * (1 - _DIRECTIONS) * _MARGIN))
        return ComposedEvent((SelfComposedEvent(selection, num_components), laplace, laplace))

    def components(
        self,
        rows: Floats,
        norm: float,
        center: Floats | None,
        num_components: int,
        epsilon: float,
        delta: float,
        source: RandomSource,
    ) -> Components:
        """Draw directions one by one, then release the variances and the count with Laplace noise."""
        totals = _totals(rows, norm, center, 1.0, STEPS)
        size = len(totals) - 1
        gram = totals[:size, :size].astype(np.float64) / UNIT
        # Scores of up to 2^30 rows have a relative error of size 2^-52, which may add to their sensitivity.
        rounding = 1 + (size + 1) * 2.0**-20
        basis, directions = np.eye(size), np.empty((num_components, size))
        for index in range(num_components):
            # The exponential mechanism on the orthogonal complement of the directions so far.
            restricted = basis @ gram @ basis.T
            directions[index] = (
                bingham(restricted * (epsilon * _DIRECTIONS / num_components / rounding), source) @ basis
            )
            # The rows of V beyond the rank span the complement.
            basis = np.linalg.svd(directions[: index + 1], full_matrices=True)[2][index + 1 :]
        scores = np.einsum("ij,jk,ik->i", directions, gram, directions)
        # The variance in the remaining subspace completes the trace, which a row changes by at most 1.
        scores = np.append(scores, np.trace(gram) - scores.sum())
        # Half of what is left of epsilon for the variances, and half for the count.
        scale = 2 * rounding * UNIT / (epsilon * (1 - _DIRECTIONS))
        released = (np.rint(scores * UNIT).astype(np.int64) + floored_laplace(source, scale, num_components + 1)) / UNIT
        count = max(float(totals[size, size] + floored_laplace(source, scale, 1)[0]) / UNIT, 1.0)
        variances = np.maximum(released, 0.0) / count
        return Components(count, None, directions, variances[:num_components], float(variances.sum()))


def _totals(rows: Floats, norm: float, center: Floats | None, length: float, constant: int) -> NDArray[np.int64]:
    """Return exact sums of products of clipped rows and a constant feature.

    Args:
        rows: The private rows.
        norm: Clip norm of a row minus ``center``.
        center: Public centre, or None.
        length: Norm of a clipped row after scaling.
        constant: Value of the constant feature, in steps.
    """

    def fill(out: Floats, part: slice) -> None:
        out[:] = constant

    return clipped_gram(rows, norm, 1, fill, length=length, center=center)


def _centred_moments(matrix: Floats, sums: Floats | None, count: float, stddev: float) -> SecondMoments:
    """Turn noisy sums into a mean and a covariance about it; without ``sums``, about the public centre."""
    if sums is None:
        return SecondMoments(count, None, matrix / count, stddev / count)
    mean = sums / count
    # Rows have norm at most 1, so their mean has, too.
    mean /= max(1.0, float(np.linalg.norm(mean)))
    # E[x x'] - m m', where the noise of the mean may leave negative eigenvalues.
    return SecondMoments(count, mean, matrix / count - np.outer(mean, mean), stddev / count)
