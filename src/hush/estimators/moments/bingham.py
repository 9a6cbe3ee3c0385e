"""Directions from the Bingham distribution: the exponential mechanism for a principal component."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from hush.estimators.base.estimator import Floats
from hush.randomness import RandomSource, floored_gaussian

_FINE = 2.0**50
_KEPT = 2.0**30
_BATCH = 64


def _scale(below: Floats) -> float:
    """Return the b between 1 and d where sum 1 / (b + 2 below) = 1; rounding must not leave it without one."""

    def excess(b: float) -> float:
        return float((1 / (b + 2 * below)).sum()) - 1

    size = float(len(below))
    if not excess(1.0) > 0:
        return 1.0
    return size if not excess(size) < 0 else float(brentq(excess, 1.0, size))


def bingham(matrix: Floats, source: RandomSource) -> Floats:
    """Return a unit vector u of density ~ e^(u' matrix u), by rejection.

    Proposals are angular central Gaussian: directions of N(0, (I + 2 A / b)^-1), where A is the largest eigenvalue less
    the matrix. With v = u'Au, e^-v (1 + 2 v / b)^(d / 2) is largest where 1 + 2 v / b = d / b, for any b <= d; the b
    that makes most proposals accepted solves sum 1 / (b + 2 A_i) = 1 (Kent, Ganeiber & Mardia 2018). No
    chain has to forget where it began: what is accepted has the law itself, up to double precision. How many batches
    that takes depends on the matrix.
    """
    values, vectors = np.linalg.eigh(matrix)
    size, below = len(values), values[-1] - values
    b = _scale(below)
    spread = 1 / np.sqrt(1 + 2 * below / b)
    highest = -(size - b) / 2 + size / 2 * math.log(size / b)
    while True:
        drawn = floored_gaussian(source, _FINE, _BATCH * size).reshape(_BATCH, size) / _FINE * spread
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        lost = (drawn * drawn) @ below
        chance = np.exp(-lost + size / 2 * np.log1p(2 * lost / b) - highest)
        accepted = np.flatnonzero(source.words(_BATCH) * 2.0**-64 < chance)
        if accepted.size:
            # The lowest bits of a sum tell what was summed: they are cut off.
            found: Floats = np.rint(vectors @ drawn[accepted[0]] * _KEPT)
            return found / np.linalg.norm(found)
