"""Sums over records that are exact, so that one record moves them by its own share and no more."""

from __future__ import annotations

import math

import numpy as np

from hush.estimators.base.estimator import Floats

BITS = 18
"""Records and slopes are whole multiples of 2^-18."""

MOST_ROWS = 1 << 26
"""So many products of twice 18 bits add up within 64 bits."""

_ROWS = 1 << 16  # so many products of twice 18 bits stay below 2^53: their sum in floating point is exact


def truncated(values: Floats) -> Floats:
    """Return multiples of 2^-18, towards zero: no norm grows."""
    return np.trunc(values * 2.0**BITS) * 2.0**-BITS


def exact_products(slopes: Floats, rows: Floats) -> Floats:
    """Return slopes' rows, whatever the order of summation: both truncated, at most 1 in size, chunk by chunk."""
    total = np.zeros((slopes.shape[1], rows.shape[1]), dtype=np.int64)
    for start in range(0, len(rows), _ROWS):
        part = slopes[start : start + _ROWS].T @ rows[start : start + _ROWS]  # of multiples of 2^-36: no bit is lost
        total += np.ldexp(part, 2 * BITS).astype(np.int64)
    return np.asarray(np.ldexp(total.astype(np.float64), -2 * BITS))


def clipped(rows: Floats, data_norm: float, *, intercept: bool, order: float = 2) -> Floats:
    """Return rows in units of the norm, clipped to it and, with a column for the intercept, of norm 1 at most.

    The intercept's column has the largest value that features may have together. In it the intercept is bounded,
    regularised and counted into the norm like any other weight.
    """
    scaled = np.clip(rows / data_norm, -1e150, 1e150)
    norms = np.linalg.norm(scaled, ord=order, axis=1)
    # A hair below the norm: what rounding adds cannot lead beyond it.
    scaled = scaled * np.divide(1.0, norms, out=np.ones_like(norms), where=norms > 1)[:, None] * (1 - 1e-12)
    if not intercept:
        return np.asarray(scaled)
    column = np.full((len(scaled), 1), 1 - 1e-12)
    joined = np.hstack([scaled, column])
    return joined if order == math.inf else np.asarray(joined * math.sqrt(0.5))
