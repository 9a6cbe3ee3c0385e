r"""Second moments of clipped rows: exact integers, then one Gaussian release.

A row is scaled to norm at most 1, clipped, and rounded *towards zero* to 2^-16: its norm stays at most 1, and products
of two coordinates are integers of 2^-32. A sum of 2^20 of them is exact in double precision, in any order, so that BLAS
computes it; blocks of so many rows are added as 64-bit integers. What one row does to the sums is then bounded without
rounding errors, and integer plus floored noise is a function of integer plus Gaussian noise.

The symmetric matrix x x' has Frobenius norm |x|^2, in which what is above the diagonal counts twice. So noise of
standard deviation s on the diagonal and s / sqrt(2) above it (mirrored below) has sensitivity |x|^2 / s, and not more.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument
from hush.estimators.base.estimator import Floats, noise_multiplier
from hush.randomness import MAX_SCALE, RandomSource, floored_gaussian

STEPS = 1 << 16
UNIT = STEPS * STEPS
_BLOCK = 1 << 20
_UP = 1 + 2.0**-40
_MOST_ROWS = 1 << 30
_ELEMENTS, _FEWEST = 1 << 16, 1 << 12  # so many numbers stay in the cache; with fewer rows, products are slow

# Writes further columns of some rows, in steps, and returns which of these rows count (None for all).
Fill = Callable[[Floats, slice], NDArray[np.bool_] | None]


def clipped_gram(
    rows: Floats, norm: float, extra: int, fill: Fill, *, length: float = 1.0, center: Floats | None = None
) -> NDArray[np.int64]:
    """Return the exact sums of products of columns: those of clipped rows, and ``extra`` ones that ``fill`` writes.

    Rows (less ``center``) that are longer than ``norm`` are scaled down to it; ``norm`` becomes ``length``, in steps.
    Rows with a missing or infinite number, and those that do not count, are left out. One pass, block by block.
    """
    count, inner = rows.shape
    check_rows(count)
    size = max(min(block_rows(inner), count), 1)
    steps_buffer, extra_buffer = np.empty((size, inner)), np.empty((size, extra))
    total = np.zeros((inner + extra, inner + extra), dtype=np.int64)
    partial = np.zeros((inner + extra, inner + extra))  # of whole numbers: exact over so many rows as `_BLOCK`
    square, summed = np.empty((inner, inner)), 0
    with np.errstate(all="ignore"):
        for start in range(0, count, size):
            part = slice(start, min(start + size, count))
            steps, others = steps_buffer[: part.stop - start], extra_buffer[: part.stop - start]
            kept = _clip(rows[part] if center is None else rows[part] - center, norm, length, steps)
            counts = fill(others, part)
            if counts is not None:
                kept &= counts
            if not kept.all():
                steps[~kept], others[~kept] = 0.0, 0.0
            partial[:inner, :inner] += np.matmul(steps.T, steps, out=square)
            partial[inner:, :inner] += others.T @ steps
            partial[inner:, inner:] += others.T @ others
            summed += size
            if summed + size > _BLOCK or part.stop == count:
                total += partial.astype(np.int64)
                partial[:], summed = 0.0, 0
    total[:inner, inner:] = total[inner:, :inner].T
    return total


def check_rows(count: int) -> None:
    """Refuse more rows than sums of 64 bits have room for."""
    if not count <= _MOST_ROWS:
        raise InvalidArgument("X", "array", "at most 2^30 rows", "Sums would not fit into 64 bits")


def block_rows(width: int) -> int:
    """Return how many rows are worked on at a time: few enough for the cache, and for exact sums."""
    return min(max(_ELEMENTS // width, _FEWEST), _BLOCK)


def _clip(rows: Floats, norm: float, length: float, out: Floats) -> NDArray[np.bool_]:
    """Write rows in steps, rounded towards zero; return which are complete; some at a time."""
    squares = np.empty(len(rows))
    some = max(_ELEMENTS // rows.shape[1], 1)
    for start in range(0, len(rows), some):
        part = slice(start, start + some)
        np.einsum("ij,ij->i", rows[part], rows[part], out=squares[part])
        # A hair below: what rounding adds to a norm cannot lead beyond it.
        factors = (STEPS * length * (1 - 1e-9)) / np.maximum(np.sqrt(squares[part]), norm)
        # Factors are written out first: NumPy is slow where a short row meets one number.
        np.copyto(out[part], factors[:, None])
        np.multiply(rows[part], out[part], out=out[part])
        np.trunc(out[part], out=out[part])
    complete: NDArray[np.bool_] = np.isfinite(squares)
    return complete


def check_noise(epsilon: float, delta: float, least_share: float) -> float:
    """Return the noise multiplier of a release; refuse what gives the part of ``least_share`` too much noise to draw.

    It is asked for when an estimator is made, as it depends on nothing else: later a fit would have been charged.
    """
    multiplier = noise_multiplier(float(epsilon), float(delta))
    if not multiplier / math.sqrt(least_share) * UNIT * _UP <= MAX_SCALE:
        raise InvalidArgument("epsilon", epsilon, "larger, or a larger delta", "Noise would be 2^18 times a row")
    return multiplier


def noisy(totals: NDArray[np.int64], stddev: float, source: RandomSource) -> Floats:
    """Return totals, counted in UNIT, with Gaussian noise of a standard deviation in units."""
    noise = floored_gaussian(source, stddev * UNIT * _UP, totals.size).reshape(totals.shape)
    return (totals + noise) / UNIT


def noisy_symmetric(totals: NDArray[np.int64], stddev: float, source: RandomSource) -> Floats:
    """Return a symmetric matrix with noise: ``stddev`` on the diagonal, 1 / sqrt(2) of it beside it."""
    size = len(totals)
    above = np.triu_indices(size, 1)
    result = np.zeros((size, size))
    result[above] = noisy(totals[above], stddev / math.sqrt(2), source)
    result += result.T
    result[np.diag_indices(size)] = noisy(np.diagonal(totals).copy(), stddev, source)
    return result


def spectral_norm(size: int, stddev: float, wrong: float) -> float:
    """Return what the largest eigenvalue of the noise exceeds with probability ``wrong`` at most.

    The noise is a Gaussian orthogonal ensemble: its expected norm is at most sqrt(2 size) stddev, and it is a
    Lipschitz function, of constant stddev, of standard Gaussians (Davidson & Szarek 2001, Theorem II.11).
    """
    return stddev * (math.sqrt(2 * size) + math.sqrt(2 * math.log(1 / wrong)))
