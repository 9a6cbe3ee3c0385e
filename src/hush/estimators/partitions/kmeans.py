"""k-means by noisy Lloyd iterations, from a noisy overview of the rows.

overview    noisy count, mean and spread (`kmeans_start`); a tenth of epsilon
start       centres from a noisy map of the rows, if it is worth its cost, or scattered around the mean
iterations  noisy counts and sums per cluster (`kmeans_rounds`); the rest of epsilon
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.metrics import pairwise_distances, pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count
from hush.estimators.base.bounds import check_bounds, feature_bounds
from hush.estimators.base.estimator import Floats, PrivateEstimator
from hush.estimators.base.two_stage_budget import TwoStageBudget
from hush.estimators.moments.gram import STEPS
from hush.estimators.moments.moments import FixedPoint
from hush.estimators.partitions.kmeans_rounds import KMeansPlan, lloyd
from hush.estimators.partitions.kmeans_start import (
    Overview,
    centres_from_map,
    draw_directions,
    map_side,
    overview_totals,
    release_overview,
)
from hush.numerics import round_down
from hush.randomness import RandomSource

_MIN_EPSILON = 1e-4  # per iteration
_OVERVIEW_SHARE = 0.1  # share of epsilon for the overview
_MAP_SHARE = 0.15  # share of the rest for the map
_CANDIDATES = 64  # random points among which each scattered centre is the farthest
_CELLS_PER_CLUSTER = 8  # a map with fewer cells shows no clusters
_SCATTER = 0.7  # width of scattered centres, in standard deviations


class PrivateKMeans(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    PrivateEstimator,
):
    """k-means: Lloyd iterations with noisy counts and sums, from centres that follow a noisy overview of the rows.

    Use it for few clusters in few dimensions, with thousands of rows per cluster. With fewer rows or a smaller epsilon,
    all centres move towards a single mean.

    A tenth of epsilon releases the number of rows, their mean and their spread. These decide the rest. If there are
    enough rows, 15 % of the remaining epsilon buys a noisy map of the rows in up to three directions, and its
    clusters are the first centres; otherwise the first centres are scattered around the mean. The number of iterations
    is the largest, up to 7, that keeps the noise of a cluster mean below 1/8 of the rows' standard deviation. Noisy
    means are shrunk towards the overall mean according to their noise. If even one iteration would have noise above 1.4
    standard deviations, all centres are the overall mean.

    Labels and inertia of the training rows are not stored, since both are exact functions of the data. Use ``predict``
    if you hold the rows.

    Args:
        n_clusters: Number of centres.
        epsilon: Privacy budget of one fit.
        delta: 0 for noise in a cube. Above 0, the smaller of that and Gaussian noise is drawn.
        bounds: Public (lower, upper) of each feature, or one pair for all. Values are clamped to it.
        n_iter: Number of iterations. Default: from the noisy overview, as above.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        cluster_centers_: The centres.
        n_iter_: Number of iterations.
        n_features_in_: Number of features in X.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy when one row is added or removed: of the overview, and, given the
        overview, of the map and all iterations, for any number of iterations.

    Assumes:
        Rows are clamped to the bounds, and rows with a missing value are dropped (checked here). Bounds are public (the
        caller's duty). Each person has one row (the caller's duty).

    References:
        Blum, Dwork, McSherry & Nissim 2005 (noisy Lloyd); Su, Cao, Li, Bertino & Jin 2016 (a map first, with the number
        of cells of Section 4; the number of iterations by the error of the means, Section 3, here relative to the
        spread of the rows); Hardt & Talwar 2010 (noise in a cube); James & Stein 1961 (shrinkage of the means).

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.repeat([[-0.5], [0.5]], 2000, axis=0)
    >>> model = PrivateKMeans(2, epsilon=1.0, bounds=(-1, 1), source=TestSource(1)).fit(x)
    >>> np.sort(model.cluster_centers_[:, 0]).round(1).tolist()
    [-0.5, 0.5]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float,
        delta: float = 0.0,
        bounds: Any,
        n_iter: int | None = None,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.n_iter = n_iter
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        check_bounds("bounds", self.bounds)
        check_count("n_clusters", self.n_clusters)
        if self.n_iter is not None:
            check_count("n_iter", self.n_iter)
        smallest = _MIN_EPSILON * (self.n_iter or 1)
        if not self.epsilon >= smallest:
            raise InvalidArgument(
                "epsilon", self.epsilon, f"at least {smallest:g}", "The noise would not fit into 64 bits"
            )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the centres."""
        self._check()
        rows = self._rows(X)
        lower, upper = feature_bounds("bounds", self.bounds, self.n_features_in_)
        stages = TwoStageBudget.split(float(self.epsilon), float(self.delta), _OVERVIEW_SHARE)
        source = self._charge(stages.event)
        fixed_point = FixedPoint(lower, upper, len(rows))
        centres = self._centres(rows, fixed_point, stages, source)
        # Centres are in units of the bounds, which map to -1 and 1.
        half = (upper - lower) / 2
        self.cluster_centers_ = lower + half + centres * half
        self._n_features_out = len(centres)
        return self

    def _centres(self, rows: Floats, fixed_point: FixedPoint, stages: TwoStageBudget, source: RandomSource) -> Floats:
        """Return the centres in units of the bounds, within [-1, 1]."""
        directions, clusters = draw_directions(rows.shape[1], source), int(self.n_clusters)
        overview = release_overview(overview_totals(rows, directions, fixed_point), directions, stages.first, source)
        map_epsilon = stages.second * _MAP_SHARE
        side = map_side(overview.count, map_epsilon, directions.shape[1])
        # A map with too few cells per cluster is not worth its share of epsilon.
        map_is_useful = side ** directions.shape[1] >= _CELLS_PER_CLUSTER * clusters > _CELLS_PER_CLUSTER
        plan = self._plan(
            overview, round_down(stages.second - map_epsilon) if map_is_useful else stages.second, stages.delta
        )
        self.n_iter_ = plan.rounds
        start = None
        if map_is_useful and plan.clusters > 1:
            start = centres_from_map(
                rows,
                overview,
                directions,
                fixed_point,
                side=side,
                clusters=clusters,
                epsilon=map_epsilon,
                source=source,
            )
        if start is None:  # the first assignment then compares whole rows, not projections
            start, directions = _scatter(clusters, overview, source), directions[:0]
        return lloyd(rows, start, overview, directions, fixed_point, plan, source)

    def _plan(self, overview: Overview, epsilon: float, delta: float) -> KMeansPlan:
        """Return the number of iterations and their noise, from the overview and public numbers only."""
        return KMeansPlan.choose(
            overview,
            len(overview.mean),
            int(self.n_clusters),
            epsilon=epsilon,
            delta=delta,
            rounds=None if self.n_iter is None else int(self.n_iter),
        )

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the index of the nearest centre of each row."""
        check_is_fitted(self)
        nearest: NDArray[np.int64] = pairwise_distances_argmin(self._rows(X, reset=False), self.cluster_centers_)
        return nearest

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """Find the centres and return the index of the nearest one for each row. The indices are not private."""
        rows = np.nan_to_num(self.fit(X)._any_rows(X))
        nearest: NDArray[np.int64] = pairwise_distances_argmin(rows, self.cluster_centers_)
        return nearest

    def transform(self, X: Any) -> Floats:
        """Return the distance of each row to each centre; NaN for a row with a missing or infinite value."""
        check_is_fitted(self)
        rows = self._any_rows(X)
        finite = np.isfinite(rows).all(axis=1)
        distances = np.full((len(rows), len(self.cluster_centers_)), np.nan)
        if finite.any():
            with np.errstate(all="ignore"):
                distances[finite] = pairwise_distances(rows[finite], self.cluster_centers_)
        return distances

    def _any_rows(self, X: Any) -> Floats:
        """Return rows that may have missing values: inside a pipeline, an error would depend on the data."""
        return self._rows(X, reset=False, missing=True)


def uniform(source: RandomSource, size: int) -> Floats:
    """Return numbers in [0, 1) for choices that do not affect privacy."""
    return (source.words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _scatter(count: int, overview: Overview, source: RandomSource) -> Floats:
    """Return points around the mean, in steps and far apart: each is the farthest of several random candidates."""
    dimension = len(overview.mean)
    chosen = np.empty((count, dimension))
    for index in range(count):
        candidates = uniform(source, _CANDIDATES * dimension).reshape(-1, dimension) * 2 - 1
        distances = pairwise_distances(candidates, chosen[:index]).min(axis=1) if index else np.zeros(1)
        chosen[index] = candidates[np.argmax(distances)]
    # The spread is summed over features: divide to get the variance of one.
    width = _SCATTER * math.sqrt(overview.spread / dimension)
    return np.asarray(np.rint(np.clip(overview.mean + width * chosen, -1, 1) * STEPS))
