"""Sampling from the Bingham distribution: the exponential mechanism for one principal direction.

`hush.estimators.moments.second_moments.ExponentialPCA` scores a direction u by u'X'Xu. The exponential mechanism then
has the density ~ e^(epsilon u'X'Xu) on the unit sphere, which is a Bingham distribution.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from hush.estimators.base.estimator import Floats
from hush.randomness import RandomSource, floored_gaussian

_FINE = 2.0**50  # Gaussian proposals are multiples of 2^-50
_COARSE = 2.0**30  # released directions are rounded to 2^-30
_BATCH = 64  # proposals at a time


def _scale(deficits: Floats) -> float:
    """Return the b in [1, d] that solves sum 1 / (b + 2 deficits) = 1. Where rounding leaves no root, return an end."""

    def excess(b: float) -> float:
        return float((1 / (b + 2 * deficits)).sum()) - 1

    size = float(len(deficits))
    if not excess(1.0) > 0:
        return 1.0
    return size if not excess(size) < 0 else float(brentq(excess, 1.0, size))


def bingham(matrix: Floats, source: RandomSource) -> Floats:
    """Return a unit vector u with density ~ e^(u' matrix u), by rejection sampling.

    Proposals are angular central Gaussian: normalised draws from N(0, (I + 2 A / b)^-1), where A is the largest
    eigenvalue times I minus the matrix, of eigenvalues A_i (``deficits``). With v = u'Au, the ratio e^-v (1 + 2 v /
    b)^(d / 2) of target to proposal is largest where 1 + 2 v / b = d / b, for any b <= d. The b with the highest
    acceptance rate solves sum 1 / (b + 2 A_i) = 1 (Kent, Ganeiber & Mardia 2018).

    No Markov chain is involved: an accepted proposal has exactly this distribution, up to double precision. The number
    of batches depends on the matrix.

    Args:
        matrix: Symmetric, d x d.
        source: Random source.
    """
    values, vectors = np.linalg.eigh(matrix)
    size, deficits = len(values), values[-1] - values
    b = _scale(deficits)
    proposal_stddevs = 1 / np.sqrt(1 + 2 * deficits / b)
    max_log_ratio = -(size - b) / 2 + size / 2 * math.log(size / b)
    while True:
        proposals = floored_gaussian(source, _FINE, _BATCH * size).reshape(_BATCH, size) / _FINE * proposal_stddevs
        proposals /= np.linalg.norm(proposals, axis=1, keepdims=True)
        deficit = (proposals * proposals) @ deficits
        acceptance = np.exp(-deficit + size / 2 * np.log1p(2 * deficit / b) - max_log_ratio)
        # A coin of 64 bits decides; e^(log ratio - its maximum) is at most 1.
        accepted = np.flatnonzero(source.words(_BATCH) * 2.0**-64 < acceptance)
        if accepted.size:
            # The lowest bits of a floating-point sum reveal its terms, so they are rounded away.
            direction: Floats = np.rint(vectors @ proposals[accepted[0]] * _COARSE)
            return direction / np.linalg.norm(direction)
