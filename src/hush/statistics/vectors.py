"""Means and covariances of vectors, each clipped to a public norm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count, check_positive
from hush.mechanisms.vector_mean import clip
from hush.randomness import RandomSource
from hush.statistics.columns import as_floats
from hush.statistics.noise.charged import released
from hush.statistics.noise.estimate import Estimate
from hush.statistics.noise.release import Block, GaussianNoise, LaplaceNoise, NoiseKind
from hush.statistics.noise.tails import quotients
from hush.statistics.question import Answer, Question, question

_LARGEST = 4096


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
    """Return the mean of vectors, clipped in L2 norm for Gaussian noise, in L1 norm for Laplace noise.

    Args:
        vectors: Rows of ``dimension`` numbers. A row of another length, or with a missing number, is left out.
        units: As for `count`.
        dimension: How many coordinates there are; public.
        clip_norm: What longer vectors are scaled down to.
        rows_per_unit: How many rows of a user count, chosen at random.
        epsilon: For the sum and the count together.
        delta: For Gaussian noise.
        noise: None for Gaussian noise if there is a delta, else Laplace.
        confidence: Of the interval of each coordinate.
        source: As for `count`.
        budget: As for `count`.

    Guarantee:
        (epsilon, delta)-differential privacy for all that one user has.

    Assumes:
        Every person has one id (the caller's duty). Vectors are clipped and summed on a grid (checked here: done here).

    References:
        Balle & Wang 2018; Dwork, McSherry, Nissim & Smith 2006; Casacuberta et al. 2022.
    """
    table = _Vectors.of(vectors, units, dimension, clip_norm, rows_per_unit, epsilon, delta, noise, confidence, source)
    answer = table.release(second=False)
    value, low, high = _means(answer, slice(1, 1 + dimension), table.steps, table.asked.wrong)
    scale = answer.plan.block_scales[1] / table.steps * clip_norm
    return _whole(answer, value * clip_norm, low * clip_norm, high * clip_norm, scale)


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
    """Return the covariance matrix (over n) of vectors; its ``parts`` hold the mean, at no charge.

    Vectors are clipped around 0: subtract a public centre first. Negative eigenvalues, which are noise, are set to 0.
    Arguments are those of `vector_mean`.

    Guarantee:
        As `vector_mean`, for the matrix and the mean together.

    Assumes:
        As `vector_mean` (the caller's duty).

    References:
        Dwork, Talwar, Thakurta & Zhang 2014 (Gaussian noise on the matrix, whose norm is the vector's, squared).
    """
    table = _Vectors.of(vectors, units, dimension, clip_norm, rows_per_unit, epsilon, delta, noise, confidence, source)
    answer = table.release(second=True)
    first = _means(answer, slice(1, 1 + dimension), table.steps, table.asked.wrong / 3)
    second = _means(answer, slice(1 + dimension, None), table.steps, table.asked.wrong / 3)
    factor = table.off_diagonal
    value, low, high = _centred(dimension, first, second, factor)
    mean, mean_low, mean_high = _means(answer, slice(1, 1 + dimension), table.steps, table.asked.wrong)
    scale = answer.plan.block_scales[1] / table.steps * clip_norm
    parts = {"mean": _whole(answer, mean * clip_norm, mean_low * clip_norm, mean_high * clip_norm, scale)}
    square = clip_norm**2
    scale = answer.plan.block_scales[2] / table.steps * square
    return _whole(answer, value * square, low * square, high * square, scale, parts)


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Checked vectors, in units of the clip norm."""

    asked: Question
    rows: NDArray[np.float64]
    order: int  # of the norm that bounds a row: 1 for Laplace, 2 for Gaussian noise
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
    ) -> _Vectors:
        if not check_count("dimension", dimension) <= _LARGEST:
            raise InvalidArgument("dimension", dimension, f"at most {_LARGEST}")
        if not 1e-100 < check_positive("clip_norm", clip_norm) < 1e100:
            raise InvalidArgument("clip_norm", clip_norm, "between 1e-100 and 1e100", "Use another unit")
        kind = noise if noise is not None else (GaussianNoise() if delta > 0 else LaplaceNoise())
        rows = _matrix(vectors, dimension)
        asked = question(
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
        # The smallest share of a block is that of the count, some 1 / (8 dimension).
        return cls(asked, rows / clip_norm, order, asked.steps(parts=8.0 * dimension))

    @property
    def off_diagonal(self) -> float:
        """What entries above the diagonal count: those below are the same, and the norm is of the whole matrix."""
        return 2.0 if self.order == 1 else math.sqrt(2)

    def release(self, *, second: bool) -> Answer:
        """Release count, sum and, if wanted, products of coordinates."""
        kept = self.asked.bound(np.asarray(~np.isnan(self.rows).any(axis=1)))
        # A hair below the norm, then towards zero: what rounding adds cannot lead beyond it.
        clipped = clip(self.rows[kept.rows], 1 - 1e-9, self.order)
        columns = [np.ones((len(clipped), 1)), clipped]
        if second:
            above = np.triu_indices(clipped.shape[1])
            factors = np.where(above[0] == above[1], 1.0, self.off_diagonal)
            columns.append(clipped[:, above[0]] * clipped[:, above[1]] * factors)
        units = np.trunc(np.concatenate(columns, axis=1) * self.steps).astype(np.int64)
        most = self.asked.limits.rows_per_unit * self.steps
        blocks = tuple(self._block(place, part.shape[1], most) for place, part in enumerate(columns))
        return self.asked.answer(kept.totals(units), kept.num_users(), blocks)

    def _block(self, place: int, columns: int, most: int) -> Block:
        l1 = most if self.order == 1 else most * (math.isqrt(columns - 1) + 1)
        return Block(columns=columns, l1=l1, l2=most, share=self._share(place, columns))

    def _share(self, place: int, columns: int) -> float:
        """Return what minimises the error of a mean of length one half; the count is the first block."""
        size = 0.25 if place == 0 else float(columns)
        return math.sqrt(size) if self.order == 2 else size ** (1 / 3)


def _matrix(vectors: Any, dimension: int) -> NDArray[np.float64]:
    """Return rows of numbers, NaN where one cannot be used; only an array's shape is public."""
    if isinstance(vectors, np.ndarray) and vectors.dtype.kind in "biuf":
        if vectors.ndim != 2 or vectors.shape[1] != dimension:
            raise InvalidArgument("vectors.shape", ("any", *vectors.shape[1:]), f"rows of {dimension} numbers")
        return vectors.astype(np.float64)
    if isinstance(vectors, (str, bytes)) or not hasattr(vectors, "__len__"):
        raise InvalidArgument("vectors", type(vectors).__name__, "rows of numbers")
    result = np.full((len(vectors), dimension), np.nan)
    for place, row in enumerate(vectors):
        numeric = isinstance(row, np.ndarray) and row.ndim == 1 and row.dtype.kind in "biufO"
        if (numeric or isinstance(row, (list, tuple))) and len(row) == dimension:
            result[place] = as_floats("vectors", list(row))
    return result


def _means(
    answer: Answer, columns: slice, steps: int, wrong: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return quotients of columns by the count, between -1 and 1, and the interval of each."""
    totals = answer.totals[0].astype(np.float64)
    tops, count = totals[columns], totals[0]
    scales = answer.plan.scales
    value = np.clip(tops / max(count, steps), -1.0, 1.0)
    pairs = np.column_stack([tops, np.full(len(tops), count)])
    both = np.array([scales[columns][0], scales[0]])
    low, high = quotients(answer.plan.tail, pairs, both, [1.0, 0.0], [0.0, 1.0], wrong, (-1.0, 1.0), slack=4.0)
    off = 2 / steps  # rows were rounded
    return value, np.clip(np.minimum(low, value) - off, -1, 1), np.clip(np.maximum(high, value) + off, -1, 1)


def _centred(
    dimension: int, first: tuple[Any, Any, Any], second: tuple[Any, Any, Any], factor: float
) -> tuple[Any, Any, Any]:
    """Return E x y - E x E y as a matrix, with its interval: the products' ends from those of both means."""
    above = np.triu_indices(dimension)
    scale = np.where(above[0] == above[1], 1.0, 1 / factor)
    means, lows, highs = first
    ends = np.stack([a[above[0]] * b[above[1]] for a in (lows, highs) for b in (lows, highs)])
    same = above[0] == above[1]
    least = np.where(
        same, np.where((lows <= 0) & (highs >= 0), 0.0, np.minimum(lows**2, highs**2))[above[0]], ends.min(axis=0)
    )
    value = _symmetric(dimension, second[0] * scale - means[above[0]] * means[above[1]])
    low = _symmetric(dimension, second[1] * scale - ends.max(axis=0))
    high = _symmetric(dimension, second[2] * scale - least)
    eigenvalues, vectors = np.linalg.eigh(value)
    value = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    return value, np.minimum(low, value), np.maximum(high, value)


def _symmetric(dimension: int, upper: NDArray[np.float64]) -> NDArray[np.float64]:
    matrix = np.zeros((dimension, dimension))
    matrix[np.triu_indices(dimension)] = upper
    return np.maximum(matrix, matrix.T) + np.minimum(matrix, matrix.T) - np.diag(np.diag(matrix))


def _whole(
    answer: Answer, value: Any, low: Any, high: Any, scale: float, parts: dict[str, Estimate] | None = None
) -> Estimate:
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
