"""Means and covariance matrices of vectors, each clipped to a public norm.

Count, sum and (for a covariance) products of coordinates are released together, as three blocks of one release. Vectors
are clipped in the norm that fits the noise: L1 for Laplace, L2 for Gaussian.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count, check_positive
from hush.numerics import clip_rows
from hush.randomness import RandomSource
from hush.statistics.columns import Floats, as_floats
from hush.statistics.noise.charge import released
from hush.statistics.noise.estimate import Estimate
from hush.statistics.noise.release import Block, GaussianNoise, LaplaceNoise, NoiseKind
from hush.statistics.noise.tails import quotients
from hush.statistics.request import Answer, StatisticRequest, checked_request

_MAX_DIMENSION = 4096


@released
def vector_mean(
    vectors: Any,
    *,
    units: Any,
    dimension: int,
    clip_norm: float,
    rows_per_unit: int = 1,
    epsilon: float,
    delta: float = 0.0,
    noise: NoiseKind | None = None,
    confidence: float = 0.95,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> Estimate:
    """Return the mean of vectors, clipped in L2 norm for Gaussian noise and in L1 norm for Laplace noise.

    >>> from hush.randomness import TestSource
    >>> vectors = [[0.1, 0.2], [0.3, 0.0]] * 1000
    >>> result = vector_mean(vectors, units=range(2000), dimension=2, clip_norm=1.0, epsilon=10.0,
    ...                      source=TestSource(1))
    >>> result.value.round(2).tolist()
    [0.2, 0.1]

    Args:
        vectors: Rows of ``dimension`` numbers. Rows of another length, or with a missing number, are left out.
        units: As for `count`.
        dimension: The number of coordinates; public.
        clip_norm: The norm that longer vectors are scaled down to.
        rows_per_unit: How many rows of a unit count, chosen at random.
        epsilon: The budget of the sum and the count together.
        delta: The delta for Gaussian noise.
        noise: The kind of noise; None for Gaussian noise if delta > 0, else Laplace.
        confidence: The confidence of each coordinate's interval.
        source: As for `count`.
        budget: As for `count`.

    Guarantee:
        (epsilon, delta)-differential privacy for all rows of one unit.

    Assumes:
        Each person has exactly one id (the caller's duty). Vectors are clipped and summed on a grid (checked here).

    References:
        Balle & Wang 2018; Dwork, McSherry, Nissim & Smith 2006; Casacuberta et al. 2022.
    """
    clipped = _ClippedVectors.of(
        vectors, units, dimension, clip_norm, rows_per_unit, epsilon, delta, noise, confidence, source
    )
    answer = clipped.release(products=False)
    value, low, high = _column_means(answer, slice(1, 1 + dimension), clipped.steps, clipped.request.wrong)
    scale = answer.plan.block_scales[1] / clipped.steps * clip_norm
    return _estimate(answer, value * clip_norm, low * clip_norm, high * clip_norm, scale)


@released
def covariance(
    vectors: Any,
    *,
    units: Any,
    dimension: int,
    clip_norm: float,
    rows_per_unit: int = 1,
    epsilon: float,
    delta: float = 0.0,
    noise: NoiseKind | None = None,
    confidence: float = 0.95,
    source: RandomSource | None = None,
    budget: Budget | None = None,
) -> Estimate:
    """Return the population covariance matrix of vectors. Its ``parts`` hold the mean, at no extra charge.

    Vectors are clipped around 0, so subtract a public centre first. Negative eigenvalues come from the noise, and are
    set to 0. The arguments are those of `vector_mean`.

    >>> from hush.randomness import TestSource
    >>> vectors = [[0.5, 0.0], [-0.5, 0.0]] * 1000
    >>> result = covariance(vectors, units=range(2000), dimension=2, clip_norm=1.0, epsilon=20.0, source=TestSource(1))
    >>> result.value.round(2).tolist(), list(result.parts)
    ([[0.25, 0.0], [0.0, 0.0]], ['mean'])

    Guarantee:
        As `vector_mean`, for the matrix and the mean together.

    Assumes:
        As `vector_mean` (the caller's duty).

    References:
        Dwork, Talwar, Thakurta & Zhang 2014 (Gaussian noise on the matrix, whose norm is the square of the vector's).
    """
    clipped = _ClippedVectors.of(
        vectors, units, dimension, clip_norm, rows_per_unit, epsilon, delta, noise, confidence, source
    )
    answer = clipped.release(products=True)
    steps, wrong = clipped.steps, clipped.request.wrong
    # A covariance is E x y - E x E y: three intervals, each of which may miss.
    first = _column_means(answer, slice(1, 1 + dimension), steps, wrong / 3)
    second = _column_means(answer, slice(1 + dimension, None), steps, wrong / 3)
    value, low, high = _centred(dimension, first, second, clipped.off_diagonal)
    mean, mean_low, mean_high = _column_means(answer, slice(1, 1 + dimension), steps, wrong)
    mean_scale = answer.plan.block_scales[1] / steps * clip_norm
    parts = {"mean": _estimate(answer, mean * clip_norm, mean_low * clip_norm, mean_high * clip_norm, mean_scale)}
    square = clip_norm**2
    scale = answer.plan.block_scales[2] / steps * square
    return _estimate(answer, value * square, low * square, high * square, scale, parts)


@dataclass(frozen=True, slots=True)
class _ClippedVectors:
    """Checked vectors, in units of the clip norm.

    Attributes:
        request: The checked request.
        rows: The vectors, divided by the clip norm; not yet clipped.
        order: The norm that bounds a row: 1 for Laplace noise, 2 for Gaussian noise.
        steps: The number of integer steps that a contribution of size 1 has.
    """

    request: StatisticRequest
    rows: Floats
    order: int
    steps: int

    @classmethod
    def of(
        cls,
        vectors: Any,
        units: Any,
        dimension: int,
        clip_norm: float,
        rows_per_unit: int,
        epsilon: float,
        delta: float,
        noise: NoiseKind | None,
        confidence: float,
        source: RandomSource | None,
    ) -> _ClippedVectors:
        if not check_count("dimension", dimension) <= _MAX_DIMENSION:
            raise InvalidArgument("dimension", dimension, f"at most {_MAX_DIMENSION}")
        if not 1e-100 < check_positive("clip_norm", clip_norm) < 1e100:
            raise InvalidArgument(
                "clip_norm", clip_norm, "between 1e-100 and 1e100", "Use a different unit of measurement"
            )
        kind = noise if noise is not None else (GaussianNoise() if delta > 0 else LaplaceNoise())
        rows = _matrix(vectors, dimension)
        request = checked_request(
            rows[:, 0],
            units=units,
            groups=None,
            keys=None,
            rows_per_unit=rows_per_unit,
            groups_per_unit=1,
            epsilon=epsilon,
            delta=delta,
            noise=kind,
            selection=None,
            confidence=confidence,
            source=source,
        )
        order = 1 if isinstance(kind, LaplaceNoise) else 2
        # The smallest share is that of the count block: about 1 / (8 dimension).
        return cls(request, rows / clip_norm, order, request.steps(shares=8.0 * dimension))

    @property
    def off_diagonal(self) -> float:
        """The factor of products above the diagonal: those below are the same, and the norm is of the full matrix."""
        return 2.0 if self.order == 1 else math.sqrt(2)

    def release(self, *, products: bool) -> Answer:
        """Release count, sum and, if wanted, products of coordinates."""
        contributions = self.request.bound(np.asarray(~np.isnan(self.rows).any(axis=1)))
        # Clip slightly below the norm, then round towards zero: rounding errors cannot push a row beyond the norm.
        clipped = clip_rows(self.rows[contributions.rows], 1 - 1e-9, self.order)
        parts = [np.ones((len(clipped), 1)), clipped]
        if products:
            above = np.triu_indices(clipped.shape[1])
            factors = np.where(above[0] == above[1], 1.0, self.off_diagonal)
            parts.append(clipped[:, above[0]] * clipped[:, above[1]] * factors)
        weights = np.trunc(np.concatenate(parts, axis=1) * self.steps).astype(np.int64)
        largest = self.request.limits.rows_per_unit * self.steps
        blocks = tuple(self._block(index, part.shape[1], largest) for index, part in enumerate(parts))
        return self.request.answer(contributions.totals(weights), contributions.units_per_group(), blocks)

    def _block(self, index: int, columns: int, largest: int) -> Block:
        # An L2 norm of ``largest`` allows an L1 norm of up to sqrt(columns) times as much, here rounded up.
        l1 = largest if self.order == 1 else largest * (math.isqrt(columns - 1) + 1)
        return Block(columns=columns, l1=l1, l2=largest, share=self._share(index, columns))

    def _share(self, index: int, columns: int) -> float:
        """Return the share that minimises the error of a mean of length one half; the first block is the count."""
        size = 0.25 if index == 0 else float(columns)
        # With variances proportional to 1 / share (Gaussian) and 1 / share^2 (Laplace), the optimal shares are
        # proportional to the square root and to the cube root of the block's weight in the error.
        return math.sqrt(size) if self.order == 2 else size ** (1 / 3)


def _matrix(vectors: Any, dimension: int) -> Floats:
    """Return the vectors as a matrix, with a row of NaN for each vector that cannot be used.

    The shape of an array is public, so a wrong one raises. The lengths of rows in a list are data, so they do not.
    """
    if isinstance(vectors, np.ndarray) and vectors.dtype.kind in "biuf":
        if vectors.ndim != 2 or vectors.shape[1] != dimension:
            raise InvalidArgument("vectors.shape", ("any", *vectors.shape[1:]), f"rows of {dimension} numbers")
        return vectors.astype(np.float64)
    if isinstance(vectors, (str, bytes)) or not hasattr(vectors, "__len__"):
        raise InvalidArgument("vectors", type(vectors).__name__, "rows of numbers")
    result = np.full((len(vectors), dimension), np.nan)
    for index, row in enumerate(vectors):
        is_numeric = isinstance(row, np.ndarray) and row.ndim == 1 and row.dtype.kind in "biufO"
        if (is_numeric or isinstance(row, (list, tuple))) and len(row) == dimension:
            result[index] = as_floats("vectors", list(row))
    return result


def _column_means(answer: Answer, columns: slice, steps: int, wrong: float) -> tuple[Floats, Floats, Floats]:
    """Return the ratios of columns to the count, in [-1, 1], and the ends of their intervals."""
    totals = answer.totals[0].astype(np.float64)
    sums, count = totals[columns], totals[0]
    scales = answer.plan.scales
    value = np.clip(sums / max(count, steps), -1.0, 1.0)  # a noisy count may be below one row
    pairs = np.column_stack([sums, np.full(len(sums), count)])
    pair_scales = np.array([scales[columns][0], scales[0]])
    low, high = quotients(
        answer.plan.tail, pairs, pair_scales, [1.0, 0.0], [0.0, 1.0], wrong, limits=(-1.0, 1.0), slack=4.0
    )
    margin = 2 / steps  # rows were rounded
    return value, np.clip(np.minimum(low, value) - margin, -1, 1), np.clip(np.maximum(high, value) + margin, -1, 1)


def _centred(
    dimension: int, first: tuple[Any, Any, Any], second: tuple[Any, Any, Any], factor: float
) -> tuple[Any, Any, Any]:
    """Return E x y - E x E y as a matrix, with the ends of its interval.

    Args:
        dimension: The number of coordinates.
        first: The means of the coordinates, with the ends of their intervals.
        second: The means of the products on and above the diagonal, with the ends of their intervals.
        factor: The factor that products above the diagonal carry.
    """
    above = np.triu_indices(dimension)
    is_diagonal = above[0] == above[1]
    scale = np.where(is_diagonal, 1.0, 1 / factor)
    means, lows, highs = first
    # A product of two intervals has its extremes at their ends. A square of an interval around 0 has its minimum at 0.
    products = np.stack([a[above[0]] * b[above[1]] for a in (lows, highs) for b in (lows, highs)])
    smallest_squares = np.where((lows <= 0) & (highs >= 0), 0.0, np.minimum(lows**2, highs**2))
    smallest = np.where(is_diagonal, smallest_squares[above[0]], products.min(axis=0))
    value = _symmetric(dimension, second[0] * scale - means[above[0]] * means[above[1]])
    low = _symmetric(dimension, second[1] * scale - products.max(axis=0))
    high = _symmetric(dimension, second[2] * scale - smallest)
    # Project onto the positive semidefinite matrices: post-processing that never increases the error.
    eigenvalues, vectors = np.linalg.eigh(value)
    value = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    return value, np.minimum(low, value), np.maximum(high, value)


def _symmetric(dimension: int, upper: Floats) -> NDArray[np.float64]:
    """Return the symmetric matrix with these entries on and above the diagonal."""
    matrix = np.zeros((dimension, dimension))
    matrix[np.triu_indices(dimension)] = upper
    return np.maximum(matrix, matrix.T) + np.minimum(matrix, matrix.T) - np.diag(np.diag(matrix))


def _estimate(
    answer: Answer, value: Any, low: Any, high: Any, scale: float, parts: dict[str, Estimate] | None = None
) -> Estimate:
    """Return an estimate whose entries are coordinates, not groups."""
    return Estimate(
        value=value,
        low=low,
        high=high,
        confidence=answer.confidence,
        noise_scale=float(scale),
        guarantee=answer.guarantee,
        event=answer.event,
        parts=parts or {},
    )
