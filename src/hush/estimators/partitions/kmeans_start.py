"""Where k-means starts: one look at all rows, and a noisy map of them in few dimensions.

First, count and mean of all rows, and how far they spread in up to three directions: single features where there are no
more, and sums of all with random signs else. Then, if there are rows enough for it, noisy counts in a grid of these
directions, around the mean; a k-means of the noisy map, which is no look at the rows, finds the first clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from hush.estimators.base.estimator import Floats
from hush.estimators.moments.gram import STEPS
from hush.estimators.moments.moments import Steps
from hush.estimators.partitions.cube_noise import cube_deviation, cube_noise
from hush.randomness import RandomSource, discrete_laplace

_DIRECTIONS = 3
_MOST_CELLS = 4096
_WIDTH = 3.0  # standard deviations around the mean that the map shows
_SCALE = 1 + 1e-9  # what rounding could take from noise


def directions(dimension: int, source: RandomSource) -> Floats:
    """Return [feature, direction]: single features, or random signs of all, over their number."""
    if dimension <= _DIRECTIONS:
        return np.eye(dimension)
    signs = (source.words(dimension * _DIRECTIONS) & np.uint64(1)).astype(np.float64) * 2 - 1
    return signs.reshape(dimension, _DIRECTIONS)


def projected(some: Floats, signs: Floats) -> Floats:
    """Return rows, in steps, along directions: whole numbers up to STEPS, a function of each row alone."""
    if len(signs) <= _DIRECTIONS:
        return some
    return np.asarray(np.trunc((some @ signs) / len(signs)))


@dataclass(frozen=True, slots=True)
class Overview:
    """What is known of all rows, with noise; in units of the bounds.

    Attributes:
        count: At least 1.
        raw: The mean of each feature.
        mean: The same, drawn to the middle by as much as noise may have moved it.
        error: The squared error of the mean, in all features together.
        along: Mean and standard deviation along each direction.
        spread: The mean squared distance to the mean.
    """

    count: float
    raw: Floats
    mean: Floats
    error: float
    along: tuple[Floats, Floats]
    spread: float


def overview_totals(rows: Floats, signs: Floats, steps: Steps) -> NDArray[np.int64]:
    """Return count, sums and squares along directions: a row changes each by STEPS at most."""
    d = rows.shape[1]
    totals = np.zeros(1 + d + signs.shape[1], dtype=np.int64)
    for part in steps.blocks(len(rows)):
        some = complete(steps(rows[part]))
        totals[0] += len(some) * STEPS
        totals[1 : 1 + d] += some.sum(axis=0).astype(np.int64)
        along = projected(some, signs)
        totals[1 + d :] += np.floor(along * along / STEPS).sum(axis=0).astype(np.int64)
    return totals[None, :]


def complete(some: Floats) -> Floats:
    """Return the rows with nothing missing."""
    return some[~np.isnan(some).any(axis=1)] if np.isnan(some.sum()) else some


def overview(totals: NDArray[np.int64], signs: Floats, epsilon: float, source: RandomSource) -> Overview:
    """Release totals, at a cost of epsilon, and return what they say."""
    size, d = totals.shape[1], len(signs)
    scale = STEPS / epsilon * _SCALE
    noisy = (totals + cube_noise(source, scale, size, 1))[0] / STEPS
    deviation = cube_deviation(scale, size) / STEPS
    count = max(noisy[0], 1.0)
    over = max(count, deviation)
    error = d * (deviation / over) ** 2
    raw = np.clip(noisy[1 : 1 + d] / over, -1, 1)
    mean = shrunk(raw, np.zeros(d), error)
    seconds = np.clip(noisy[1 + d :] / over, 0, 1)
    middle = mean if d <= _DIRECTIONS else mean @ signs / d
    least = min(deviation / over, 1 / 3)  # a variance below its own noise cannot be told from 0
    variances = np.maximum(seconds - middle**2, least if d <= _DIRECTIONS else least / d)
    # Along signs over d, independent features of variance v have v / d.
    spread = float(variances.mean()) * (d if d <= _DIRECTIONS else d * d)
    return Overview(count, raw, mean, error, (middle, np.sqrt(variances)), min(spread, float(d)))


def shrunk(found: Floats, towards: Floats, error: float) -> Floats:
    """Return a noisy vector, drawn to a point by its squared error over its distance (James & Stein 1961)."""
    off = found - towards
    kept = max(0.0, 1.0 - error / max(float(off @ off), 1e-300))
    return np.asarray(towards + kept * off)


def map_side(count: float, epsilon: float, num_directions: int) -> int:
    """Return how many cells a map has along each direction (Su et al. 2016, Section 4.1)."""
    cells = max(count * epsilon / 10, 1.0) ** (2 * num_directions / (2 + num_directions))
    return int(min(cells, _MOST_CELLS) ** (1 / num_directions))


def mapped_centres(
    rows: Floats,
    seen: Overview,
    signs: Floats,
    steps: Steps,
    *,
    side: int,
    clusters: int,
    epsilon: float,
    source: RandomSource,
) -> Floats | None:
    """Return centres along directions, in steps, from a noisy map that costs epsilon; None if it shows no clusters."""
    middle, width = seen.along[0], _WIDTH * seen.along[1]
    low, high = (np.clip(end, -1, 1) * STEPS for end in (middle - width, middle + width))
    cell = np.maximum((high - low) / side, 1.0)
    weights = side ** np.arange(signs.shape[1])
    counts = np.zeros(side ** signs.shape[1], dtype=np.int64)
    for part in steps.blocks(len(rows)):
        along = projected(complete(steps(rows[part])), signs)
        places = np.clip(np.floor((along - low) / cell), 0, side - 1).astype(np.int64) @ weights
        counts += np.bincount(places, minlength=len(counts))
    scale = 1 / epsilon * _SCALE
    noisy = counts + discrete_laplace(source, scale, len(counts))
    points = low + cell * (np.arange(len(counts))[:, None] // weights % side + 0.5)
    # Empty cells, of which there are many, are noise: most of it is cut off.
    return _weighted_centres(points, np.maximum(noisy - scale, 0.0), clusters, len(signs) <= _DIRECTIONS, source)


def _weighted_centres(
    points: Floats, weights: Floats, clusters: int, always: bool, source: RandomSource
) -> Floats | None:
    """Return centres of weighted points, if clusters are much smaller than those of points without any would be."""
    some = weights > 0
    if np.count_nonzero(some) < clusters:
        return None
    points, weights = points[some], weights[some]
    model = KMeans(clusters, n_init=8, max_iter=50, random_state=int(source.word() % (1 << 31)))
    model.fit(points, sample_weight=weights)
    off = points - np.average(points, axis=0, weights=weights)
    # k parts of a volume in p dimensions have k^(-2 / p) of its mean squared distance, about.
    usual = clusters ** (-2 / points.shape[1]) * float(weights @ (off**2).sum(axis=1))
    return np.asarray(np.rint(model.cluster_centers_)) if always or model.inertia_ < usual / 2 else None
