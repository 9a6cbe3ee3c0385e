"""The exact distributions of the samplers, and two tests of a sample: for any deviation, and for a wrong scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import chi2, norm

Floats = NDArray[np.float64]
Law = Callable[[Floats, float], Floats]  # P(X <= x) at integers x, for a scale

_BINS = 40


def discrete_laplace(x: Floats, scale: float) -> Floats:
    q = math.exp(-1 / scale)
    return np.where(x < 0, q ** (-np.minimum(x, 0)), 1 + q - q ** (np.maximum(x, 0) + 1)) / (1 + q)


def discrete_gaussian(x: Floats, scale: float) -> Floats:
    cumulative = _gaussian_sums(scale)
    return cumulative[np.clip(x + len(cumulative) // 2, 0, len(cumulative) - 1).astype(np.int64)]


@lru_cache(maxsize=8)
def _gaussian_sums(scale: float) -> Floats:
    reach = math.ceil(12 * scale) + 2
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / scale) ** 2)
    return np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])


def floored_laplace(x: Floats, scale: float) -> Floats:
    z = (x + 1) / scale
    return np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.maximum(z, 0)))


def floored_gaussian(x: Floats, scale: float) -> Floats:
    return ndtr((x + 1) / scale)


def geometric(x: Floats, scale: float) -> Floats:
    return -np.expm1(-np.maximum(x + 1, 0) / scale)


def floored_cauchy(x: Floats, scale: float) -> Floats:
    return 0.5 + np.arctan((x + 1) / scale) / math.pi


def uniform_below(x: Floats, scale: float) -> Floats:
    return np.clip((np.floor(x) + 1) / scale, 0, 1)


def p_values(sample: NDArray[np.int64] | Floats, law: Law, scale: float) -> tuple[float, float]:
    """Return the p-values of a chi-squared test and of a score test for the scale, on bins of about equal mass."""
    edges = np.unique(np.floor(_quantiles(law, scale)))
    masses = _masses(law, edges, scale)
    edges = _merged(edges, masses * len(sample))
    masses = _masses(law, edges, scale)
    assert len(masses) >= 3, "too few bins to see anything"
    counts = np.bincount(np.searchsorted(edges, sample, side="left"), minlength=len(masses))
    statistic = float(np.sum((counts - len(sample) * masses) ** 2 / (len(sample) * masses)))
    step = 1e-4
    slopes = (_masses(law, edges, scale * (1 + step)) - _masses(law, edges, scale * (1 - step))) / (2 * step) / masses
    score = float(np.dot(counts, slopes)) / math.sqrt(len(sample) * float(np.dot(masses, slopes**2)))
    return float(chi2.sf(statistic, len(masses) - 1)), 2 * float(norm.sf(abs(score)))


def _masses(law: Law, edges: Floats, scale: float) -> Floats:
    return np.diff(np.concatenate([[0.0], law(edges, scale), [1.0]]))


def _quantiles(law: Law, scale: float) -> Floats:
    """Return the quantiles that divide the distribution into bins of equal mass, by bisection."""
    levels = np.arange(1, _BINS) / _BINS
    low, high = np.full(len(levels), -1000 * scale - 10), np.full(len(levels), 1000 * scale + 10)
    for _ in range(90):
        middle = np.floor((low + high) / 2)
        reached = law(middle, scale) >= levels
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return high


def _merged(edges: Floats, expected: Floats) -> Floats:
    """Drop edges until every bin expects at least 50 samples."""
    merged: list[float] = []
    mass = 0.0
    for edge, part in zip(edges, expected[:-1], strict=True):
        mass += part
        if mass >= 50:
            merged.append(float(edge))
            mass = 0.0
    if merged and mass + expected[-1] < 50:
        merged.pop()
    return np.array(merged)
