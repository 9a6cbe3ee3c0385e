"""Exact distributions of noisy votes, and all neighbours of vote counts."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate

from hush.estimators.pate.aggregators import VoteAnswers

Counts = NDArray[np.int64]
ORDERS = (1.5, 2.0, 4.0, 8.0, 20.0)


def winners(counts: Counts, noise: Any) -> NDArray[np.float64]:
    """Return the exact probabilities of each class to win a noisy maximum.

    Simpson's rule is exact enough: densities have kinks at integers only, which are grid points.
    """
    width = math.ceil(12 * noise.std())
    low, high = int(counts.min()) - width, int(counts.max()) + width
    points = np.linspace(low, high, 64 * (high - low) + 1)
    densities, below = noise.pdf(points - counts[:, None]), noise.cdf(points - counts[:, None])
    probabilities = [
        float(integrate.simpson(densities[j] * np.delete(below, j, axis=0).prod(axis=0), x=points))
        for j in range(len(counts))
    ]
    return np.array(probabilities) / sum(probabilities)


def neighbours(counts: Counts) -> list[Counts]:
    """Return all counts that differ by one changed vote, including a teacher that starts or stops to abstain."""
    units = np.eye(len(counts), dtype=np.int64)
    moved = [counts - units[i] + units[j] for i, j in itertools.permutations(range(len(counts)), 2)]
    alone = [counts - unit for unit in units] + [counts + unit for unit in units]
    return [neighbour for neighbour in moved + alone if neighbour.min() >= 0]


def all_answered(num_queries: int) -> VoteAnswers:
    """Return answers to this many queries, all of them consulted."""
    return VoteAnswers(
        np.zeros(num_queries, dtype=np.int64), np.ones(num_queries, dtype=np.bool_), num_queries, Fraction(0)
    )
