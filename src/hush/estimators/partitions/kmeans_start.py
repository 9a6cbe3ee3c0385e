"""The start of k-means: a noisy overview of all rows, and a noisy map of them in few dimensions.

The overview holds the number and the mean of all rows, and their spread in up to three directions: single features if
there are at most three, otherwise sums of all features with random signs. If there are enough rows, the map counts them
with noise in a grid over these directions, around the mean. An ordinary k-means on the noisy map, which no longer needs
the data, finds the first centres.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from hush.estimators.base.estimator import Floats
from hush.estimators.moments.gram import STEPS
from hush.estimators.moments.moments import FixedPoint
from hush.estimators.partitions.cube_noise import cube_deviation, cube_noise
from hush.randomness import RandomSource, discrete_laplace

_DIRECTIONS = 3
_MAX_CELLS = 4096
_WIDTH = 3.0  # the map covers this many standard deviations around the mean
_ROUND_UP = 1 + 1e-9  # rounding must not reduce the noise


def draw_directions(dimension: int, source: RandomSource) -> Floats:
    """Return an array [feature, direction]: the single features, or random signs of all features."""
    if dimension <= _DIRECTIONS:
        return np.eye(dimension)
    signs = (source.words(dimension * _DIRECTIONS) & np.uint64(1)).astype(np.float64) * 2 - 1
    return signs.reshape(dimension, _DIRECTIONS)


def project(block: Floats, directions: Floats) -> Floats:
    """Return rows, in steps, along the directions: integers up to STEPS, each a function of its row alone."""
    if len(directions) <= _DIRECTIONS:
        return block
    return np.asarray(np.trunc((block @ directions) / len(directions)))


@dataclass(frozen=True, slots=True)
class Overview:
    """Noisy summary of all rows, in units of the bounds.

    Attributes:
        count: Number of rows, at least 1.
        raw_mean: Mean of each feature.
        mean: The same, shrunk towards the middle of the bounds according to its noise.
        error: Squared error of ``raw_mean``, summed over features.
        projection: Mean and standard deviation along each direction.
        spread: Mean squared distance of a row from the mean.
    """

    count: float
    raw_mean: Floats
    mean: Floats
    error: float
    projection: tuple[Floats, Floats]
    spread: float


def overview_totals(rows: Floats, directions: Floats, fixed_point: FixedPoint) -> NDArray[np.int64]:
    """Return the count, the sums, and the squares along the directions. A row changes each by at most STEPS."""
    d = rows.shape[1]
    totals = np.zeros(1 + d + directions.shape[1], dtype=np.int64)
    for part in fixed_point.blocks(len(rows)):
        block = drop_missing(fixed_point(rows[part]))
        totals[0] += len(block) * STEPS
        totals[1 : 1 + d] += block.sum(axis=0).astype(np.int64)
        projections = project(block, directions)
        totals[1 + d :] += np.floor(projections * projections / STEPS).sum(axis=0).astype(np.int64)
    return totals[None, :]


def drop_missing(block: Floats) -> Floats:
    """Return the rows of a block that have no missing value."""
    return block[~np.isnan(block).any(axis=1)] if np.isnan(block.sum()) else block


def release_overview(totals: NDArray[np.int64], directions: Floats, epsilon: float, source: RandomSource) -> Overview:
    """Release the totals at a cost of ``epsilon`` and derive the overview from them."""
    size, d = totals.shape[1], len(directions)
    # A row changes every total by at most STEPS: noise in a cube.
    scale = STEPS / epsilon * _ROUND_UP
    noisy = (totals + cube_noise(source, scale, size, 1))[0] / STEPS
    deviation = cube_deviation(scale, size) / STEPS
    count = max(noisy[0], 1.0)
    divisor = max(count, deviation)
    error = d * (deviation / divisor) ** 2
    raw_mean = np.clip(noisy[1 : 1 + d] / divisor, -1, 1)
    mean = shrink(raw_mean, np.zeros(d), error)
    # Dividing by no less than the noise shrinks a mean of few rows towards the middle.
    second_moments = np.clip(noisy[1 + d :] / divisor, 0, 1)
    projected_mean = mean if d <= _DIRECTIONS else mean @ directions / d
    smallest = min(deviation / divisor, 1 / 3)  # a variance below its own noise cannot be distinguished from 0
    variances = np.maximum(second_moments - projected_mean**2, smallest if d <= _DIRECTIONS else smallest / d)
    # The projection is a signed sum over d: independent features of variance v have variance v / d along it.
    spread = float(variances.mean()) * (d if d <= _DIRECTIONS else d * d)
    return Overview(count, raw_mean, mean, error, (projected_mean, np.sqrt(variances)), min(spread, float(d)))


def shrink(vector: Floats, towards: Floats, error: float) -> Floats:
    """Shrink a noisy vector towards a point by its squared error over its squared distance (James & Stein 1961)."""
    offset = vector - towards
    retained = max(0.0, 1.0 - error / max(float(offset @ offset), 1e-300))
    return np.asarray(towards + retained * offset)


def map_side(count: float, epsilon: float, num_directions: int) -> int:
    """Return the number of cells of the map along each direction (Su et al. 2016, Section 4.1)."""
    cells = max(count * epsilon / 10, 1.0) ** (2 * num_directions / (2 + num_directions))
    return int(min(cells, _MAX_CELLS) ** (1 / num_directions))


def centres_from_map(
    rows: Floats,
    overview: Overview,
    directions: Floats,
    fixed_point: FixedPoint,
    *,
    side: int,
    clusters: int,
    epsilon: float,
    source: RandomSource,
) -> Floats | None:
    """Return first centres along the directions, in steps, from a noisy map; None if the map shows no clusters.

    Args:
        rows: The private rows.
        overview: The noisy overview, which places the map.
        directions: Directions of the map.
        fixed_point: Converts the rows.
        side: Number of cells along each direction.
        clusters: Number of clusters.
        epsilon: Budget of the map.
        source: Random source.
    """
    centre, width = overview.projection[0], _WIDTH * overview.projection[1]
    low, high = (np.clip(end, -1, 1) * STEPS for end in (centre - width, centre + width))
    cell = np.maximum((high - low) / side, 1.0)
    strides = side ** np.arange(directions.shape[1])
    counts = np.zeros(side ** directions.shape[1], dtype=np.int64)
    for part in fixed_point.blocks(len(rows)):
        projections = project(drop_missing(fixed_point(rows[part])), directions)
        cell_indices = np.clip(np.floor((projections - low) / cell), 0, side - 1).astype(np.int64) @ strides
        counts += np.bincount(cell_indices, minlength=len(counts))
    # A row is in one cell, so Laplace noise of scale 1 / epsilon suffices.
    scale = 1 / epsilon * _ROUND_UP
    noisy = counts + discrete_laplace(source, scale, len(counts))
    points = low + cell * (np.arange(len(counts))[:, None] // strides % side + 0.5)
    # Most cells are empty and hold only noise. Subtracting its scale removes most of that noise.
    return _weighted_centres(points, np.maximum(noisy - scale, 0.0), clusters, len(directions) <= _DIRECTIONS, source)


def _weighted_centres(
    points: Floats, weights: Floats, clusters: int, always: bool, source: RandomSource
) -> Floats | None:
    """Return k-means centres of weighted points, or None if the points show no clusters.

    Args:
        points: Midpoints of the cells.
        weights: Noisy number of rows in each.
        clusters: Number of clusters.
        always: Whether to return centres even where inertia is not much smaller than for evenly spread points.
        source: Random source.
    """
    occupied = weights > 0
    if np.count_nonzero(occupied) < clusters:
        return None
    points, weights = points[occupied], weights[occupied]
    model = KMeans(clusters, n_init=8, max_iter=50, random_state=int(source.word() % (1 << 31)))
    model.fit(points, sample_weight=weights)
    offsets = points - np.average(points, axis=0, weights=weights)
    # Cutting an evenly filled volume in p dimensions into k parts leaves about k^(-2 / p) of its inertia.
    even_inertia = clusters ** (-2 / points.shape[1]) * float(weights @ (offsets**2).sum(axis=1))
    return np.asarray(np.rint(model.cluster_centers_)) if always or model.inertia_ < even_inertia / 2 else None
