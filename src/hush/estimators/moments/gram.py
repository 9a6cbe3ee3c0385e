"""Second moments of clipped rows: exact integer sums, then one Gaussian release.

    rows      as the caller passed them
    steps     centred, clipped to norm 1, in fixed point: multiples of 2^-16, rounded *towards zero*
    totals    sums of products of two columns, as 64-bit integers: multiples of 2^-32 (``UNIT``)
    released  totals plus floored Gaussian noise, back in units of the squared norm

Rounding towards zero keeps every norm at most 1. Products of two coordinates are multiples of 2^-32, and a sum of 2^20
of them is exact in double precision, in any order. So BLAS computes exact sums, and blocks of that many rows are added
as 64-bit integers. One row's effect on the totals is therefore bounded without any rounding error, and an integer plus
floored noise is a function of the same integer plus Gaussian noise: post-processing.

Noise on a symmetric matrix: x x' has Frobenius norm |x|^2, where entries above the diagonal count twice. So noise with
standard deviation s on the diagonal and s / sqrt(2) above it, mirrored below, has sensitivity |x|^2 / s.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hush.accounting import gaussian_multiplier
from hush.errors import InvalidArgument
from hush.estimators.base.estimator import Floats
from hush.randomness import MAX_SCALE, RandomSource, floored_gaussian

STEPS = 1 << 16  # fixed-point steps in a norm of 1
UNIT = STEPS * STEPS  # the same for products of two coordinates
_EXACT_ROWS = 1 << 20  # sums over this many rows are exact in double precision
_MAX_ROWS = 1 << 30  # sums over this many rows fit into 64 bits
_ROUND_UP = 1 + 2.0**-40  # noise is never smaller than its real-valued scale
_CACHED_ELEMENTS, _MIN_BLOCK = 1 << 16, 1 << 12  # a block that fits the cache; matrix products of fewer rows are slow

# Writes further columns for a slice of the rows, in steps, and returns which of these rows count (None: all of them).
FillColumns = Callable[[Floats, slice], NDArray[np.bool_] | None]


def clipped_gram(
    rows: Floats, norm: float, extra: int, fill: FillColumns, *, length: float = 1.0, center: Floats | None = None
) -> NDArray[np.int64]:
    """Return exact sums of products of columns: the clipped rows, and ``extra`` columns that ``fill`` writes.

    Rows with a missing or infinite value are dropped, and so are rows that ``fill`` rejects. The rows are read once,
    block by block.

    Args:
        rows: The private rows.
        norm: Clip norm. Rows (minus ``center``) that are longer are scaled down to it.
        extra: Number of further columns: a constant, a target, class indicators.
        fill: Writes the further columns of a slice of rows, in steps, and says which of these rows count.
        length: Norm of a clipped row after scaling, at most 1: ``norm`` becomes ``length * STEPS`` steps.
        center: Public point to subtract first.

    Returns:
        A symmetric integer matrix in multiples of 1 / UNIT, the columns of the rows first.
    """
    count, width = rows.shape
    check_rows(count)
    block_size = max(min(block_rows(width), count), 1)
    steps_buffer, extra_buffer = np.empty((block_size, width)), np.empty((block_size, extra))
    total = np.zeros((width + extra, width + extra), dtype=np.int64)
    partial = np.zeros((width + extra, width + extra))  # integers, exact over `_EXACT_ROWS` rows
    square, rows_summed = np.empty((width, width)), 0
    with np.errstate(all="ignore"):
        for start in range(0, count, block_size):
            part = slice(start, min(start + block_size, count))
            steps, extra_steps = steps_buffer[: part.stop - start], extra_buffer[: part.stop - start]
            counted = _clip(rows[part] if center is None else rows[part] - center, norm, length, steps)
            accepted = fill(extra_steps, part)
            if accepted is not None:
                counted &= accepted
            if not counted.all():
                steps[~counted], extra_steps[~counted] = 0.0, 0.0
            partial[:width, :width] += np.matmul(steps.T, steps, out=square)
            partial[width:, :width] += extra_steps.T @ steps
            partial[width:, width:] += extra_steps.T @ extra_steps
            rows_summed += block_size
            if rows_summed + block_size > _EXACT_ROWS or part.stop == count:
                total += partial.astype(np.int64)
                partial[:], rows_summed = 0.0, 0
    # Only the lower left block was summed: the matrix is symmetric.
    total[:width, width:] = total[width:, :width].T
    return total


def check_rows(count: int) -> None:
    """Refuse more rows than 64-bit sums can hold."""
    if not count <= _MAX_ROWS:
        raise InvalidArgument("X", "array", "at most 2^30 rows", "Sums would not fit into 64 bits")


def block_rows(width: int) -> int:
    """Return the number of rows per block: few enough for the cache and for exact sums."""
    return min(max(_CACHED_ELEMENTS // width, _MIN_BLOCK), _EXACT_ROWS)


def _clip(rows: Floats, norm: float, length: float, out: Floats) -> NDArray[np.bool_]:
    """Write clipped rows in steps, rounded towards zero, to ``out``. Return which rows are finite."""
    squares = np.empty(len(rows))
    chunk = max(_CACHED_ELEMENTS // rows.shape[1], 1)
    for start in range(0, len(rows), chunk):
        part = slice(start, start + chunk)
        np.einsum("ij,ij->i", rows[part], rows[part], out=squares[part])
        # Slightly below the target length, so that rounding cannot lift a norm above it.
        factors = (STEPS * length * (1 - 1e-9)) / np.maximum(np.sqrt(squares[part]), norm)
        # Factors are written out first: NumPy broadcasts slowly along short rows.
        np.copyto(out[part], factors[:, None])
        np.multiply(rows[part], out[part], out=out[part])
        np.trunc(out[part], out=out[part])
    finite: NDArray[np.bool_] = np.isfinite(squares)
    return finite


def check_noise(epsilon: float, delta: float, smallest_share: float) -> float:
    """Return the noise multiplier of the release, or refuse an epsilon whose noise is too large to draw.

    It depends on public numbers only, so constructors call it: a fit that failed later would already have been charged.

    Args:
        epsilon: Budget of the release.
        delta: Failure probability of the release.
        smallest_share: Smallest share of the squared sensitivity of any part. That part gets the largest noise.
    """
    multiplier = gaussian_multiplier(float(epsilon), float(delta))
    if not multiplier / math.sqrt(smallest_share) * UNIT * _ROUND_UP <= MAX_SCALE:
        raise InvalidArgument(
            "epsilon",
            epsilon,
            "a larger value, or a larger delta",
            "The noise would exceed 2^18 times the effect of a row",
        )
    return multiplier


def add_noise(totals: NDArray[np.int64], stddev: float, source: RandomSource) -> Floats:
    """Return totals (multiples of 1 / UNIT) as floats, with Gaussian noise of standard deviation ``stddev``."""
    noise = floored_gaussian(source, stddev * UNIT * _ROUND_UP, totals.size).reshape(totals.shape)
    return (totals + noise) / UNIT


def add_symmetric_noise(totals: NDArray[np.int64], stddev: float, source: RandomSource) -> Floats:
    """Return a symmetric matrix with noise: ``stddev`` on the diagonal, ``stddev`` / sqrt(2) elsewhere."""
    size = len(totals)
    above = np.triu_indices(size, 1)
    result = np.zeros((size, size))
    result[above] = add_noise(totals[above], stddev / math.sqrt(2), source)
    result += result.T
    result[np.diag_indices(size)] = add_noise(np.diagonal(totals).copy(), stddev, source)
    return result


def spectral_norm(size: int, stddev: float, exceedance: float) -> float:
    """Return a bound on the largest eigenvalue of the noise that fails with probability at most ``exceedance``.

    The noise is a Gaussian orthogonal ensemble. Its expected norm is at most sqrt(2 size) stddev, and the norm is a
    Lipschitz function, with constant stddev, of standard Gaussians (Davidson & Szarek 2001, Theorem II.11).
    """
    return stddev * (math.sqrt(2 * size) + math.sqrt(2 * math.log(1 / exceedance)))
