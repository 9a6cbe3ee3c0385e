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

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument
from hush.estimators._private import Floats
from hush.randomness import MAX_SCALE, Source, floored_gaussian

STEPS = 1 << 16
UNIT = STEPS * STEPS
_BLOCK = 1 << 20
_UP = 1 + 2.0**-40
_MOST_ROWS = 1 << 30


def unit_rows(rows: Floats, norm: float, length: float = 1.0) -> tuple[Floats, NDArray[np.bool_]]:
    """Return rows in steps, of norm at most ``length`` in units; rows beyond ``norm`` are scaled down to it.

    A row with a missing or infinite number becomes 0, and is told: it is to be left out.
    """
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
        complete = np.isfinite(squares)
        # A hair below: what rounding adds to a norm cannot lead beyond it.
        factors = (STEPS * length * (1 - 1e-9)) / np.maximum(np.sqrt(squares), norm)
        if not complete.all():
            rows, factors = np.where(complete[:, None], rows, 0.0), np.where(complete, factors, 0.0)
        scaled = rows * factors[:, None]
        return np.trunc(scaled, out=scaled), complete


def gram(steps: Floats) -> NDArray[np.int64]:
    """Return the exact sums of products of columns of whole numbers, each at most STEPS in size."""
    if not len(steps) <= _MOST_ROWS:
        raise InvalidArgument("X", "array", "at most 2^30 rows", "Sums would not fit into 64 bits")
    total = np.zeros((steps.shape[1], steps.shape[1]), dtype=np.int64)
    for start in range(0, len(steps), _BLOCK):
        part = steps[start : start + _BLOCK]
        total += (part.T @ part).astype(np.int64)
    return total


def noisy(totals: NDArray[np.int64], stddev: float, source: Source) -> Floats:
    """Return totals, counted in UNIT, with Gaussian noise of a standard deviation in units."""
    scale = stddev * UNIT * _UP
    if not scale <= MAX_SCALE:
        raise InvalidArgument("epsilon", "too small", "less noise than 2^18 times a row", "Take a larger epsilon")
    noise = floored_gaussian(source, scale, totals.size).reshape(totals.shape)
    return (totals + noise) / UNIT


def noisy_symmetric(totals: NDArray[np.int64], stddev: float, source: Source) -> Floats:
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
