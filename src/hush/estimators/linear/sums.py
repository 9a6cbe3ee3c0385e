"""Exact fixed-point sums over rows, so that one row changes a sum by exactly its own contribution.

In floating point, a sum depends on the order of its terms: adding a row can change the rounding of all others. Rows and
slopes are therefore truncated to multiples of 2^-18 before they are multiplied and summed.
"""

from __future__ import annotations

import math

import numpy as np

from hush.estimators.base.estimator import Floats

BITS = 18
"""Rows and slopes are multiples of 2^-18."""

MAX_ROWS = 1 << 26
"""Sums of this many products of two 18-bit numbers fit into 64 bits."""

_EXACT_ROWS = 1 << 16  # sums of this many such products stay below 2^53, and are exact in floating point


def truncate(values: Floats) -> Floats:
    """Round values towards zero to multiples of 2^-18, so that no norm grows."""
    return np.trunc(values * 2.0**BITS) * 2.0**-BITS


def exact_products(slopes: Floats, rows: Floats) -> Floats:
    """Return ``slopes.T @ rows`` exactly, in any order of summation.

    Args:
        slopes: Truncated, of size at most 1; one column per output.
        rows: Truncated, of size at most 1.
    """
    total = np.zeros((slopes.shape[1], rows.shape[1]), dtype=np.int64)
    for start in range(0, len(rows), _EXACT_ROWS):
        part = slopes[start : start + _EXACT_ROWS].T @ rows[start : start + _EXACT_ROWS]  # multiples of 2^-36, exact
        total += np.ldexp(part, 2 * BITS).astype(np.int64)
    return np.asarray(np.ldexp(total.astype(np.float64), -2 * BITS))


def clip_rows(rows: Floats, data_norm: float, *, intercept: bool, order: float = 2) -> Floats:
    """Clip rows to the norm and return them in units of it, with a column for the intercept if asked for.

    The intercept column holds the largest value that features may have together. So the intercept is clipped,
    regularised and counted in the norm like any other weight; the whole row has norm at most 1.

    Args:
        rows: Finite rows.
        data_norm: Clip norm.
        intercept: Whether to add the column.
        order: Order of the norm: 2, or ``math.inf`` for the largest entry.
    """
    scaled = np.clip(rows / data_norm, -1e150, 1e150)
    norms = np.linalg.norm(scaled, ord=order, axis=1)
    # Slightly below 1, so that rounding cannot lift a norm above it.
    scaled = scaled * np.divide(1.0, norms, out=np.ones_like(norms), where=norms > 1)[:, None] * (1 - 1e-12)
    if not intercept:
        return np.asarray(scaled)
    column = np.full((len(scaled), 1), 1 - 1e-12)
    joined = np.hstack([scaled, column])
    return joined if order == math.inf else np.asarray(joined * math.sqrt(0.5))
